"""How fast a story reacts to an event: from the time that a node logged a transition until the fault is in effect.

On the reference system in network namespaces, node 3 starts again and again. As soon as it follows the leader, it is
killed, or its links are cut. An event counts from its own time in the node's log, which is in whole milliseconds. A
kill is in effect when the process is dead, a cut when datagrams on every link have verified it: that alone takes
0.1 s. The baseline, in the same run, is the same action without an event, from its invocation.

    .venv/bin/python benchmarks/bench_events.py [EVENTS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from tabulate import tabulate

from harness.engine.records import read_history, read_observations
from harness.model import NEMESIS, Observation, Op
from harness.model.conditions import ALL_FOLLOW_LEADER, is_follower, is_not_leader
from harness.model.nemesis_ops import AWAIT
from harness.model.quorum_states import State
from harness.model.story import Step, cut, heal, kill, sleep, start, wait_until, when
from harness.planning.plan import Request
from harness.planning.story_steps import StoryStep
from harness.running.controller_process import carry_out
from harness.running.run import plan_to_run
from results.store import new_run

EVENTS = 30
NODE = 3
WHO = f"n{NODE}"
FOLLOWS = [start(WHO), when(is_follower(NODE), 20)]
ROUND = [
    *(*FOLLOWS, kill(WHO)),
    *(*FOLLOWS, cut(WHO), heal(), sleep(0.3)),
    *(cut(WHO), heal(), sleep(0.3), kill(WHO)),
]
"""An event and a kill, an event and a cut, then both without an event."""


def story(events: int) -> list[Step]:
    prepared = [wait_until(ALL_FOLLOW_LEADER), kill(WHO), wait_until(is_not_leader(NODE))]
    return [*prepared, *(ROUND * events)]


def figures(history: Sequence[Op], observations: Sequence[Observation]) -> dict[str, list[float]]:
    """Milliseconds by what was measured."""
    followed = [
        seen.time_ns
        for seen in observations
        if (seen.node, seen.kind, seen.state) == (NODE, "transition", State.FOLLOWER.value)
    ]
    ends = [seen.time_ns for seen in observations if (seen.node, seen.kind) == (NODE, "stopped")]
    times: dict[str, list[float]] = {}
    for (_, before), (invoked, done) in pairwise(nemesis_ops(history)):
        if invoked.f not in ("kill", "cut"):
            continue
        assert done.error is None, done.error
        assert "label" not in (before.value if before.f == AWAIT else {}), before.value["label"]
        effect_ns = next(end for end in ends if end > invoked.time_ns) if invoked.f == "kill" else done.time_ns
        if before.f == AWAIT and before.value["condition"] == is_follower(NODE).to_json():
            event_ns = max(time_ns for time_ns in followed if time_ns < before.time_ns)
            add(times, f"{invoked.f}: event to wake-up", event_ns, before.time_ns)
            add(times, f"{invoked.f}: event to effect", event_ns, effect_ns)
        else:
            add(times, f"{invoked.f}: invocation to effect (baseline)", invoked.time_ns, effect_ns)
    return times


def nemesis_ops(history: Sequence[Op]) -> Iterator[tuple[Op, Op]]:
    """The invocation and the completion of each nemesis operation; it has one open at a time."""
    rows = [op for op in history if op.process == NEMESIS and op.f != "mark"]
    return zip(rows[::2], rows[1::2], strict=True)


def add(times: dict[str, list[float]], name: str, began_ns: int, ended_ns: int) -> None:
    times.setdefault(name, []).append((ended_ns - began_ns) / 1e6)


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    request = Request(faults=["none"], seed=1, story=[StoryStep.of(step) for step in story(events)])
    with tempfile.TemporaryDirectory(prefix="splitbrain-events-") as store:
        run = new_run(Path(store), "events", datetime.now(UTC))
        carry_out(plan_to_run(request, lambda _event: None), run, lambda _event: None)
        times = figures(list(read_history(run.history)), list(read_observations(run.observations)))
    rows = []
    for name, ms in sorted(times.items()):
        cuts = statistics.quantiles(ms, n=20, method="inclusive")
        rows.append((name, len(ms), min(ms), cuts[4], cuts[9], cuts[14], cuts[18], max(ms)))
    headers = ("ms", "events", "min", "25%", "median", "75%", "95%", "max")
    print(tabulate(rows, headers=headers, floatfmt=".1f"))


if __name__ == "__main__":
    main()
