"""The register checks on literal histories."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from harness.model import Finding, Op, Verdict
from tests.support.checks.on_spark import findings_of_each
from tests.support.checks.run_types import FindInRun, JudgeRun
from tests.support.checks.small_histories import history, nemesis_op, read, write

pytestmark = pytest.mark.spark

FAILED_WRITE = Op("invoke", "write", 0, "x", 1)
CRASHED_WRITE = Op("invoke", "write", 0, "x", 1)
SWAP = Op("invoke", "cas", 1, "x", [1, 2])

VALID = {
    "reads see the writes before them": [*read(0, None), *write(0, 1), *read(1, 1), *write(0, 2), *read(1, 2)],
    "a crashed write may be seen": [CRASHED_WRITE, CRASHED_WRITE.info("timeout"), *read(1, 1)],
    "a crashed write may take effect late": [
        CRASHED_WRITE, CRASHED_WRITE.info("timeout"), *read(1, None), *write(2, 2), *read(1, 2), *read(1, 1),
    ],
    "keys are independent": [*write(0, 1, "x"), *write(0, 2, "y"), *read(1, 1, "x"), *read(1, 2, "y")],
    "values may repeat": [*write(0, 1), *write(0, 2), *write(0, 1), *read(1, 1)],
    "a swap takes effect": [*write(0, 1), SWAP, SWAP.ok(), *read(0, 2)],
    "a swap is refused rightly": [*write(0, 3), SWAP, SWAP.fail("mismatch"), *read(0, 3)],
    "a swap that failed uncompared proves nothing": [*write(0, 1), SWAP, SWAP.fail("NOT_CONTROLLER"), *read(0, 1)],
}  # fmt: skip

BROKEN = {
    "stale read": ([*write(0, 1), *write(0, 2), *read(1, 1)], (1, 2, 3, 4)),
    "read of nothing after a write": ([*write(0, 1), *read(1, None)], (0, 1, 2)),
    "read of what was never written": ([*write(0, 1), *read(1, 7)], (3,)),
    "read of a failed write": ([FAILED_WRITE, FAILED_WRITE.fail("refused"), *read(1, 1)], (3,)),
    "read before the write began": ([*read(1, 1), *write(0, 1)], (1, 2)),
    "a value that comes back": ([*write(0, 1), *write(0, 2), *read(1, 2), *read(1, 1)], (1, 3, 4, 6)),
    "stale read among repeated values": ([*write(0, 1), *write(0, 1), *write(0, 2), *read(1, 1)], (6, 7)),
    "a swap refused wrongly": ([*write(0, 1), SWAP, SWAP.fail("mismatch"), *read(0, 1)], (2, 3)),
    "a swap lost": ([*write(0, 1), SWAP, SWAP.ok(), *read(0, 1)], (2, 3, 4, 5)),
}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Finding]]:
    """The findings about each history, from one Spark job."""
    return findings_of_each(spark, "register", VALID | {name: ops for name, (ops, _) in BROKEN.items()})


@pytest.mark.parametrize("name", VALID)
def test_register_is_linearizable_when(name: str, found: dict[str, list[Finding]]) -> None:
    assert found[name] == []


@pytest.mark.parametrize("name", BROKEN)
def test_register_is_not_linearizable_after(name: str, found: dict[str, list[Finding]]) -> None:
    (finding,) = found[name]
    assert (finding.name, finding.severity, finding.key) == ("non-linearizable", "invalid", "x")
    assert finding.witnesses == BROKEN[name][1]


def test_message_names_the_guarantee_and_its_witness(judge_run: JudgeRun) -> None:
    (finding,) = judge_run(["register"], history(*write(0, 1), *write(0, 2), *read(1, 1))).findings
    assert finding.message == (
        "key x: reads see the latest write: no order exists, because write 1 (index 0 to 1) ended before write 2 "
        "(index 2 to 3) began, and write 2 (index 2 to 3) ended before read 1 (index 4 to 5) began"
    )


def test_knossos_semantics_ignore_a_nil_read(judge_run: JudgeRun) -> None:
    ops = history(*write(0, 1), *read(1, None), *read(1, 1))
    assert judge_run(["register"], ops, semantics="knossos").findings == ()


def test_a_spent_budget_is_unknown_and_reported(judge_run: JudgeRun) -> None:
    starts = [Op("invoke", "write", process, "x", process % 3 + 1) for process in range(12)]
    ops = history(*starts, *(start.ok() for start in starts), *read(99, 4))
    (finding,) = judge_run(["register"], ops, search_steps=50).findings
    assert (finding.name, finding.severity) == ("undecided", "unknown")
    assert "50 steps were spent" in finding.message


@pytest.mark.parametrize("check", ["register", "availability"])
def test_a_run_without_progress_is_unknown_unless_it_is_idle(check: str, judge_run: JudgeRun) -> None:
    start = Op("invoke", "read", 0, "x")
    ops = history(start, start.info("timeout"), *nemesis_op("cut"))
    results = judge_run([check], ops)
    assert [finding.name for finding in results.findings] == ["no-progress"]
    assert results.verdict is Verdict.UNKNOWN
    assert judge_run([check], ops, idle=True).verdict is Verdict.VALID


FINAL = nemesis_op("mark", "final")
WIPE = nemesis_op("lose_disk", {"nodes": [1]})
RACING = Op("invoke", "write", 0, "x", 2)

PROMISES = {
    "a stale read is allowed": ([*write(0, 1), *write(0, 2), *read(1, 1)], []),
    "reads on different nodes may disagree": (
        [*write(0, 1), *write(0, 2), *read(1, 2, node=1), *read(1, 1, node=2)], [],
    ),
    "reads on one node go back": ([*write(0, 1), *write(0, 2), *read(1, 2), *read(2, 1)], ["nonmonotonic-read"]),
    "reads go back on a node that lost its disk": (
        [*write(0, 1), *write(0, 2), *read(1, 2), *WIPE, *read(2, 1)], [],
    ),
    "a read of what was never written": ([*write(0, 1), *read(1, 9)], ["phantom-read"]),
    "a final read shows the last write": ([*write(0, 1), *write(0, 2), *FINAL, *read(1, 2)], []),
    "a final read misses an acknowledged write": (
        [*write(0, 1), *write(0, 2), *FINAL, *read(1, 1)], ["lost-write"],
    ),
    "a final read shows one of two concurrent writes": (
        [RACING, *write(1, 1), RACING.ok(), *FINAL, *read(1, 1)], [],
    ),
    "no final read returns": ([*write(0, 1), *read(1, 1), *FINAL], ["no-final-read"]),
    "a value written twice": ([*write(0, 1), *write(0, 1), *read(1, 1)], ["values-not-unique"]),
}  # fmt: skip


@pytest.mark.parametrize(("ops", "names"), PROMISES.values(), ids=PROMISES.keys())
def test_promised_reads_when(ops: list[Op], names: list[str], find_in_run: FindInRun) -> None:
    assert [finding.name for finding in find_in_run("promised-reads", history(*ops), [])] == names


def add(value: int) -> tuple[Op, Op]:
    call = Op("invoke", "add", 0, "s1", value)
    return call, call.ok()


SETS = {
    # case: operations, findings of set, findings of promised-set
    "a final read shows all": ([*add(1), *FINAL, *read(1, [1], "s1")], [], []),
    "a final read misses one": (
        [*add(1), *FINAL, *read(1, [], "s1")], [("lost-element", "invalid")], [("lost-element", "invalid")],
    ),
    "the last read is before the end of the faults": (
        [*add(1), *read(1, [], "s1"), *FINAL], [("lost-element", "invalid")], [("no-final-read", "unknown")],
    ),
    "the run was interrupted": (
        [*add(1), *read(1, [], "s1")], [("lost-element", "invalid")], [("no-final-read", "unknown")],
    ),
    "an element that nobody added": (
        [*add(1), *read(1, [1, 7], "s1")], [("phantom-element", "invalid")], [("phantom-element", "invalid")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SETS)
@pytest.mark.parametrize(("check", "at"), [("set", 1), ("promised-set", 2)])
def test_sets_when(case: str, check: str, at: int, find_in_run: FindInRun) -> None:
    ops = SETS[case][0]
    found = [(finding.name, finding.severity) for finding in find_in_run(check, history(*ops), [])]
    assert found == SETS[case][at]


def test_staleness_counts_from_the_acknowledgement_of_a_newer_write(judge_run: JudgeRun) -> None:
    ops = history(*write(0, 1), *write(0, 2), *write(0, 3), *read(1, 1), *read(1, 2))
    quantities = {quantity.name: quantity.value for quantity in judge_run(["promised-reads"], ops).quantities}
    # Write 2 is acknowledged at 3 ms and read 1 invoked at 6 ms; write 3 at 5 ms and read 2 at 8 ms.
    assert quantities == {"stale_reads": 2, "stale_read_ms_max": 3}
