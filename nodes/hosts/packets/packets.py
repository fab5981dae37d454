"""Packets between namespaces treated badly: delay, loss, duplicates, reordering, damage, bounded bandwidth.

By tc netem where a trial shows that the kernel has it, else by a switch in user space (nodes.switch): both work on the
bridge's ports in the controller's namespace, so a node can neither see nor undo it. The controller's own packets to a
node are never shaped.

    async with NamespacePackets.up(hosts, seed=7) as packets:
        await packets.shape([(1, 2)], PacketShape(delay_ms=50))

While any link is shaped, the nodes leave no segmentation or checksum to the virtual cable, which has neither: what is
lost or damaged is then a packet of at most 1,500 bytes with a checksum, as on a real network, not a piece of stream.
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
from nodes.hosts.packets.netem import Netem, takes_netem
from nodes.hosts.packets.probe import Prober, open_probe
from nodes.proxy.namespaces import Namespace
from nodes.switch.process import ShapedPort, UserSpaceSwitch

PATIENCE_SECONDS = 0.2
"""How long a probe may be missing beyond the delay of its link before it counts as lost."""

# linux/sockios.h and linux/ethtool.h: what the sender may leave to the cable, each set by a command of its own.
_SIOCETHTOOL = 0x8946
_SET_CHECKSUM, _SET_TCP_SEGMENTS, _SET_SEGMENTS, _SET_MERGING = 0x17, 0x1F, 0x24, 0x2C


class Technique(Protocol):
    """A way to shape links."""

    technique: str

    async def apply(self, links: Sequence[ShapedPort]) -> None:
        """Have these links shaped and no others. Raises EnvironmentFailure."""

    async def end(self) -> None:
        """Leave nothing behind."""


class NamespacePackets:
    """harness.model.faults.packets.Packets of hosts that are namespaces on the controller's bridge."""

    def __init__(self, hosts: NamespaceHosts, way: Technique, probes: Mapping[int, socket.socket], seed: int) -> None:
        self._hosts = hosts
        self._way = way
        self._probes = probes
        self._seed = seed
        self._shapes: dict[Link, PacketShape] = {}
        self._prober = Prober({node: view.address for node, view in hosts.views.items()}, probes)

    @classmethod
    @asynccontextmanager
    async def up(cls, hosts: NamespaceHosts, seed: int) -> AsyncIterator[NamespacePackets]:
        """Choose a technique and be ready to probe; at the end of the block no link is shaped."""
        way: Technique = Netem() if await takes_netem(_port(min(hosts.views))) else UserSpaceSwitch()
        probes = {node: await _probe_on(hosts, node) for node in hosts.views}
        packets = cls(hosts, way, probes, seed)
        try:
            yield packets
        finally:
            await packets.clear()
            await way.end()
            for probe in probes.values():
                probe.close()

    @property
    def technique(self) -> str:
        """'tc netem' or 'user-space switch'."""
        return self._way.technique

    @property
    def shapes(self) -> Mapping[Link, PacketShape]:
        """The links that have a shape just now."""
        return dict(self._shapes)

    async def shape(self, links: Iterable[Link], shape: PacketShape) -> None:
        """From now on these links have this shape, in place of any they had."""
        wanted = {**self._shapes, **dict.fromkeys(links, shape)}
        self._leave_to_the_cable(False)
        self._shapes = wanted  # before it is so: what fails half-way is cleared as well
        await self._way.apply([self._shaped(link, each) for link, each in sorted(wanted.items())])

    async def clear(self) -> None:
        """All links let packets pass as they are; harmless where they do."""
        await self._way.apply([])
        self._shapes = {}
        self._leave_to_the_cable(True)

    async def read(self, probes: Mapping[Link, int]) -> Mapping[Link, PacketReading]:
        """Send so many numbered datagrams on each link and see what becomes of them."""
        bounded = [link for link in probes if link in self._shapes and self._shapes[link].rate_kbit_per_second]
        patience = max((_slowest_seconds(self._shapes.get(link), count) for link, count in probes.items()), default=0)
        return await asyncio.to_thread(self._prober.read, probes, bounded, patience + PATIENCE_SECONDS)

    def _shaped(self, link: Link, shape: PacketShape) -> ShapedPort:
        (source, target), views = link, self._hosts.views
        ends = (_port(source), views[source].address, _port(target), views[target].address)
        return ShapedPort(*ends, seed=f"packets {self._seed} {source}>{target}", shape=shape)

    def _leave_to_the_cable(self, leave: bool) -> None:
        """Whether nodes leave checksums and segmentation to the cable; a socket belongs to its node's namespace."""
        for probe in self._probes.values():
            for command in (_SET_CHECKSUM, _SET_TCP_SEGMENTS, _SET_SEGMENTS, _SET_MERGING):
                setting = ctypes.create_string_buffer(struct.pack("=II", command, leave))
                request = struct.pack("16sP16x", b"eth0", ctypes.addressof(setting))
                _ask_cable(probe, request)


def _ask_cable(probe: socket.socket, request: bytes) -> None:
    try:
        fcntl.ioctl(probe, _SIOCETHTOOL, request)
    except OSError as error:
        raise EnvironmentFailure(f"setting the offloads of a node's eth0: {error.strerror}") from error


def _port(node: int) -> str:
    """The interface of the controller's that a node's cable ends in (nodes.hosts.netns.hosts)."""
    return f"v{node}"


async def _probe_on(hosts: NamespaceHosts, node: int) -> socket.socket:
    namespace = await asyncio.to_thread(Namespace, hosts.network_namespace(node))
    try:
        return await namespace.make(open_probe(hosts.views[node].address))
    finally:
        namespace.close()


def _slowest_seconds(shape: PacketShape | None, probes: int) -> float:
    """When the last of a burst of probes should have come."""
    if shape is None:
        return 0.0
    rate = shape.rate_kbit_per_second
    queued = 0.0 if rate is None else probes * PROBE_FRAME_BITS / (rate * 1000)
    return shape.slowest_ms / 1000 + queued
