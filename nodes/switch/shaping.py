"""What becomes of a link's packets: when each arrives, as what, or not at all.

What may live here: pure functions and state of one link, given a time and a source of chance. What may not: sockets,
clocks, other links.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.model.faults.packets import PacketShape

HEADERS_BYTES = 34
"""Ethernet's and IPv4's: a wrong bit in these would send the packet astray instead of damaging it."""
QUEUE_SECONDS_MAX = 0.5
"""How long the queue before a bounded bandwidth may become; what comes when it is full is lost, as in any router."""

_PARETO_SHAPE = 3.0
_PARETO_MEAN = _PARETO_SHAPE / (_PARETO_SHAPE - 1)
_PARETO_DEVIATION = math.sqrt(_PARETO_SHAPE / ((_PARETO_SHAPE - 1) ** 2 * (_PARETO_SHAPE - 2)))
_DEVIATIONS_MAX = 8.0

# How far a delay is from its mean, in jitters.
_SPREADS: Mapping[str, Callable[[random.Random], float]] = {
    "uniform": lambda drawn: drawn.uniform(-1, 1),
    "normal": lambda drawn: drawn.gauss(0, 1),
    "pareto": lambda drawn: (drawn.paretovariate(_PARETO_SHAPE) - _PARETO_MEAN) / _PARETO_DEVIATION,
}


@dataclass(slots=True)
class ShapedLink:
    """One link under a shape. idle_from is when all that was queued before the bounded bandwidth will have left."""

    shape: PacketShape
    drawn: random.Random
    idle_from: float = 0.0

    def pass_on(self, frame: bytes, now: float) -> list[tuple[float, bytes]]:
        """When a frame that came now (seconds) arrives, and as what: never where it is lost, twice where duplicated."""
        if self._happens(self.shape.loss):
            return []
        leaves = self._leaves_at(len(frame), now)
        if leaves - now > QUEUE_SECONDS_MAX:
            return []
        self.idle_from = leaves
        if self._happens(self.shape.corrupt):
            frame = self._damaged(frame)
        copies = 2 if self._happens(self.shape.duplicate) else 1
        return [(leaves + self._delay_seconds(), frame) for _ in range(copies)]

    def _leaves_at(self, size_bytes: int, now: float) -> float:
        """When the last bit of a frame is through the bounded bandwidth."""
        rate = self.shape.rate_kbit_per_second
        return now if rate is None else max(now, self.idle_from) + size_bytes * 8 / (rate * 1000)

    def _delay_seconds(self) -> float:
        shape = self.shape
        if self._happens(shape.reorder):
            return 0.0
        if not shape.jitter_ms:
            return shape.delay_ms / 1000
        spread = min(_SPREADS[shape.distribution](self.drawn), _DEVIATIONS_MAX)
        return max(0.0, shape.delay_ms + shape.jitter_ms * spread) / 1000

    def _damaged(self, frame: bytes) -> bytes:
        """With one bit of what IP carries the other way round."""
        damaged = bytearray(frame)
        place = self.drawn.randrange(min(HEADERS_BYTES, len(frame) - 1), len(frame))
        damaged[place] ^= 1 << self.drawn.randrange(8)
        return bytes(damaged)

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.drawn.random() < probability
