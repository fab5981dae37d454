"""What may befall the packets of a link, and the capability of hosts to make it so.

A shape speaks of what one node sends to another (harness.model.hosts.Link); both directions are two links. All
probabilities are of single packets and independent of one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from harness.model.hosts import Link

Distribution = Literal["uniform", "normal", "pareto"]


@dataclass(frozen=True, slots=True)
class PacketShape:
    """What befalls a link's packets; the default lets them pass as they are.

    delay_ms is the mean of the added delay, jitter_ms its half width (uniform) or standard deviation (normal, pareto);
    reorder is the probability that a packet skips the delay. corrupt flips one bit. rate_kbit_per_second bounds the
    bandwidth, None does not.
    """

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    distribution: Distribution = "uniform"
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    rate_kbit_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class PacketReading:
    """What probes on a link came to: how many were sent, arrived whole, arrived twice, arrived damaged, out of turn.

    delays_ms are the one-way times of those that arrived.
    """

    sent: int
    arrived: int
    duplicated: int
    damaged: int
    reordered: int
    delays_ms: tuple[float, ...]


class Packets(Protocol):
    """A network whose links can treat packets badly."""

    @property
    def technique(self) -> str:
        """How it is done here, for the report: e.g. 'tc netem' or 'user-space switch'."""

    async def shape(self, links: Iterable[Link], shape: PacketShape) -> None:
        """From now on these links have this shape, in place of any they had. Raises EnvironmentFailure."""

    async def clear(self) -> None:
        """All links let packets pass as they are; harmless where they do."""

    async def read(self, links: Iterable[Link], probes: int) -> Mapping[Link, PacketReading]:
        """Send so many numbered datagrams on each link and see what becomes of them."""
