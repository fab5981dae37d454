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
import random
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from harness.model import BadInput, PeerFailure
from harness.model.hosts import Clock, Clocks, UndoRecord
from harness.model.story import FOLLOWERS, LEADER, Step, drift, skew, sleep, strobe
from nemesis.arguments import OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

SECOND_NS = 1_000_000_000
OFFSET_TOLERANCE_NS = 2_000_000
RATE_TOLERANCE = 0.005
PROVABLE_SECONDS = 0.01
PROVABLE_RATE = 0.02
MOVED_SECONDS_MAX = 1e8
"""How far a clock may be moved: three years, within what the clocks of nodes can show."""
RATE_MAX = 10
DRAWN_RATES = (0.2, 0.5, 0.8, 1.25, 2.0)
"""None so fast that a JVM, whose waits a fast clock prolongs, stalls for longer than the fault."""
RATE_WINDOW_NS = 20_000_000
"""How long a rate is watched before it is believed; readings are microseconds off at most."""


ClockNames = Annotated[tuple[Clock, ...], Field(min_length=1)]


class Skew(OnNodes):
    """How far ahead, or behind if negative."""

    offset_seconds: Annotated[float, Field(ge=-MOVED_SECONDS_MAX, le=MOVED_SECONDS_MAX)]
    clocks: ClockNames = ("realtime",)


class Drift(OnNodes):
    """How fast: 1 is as it should be."""

    rate: Annotated[float, Field(ge=0, le=RATE_MAX)]
    clocks: ClockNames = ("realtime", "monotonic")


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The nodes that are meant, and by how much. Raises BadInput for a fault too small to prove."""
    if f == "skew" and 0 < abs(value["offset_seconds"]) < PROVABLE_SECONDS:
        seconds = value["offset_seconds"]
        raise BadInput(f"skew by {seconds:g} s: expected 0 or at least {PROVABLE_SECONDS:g} s, less cannot be proved")
    if f == "drift" and 0 < abs(value["rate"] - 1) < PROVABLE_RATE:
        raise BadInput(
            f"drift at rate {value['rate']:g}: expected one that differs from 1 by {PROVABLE_RATE:g} or more"
        )
    return {**value, "nodes": list(context.nodes_in_role(value["who"]))}


def undo(f: str, resolved: Resolved) -> UndoRecord | None:
    """Resetting undoes any of them; None where the action itself resets."""
    return None if f == "reset_clock" else UndoRecord(f, "reset-clocks", {"nodes": resolved["nodes"]})


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Do it to each node; returns the nodes and a label for the report.

    Raises PeerFailure where a process is not shown what it should be.
    """
    clocks, nodes = context.clocks, resolved["nodes"]
    assert clocks is not None
    action = {"skew": _skew, "drift": _drift, "reset_clock": _reset}[f]
    context.skewed = tuple(sorted({*context.skewed, *nodes}))
    words = [await action(clocks, node, resolved) for node in nodes]
    if f == "reset_clock":
        context.skewed = tuple(node for node in context.skewed if node not in nodes)
    return {"nodes": list(nodes), "label": ", ".join(words) or "no clock to reset"}


async def heal(context: NemesisContext) -> None:
    """Reset every clock that was moved; a process that has ended took its clocks with it."""
    alive = tuple(node for node in context.skewed if context.processes.state(node) != "gone")
    if alive:
        await inject(context, "reset_clock", {"nodes": list(alive)})
    context.skewed = ()


async def _skew(clocks: Clocks, node: int, value: Mapping[str, Any]) -> str:
    seconds = float(value["offset_seconds"])
    which: list[Clock] = value.get("clocks", ["realtime"])
    offset_ns = round(seconds * SECOND_NS)
    await clocks.skew(node, which, offset_ns)
    await _prove_offset(clocks, node, which, offset_ns)
    return f"n{node}'s {_names(which)} {abs(seconds):g} s {'behind' if seconds < 0 else 'ahead'}"


async def _drift(clocks: Clocks, node: int, value: Mapping[str, Any]) -> str:
    rate = float(value["rate"])
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


def sample(random_: random.Random, _nodes: int) -> list[Step]:
    """A leap of up to two minutes either way, leaps to and fro, or clocks that go too slow or too fast."""
    who = random_.choice([LEADER, FOLLOWERS])
    leap = round(random_.choice([-1, 1]) * random_.uniform(0.1, 120), 3)
    sequences = [[skew(who, leap)], [drift(who, random_.choice(DRAWN_RATES))], strobe(who, leap, 0.4, 3)]
    return random_.choice(sequences)


FAULT = Fault(
    name="clock",
    summary="a node's clocks leap, jump to and fro, or go too slow or too fast, while its process runs",
    actions={
        "skew": Action(Skew),
        "drift": Action(Drift),
        "reset_clock": Action(OnNodes, ends=frozenset({"skew", "drift"})),
    },
    unavailable=lambda context, _action: context.why_unavailable("clocks"),
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=40,
    trials=((skew("n1", 30), sleep(0.2)), (drift("n2", 0.5), sleep(0.2)), (*strobe("n3", -2, 0.2, 2),)),
)
