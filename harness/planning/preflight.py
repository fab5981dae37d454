"""Checks what a run needs of this machine, before the run is created."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness import plugins
from harness.model import BadInput, EnvironmentFailure
from harness.model.conditions import BROKERS_LIVE, OF_BROKERS
from harness.model.nemesis_ops import AWAIT
from harness.planning.plan import Plan
from harness.text_files import read_toml
from nodes.hosts.sandbox import Privilege, probe

WITHOUT_BROKERS = ("idle", "register", "set", "reassignment")
"""The workloads that controllers serve: a simulated node of a combined layout is its controller."""
INSTALL_JAVA = "as root: apt-get install -y openjdk-17-jre-headless"


def preflight(hosts: str) -> None:
    """Raise EnvironmentFailure where hosts of this kind cannot be created, or Java for Spark is missing."""
    if plugins.host_kind(hosts).sandboxed:
        try:
            probe(Privilege.detect())
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{error} (or use --hosts local)") from error
    if not shutil.which("java"):
        raise EnvironmentFailure(f"the checks run on Spark, which needs Java: no java on the path; {INSTALL_JAVA}")


def require_hosts(plan: Plan) -> None:
    """Raise BadInput for a plan's hosts as require_inventory does, and for nodes that their proxy cannot serve."""
    require_inventory(plan.hosts, plan.inventory, plan.nodes)
    if plugins.host_kind(plan.hosts).simulated:
        require_simulation(plan)
    system, _ = plugins.system(plan.system)
    foreign = system.name if system.connect is None else system.foreign(plan.layout)
    if plugins.host_kind(plan.hosts).proxied and foreign:
        raise BadInput(
            f"--hosts {plan.hosts}: the proxy between the nodes forwards Kafka's protocol only, which {foreign} does "
            "not speak; use --hosts netns"
        )


def require_simulation(plan: Plan) -> None:
    """Raise BadInput for a plan whose nodes cannot be simulated."""
    system, _ = plugins.system(plan.system)
    if system.simulate is None:
        raise BadInput(f"--hosts simulation: --system {plan.system} has no simulation; expected reference or kafka")
    awaited = {step.value["condition"]["name"] for step in plan.story if step.f == AWAIT}
    awaited -= {BROKERS_LIVE.name}  # it holds, since there are none
    of_brokers = [plan.workload] if plan.workload not in WITHOUT_BROKERS else sorted(awaited & set(OF_BROKERS))
    if plan.layout == "zookeeper" or of_brokers:
        what = of_brokers[0] if of_brokers else f"--layout {plan.layout}"
        raise BadInput(f"--hosts simulation: brokers are not simulated, which {what} needs")
    if any("process.roles" in switches for switches in (plan.switches, *plan.node_switches.values())):
        raise BadInput("--hosts simulation: expected nodes that are controllers alone, found process.roles")
    for node, name in plan.node_systems.items():
        if plugins.system(name)[0] is not system:
            raise BadInput(f"--hosts simulation: expected nodes of one system, {system.name}, found {name} on n{node}")


def require_inventory(hosts: str, inventory: str | None, nodes: int) -> None:
    """Raise BadInput for a kind of host that needs an inventory, without one or with one that it cannot use.

    An inventory that the hosts do not need has to exist too.
    """
    kind = plugins.host_kind(hosts)
    if inventory is not None:
        read_toml(Path(inventory), "an inventory in TOML")
    elif kind.needs_inventory:
        raise BadInput(f"--hosts {hosts}: expected --inventory, a TOML file that lists the machines")
    if kind.check_inventory is not None and inventory is not None:
        kind.check_inventory(inventory, nodes)
