"""The evidence of findings: valid orders, zones as kernels bound them, cycles edge by edge."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from checkers.framework.contract import JudgeSettings
from checkers.linearizability.models import MODELS
from checkers.linearizability.models.model import Problem
from checkers.twins.models import TWINS, Call
from harness.model import Op
from harness.model.records.evidence import Cycle, CycleStep, Evidence, Need, Order, Zone, Zones, decoded, encoded
from tests.support.checks.model_histories import calls_of, keys_from, random_history, sequential_history, stale_read
from tests.support.checks.run_types import FindInRun
from tests.support.checks.small_histories import history, read, write


def problems(model: str, histories: Sequence[Sequence[Op]]) -> list[Problem | None]:
    return [each.problem for each in MODELS[model].judge(keys_from(model, histories), JudgeSettings())]


def is_explained(calls: Sequence[Call], rule_name: str) -> bool:
    """Whether the calls, in this order, satisfy the model's twin."""
    rule, held = TWINS[rule_name]
    for call in calls:
        legal, held = rule(call, held)
        if not legal:
            return False
    return True


def respects_real_time(calls: Sequence[Call]) -> bool:
    """Whether no call follows one that began after it had returned."""
    return not any(
        later.back is not None and later.back < earlier.call
        for at, earlier in enumerate(calls)
        for later in calls[at + 1 :]
    )


@pytest.mark.parametrize("model", ["cas-register", "mutex", "kv"])
def test_the_longest_order_is_valid_and_has_all_that_returned_before_the_stuck_operation(model: str) -> None:
    histories = [random_history(model, random.Random(seed)) for seed in range(1000)]
    seen = 0
    for seed, problem in enumerate(problems(model, histories)):
        if problem is None or not isinstance(problem.evidence, Order):
            continue
        by_call = {call.call: call for call in calls_of(histories[seed])}
        placed = [by_call[index] for index in problem.evidence.order]
        end = by_call[problem.evidence.stuck].back
        returned = {call.call for call in by_call.values() if call.back is not None and end and call.back < end}
        assert respects_real_time(placed), f"seed {seed}"
        assert is_explained(placed, model), f"seed {seed}"
        assert returned <= {call.call for call in placed}, f"seed {seed}"
        assert problem.evidence.needs[0].operation == problem.evidence.stuck
        assert not {need.operation for need in problem.evidence.needs} & set(problem.evidence.order)
        seen += len(placed) > 1
    assert seen > 15


def test_evidence_has_the_end_of_a_long_order_and_the_number_before() -> None:
    pairs = [pair for number in range(100) for pair in (write(0, number % 3), read(1, number % 3))]
    ops = history(*(op for pair in pairs for op in pair), *read(1, 1))
    [problem] = problems("register", [ops])
    assert problem is not None
    assert isinstance(problem.evidence, Order)
    assert (problem.evidence.before, len(problem.evidence.order), problem.evidence.stuck) == (160, 40, 400)
    assert problem.evidence.order == tuple(range(320, 400, 2))
    assert (problem.evidence.needs, problem.evidence.leaves) == ((Need(400, "needs 1"),), "0")


SWAP = Op("invoke", "cas", 1, "x", [1, 2])
REFUSED = Op("invoke", "cas", 2, "x", [2, 5])
PENDING = Op("invoke", "write", 3, "x", 4)


def test_operations_open_at_the_end_of_the_order_name_their_needs() -> None:
    ops = history(*write(0, 1), *write(0, 1), SWAP, REFUSED, PENDING, *read(0, 7), SWAP.ok(), REFUSED.fail("mismatch"))
    [problem] = problems("cas-register", [ops])
    assert problem is not None
    assert isinstance(problem.evidence, Order)
    needs = {need.operation: need.words for need in problem.evidence.needs}
    assert needs == {7: "needs 7", 4: "needs 1, leaves 2", 5: "needs other than 2", 6: "leaves 4"}


ZONED = {
    "two values hold at once": (
        "register", [*write(0, 1), *write(0, 2), *read(1, 2), *read(1, 1)], (Zone("1", 1, 6), Zone("2", 3, 4)),
    ),
    "the initial value is seen late": (
        "register", [*write(0, 1), *read(1, None)], (Zone("nil", -1, 2), Zone("1", 1, 0)),
    ),
    "a chain of swaps is one zone": (
        "cas-register", [*write(0, 1), SWAP, SWAP.ok(), *write(0, 3), *read(1, 2)],
        (Zone("1 … 2", 1, 6), Zone("3", 5, 4)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ZONED)
def test_zones_are_evidence_when(name: str) -> None:
    model, ops, zones = ZONED[name]
    [problem] = problems(model, [history(*ops)])
    assert problem is not None
    assert problem.evidence == Zones(zones)


def test_zones_of_a_register_end_at_witnesses() -> None:
    found = 0
    for seed in range(40):
        [problem] = problems("cas-register", [stale_read(sequential_history("cas-register", random.Random(seed), 60))])
        if problem is not None and isinstance(problem.evidence, Zones):
            ends = {end for zone in problem.evidence.zones for end in (zone.first_return, zone.last_call)}
            assert ends - {-1} <= set(problem.rows), f"seed {seed}"
            found += 1
    assert found > 10


EVIDENCE: list[Evidence] = [
    Zones((Zone('"ä"', -1, 4), Zone("2", 7, 3))),
    Order((1, 4), 7, 9, (Need(9, "needs 3"), Need(8, "leaves 4")), "5"),
    Order((), 0, 9, (Need(9, "needs 3"),)),
    Cycle((CycleStep(0, 1, "wr", "x", "1"), CycleStep(1, 0, "realtime"))),
]


@pytest.mark.parametrize("evidence", EVIDENCE, ids=lambda each: type(each).__name__)
def test_evidence_survives_encoding(evidence: Evidence) -> None:
    assert decoded(encoded(evidence)) == evidence


@pytest.mark.spark
def test_a_finding_keeps_its_zones_through_spark(find_in_run: FindInRun) -> None:
    [finding] = find_in_run("register", history(*write(0, 1), *write(0, 2), *read(1, 2), *read(1, 1)), [])
    assert finding.evidence is not None
    assert decoded(finding.evidence) == Zones((Zone("1", 1, 6), Zone("2", 3, 4)))


@pytest.mark.spark
def test_a_cycle_keeps_its_edges_through_spark(find_in_run: FindInRun) -> None:
    writer = Op("invoke", "txn", 0, value=[["append", "x", 1], ["append", "y", 1]])
    reader = Op("invoke", "txn", 1, value=[["r", "x", None], ["r", "y", None]])
    later = Op("invoke", "txn", 2, value=[["r", "y", None]])
    ops = [
        writer,
        reader,
        later,
        writer.ok(),
        reader.ok([["r", "x", [1]], ["r", "y", []]]),
        later.ok([["r", "y", [1]]]),
    ]
    [finding] = find_in_run("transactions", history(*ops), [])
    assert finding.evidence is not None
    assert decoded(finding.evidence) == Cycle((CycleStep(0, 1, "wr", "x", "1"), CycleStep(1, 0, "rw", "y", None, "1")))
