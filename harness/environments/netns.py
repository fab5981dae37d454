"""Network namespaces inside the sandbox of the run's controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from harness.environments import NO_PROXY, NOT_REQUESTED, Environment, EnvironmentSpec, namespace_links
from harness.model.faults.disks import AT_REST, LAYERED, LIVE
from harness.model.faults.packets import PACKETS
from harness.model.hosts import HostKind, HostView
from harness.planning.plan import Plan
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.disks.disks import DiskSpec, NamespaceDisks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.netns.limits import Limits, NodeLimits, remove
from nodes.hosts.packets.packets import NamespacePackets
from nodes.hosts.processes import ChildProcesses


async def provision(stack: AsyncExitStack, spec: EnvironmentSpec) -> Environment:
    """Provision the hosts."""
    plan = spec.plan
    hosts = await stack.enter_async_context(NamespaceHosts.up(spec.run.path / "nodes", plan.nodes))
    links, rpcs = await namespace_links(stack, spec, hosts)
    packets = None
    if spec.has({PACKETS}):
        packets = await stack.enter_async_context(NamespacePackets.up(hosts, plan.seed))
    disks = await _disks(stack, spec, hosts)
    limits = stack.enter_context(NodeLimits.up(spec.run.label, list(hosts.views), limits_of(plan)))
    return Environment(
        hosts.views,
        hosts.host,
        links,
        lambda system, on_event: ChildProcesses(LimitedHosts(hosts, limits), system, on_event),
        clocks=lambda processes: ProcessClocks(processes.pid),
        packets=packets,
        disks=disks,
        rpcs=rpcs,
        unavailable={"rpcs": NO_PROXY, "packets": NOT_REQUESTED, "disks": NOT_REQUESTED},
    )


def undo(details: Mapping[str, str]) -> str:
    """Remove the nodes' cgroups; nothing else outlives the sandbox."""
    remove(details["label"])
    return f"removed the cgroups of {details['label']}"


def limits_of(plan: Plan) -> Limits:
    """The memory and processor limits of each node."""
    return Limits(plan.memory_mib, plan.cpus)


@dataclass(frozen=True, slots=True)
class LimitedHosts:
    """nodes.hosts.kinds.EnterableHosts whose commands run within the nodes' limits."""

    hosts: NamespaceHosts
    limits: NodeLimits

    @property
    def views(self) -> Mapping[int, HostView]:
        """The view of each host, by node."""
        return self.hosts.views

    def enter(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that runs argv on the node, within its limits."""
        return self.limits.join(node, self.hosts.enter(node, argv))


async def _disks(stack: AsyncExitStack, spec: EnvironmentSpec, hosts: NamespaceHosts) -> NamespaceDisks | None:
    """Disks of the nodes' own, where the plan asks for a file system or its story has disk faults."""
    plan, system = spec.plan, spec.system
    if plan.disk == "directory" and not spec.has({*AT_REST, *LIVE}):
        return None

    async def reformat(node: int, newcomer: bool) -> None:
        await system.prepare(hosts.host(node), hosts.views, newcomer)

    disk_spec = DiskSpec(plan.disk, plan.disk_mib, layered=spec.has(LAYERED))
    return await stack.enter_async_context(NamespaceDisks.up(hosts, disk_spec, reformat, plan.seed))


NETNS = HostKind("netns", provision, undo, sandboxed=True)
