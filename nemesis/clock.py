"""Clock faults: a node's clocks leap (skew) or go at another rate (drift), while its process runs.

A leap moves the realtime clock, as a correction by NTP or a careless administrator does; a drift both clocks, as a bad
oscillator or a starved virtual machine does. A step may name others. Each is proved by readings of what the process is
shown, beside the true time; a fault too small to be proved is refused.

Which clock bites depends on the system. Kafka's Raft timers go by the realtime clock, and wait for it to catch up where
it went back (Time.milliseconds, Timer.update): set back on all nodes, nobody stands for election until it has. The
reference's timers and leases go by the monotonic clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from harness.model import BadInput, EnvironmentFailure, PeerFailure
from harness.model.hosts import Clock, Clocks, UndoRecord
from nemesis.situation import Situation

DEEDS = ("skew", "drift", "reset_clock")
SECOND_NS = 1_000_000_000
OFFSET_TOLERANCE_NS = 2_000_000
RATE_TOLERANCE = 0.005
PROVABLE_SECONDS = 0.01
PROVABLE_RATE = 0.02
RATE_WINDOW_NS = 20_000_000
"""How long a rate is watched before it is believed; readings are microseconds off at most."""


def undo_record(f: str, nodes: tuple[int, ...]) -> UndoRecord | None:
    """Resetting undoes any of them; None where the deed itself resets."""
    return None if f == "reset_clock" else UndoRecord(f, "reset-clocks", {"nodes": list(nodes)})


async def carry_out(situation: Situation, f: str, nodes: tuple[int, ...], value: Mapping[str, Any]) -> dict[str, Any]:
    """Do it to each node; returns the nodes and a label for the report.

    Raises BadInput for a fault too small to prove, EnvironmentFailure where this kind of host cannot move clocks,
    PeerFailure where a process is not shown what it should be.
    """
    clocks = _clocks(situation, f)
    deed = {"skew": _skew, "drift": _drift, "reset_clock": _reset}[f]
    situation.skewed = tuple(sorted({*situation.skewed, *nodes}))
    words = [await deed(clocks, node, value) for node in nodes]
    if f == "reset_clock":
        situation.skewed = tuple(node for node in situation.skewed if node not in nodes)
    return {"nodes": list(nodes), "label": ", ".join(words) or "no clock to reset"}


async def heal(situation: Situation) -> None:
    """Reset every clock that was moved; a process that has ended took its clocks with it."""
    alive = tuple(node for node in situation.skewed if situation.processes.state(node) != "gone")
    if alive:
        await carry_out(situation, "reset_clock", alive, {})
    situation.skewed = ()


def _clocks(situation: Situation, f: str) -> Clocks:
    if situation.clocks is None:
        raise EnvironmentFailure(
            f"{f}: hosts of this kind cannot move a process's clock; use hosts that are namespaces"
        )
    return situation.clocks


async def _skew(clocks: Clocks, node: int, value: Mapping[str, Any]) -> str:
    seconds = float(value["offset_seconds"])
    if 0 < abs(seconds) < PROVABLE_SECONDS:
        raise BadInput(f"skew by {seconds:g} s: expected 0 or at least {PROVABLE_SECONDS:g} s, less cannot be proved")
    which: list[Clock] = value.get("clocks", ["realtime"])
    offset_ns = round(seconds * SECOND_NS)
    await clocks.skew(node, which, offset_ns)
    await _prove_offset(clocks, node, which, offset_ns)
    return f"n{node}'s {_names(which)} {abs(seconds):g} s {'behind' if seconds < 0 else 'ahead'}"


async def _drift(clocks: Clocks, node: int, value: Mapping[str, Any]) -> str:
    rate = float(value["rate"])
    if 0 < abs(rate - 1) < PROVABLE_RATE:
        raise BadInput(f"drift at rate {rate:g}: expected one that differs from 1 by {PROVABLE_RATE:g} or more")
    which: list[Clock] = value.get("clocks", ["realtime", "monotonic"])
    await clocks.drift(node, which, rate)
    await _prove_rate(clocks, node, which, rate)
    return f"n{node}'s {_names(which)} at {rate:g} times the true rate"


async def _reset(clocks: Clocks, node: int, _value: Mapping[str, Any]) -> str:
    await clocks.reset(node)
    await _prove_offset(clocks, node, ["realtime", "monotonic"], 0)
    return f"n{node}'s clocks reset"


async def _prove_offset(clocks: Clocks, node: int, which: list[Clock], offset_ns: int) -> None:
    shown = await clocks.read(node)
    for clock in which:
        if abs(shown[clock].offset_ns - offset_ns) > OFFSET_TOLERANCE_NS:
            raise PeerFailure(
                f"proving n{node}'s {clock} clock: {shown[clock].offset_ns / SECOND_NS:g} s off the true time, "
                f"expected {offset_ns / SECOND_NS:g} s"
            )


async def _prove_rate(clocks: Clocks, node: int, which: list[Clock], rate: float) -> None:
    first = last = await clocks.read(node)
    while any(last[clock].true_ns - first[clock].true_ns < RATE_WINDOW_NS for clock in which):
        await asyncio.sleep(0)
        last = await clocks.read(node)
    for clock in which:
        passed_ns = last[clock].true_ns - first[clock].true_ns
        shown = (last[clock].shown_ns - first[clock].shown_ns) / passed_ns
        if abs(shown - rate) > RATE_TOLERANCE:
            raise PeerFailure(
                f"proving n{node}'s {clock} clock: it goes at {shown:.3f} times the true rate, not {rate:g}"
            )


def _names(which: list[Clock]) -> str:
    return "clocks" if len(which) > 1 else f"{which[0]} clock"
