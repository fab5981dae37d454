"""Hosts as network namespaces: each node has its own address, hostname, mount namespace and directory.

A holder process keeps a node's namespaces; whatever runs on the node enters them by nsenter. All nodes hang on one
bridge in the controller's own network namespace, which has an address there too: control never passes a cut link.
Call this inside a sandbox (nodes.hosts.sandbox), whose end takes everything down; down() does it in order.

    async with NamespaceHosts.up(directory, nodes=5) as hosts:
        hosts.views[1].address      # '10.77.0.1'
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from harness.model import EnvironmentFailure
from harness.model.hosts import HostView
from nodes.hosts.commands import run

SUBNET = "10.77.0"
CONTROLLER_ADDRESS = f"{SUBNET}.254"
NODES_MAX = 200


class NamespaceHosts:
    """The nodes' namespaces, from up() to down()."""

    def __init__(self, views: dict[int, HostView], holders: dict[int, asyncio.subprocess.Process]) -> None:
        self.views = views
        self._holders = holders

    @classmethod
    @asynccontextmanager
    async def up(cls, directory: Path, nodes: int) -> AsyncIterator[NamespaceHosts]:
        """Bring up hosts 1…nodes with directories below directory; take them down at the end of the block."""
        assert 0 < nodes <= NODES_MAX
        views = {node: _view(directory, node) for node in range(1, nodes + 1)}
        for view in views.values():
            view.directory.mkdir(parents=True, exist_ok=True)
        holders = dict(zip(views, await asyncio.gather(*(_hold(view) for view in views.values())), strict=True))
        hosts = cls(views, holders)
        try:
            await hosts._connect()
            yield hosts
        finally:
            await hosts.down()

    def enter(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that runs argv on the node. nsenter becomes argv, so its pid is argv's."""
        holder = str(self._holders[node].pid)
        return ["nsenter", "--target", holder, "--net", "--mount", "--uts", "--", *argv]

    def network_namespace(self, node: int) -> Path:
        """The node's network namespace, to be opened and entered with setns."""
        return Path(f"/proc/{self._holders[node].pid}/ns/net")

    async def down(self) -> None:
        """End the holders and remove the bridge; what runs on a node must have been ended before."""
        for holder in self._holders.values():
            if holder.returncode is None:
                holder.kill()
        await asyncio.gather(*(holder.wait() for holder in self._holders.values()))
        await run(["ip", "link", "delete", "splitbrain0"])

    async def _connect(self) -> None:
        """One ip -batch for the bridge and the cables, one in each node for its end."""
        await run(["ip", "-batch", "-"], _bridge_batch({node: holder.pid for node, holder in self._holders.items()}))
        await asyncio.gather(
            *(
                run(self.enter(node, ["ip", "-batch", "-"]), _node_batch(view.address))
                for node, view in self.views.items()
            )
        )


def _view(directory: Path, node: int) -> HostView:
    return HostView(node, f"{SUBNET}.{node}", f"n{node}", directory / f"n{node}")


async def _hold(view: HostView) -> asyncio.subprocess.Process:
    """A process that holds the node's namespaces open; returns once they are there."""
    script = 'hostname "$1" && echo ready && exec sleep infinity'
    holder = await asyncio.create_subprocess_exec(
        *["unshare", "--net", "--mount", "--uts", "--propagation", "private", "--"],
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
            f"making {view.hostname}'s namespaces: {(await holder.stderr.read()).decode().strip()}"
        )
    return holder


def _bridge_batch(holders: dict[int, int]) -> str:
    lines = [
        "link set lo up",
        "link add splitbrain0 type bridge stp_state 0 forward_delay 0",
        f"addr add {CONTROLLER_ADDRESS}/24 dev splitbrain0",
        "link set splitbrain0 up",
    ]
    for node, pid in holders.items():
        lines += [f"link add v{node} type veth peer name eth0 netns {pid}", f"link set v{node} master splitbrain0 up"]
    return "\n".join(lines) + "\n"


def _node_batch(address: str) -> str:
    return f"addr add {address}/24 dev eth0\nlink set lo up\nlink set eth0 up\n"
