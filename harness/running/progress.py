"""Reports what happens in a run while it happens: its nemesis's operations, its leader, its clients' outcomes.

RunProgress stands between the run and its recorder: it passes every row on and derives events from it.

Contains how events follow from rows. Does not contain recording (harness.engine.recorder) or the screen
(harness.commands.output.progress).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from harness.engine.recorder import Recorder
from harness.model import NEMESIS, Observation, Op
from harness.model.conditions import Condition
from harness.model.nemesis_ops import AWAIT, NemesisOps
from harness.model.progress import Leadership, NemesisEvent, OnEvent, Operations, Phase
from harness.model.quorum_states import State
from harness.model.records.fault_intervals import fault_intervals, label_of
from harness.model.story import FINAL_READS, MARK, STORY_BEGINS

INTERVAL_SECONDS = 0.25

STAGES = {
    STORY_BEGINS: Phase("faults and load", "story"),
    FINAL_READS: Phase("final reads", "final reads"),
}
"""The phases that begin with the harness's own marks."""


class RunProgress:
    """The recorder of a run, for the interpreter and the observers, that also reports events."""

    def __init__(self, recorder: Recorder, ops: NemesisOps, on_event: OnEvent) -> None:
        self._recorder = recorder
        self._ops = ops
        self._on_event = on_event
        self._nemesis_ops: list[Op] = []
        self._is_open = False
        self._outcomes: Counter[str] = Counter()
        self._epochs: dict[int, int] = {}
        self._last: dict[type, Leadership | Operations] = {}

    def record(self, op: Op) -> Op:
        """Record a row of the history."""
        recorded = self._recorder.record(op)
        if op.process != NEMESIS:
            self._outcomes[op.type] += 1
        elif op.f == MARK:
            self._mark(recorded)
        else:
            self._nemesis(recorded)
        return recorded

    def observe(self, observation: Observation) -> None:
        """Record an observation."""
        self._recorder.observe(observation)
        is_claim = observation.kind == "claim" or observation.state == State.LEADER.value
        if is_claim and observation.epoch is not None:
            self._epochs[observation.node] = observation.epoch

    async def report_regularly(self, leader: Callable[[], int | None], stop: asyncio.Event) -> None:
        """Report the leader and the number of operations whenever they have changed; runs until it is cancelled.

        Sets stop once the recorder has failed: a story that waits records nothing, and would not notice.
        """
        while True:
            if self._recorder.has_failed:
                stop.set()
            node = leader()
            self._report_change(Leadership(node, None if node is None else self._epochs.get(node)))
            self.report_operations()
            await asyncio.sleep(INTERVAL_SECONDS)

    def report_operations(self) -> None:
        """Report the number of operations if it has changed."""
        if self._outcomes:
            count = self._outcomes
            self._report_change(Operations(count["ok"], count["fail"], count["info"]))

    def _report_change(self, event: Leadership | Operations) -> None:
        if self._last.get(type(event)) != event:
            self._last[type(event)] = event
            self._on_event(event)

    def _mark(self, mark: Op) -> None:
        self._nemesis_ops.append(mark)
        self._on_event(
            STAGES.get(mark.value) or NemesisEvent(label_of(mark), is_done=True, active=self._active(mark.time_ns))
        )

    def _nemesis(self, op: Op) -> None:
        """An operation is two rows; the nemesis has one at a time."""
        self._nemesis_ops.append(op)
        self._is_open = not self._is_open
        is_wait, active = op.f in self._ops.waits, self._active(op.time_ns)
        self._on_event(NemesisEvent(_text(op), not self._is_open, is_wait, op.error, active))

    def _active(self, now_ns: int) -> tuple[str, ...]:
        """The labels of the faults that no operation has ended."""
        later_ns = now_ns + 1
        intervals = fault_intervals(self._nemesis_ops, later_ns, self._ops)
        return tuple(interval.label for interval in intervals if interval.end_ns == later_ns)


def _text(op: Op) -> str:
    if op.f != AWAIT:
        return label_of(op)
    return f"waiting until {Condition.from_json(op.value['condition'])}"
