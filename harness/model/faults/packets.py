"""Packet faults: the shape of a link's traffic, the capability of hosts to apply it, and the step that requests it.

A shape applies to a directed link (harness.model.hosts.Link): what one node sends to another. All probabilities are
per packet and independent.

    packets(PacketShape(delay_ms=50, jitter_ms=10, distribution="normal"), who=LEADER, direction="out")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal, Protocol

from harness.model.hosts import Link
from harness.model.story import Direction, Step, Who

PACKETS: Final = "packets"

PROBE_FRAME_BITS: Final = 442 * 8
"""The size of a numbered datagram on the wire, headers included."""

Distribution = Literal["uniform", "normal", "pareto"]


@dataclass(frozen=True, slots=True)
class PacketShape:
    """How a link's packets are treated; the default changes nothing.

    delay_ms is the mean of the added delay, jitter_ms its half width (uniform) or standard deviation (normal, pareto);
    delays are independent, so jitter alone can reorder packets. reorder is the probability that a packet skips the
    delay. corrupt is the probability that one bit is flipped. rate_kbit_per_second limits the bandwidth; None is no
    limit.
    """

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    distribution: Distribution = "uniform"
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    rate_kbit_per_second: float | None = None

    @property
    def delay_ms_max(self) -> float:
        """A delay that hardly any packet exceeds, apart from queueing at a bandwidth limit."""
        return self.delay_ms + self.jitter_ms * (1 if self.distribution == "uniform" else 8)


@dataclass(frozen=True, slots=True)
class PacketReading:
    """Statistics of numbered datagrams that were sent on a link.

    sent counts all of them, arrived those that arrived intact at least once, duplicated those that did so more than
    once, damaged the datagrams with a wrong bit. delays_ms are the one-way delays of intact datagrams, in order of
    arrival. kbit_per_second is the rate at which datagrams arrived, headers included; None if fewer than two arrived.
    """

    sent: int
    arrived: int
    duplicated: int
    damaged: int
    delays_ms: tuple[float, ...]
    kbit_per_second: float | None


class Packets(Protocol):
    """A network that can delay, drop, duplicate, reorder and corrupt packets."""

    @property
    def technique(self) -> str:
        """The technique, for the report: e.g. 'tc netem' or 'user-space switch'."""

    @property
    def shapes(self) -> Mapping[Link, PacketShape]:
        """The links that currently have a shape."""

    async def shape(self, links: Iterable[Link], shape: PacketShape) -> None:
        """Give these links this shape; it replaces their current one. Raises EnvironmentFailure."""

    async def clear(self) -> None:
        """Remove all shapes. Safe if there are none."""

    async def read(self, probes: Mapping[Link, int]) -> Mapping[Link, PacketReading]:
        """Send this many numbered datagrams on each link and return the statistics.

        They are sent back to back if the bandwidth is limited, otherwise at an even pace.
        """


def packets(
    shape: PacketShape, who: Who | None = None, direction: Direction = "both", links: Iterable[Link] | None = None
) -> Step:
    """Apply a shape to these links, or to those between a node and all others, or to all links."""
    default = asdict(PacketShape())
    value: dict[str, object] = {name: each for name, each in asdict(shape).items() if each != default[name]}
    if links is not None:
        return Step(PACKETS, {**value, "links": sorted(list(link) for link in links)})
    return Step(PACKETS, {**value, "who": who, "direction": direction} if who is not None else value)
