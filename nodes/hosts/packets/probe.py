"""Measures how links treat packets, with numbered datagrams.

Contains the datagrams, their sockets and the counters. Does not shape packets.

The datagrams have no UDP checksum: the kernel would drop a corrupted datagram with one. They carry a checksum of our
own instead, so corrupted datagrams arrive and are counted. Arrival times are kernel timestamps (socket(7),
SO_TIMESTAMPNS), so a busy controller does not look like a slow link.
"""

from __future__ import annotations

import select
import socket
import struct
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from harness.model.faults.packets import PROBE_FRAME_BITS, PacketReading
from harness.model.hosts import Link

PROBE_PORT = 8
PROBE_BYTES = PROBE_FRAME_BITS // 8 - 42
"""Payload of a probe; on the wire the Ethernet, IPv4 and UDP headers are added."""

_HEADER = struct.Struct("!IIq")  # round, number, sent at (ns)
_FILLER = bytes(PROBE_BYTES - _HEADER.size - 4)
_SO_NO_CHECK, _SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 11, 35, 33
_STAMP = struct.Struct("qq")
_BURST = 16
"""Datagrams sent on a link before arrivals are read; default socket buffers hold more than that."""

_PER_SECOND = 8000
"""Total send rate. A higher rate would queue at a user-space switch and look like a delay of the link."""


@dataclass(slots=True)
class _Arrivals:
    """The datagrams that arrived on one link: copies of each number, corrupted ones, delays and arrival times."""

    copies: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    damaged: int = 0
    delays_ms: list[float] = field(default_factory=list)
    stamps_ns: list[int] = field(default_factory=list)

    def reading(self, sent: int) -> PacketReading:
        duplicated = sum(copies > 1 for copies in self.copies.values())
        return PacketReading(sent, len(self.copies), duplicated, self.damaged, tuple(self.delays_ms), self._rate())

    def _rate(self) -> float | None:
        """Bandwidth in kbit/s: all arrivals after the first, divided by the time between first and last."""
        if len(self.stamps_ns) < 2:
            return None
        elapsed_ns = max(1, max(self.stamps_ns) - min(self.stamps_ns))
        return (len(self.stamps_ns) - 1) * PROBE_FRAME_BITS * 1_000_000 / elapsed_ns


def open_probe(address: str) -> Callable[[], socket.socket]:
    """A function that creates a probe socket in the network namespace of its caller."""

    def make() -> socket.socket:
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        probe.setblocking(False)
        probe.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
        probe.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        with suppress(PermissionError):  # optional: bursts are small enough for the default buffer
            probe.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 4 << 20)
        probe.bind((address, PROBE_PORT))
        return probe

    return make


class Prober:
    """The probes of all nodes. Rounds are numbered; datagrams of earlier rounds are ignored."""

    def __init__(self, addresses: Mapping[int, str], sockets: Mapping[int, socket.socket]) -> None:
        self._addresses = addresses
        self._sockets = sockets
        self._nodes = {address: node for node, address in addresses.items()}
        self._round = 0

    def read(
        self, probes: Mapping[Link, int], at_once: Collection[Link], timeout_seconds: float
    ) -> dict[Link, PacketReading]:
        """Send the given number of datagrams on each link and wait up to timeout_seconds for the last. Blocks.

        On the links of at_once they are sent in a single burst, so that a limited bandwidth shows.
        """
        self._round += 1
        arrivals = {link: _Arrivals() for link in probes}
        for link, numbers in _turns(probes, at_once):
            turn_ends = time.monotonic() + len(numbers) / _PER_SECOND
            for first in numbers[::_BURST]:
                self._send(link, range(first, min(first + _BURST, numbers.stop)))
                self._collect(arrivals, 0)
            while (left := turn_ends - time.monotonic()) > 0:
                self._collect(arrivals, left)
        deadline = time.monotonic() + timeout_seconds
        while (left := deadline - time.monotonic()) > 0 and not _is_complete(probes, arrivals):
            self._collect(arrivals, left)
        return {link: arrivals[link].reading(number) for link, number in probes.items()}

    def _send(self, link: Link, numbers: Iterable[int]) -> None:
        source, target = link
        for number in numbers:
            body = _HEADER.pack(self._round, number, time.time_ns()) + _FILLER
            with suppress(OSError):  # no route or a full queue: the datagram counts as lost
                datagram = body + zlib.crc32(body).to_bytes(4, "big")
                self._sockets[source].sendto(datagram, (self._addresses[target], PROBE_PORT))

    def _collect(self, arrivals: Mapping[Link, _Arrivals], wait_seconds: float) -> None:
        targets = {self._sockets[link[1]]: link[1] for link in arrivals}
        ready, _, _ = select.select(list(targets), [], [], wait_seconds)
        for probe in ready:
            with suppress(BlockingIOError):
                while True:
                    self._count(arrivals, targets[probe], *probe.recvmsg(2 * PROBE_BYTES, 64))

    def _count(
        self,
        arrivals: Mapping[Link, _Arrivals],
        target: int,
        datagram: bytes,
        extras: list[tuple[int, int, bytes]],
        _flags: int,
        sender: tuple[str, int],
    ) -> None:
        on_link = arrivals.get((self._nodes.get(sender[0], 0), target))
        if on_link is None or len(datagram) != PROBE_BYTES:
            return
        round_number, number, sent_ns = _HEADER.unpack_from(datagram)
        if round_number != self._round:
            return
        seconds, rest_ns = _STAMP.unpack(extras[0][2])
        arrived_ns = seconds * 1_000_000_000 + rest_ns
        on_link.stamps_ns.append(arrived_ns)
        if zlib.crc32(datagram[:-4]).to_bytes(4, "big") == datagram[-4:]:
            on_link.copies[number] += 1
            on_link.delays_ms.append((arrived_ns - sent_ns) / 1e6)
        else:
            on_link.damaged += 1


def _turns(probes: Mapping[Link, int], at_once: Collection[Link]) -> Iterator[tuple[Link, range]]:
    """The numbers that each link sends, in order: all at once for at_once, in alternating bursts for the others."""
    for link in at_once:
        yield link, range(probes[link])
    others = {link: number for link, number in probes.items() if link not in at_once}
    for first in range(0, max(others.values(), default=0), _BURST):
        yield from (
            (link, range(first, min(first + _BURST, number))) for link, number in others.items() if first < number
        )


def _is_complete(probes: Mapping[Link, int], arrivals: Mapping[Link, _Arrivals]) -> bool:
    return all(len(arrivals[link].copies) + arrivals[link].damaged >= number for link, number in probes.items())
