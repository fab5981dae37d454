"""The reads and writes of a timed run's clients, as rows of a history. Each is of a process of its own, so none waits.

    calls = TimedCalls(cluster, record)
    Player(cluster, 3, carried, calls.of).play(schedule)
    calls.abandon()                 # those that nobody has answered

Contains the rows of clients. Does not contain those of faults (timed_simulation.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from harness.engine.interpreter import Tally
from harness.model import Op
from nodes.simulation import schedule
from nodes.simulation.cluster import Answer, SimulatedCluster
from nodes.simulation.schedule import Timed, voter_request
from workloads.register import read_of, refusal_of, rejected, values_of, write_of

UNANSWERED: Final = "no answer"


class TimedCalls:
    """The calls of a run; record keeps a row and returns it with its index and time."""

    def __init__(self, cluster: SimulatedCluster, record: Callable[[Op], Op]) -> None:
        self._cluster, self._record = cluster, record
        self._ends: Counter[str] = Counter()
        self._open: dict[int, Op] = {}
        self.count = 0

    def of(self, command: Timed, node: int) -> tuple[Any, Answer]:
        """The request of a command to a node, and what receives the response."""
        if command.name == schedule.REQUEST:
            api_key, voter = command.argument
            return voter_request(api_key, voter, self._cluster.directory_id(voter)), lambda _response: None
        is_read = command.name == schedule.READ
        key, value = (command.argument, None) if is_read else command.argument
        op = self._record(Op("invoke", command.name, self.count, key, value, node))
        self.count += 1
        self._open[op.process] = op
        return (read_of([key]) if is_read else write_of([key], value)), lambda response: self._answered(op, response)

    def abandon(self) -> Tally:
        """End the calls that nobody has answered; returns how all have ended."""
        abandoned = list(self._open.values())
        for op in abandoned:
            self._ended(op, op.info(UNANSWERED))
        return Tally(**self._ends, abandoned=len(abandoned))

    def _answered(self, op: Op, response: Any) -> None:
        if response is None:
            self._ended(op, op.info(UNANSWERED))
        elif (refused := refusal_of(response)) is not None:
            self._ended(op, rejected(op, *refused))
        else:
            self._ended(op, op.ok(values_of(response)[0]) if op.f == schedule.READ else op.ok())

    def _ended(self, op: Op, end: Op) -> None:
        del self._open[op.process]
        self._ends[end.type] += 1
        self._record(end)
