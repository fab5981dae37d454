"""Whether the probes on a link match its shape, and which shapes are too weak to be verified.

Contains statistics of readings (harness.model.faults.packets). Does not send probes.

A count of packets must be within four standard deviations of its expected value. Enough probes are sent that the count
falls outside that range if the effect is missing. An unshaped link must not lose, duplicate or corrupt any.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from harness.model import BadInput
from harness.model.faults.packets import PROBE_FRAME_BITS, PacketReading, PacketShape

DEVIATIONS = 4.0
PROBES_MIN, PROBES_MAX = 100, 3000
PROBES_MIN_WITHOUT_PROBABILITIES = 6
QUEUED_SECONDS = 0.4
"""How long a burst of probes may queue at a bandwidth limit; no queue is full after that time."""
NOISE_MS = 5.0
"""The highest median delay on a link without a delay, and the allowed excess of a delay on a busy machine."""
DELAY_MS_MIN, JITTER_MS_MIN, REORDERED_DELAY_MS_MIN = 2.0, 1.0, 10.0
UNSHAPED = PacketShape()


def probe_count(shape: PacketShape) -> int:
    """How many probes verify a shape. Raises BadInput for a shape that cannot be verified."""
    _check_delays(shape)
    lowest = min((probability for probability in _effects(shape) if probability > 0), default=1.0)
    needed = max(PROBES_MIN, math.ceil((DEVIATIONS**2 + DEVIATIONS) / lowest))
    if shape.rate_kbit_per_second is None:
        possible = PROBES_MAX
    else:
        possible = min(PROBES_MAX, int(QUEUED_SECONDS * shape.rate_kbit_per_second * 1000 / PROBE_FRAME_BITS))
    if lowest == 1.0:
        needed = min(needed, max(possible, PROBES_MIN_WITHOUT_PROBABILITIES))
    if needed > possible:
        raise BadInput(
            f"packets: verifying a probability of {lowest:g} takes {needed} probes, at most {possible} can be sent; "
            "expected a higher probability or bandwidth"
        )
    return needed if shape.rate_kbit_per_second is None else possible


def mismatch(shape: PacketShape, reading: PacketReading) -> str | None:
    """How a link's probes differ from its shape; None if they match."""
    return next(_mismatches(shape, reading), None)


def _mismatches(shape: PacketShape, reading: PacketReading) -> Iterator[str]:
    whole = (1 - shape.loss) * (1 - shape.corrupt)
    # Techniques differ in whether the copies of a packet are lost or corrupted together or separately: hence a range.
    yield from _count("lost", reading.sent - reading.arrived, reading.sent, _either(1 - whole, 1 - shape.duplicate))
    twice = (1 - shape.loss) * shape.duplicate
    yield from _count("duplicated", reading.duplicated, reading.sent, _either(twice, (1 - shape.corrupt) ** 2))
    corrupted = (1 - shape.loss) * shape.corrupt
    low, high = 0.85 * corrupted, corrupted * (1 + shape.duplicate)  # a bit flipped in a header loses the probe
    yield from _count("corrupted", reading.damaged, reading.sent, (low, high))
    if reading.delays_ms:
        yield from _delays(shape, reading)
    if shape.rate_kbit_per_second is not None and reading.kbit_per_second is not None:
        most = 1.15 * shape.rate_kbit_per_second * (1 + shape.duplicate)  # packets are duplicated after the limit
        if reading.kbit_per_second > most:
            yield f"{reading.kbit_per_second:.0f} kbit/s, expected at most {most:.0f}"


def _either(high: float, factor: float) -> tuple[float, float]:
    return high * factor, high


def _count(what: str, count: int, of: int, probabilities: tuple[float, float]) -> Iterator[str]:
    """Check a count of events against binomial distributions with these two probabilities."""
    low, high = (of * probability for probability in probabilities)
    least, most = low - DEVIATIONS * math.sqrt(low), high + DEVIATIONS * math.sqrt(high)
    if not least <= count <= most:
        yield f"{count} of {of} {what}, expected {max(0, math.ceil(least))} to {min(of, math.floor(most))}"


def _delays(shape: PacketShape, reading: PacketReading) -> Iterator[str]:
    """Check the mean and spread of delays of packets that were not reordered, and how many were."""
    delays: list[float] = list(reading.delays_ms)
    if shape.reorder:
        in_order = [delay for delay in delays if delay >= shape.delay_ms / 2]
        yield from _count("reordered", len(delays) - len(in_order), len(delays), (shape.reorder, shape.reorder))
        delays = in_order
    if not delays:
        return
    queued_ms = _queued_ms(shape, reading.sent)
    noise_ms = DEVIATIONS * shape.jitter_ms / math.sqrt(len(delays))
    measured_ms = statistics.fmean(delays) if shape.delay_ms else statistics.median(delays)
    low_ms, high_ms = 0.9 * shape.delay_ms - noise_ms, 1.1 * shape.delay_ms + queued_ms + noise_ms + NOISE_MS
    if not low_ms <= measured_ms <= high_ms:
        yield f"a delay of {measured_ms:.1f} ms, expected {max(0, low_ms):.1f} to {high_ms:.1f}"
    if shape.jitter_ms and statistics.pstdev(delays) < 0.25 * shape.jitter_ms:
        yield f"a jitter of {statistics.pstdev(delays):.1f} ms, expected about {shape.jitter_ms:g}"


def _queued_ms(shape: PacketShape, probes: int) -> float:
    return probes * PROBE_FRAME_BITS / shape.rate_kbit_per_second if shape.rate_kbit_per_second else 0.0


def _effects(shape: PacketShape) -> Iterator[float]:
    """The probability of each effect on a probe that shows it."""
    yield shape.loss
    yield (1 - shape.loss) * shape.corrupt * 0.85
    yield (1 - shape.loss) * (1 - shape.corrupt) ** 2 * shape.duplicate
    yield (1 - shape.loss) * (1 - shape.corrupt) * shape.reorder


def _check_delays(shape: PacketShape) -> None:
    """Raise BadInput for delays that cannot be verified."""
    delay_ms, jitter_ms = shape.delay_ms, shape.jitter_ms
    if 0 < delay_ms < DELAY_MS_MIN or 0 < jitter_ms < JITTER_MS_MIN:
        raise BadInput(
            f"packets: delay_ms {delay_ms:g}, jitter_ms {jitter_ms:g}: expected 0, or at least {DELAY_MS_MIN:g} and "
            f"{JITTER_MS_MIN:g}; less cannot be verified"
        )
    if jitter_ms > delay_ms:
        raise BadInput(f"packets: jitter_ms {jitter_ms:g}: expected at most delay_ms, which is {delay_ms:g}")
    if shape.reorder and (delay_ms < max(REORDERED_DELAY_MS_MIN, 8 * jitter_ms) or shape.rate_kbit_per_second):
        raise BadInput(
            f"packets: reordered packets skip the delay: expected delay_ms of at least {REORDERED_DELAY_MS_MIN:g} and "
            "8 times jitter_ms, and no rate_kbit_per_second"
        )
    if shape.rate_kbit_per_second and jitter_ms * 8 > 1000 * QUEUED_SECONDS:
        raise BadInput(
            f"packets: jitter_ms {jitter_ms:g} hides a bandwidth limit: expected at most {125 * QUEUED_SECONDS:g}"
        )
