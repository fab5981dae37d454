"""Shapes the packets of one link: when each arrives, with which content, or not at all.

Contains pure functions and the state of one link; time and random source are arguments. Does not contain sockets or
clocks.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.model.faults.packets import PacketShape

HEADERS_BYTES = 34
"""The Ethernet and IPv4 headers. They are never corrupted, because that would misroute the packet."""
QUEUE_SECONDS_MAX = 0.5
"""The longest queue before a limited bandwidth; packets that arrive when it is full are lost, as in a router."""

_PARETO_SHAPE = 3.0
_PARETO_MEAN = _PARETO_SHAPE / (_PARETO_SHAPE - 1)
_PARETO_DEVIATION = math.sqrt(_PARETO_SHAPE / ((_PARETO_SHAPE - 1) ** 2 * (_PARETO_SHAPE - 2)))
_DEVIATIONS_MAX = 8.0

# The deviation of a delay from its mean, in units of the jitter.
_DEVIATIONS: Mapping[str, Callable[[random.Random], float]] = {
    "uniform": lambda source: source.uniform(-1, 1),
    "normal": lambda source: source.gauss(0, 1),
    "pareto": lambda source: (source.paretovariate(_PARETO_SHAPE) - _PARETO_MEAN) / _PARETO_DEVIATION,
}


@dataclass(slots=True)
class ShapedLink:
    """One link with a shape. idle_from is the time at which the queue of the limited bandwidth is empty."""

    shape: PacketShape
    random_source: random.Random
    idle_from: float = 0.0

    def shape_frame(self, frame: bytes, now: float) -> list[tuple[float, bytes]]:
        """The arrival time (seconds) and content of each copy of a frame that enters the link now.

        The list is empty if the frame is lost and has two entries if it is duplicated.
        """
        if self._happens(self.shape.loss):
            return []
        sent = self._sent_at(len(frame), now)
        if sent - now > QUEUE_SECONDS_MAX:
            return []
        self.idle_from = sent
        if self._happens(self.shape.corrupt):
            frame = self._corrupted(frame)
        copies = 2 if self._happens(self.shape.duplicate) else 1
        return [(sent + self._delay_seconds(), frame) for _ in range(copies)]

    def _sent_at(self, size_bytes: int, now: float) -> float:
        """The time at which the limited bandwidth has transmitted the frame's last bit."""
        rate = self.shape.rate_kbit_per_second
        return now if rate is None else max(now, self.idle_from) + size_bytes * 8 / (rate * 1000)

    def _delay_seconds(self) -> float:
        shape = self.shape
        if self._happens(shape.reorder):
            return 0.0
        if not shape.jitter_ms:
            return shape.delay_ms / 1000
        deviation = min(_DEVIATIONS[shape.distribution](self.random_source), _DEVIATIONS_MAX)
        return max(0.0, shape.delay_ms + shape.jitter_ms * deviation) / 1000

    def _corrupted(self, frame: bytes) -> bytes:
        """The frame with one bit of the IP payload flipped."""
        corrupted = bytearray(frame)
        index = self.random_source.randrange(min(HEADERS_BYTES, len(frame) - 1), len(frame))
        corrupted[index] ^= 1 << self.random_source.randrange(8)
        return bytes(corrupted)

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.random_source.random() < probability
