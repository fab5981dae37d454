"""Packet faults between namespaces: delay, loss, duplication, reordering, corruption, limited bandwidth.

Uses tc netem if a trial shows that the kernel supports it, else a user-space switch (nodes.switch). Both work on the
bridge's ports in the controller's namespace, where a node cannot see or undo them. The controller's own packets to a
node are never shaped.

    async with NamespacePackets.up(hosts, seed=7) as packets:
        await packets.shape([(1, 2)], PacketShape(delay_ms=50))

While any link is shaped, segmentation and checksum offload are off on the nodes. Every packet then has at most 1,500
bytes and a checksum, as on a real network. With offload, a veth pair passes large pieces of stream without checksums.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from harness.model import EnvironmentFailure
from harness.model.faults.packets import PROBE_FRAME_BITS, PacketReading, PacketShape
from harness.model.hosts import Link
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.packets.netem import Netem, supports_netem
from nodes.hosts.packets.probe import Prober, open_probe
from nodes.proxy.namespaces import Namespace
from nodes.switch.process import ShapedPort, UserSpaceSwitch

GRACE_SECONDS = 0.2
"""How long after its link's delay a probe may arrive before it counts as lost."""

# linux/sockios.h and linux/ethtool.h: the sender's offloads, each set by its own command.
_SIOCETHTOOL = 0x8946
_SET_CHECKSUM, _SET_TCP_SEGMENTS, _SET_SEGMENTS, _SET_MERGING = 0x17, 0x1F, 0x24, 0x2C


class Technique(Protocol):
    """A way to shape links."""

    technique: str

    async def apply(self, links: Sequence[ShapedPort]) -> None:
        """Shape these links and no others. Raises EnvironmentFailure."""

    async def end(self) -> None:
        """Remove everything that apply() created."""


class NamespacePackets:
    """harness.model.faults.packets.Packets for namespace hosts."""

    def __init__(
        self, hosts: NamespaceHosts, technique: Technique, probes: Mapping[int, socket.socket], seed: int
    ) -> None:
        self._hosts = hosts
        self._technique = technique
        self._probes = probes
        self._seed = seed
        self._shapes: dict[Link, PacketShape] = {}
        self._prober = Prober({node: view.address for node, view in hosts.views.items()}, probes)

    @classmethod
    @asynccontextmanager
    async def up(cls, hosts: NamespaceHosts, seed: int) -> AsyncIterator[NamespacePackets]:
        """Choose a technique and open the probes; at the end of the block no link is shaped."""
        technique: Technique = Netem() if await supports_netem(_port(min(hosts.views))) else UserSpaceSwitch()
        probes = {node: await _probe_on(hosts, node) for node in hosts.views}
        packets = cls(hosts, technique, probes, seed)
        try:
            yield packets
        finally:
            await packets.clear()
            await technique.end()
            for probe in probes.values():
                probe.close()

    @property
    def technique(self) -> str:
        """'tc netem' or 'user-space switch'."""
        return self._technique.technique

    @property
    def shapes(self) -> Mapping[Link, PacketShape]:
        """The links that currently have a shape."""
        return dict(self._shapes)

    async def shape(self, links: Iterable[Link], shape: PacketShape) -> None:
        """Give these links this shape; it replaces any shape they had."""
        self._set_offloads(False)
        # Recorded before the shapes are applied, so that a partial failure is cleared as well.
        self._shapes |= dict.fromkeys(links, shape)
        await self._technique.apply([self._shaped_port(*item) for item in sorted(self._shapes.items())])

    async def clear(self) -> None:
        """Remove all shapes; does nothing if there are none."""
        await self._technique.apply([])
        self._shapes = {}
        self._set_offloads(True)

    async def read(self, probes: Mapping[Link, int]) -> Mapping[Link, PacketReading]:
        """Send the given number of datagrams on each link and measure what happens to them."""
        bounded = [link for link in probes if link in self._shapes and self._shapes[link].rate_kbit_per_second]
        slowest = max((_slowest_seconds(self._shapes.get(link), count) for link, count in probes.items()), default=0)
        return await asyncio.to_thread(self._prober.read, probes, bounded, slowest + GRACE_SECONDS)

    def _shaped_port(self, link: Link, shape: PacketShape) -> ShapedPort:
        (source, target), views = link, self._hosts.views
        ends = (_port(source), views[source].address, _port(target), views[target].address)
        return ShapedPort(*ends, seed=f"packets {self._seed} {source}>{target}", shape=shape)

    def _set_offloads(self, enabled: bool) -> None:
        """Switch checksum and segmentation offload on each node's eth0; a probe is a socket in its node's namespace."""
        for probe in self._probes.values():
            for command in (_SET_CHECKSUM, _SET_TCP_SEGMENTS, _SET_SEGMENTS, _SET_MERGING):
                setting = ctypes.create_string_buffer(struct.pack("=II", command, enabled))
                request = struct.pack("16sP16x", b"eth0", ctypes.addressof(setting))
                _ethtool(probe, request)


def _ethtool(probe: socket.socket, request: bytes) -> None:
    try:
        fcntl.ioctl(probe, _SIOCETHTOOL, request)
    except OSError as error:
        raise EnvironmentFailure(f"setting the offloads of a node's eth0: {error.strerror}") from error


def _port(node: int) -> str:
    """The controller's end of a node's veth pair (nodes.hosts.netns.hosts)."""
    return f"v{node}"


async def _probe_on(hosts: NamespaceHosts, node: int) -> socket.socket:
    namespace = await asyncio.to_thread(Namespace, hosts.network_namespace(node))
    try:
        return await namespace.make(open_probe(hosts.views[node].address))
    finally:
        namespace.close()


def _slowest_seconds(shape: PacketShape | None, probes: int) -> float:
    """How long after sending the last probe of a burst is due."""
    if shape is None:
        return 0.0
    rate = shape.rate_kbit_per_second
    queued = 0.0 if rate is None else probes * PROBE_FRAME_BITS / (rate * 1000)
    return shape.delay_ms_max / 1000 + queued
