"""Clock faults: a node's clocks jump (skew) or run at another rate (drift) while its process runs.

By default, skew affects the realtime clock, as an NTP correction or an administrator does; drift affects both clocks,
as a bad oscillator or a starved virtual machine does. A step can name other clocks. Readings of the process's clocks
beside the true time verify each fault; a plan refuses a fault that is too small to be verified.

Which clock matters depends on the system. Kafka's Raft timers use the realtime clock, and wait for it to catch up after
it was set back (Time.milliseconds, Timer.update): if it is set back on all nodes, no node becomes a candidate until it
has caught up. The reference's timers and leases use the monotonic clock.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from harness.model import PeerFailure
from harness.model.hosts import Clock, Clocks, UndoRecord
from harness.model.story import FOLLOWERS, LEADER, Step, drift, skew, sleep, strobe
from harness.model.systems import SystemKind
from nemesis.arguments import OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

SECOND_NS = 1_000_000_000
OFFSET_TOLERANCE_NS = 2_000_000
RATE_TOLERANCE = 0.005
OFFSET_SECONDS_MIN = 0.01
RATE_DIFFERENCE_MIN = 0.02
OFFSET_SECONDS_MAX = 1e8
"""The largest offset: three years, which every node's clock can represent."""
RATE_MAX = 10
SAMPLED_RATES = (0.2, 0.5, 0.8, 1.25, 2.0)
"""No faster: a fast clock prolongs the waits of a JVM, which would stall for longer than the fault."""
RATE_WINDOW_NS = 20_000_000
"""How long a rate is measured; readings are accurate to microseconds."""


ClockNames = Annotated[tuple[Clock, ...], Field(min_length=1)]


class Skew(OnNodes):
    """How far to set the clocks ahead, or behind if negative."""

    offset_seconds: Annotated[float, Field(ge=-OFFSET_SECONDS_MAX, le=OFFSET_SECONDS_MAX)]
    clocks: ClockNames = ("realtime",)


class Drift(OnNodes):
    """The rate of the clocks: 1 is the true rate."""

    rate: Annotated[float, Field(ge=0, le=RATE_MAX)]
    clocks: ClockNames = ("realtime", "monotonic")


def unsupported(_system: SystemKind, step: Step) -> str | None:
    """Why a step is refused before a run: it is too small to be verified. Stored runs with such steps can be read."""
    if step.f == "skew" and 0 < abs(step.value["offset_seconds"]) < OFFSET_SECONDS_MIN:
        found = step.value["offset_seconds"]
        return f"offset_seconds: expected 0 or at least {OFFSET_SECONDS_MIN:g} s, to be verified, found {found:g}"
    if step.f == "drift" and 0 < abs(step.value["rate"] - 1) < RATE_DIFFERENCE_MIN:
        found = step.value["rate"]
        return f"rate: expected 1, or a difference from 1 of at least {RATE_DIFFERENCE_MIN:g}, found {found:g}"
    return None


def undo(f: str, resolved: Resolved) -> UndoRecord | None:
    """Undone by resetting the clocks; None if the action itself resets them."""
    return None if f == "reset_clock" else UndoRecord(f, "reset-clocks", {"nodes": resolved["nodes"]})


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Act on each node's clocks; returns the nodes and a label for the report.

    Raises PeerFailure if a process does not see the expected offset or rate.
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
    """Reset the clocks of every skewed node; a process that has ended needs no reset."""
    alive = tuple(node for node in context.skewed if context.processes.state(node) != "gone")
    if alive:
        await inject(context, "reset_clock", {"nodes": list(alive)})
    context.skewed = ()


async def _skew(clocks: Clocks, node: int, value: Mapping[str, Any]) -> str:
    seconds = float(value["offset_seconds"])
    which: list[Clock] = value["clocks"]
    offset_ns = round(seconds * SECOND_NS)
    await clocks.skew(node, which, offset_ns)
    await _verify_offset(clocks, node, which, offset_ns)
    return f"n{node}'s {_names(which)} {abs(seconds):g} s {'behind' if seconds < 0 else 'ahead'}"


async def _drift(clocks: Clocks, node: int, value: Mapping[str, Any]) -> str:
    rate = float(value["rate"])
    which: list[Clock] = value["clocks"]
    await clocks.drift(node, which, rate)
    await _verify_rate(clocks, node, which, rate)
    return f"n{node}'s {_names(which)} at {rate:g} times the true rate"


async def _reset(clocks: Clocks, node: int, _value: Mapping[str, Any]) -> str:
    await clocks.reset(node)
    await _verify_offset(clocks, node, ["realtime", "monotonic"], 0)
    return f"n{node}'s clocks reset"


async def _verify_offset(clocks: Clocks, node: int, which: list[Clock], offset_ns: int) -> None:
    shown = await clocks.read(node)
    for clock in which:
        if abs(shown[clock].offset_ns - offset_ns) > OFFSET_TOLERANCE_NS:
            raise PeerFailure(
                f"verifying n{node}'s {clock} clock: {shown[clock].offset_ns / SECOND_NS:g} s off the true time, "
                f"expected {offset_ns / SECOND_NS:g} s"
            )


async def _verify_rate(clocks: Clocks, node: int, which: list[Clock], rate: float) -> None:
    first = last = await clocks.read(node)
    while any(last[clock].true_ns - first[clock].true_ns < RATE_WINDOW_NS for clock in which):
        await asyncio.sleep(0)
        last = await clocks.read(node)
    for clock in which:
        passed_ns = last[clock].true_ns - first[clock].true_ns
        shown = (last[clock].shown_ns - first[clock].shown_ns) / passed_ns
        if abs(shown - rate) > RATE_TOLERANCE:
            raise PeerFailure(
                f"verifying n{node}'s {clock} clock: it runs at {shown:.3f} times the true rate, expected {rate:g}"
            )


def _names(which: list[Clock]) -> str:
    return "clocks" if len(which) > 1 else f"{which[0]} clock"


def sample(random_source: random.Random, _nodes: int) -> list[Step]:
    """A jump of up to two minutes ahead or behind, repeated jumps and returns, or slow or fast clocks."""
    who = random_source.choice([LEADER, FOLLOWERS])
    offset = round(random_source.choice([-1, 1]) * random_source.uniform(0.1, 120), 3)
    sequences = [[skew(who, offset)], [drift(who, random_source.choice(SAMPLED_RATES))], strobe(who, offset, 0.4, 3)]
    return random_source.choice(sequences)


FAULT = Fault(
    name="clock",
    summary="a node's clocks jump, oscillate or drift while its process runs",
    actions={
        "skew": Action(Skew),
        "drift": Action(Drift),
        "reset_clock": Action(OnNodes, ends=frozenset({"skew", "drift"})),
    },
    unsupported=unsupported,
    unavailable=lambda context, _action: context.why_unavailable("clocks"),
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=40,
    trials=((skew("n1", 30), sleep(0.2)), (drift("n2", 0.5), sleep(0.2)), (*strobe("n3", -2, 0.2, 2),)),
)
