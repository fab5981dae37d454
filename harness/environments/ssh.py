"""Machines of an inventory, each over one SSH connection; a lease on each undoes everything after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from harness.environments import Environment, EnvironmentSpec
from harness.model import BadInput
from harness.model.hosts import HostKind
from nodes.hosts.ssh.hosts import SshHosts, heal
from nodes.hosts.ssh.inventory import Inventory
from nodes.hosts.ssh.links import SshLinks
from nodes.hosts.ssh.processes import SshProcesses

UNAVAILABLE = {
    "clocks": "clock faults write to a process's memory, which is possible on the controller's own machine only",
    "rpcs": "RPC faults need a proxy in the nodes' namespaces, which is possible on the controller's own machine only",
    "packets": "packet faults are possible on the controller's own machine only",
    "disks": "disk faults are possible on the controller's own machine only",
}


def machines_of(path: str, nodes: int) -> Inventory:
    """The machines of the nodes. Raises BadInput for an inventory that cannot be read, or of fewer machines."""
    inventory = Inventory.read(Path(path))
    if len(inventory.hosts) < nodes:
        raise BadInput(f"{path}: expected {nodes} machines, one per node, found {len(inventory.hosts)}")
    return inventory.model_copy(update={"hosts": inventory.hosts[:nodes]})


async def provision(stack: AsyncExitStack, spec: EnvironmentSpec) -> Environment:
    """Provision the hosts. Raises BadInput for an inventory of fewer machines than nodes."""
    run, plan = spec.run, spec.plan
    assert plan.inventory is not None, "a kind of host that needs an inventory is refused without one"
    machines = machines_of(plan.inventory, plan.nodes)
    hosts = await stack.enter_async_context(SshHosts.up(machines, run.label, run.path / "nodes"))
    for path in spec.system.reads:
        await hosts.upload(path)
    for node, view in hosts.views.items():
        files = spec.system.files(view)
        await hosts.mirror(node, [path.relative_to(view.readable) for path in (files.log, files.quorum_state) if path])
    links = SshLinks(hosts)
    stack.push_async_callback(links.close)

    async def collect() -> None:
        await asyncio.gather(*(hosts.fetch(node) for node in hosts.views))

    return Environment(
        hosts.views,
        hosts.host,
        links,
        lambda system, on_event: SshProcesses(hosts, system, on_event),
        unavailable=dict(UNAVAILABLE),
        collect=collect,
    )


def undo(details: Mapping[str, str]) -> str:
    """Undo on every machine what the run may have left there."""
    heal(Inventory.read(Path(details["inventory"])), details["label"])
    return f"undid what {details['label']} left on the machines of {details['inventory']}"


SSH = HostKind("ssh", provision, undo, outlives=True, needs_inventory=True, check_inventory=machines_of)
