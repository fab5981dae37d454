"""Machines of an inventory, each over one SSH connection; a lease there undoes all when the controller leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from harness.environments import Environment, EnvironmentSpec
from harness.model import BadInput
from nodes.hosts.ssh.hosts import SshHosts, heal
from nodes.hosts.ssh.inventory import Inventory
from nodes.hosts.ssh.links import SshLinks
from nodes.hosts.ssh.processes import SshProcesses

UNAVAILABLE = {
    "clocks": "a process's clock is moved through its memory, which the controller reaches on its own machine only",
    "rpcs": "the proxy stands in the nodes' network namespaces, which the controller enters on its own machine only",
    "packets": "packets are treated in the nodes' network namespaces, on the controller's own machine only",
    "disks": "nodes' disks are made in the controller's own mount namespace; machines have theirs",
}


async def up(stack: AsyncExitStack, spec: EnvironmentSpec) -> Environment:
    """Bring the hosts up. Raises BadInput without an inventory of as many machines as nodes."""
    run, plan = spec.run, spec.plan
    if plan.inventory is None:
        raise BadInput("hosts ssh: expected --inventory, a TOML file that names the machines")
    inventory = Inventory.read(Path(plan.inventory))
    if len(inventory.hosts) < plan.nodes:
        raise BadInput(f"{plan.inventory}: expected {plan.nodes} machines, one a node, came {len(inventory.hosts)}")
    machines = inventory.model_copy(update={"hosts": inventory.hosts[: plan.nodes]})
    hosts = await stack.enter_async_context(SshHosts.up(machines, run.label, run.path / "nodes"))
    for path in spec.system.reads:
        await hosts.upload(path)
    for node, view in hosts.views.items():
        files = spec.system.files(view)
        await hosts.mirror(node, [path.relative_to(view.readable) for path in (files.log, files.quorum_state)])
    links = SshLinks(hosts)
    stack.push_async_callback(links.close)

    async def collect() -> None:
        await asyncio.gather(*(hosts.fetch(node) for node in hosts.views))

    return Environment(
        hosts.views,
        hosts.host,
        links,
        lambda system, tell: SshProcesses(hosts, system, tell),
        unavailable=dict(UNAVAILABLE),
        collect=collect,
    )


def undo(details: Mapping[str, str]) -> str:
    """Undo on every machine what the run may have left."""
    heal(Inventory.read(Path(details["inventory"])), details["label"])
    return f"undid what {details['label']} left on the machines of {details['inventory']}"
