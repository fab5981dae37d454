"""What may befall the packets of a link, the capability of hosts to make it so, and the step of a story that asks it.

A shape speaks of what one node sends to another (harness.model.hosts.Link); both directions are two links. All
probabilities are of single packets and independent of one another.

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
    """What befalls a link's packets; the default lets them pass as they are.

    delay_ms is the mean of the added delay, jitter_ms its half width (uniform) or standard deviation (normal, pareto);
    delays are independent, so that jitter alone lets packets overtake. reorder is the probability that a packet skips
    the delay. corrupt flips one bit. rate_kbit_per_second bounds the bandwidth, None does not.
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
    def slowest_ms(self) -> float:
        """A delay that next to no packet exceeds, queues before a bounded bandwidth left aside."""
        return self.delay_ms + self.jitter_ms * (1 if self.distribution == "uniform" else 8)


@dataclass(frozen=True, slots=True)
class PacketReading:
    """What became of numbered datagrams that were sent on a link.

    sent counts them all, arrived those that came whole at least once, duplicated those that came so more than once,
    damaged the datagrams with a wrong bit. delays_ms are the one-way times of what came whole, in order of arrival.
    kbit_per_second is the rate at which all came, headers included; None where fewer than two did.
    """

    sent: int
    arrived: int
    duplicated: int
    damaged: int
    delays_ms: tuple[float, ...]
    kbit_per_second: float | None


class Packets(Protocol):
    """A network whose links can treat packets badly."""

    @property
    def technique(self) -> str:
        """How it is done here, for the report: e.g. 'tc netem' or 'user-space switch'."""

    @property
    def shapes(self) -> Mapping[Link, PacketShape]:
        """The links that have a shape just now."""

    async def shape(self, links: Iterable[Link], shape: PacketShape) -> None:
        """From now on these links have this shape, in place of any they had. Raises EnvironmentFailure."""

    async def clear(self) -> None:
        """All links let packets pass as they are; harmless where they do."""

    async def read(self, probes: Mapping[Link, int]) -> Mapping[Link, PacketReading]:
        """Send so many numbered datagrams on each link and see what becomes of them.

        Where the bandwidth is bounded they leave one right after the other, elsewhere at an even pace.
        """


def packets(
    shape: PacketShape, who: Who | None = None, direction: Direction = "both", links: Iterable[Link] | None = None
) -> Step:
    """Treat the packets of these links so; or of those between a node and all others; or of all."""
    default = asdict(PacketShape())
    value: dict[str, object] = {name: each for name, each in asdict(shape).items() if each != default[name]}
    if links is not None:
        return Step(PACKETS, {**value, "links": sorted(list(link) for link in links)})
    return Step(PACKETS, {**value, "who": who, "direction": direction} if who is not None else value)
