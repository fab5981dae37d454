"""The screen of simulated runs: what it reports, and that it reports no history that is linearizable."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.kernels.steps import READ_OF, WRITE_OF
from checkers.twins.registers import Operation, linearizable
from harness.model import Observation, Op
from harness.model.nemesis_ops import AWAIT
from harness.planning.plan import Plan
from harness.simulating.screening import reason_to_store, stale_reads
from nodes.simulation.cluster import Violation
from tests.support.checks.small_histories import history, nemesis_op, random_register, read, write

HISTORIES = 2_000
REFERENCE = Plan(name="test", seed=1, story=[], system="reference", workload="register", hosts="simulation")


def spin(time_ms: int) -> Violation:
    return Violation("no-spin", "it polls without a wait", time_ms, 1)


def thrown(exception: str) -> Violation:
    return Violation("no-exception", exception, 3, 1)


def outcome(**values: Any) -> Any:
    return SimpleNamespace(**{"plan": REFERENCE, "violations": (), "observations": (), "history": (), **values})


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, None),
        ({"violations": (Violation("vote-once", "two votes", 5, 1),)}, "vote-once"),
        ({"violations": (spin(3), Violation("vote-once", "two votes", 5, 1))}, "vote-once"),
        (
            {
                "violations": (
                    thrown("java.lang.IllegalStateException: Expected Leader(epoch=3, voters=[1]) in A.java:7"),
                )
            },
            "no-exception: IllegalStateException: Expected Leader",
        ),
        ({"violations": (thrown("IllegalArgumentException in A.java:7"),)}, "no-exception: IllegalArgumentException"),
        ({"violations": (spin(3), spin(5))}, "no-spin"),
        ({"violations": (spin(3),), "observations": [Observation(1, 2, "process", "exited")]}, "server-exited"),
        ({"violations": (spin(3),), "history": [Op("info", AWAIT, -1, error="not so")]}, "no-recovery"),
        ({"observations": [Observation(1, 2, "process", "exited")]}, "server-exited"),
        ({"observations": [Observation(1, 2, "process", "stopped")]}, None),
        ({"history": [Op("info", AWAIT, -1, error="not so")]}, "no-recovery"),
        (
            {"history": [Op("info", AWAIT, -1, error="waiting until a leader is known: no node can be elected")]},
            "no-recovery: no node can be elected",
        ),
        ({"history": history(*read(0, 7))}, "stale-read"),
    ],
)
def test_reason_to_store_a_run(values: dict[str, Any], reason: str | None) -> None:
    assert reason_to_store(outcome(**values)) == reason


def test_stale_reads_of_kafka_are_no_reason() -> None:
    """A controller answers from its own image (check promised-reads)."""
    of_kafka = REFERENCE.model_copy(update={"system": "kafka:4.3.1"})
    assert reason_to_store(outcome(history=history(*read(0, 7)), plan=of_kafka)) is None


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([write(0, 1), read(1, 1)], []),
        ([write(0, 1), read(1, None)], ["x"]),
        ([write(0, 1), write(0, 2), read(1, 1)], ["x"]),
        ([write(0, 1), read(1, 1), read(1, None)], ["x"]),
        ([read(1, 1), write(0, 1)], ["x"]),
        ([nemesis_op("kill"), write(0, 1), read(1, None, "y")], []),
        ([write(0, 1), read(1, None), read(2, None, "y"), write(0, 2, "y")], ["x"]),
    ],
)
def test_sequential_histories(rows: Sequence[tuple[Op, Op]], expected: list[str]) -> None:
    assert list(stale_reads(history(*(op for pair in rows for op in pair)))) == expected


def test_write_that_was_not_acknowledged_may_take_effect_late_or_never() -> None:
    begin = Op("invoke", "write", 0, "x", 1)
    later = [*read(1, None), *read(1, 1), *read(1, 1)]
    assert list(stale_reads(history(begin, begin.info("timed out"), *later))) == []
    assert list(stale_reads(history(begin, begin.info("timed out"), *later, *read(1, None)))) == ["x"]


def test_value_of_a_rejected_write_is_not_read() -> None:
    begin = Op("invoke", "write", 0, "x", 1)
    rejected = begin, begin.fail("not the controller")
    assert list(stale_reads(history(*rejected, *read(1, None)))) == []
    assert list(stale_reads(history(*rejected, *read(1, 1)))) == ["x"]


def test_screen_agrees_with_the_definition_on_random_histories() -> None:
    """It reports only what is not linearizable, and nearly all of that."""
    reported = missed = 0
    for seed in range(HISTORIES):
        ops = random_register(random.Random(seed), writes_are_unique=True, swaps=False)
        is_reported = list(stale_reads(ops)) != []
        is_linearizable = linearizable(_operations(ops))
        assert not (is_reported and is_linearizable), f"seed {seed}: {ops}"
        reported += is_reported
        missed += not is_reported and not is_linearizable
    assert reported > 100
    assert missed < reported / 5


def _operations(ops: Sequence[Op]) -> list[Operation]:
    """What the twin takes: calls and returns by index; failed operations did not happen."""
    operations: dict[int, Operation] = {}
    open_ops: dict[int, int] = {}
    for op in ops:
        if op.type == "invoke":
            open_ops[op.process] = op.index
            if op.f == "write":
                operations[op.index] = Operation(op.index, None, WRITE_OF, op.value)
        else:
            begin = open_ops.pop(op.process)
            if op.type == "ok" and op.f == "write":
                operations[begin] = operations[begin]._replace(back=op.index)
            elif op.type == "ok":
                operations[begin] = Operation(begin, op.index, READ_OF, op.value or 0)
            elif op.type == "fail":
                operations.pop(begin, None)
    return list(operations.values())
