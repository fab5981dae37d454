"""What probes on a link must come to under a shape, and which shapes are too faint to be proved.

What may live here: pure statistics of harness.model.faults.packets' readings. What may not: sending probes.

A count of independent packets is believed within four standard deviations of what its probability leads one to expect;
so many probes are sent that an effect which is not there falls outside. A link without a shape must lose, double and
damage nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from harness.model import BadInput
from harness.model.faults.packets import PROBE_FRAME_BITS, PacketReading, PacketShape

DEVIATIONS = 4.0
PROBES_MIN, PROBES_MAX = 100, 3000
PROBES_WITHOUT_CHANCES = 6
QUEUED_SECONDS = 0.4
"""How long a burst of probes may queue before a bounded bandwidth; a queue of that length is not full anywhere."""
UNTOUCHED_MS = 5.0
"""What half the probes must stay below on a link without a delay, and how late a busy machine may make a delay."""
DELAY_MS_MIN, JITTER_MS_MIN, REORDERED_DELAY_MS_MIN = 2.0, 1.0, 10.0
UNTOUCHED = PacketShape()


def probes_for(shape: PacketShape) -> int:
    """How many probes prove a shape. Raises BadInput for one that they could not prove."""
    _check_delays(shape)
    least = min((chance for chance in _effects(shape) if chance > 0), default=1.0)
    needed = max(PROBES_MIN, math.ceil((DEVIATIONS**2 + DEVIATIONS) / least))
    if shape.rate_kbit_per_second is None:
        fitting = PROBES_MAX
    else:
        fitting = min(PROBES_MAX, int(QUEUED_SECONDS * shape.rate_kbit_per_second * 1000 / PROBE_FRAME_BITS))
    if least == 1.0:
        needed = min(needed, max(fitting, PROBES_WITHOUT_CHANCES))
    if needed > fitting:
        raise BadInput(
            f"packets: a chance of {least:g} takes {needed} probes to be proved, and at most {fitting} can be sent; "
            "expected a greater chance or bandwidth"
        )
    return needed if shape.rate_kbit_per_second is None else fitting


def misfit(shape: PacketShape, reading: PacketReading) -> str | None:
    """How a link's probes differ from what the shape leads one to expect; None where they fit."""
    return next(_misfits(shape, reading), None)


def _misfits(shape: PacketShape, reading: PacketReading) -> Iterator[str]:
    whole = (1 - shape.loss) * (1 - shape.corrupt)
    # Techniques differ in whether both copies of a packet, or none, are lost or damaged: hence a low and a high chance.
    yield from _count("missing", reading.sent - reading.arrived, reading.sent, _either(1 - whole, 1 - shape.duplicate))
    twice = (1 - shape.loss) * shape.duplicate
    yield from _count("doubled", reading.duplicated, reading.sent, _either(twice, (1 - shape.corrupt) ** 2))
    damaged = (1 - shape.loss) * shape.corrupt
    low, high = 0.85 * damaged, damaged * (1 + shape.duplicate)  # a bit of a header may be hit, and the probe lost
    yield from _count("damaged", reading.damaged, reading.sent, (low, high))
    if reading.delays_ms:
        yield from _delays(shape, reading)
    if shape.rate_kbit_per_second is not None and reading.kbit_per_second is not None:
        most = 1.15 * shape.rate_kbit_per_second * (1 + shape.duplicate)  # copies are made behind the bound
        if reading.kbit_per_second > most:
            yield f"{reading.kbit_per_second:.0f} kbit/s came, expected at most {most:.0f}"


def _either(high: float, factor: float) -> tuple[float, float]:
    return high * factor, high


def _count(what: str, count: int, of: int, chances: tuple[float, float]) -> Iterator[str]:
    """Whether a count of events is within what binomial distributions with these chances come to."""
    low, high = (of * chance for chance in chances)
    least, most = low - DEVIATIONS * math.sqrt(low), high + DEVIATIONS * math.sqrt(high)
    if not least <= count <= most:
        yield f"{count} of {of} {what}, expected {max(0, math.ceil(least))} to {min(of, math.floor(most))}"


def _delays(shape: PacketShape, reading: PacketReading) -> Iterator[str]:
    """The mean and spread of the delays of packets that did not skip theirs, and how many did."""
    delays: list[float] = list(reading.delays_ms)
    if shape.reorder:
        held = [delay for delay in delays if delay >= shape.delay_ms / 2]
        yield from _count("out of turn", len(delays) - len(held), len(delays), (shape.reorder, shape.reorder))
        delays = held
    if not delays:
        return
    queued_ms = _queued_ms(shape, reading.sent)
    noise_ms = DEVIATIONS * shape.jitter_ms / math.sqrt(len(delays))
    seen_ms = statistics.fmean(delays) if shape.delay_ms else statistics.median(delays)
    low_ms, high_ms = 0.9 * shape.delay_ms - noise_ms, 1.1 * shape.delay_ms + queued_ms + noise_ms + UNTOUCHED_MS
    if not low_ms <= seen_ms <= high_ms:
        yield f"a delay of {seen_ms:.1f} ms, expected {max(0, low_ms):.1f} to {high_ms:.1f}"
    if shape.jitter_ms and statistics.pstdev(delays) < 0.25 * shape.jitter_ms:
        yield f"delays {statistics.pstdev(delays):.1f} ms around their mean, expected about {shape.jitter_ms:g}"


def _queued_ms(shape: PacketShape, probes: int) -> float:
    return probes * PROBE_FRAME_BITS / shape.rate_kbit_per_second if shape.rate_kbit_per_second else 0.0


def _effects(shape: PacketShape) -> Iterator[float]:
    """The chances of what one is to see of a probe."""
    yield shape.loss
    yield (1 - shape.loss) * shape.corrupt * 0.85
    yield (1 - shape.loss) * (1 - shape.corrupt) ** 2 * shape.duplicate
    yield (1 - shape.loss) * (1 - shape.corrupt) * shape.reorder


def _check_delays(shape: PacketShape) -> None:
    """Raises BadInput for delays that probes cannot tell from others."""
    delay_ms, jitter_ms = shape.delay_ms, shape.jitter_ms
    if 0 < delay_ms < DELAY_MS_MIN or 0 < jitter_ms < JITTER_MS_MIN:
        raise BadInput(
            f"packets: delay_ms {delay_ms:g}, jitter_ms {jitter_ms:g}: expected 0, or at least {DELAY_MS_MIN:g} and "
            f"{JITTER_MS_MIN:g}; less cannot be proved"
        )
    if jitter_ms > delay_ms:
        raise BadInput(f"packets: jitter_ms {jitter_ms:g}: expected at most the delay_ms, {delay_ms:g}")
    if shape.reorder and (delay_ms < max(REORDERED_DELAY_MS_MIN, 8 * jitter_ms) or shape.rate_kbit_per_second):
        raise BadInput(
            f"packets: reorder lets packets skip a delay: expected a delay_ms of at least {REORDERED_DELAY_MS_MIN:g} "
            "and 8 times the jitter_ms, and no bound on the bandwidth"
        )
    if shape.rate_kbit_per_second and jitter_ms * 8 > 1000 * QUEUED_SECONDS:
        raise BadInput(
            f"packets: jitter_ms {jitter_ms:g} hides a bounded bandwidth: expected at most {125 * QUEUED_SECONDS:g}"
        )
