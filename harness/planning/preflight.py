"""Checks what a run needs of this machine, before the run is created."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness import plugins
from harness.model import BadInput, EnvironmentFailure
from harness.planning.plan import Plan
from harness.text_files import read_toml
from nodes.hosts.sandbox import Privilege, probe

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
    system, _ = plugins.system(plan.system)
    foreign = system.name if system.connect is None else system.foreign(plan.layout)
    if plugins.host_kind(plan.hosts).proxied and foreign:
        raise BadInput(
            f"--hosts {plan.hosts}: the proxy between the nodes forwards Kafka's protocol only, which {foreign} does "
            "not speak; use --hosts netns"
        )


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
