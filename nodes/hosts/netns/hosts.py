"""Hosts as network namespaces: each node has its own address, hostname, mount namespace and directory.

A holder process keeps a node's namespaces alive; commands on the node enter them with nsenter. All nodes are connected
to one bridge in the controller's network namespace. The controller has an address on it too, so it never depends on a
cut link. Use this inside a sandbox (nodes.hosts.sandbox), whose end removes anything that the block leaves behind.

    async with NamespaceHosts.up(directory, nodes=5) as hosts:
        hosts.views[1].address      # '10.77.0.1'
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from harness.model import EnvironmentFailure
from harness.model.hosts import HostView
from nodes.hosts.commands import run
from nodes.hosts.kinds import SameMachineHost

SUBNET = "10.77.0"
CONTROLLER_ADDRESS = f"{SUBNET}.254"
NODES_MAX = 200
BRIDGE = "splitbrain0"


class NamespaceHosts:
    """The nodes' namespaces, inside the block that up() opens."""

    def __init__(self, views: dict[int, HostView], holders: dict[int, asyncio.subprocess.Process]) -> None:
        self.views = views
        self._holders = holders

    @classmethod
    @asynccontextmanager
    async def up(cls, directory: Path, nodes: int) -> AsyncIterator[NamespaceHosts]:
        """Create hosts 1…nodes with directories below directory; remove them at the end of the block."""
        assert 0 < nodes <= NODES_MAX
        views = {node: _view(directory, node) for node in range(1, nodes + 1)}
        for view in views.values():
            view.directory.mkdir(parents=True, exist_ok=True)
        # Later mounts of the controller below it propagate to the nodes; mounts of a node stay on that node.
        await run(["mount", "--bind", "--make-shared", str(directory), str(directory)])
        holders = dict(zip(views, await asyncio.gather(*(_hold(view) for view in views.values())), strict=True))
        hosts = cls(views, holders)
        try:
            await hosts._connect()
            try:
                yield hosts
            finally:
                await hosts._disconnect()
        finally:
            await hosts._release()
            await run(["umount", "--lazy", str(directory)])

    @property
    def controller_address(self) -> str:
        """The controller's own address on the nodes' network."""
        return CONTROLLER_ADDRESS

    def host(self, node: int) -> SameMachineHost:
        """The node's files and short commands."""
        return SameMachineHost(self.views[node])

    def set_mirror(self, node: int, mirror: Path) -> None:
        """Make the controller read the node's directory at another path (HostView.mirror)."""
        self.views[node] = replace(self.views[node], mirror=mirror)

    def enter(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that runs argv on the node. nsenter executes argv, so its pid is argv's."""
        holder = str(self._holders[node].pid)
        return ["nsenter", "--target", holder, "--net", "--mount", "--uts", "--", *argv]

    def network_namespace(self, node: int) -> Path:
        """The path of the node's network namespace, for setns."""
        return Path(f"/proc/{self._holders[node].pid}/ns/net")

    async def _connect(self) -> None:
        """Configure the bridge and the veth pairs with one `ip -batch`, and each node's end with another."""
        await run(["ip", "-batch", "-"], _bridge_batch({node: holder.pid for node, holder in self._holders.items()}))
        await asyncio.gather(
            *(
                run(self.enter(node, ["ip", "-batch", "-"]), _node_batch(view.address))
                for node, view in self.views.items()
            )
        )

    async def _disconnect(self) -> None:
        """Remove the veth pairs and the bridge; the kernel would free them only some time after the namespaces."""
        links = [*(f"v{node}" for node in self.views), BRIDGE]
        await run(["ip", "-batch", "-"], "".join(f"link delete {link}\n" for link in links))

    async def _release(self) -> None:
        """Kill the holders, which frees the namespaces. Processes on the nodes must have ended before."""
        for holder in self._holders.values():
            if holder.returncode is None:
                holder.kill()
        await asyncio.gather(*(holder.wait() for holder in self._holders.values()))


def _view(directory: Path, node: int) -> HostView:
    return HostView(node, f"{SUBNET}.{node}", f"n{node}", directory / f"n{node}")


async def _hold(view: HostView) -> asyncio.subprocess.Process:
    """Start the process that holds the node's namespaces; returns once they exist. Raises EnvironmentFailure."""
    script = 'hostname "$1" && echo ready && exec sleep infinity'
    holder = await asyncio.create_subprocess_exec(
        *["unshare", "--net", "--mount", "--uts", "--propagation", "slave", "--"],
        *["sh", "-c", script, "hold", view.hostname],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert holder.stdout is not None
    assert holder.stderr is not None
    if await holder.stdout.readline() != b"ready\n":
        raise EnvironmentFailure(
            f"creating {view.hostname}'s namespaces: {(await holder.stderr.read()).decode().strip()}"
        )
    return holder


def _bridge_batch(holders: dict[int, int]) -> str:
    lines = [
        "link set lo up",
        f"link add {BRIDGE} type bridge stp_state 0 forward_delay 0",
        f"addr add {CONTROLLER_ADDRESS}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ]
    for node, pid in holders.items():
        lines += [f"link add v{node} type veth peer name eth0 netns {pid}", f"link set v{node} master {BRIDGE} up"]
    return "\n".join(lines) + "\n"


def _node_batch(address: str) -> str:
    return f"addr add {address}/24 dev eth0\nlink set lo up\nlink set eth0 up\n"
