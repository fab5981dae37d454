"""Calm spans of a run, and what a quorum must achieve in them; the spans agree with a plain twin on random runs."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.framework.tables import configure_for
from checkers.quorum.liveness import LIMIT_NS, SPANS, ProcessEvent, Quorum, Span, calm_spans, gaps, nothing_committed
from checkers.twins import liveness as twins
from harness import plugins
from harness.model import NEMESIS, Finding, Observation, Op
from tests.support.checks.on_spark import collected_by_case, observation_table
from tests.support.checks.run_types import FindInRun
from tests.support.checks.small_histories import history

S = 1_000_000_000
VOTERS = (1, 2, 3)
QUORUM = Quorum(VOTERS, 2)
STARTED = [ProcessEvent(0, node, True) for node in VOTERS]


def done(second: float, f: str, *nodes: int, error: str | None = None) -> list[Op]:
    """An operation of the nemesis on these nodes, or on the links from each to the next, that lasts 0.1 s."""
    of_links = [[node, node % 3 + 1] for node in nodes]
    value = {"links": of_links} if f in ("cut", "heal_links") else {"nodes": list(nodes)}
    return [
        Op("info", f, NEMESIS, value=value, time_ns=round((second - 0.1) * S)),
        Op("info", f, NEMESIS, value=value, time_ns=round(second * S), error=error),
    ]


def spans(
    operations: Sequence[Op], processes: Sequence[ProcessEvent] = (), end: float = 60, quorum: Quorum = QUORUM
) -> list[tuple[Any, ...]]:
    """The calm spans in seconds, with the voters that run."""
    found = calm_spans(operations, [*STARTED, *processes], quorum, round(end * S), plugins.ops())
    return [(each.begin_ns / S, each.end_ns / S, each.voters) for each in found]


def test_time_without_faults_is_calm() -> None:
    assert spans([]) == [(0, 60, VOTERS)]


def test_fault_other_than_a_dead_process_ends_a_span_until_all_is_healed() -> None:
    cut = done(10, "cut", 1)
    assert spans(cut) == [(0, 9.9, VOTERS)]
    assert spans([*cut, *done(20, "heal")]) == [(0, 9.9, VOTERS), (20, 60, VOTERS)]
    assert spans([*cut, *done(20, "heal", error="a link is still cut")]) == [(0, 9.9, VOTERS)]


def test_links_are_healed_one_by_one_too() -> None:
    first = [*done(10, "cut", 1, 2), *done(20, "heal_links", 1)]
    assert spans(first) == [(0, 9.9, VOTERS)]
    assert spans([*first, *done(30, "heal_links", 2, 3)]) == [(0, 9.9, VOTERS), (30, 60, VOTERS)]


def test_minority_may_be_dead_or_paused() -> None:
    assert spans([], [ProcessEvent(10 * S, 1, False)]) == [(0, 10, VOTERS), (10, 60, (2, 3))]
    assert spans([], [ProcessEvent(10 * S, node, False) for node in (1, 2)]) == [(0, 10, VOTERS)]
    paused = spans([*done(10, "pause", 2), *done(20, "resume", 2)])
    assert paused == [(0, 9.9, VOTERS), (10, 19.9, (1, 3)), (20, 60, VOTERS)]


def test_all_nodes_have_to_run_where_the_voters_changed() -> None:
    stopped = [ProcessEvent(10 * S, 1, False), ProcessEvent(30 * S, 1, True)]
    assert spans([], stopped, quorum=Quorum(VOTERS, 3)) == [(0, 10, VOTERS), (30, 60, VOTERS)]


def test_momentary_operation_only_divides_a_span() -> None:
    assert spans(done(10, "lead", 2)) == [(0, 9.9, VOTERS), (10, 60, VOTERS)]


def random_run(source: random.Random) -> tuple[list[Op], list[ProcessEvent], int]:
    fs = ("cut", "cut", "heal_links", "heal_links", "heal", "pause", "resume", "lead", "kill", "start", "skew")
    second, operations, processes = 0.0, [], []
    for _ in range(source.randint(0, 12)):
        second += source.uniform(0.2, 20)
        if source.random() < 0.5:
            operations += done(second, source.choice(fs), *source.sample(VOTERS, source.randint(0, 2)))
        else:
            processes.append(ProcessEvent(round(second * S), source.choice(VOTERS), source.random() < 0.5))
    return operations, processes, round((second + source.uniform(0, 20)) * S)


def test_calm_spans_agree_with_their_twin_on_random_runs() -> None:
    for seed in range(300):
        operations, processes, end_ns = random_run(random.Random(seed))
        found = list(calm_spans(operations, [*STARTED, *processes], QUORUM, end_ns, plugins.ops()))
        expected = twins.calm_moments(operations, [*STARTED, *processes], VOTERS, end_ns)
        assert [(each.begin_ns, each.end_ns, each.voters) for each in found] == expected, seed


def claim(second: float, node: int, mark: int, end: int) -> Observation:
    return Observation(
        round(second * S), node, "describe-quorum", "claim",
        epoch=1, leader=node, high_watermark=mark, log_end_offset=end,
        detail=json.dumps({"voters": dict.fromkeys(VOTERS, end)}),
    )  # fmt: skip


def started(second: float = 0, shown: float = 0) -> list[Observation]:
    """All nodes are started at a second and show a state at another one."""
    return [
        *(Observation(round(second * S), node, "process", "started") for node in VOTERS),
        *(Observation(round(shown * S), node, "log", "transition", "Unattached", epoch=0) for node in VOTERS),
    ]


def test_majority_that_elects_no_leader_is_found(find_in_run: FindInRun) -> None:
    seen = [*started(), *(claim(second, 1, second, second) for second in range(20))]
    seen += [Observation(20 * S, 1, "process", "stopped"), Observation(50 * S, 2, "log", "note", detail="the end")]
    [found] = find_in_run("liveness", history(), seen)
    assert (found.name, found.severity, found.time_ns) == ("no-leader-elected", "invalid", 20 * S)
    assert "for 30 s none led, while nodes 2, 3 ran and reached each other" in found.message


@pytest.mark.parametrize(("shown", "names"), [(22, ["no-leader-elected"]), (38, [])], ids=["at once", "late"])
def test_quorum_has_its_time_from_when_the_nodes_show_a_state(
    find_in_run: FindInRun, shown: float, names: list[str]
) -> None:
    seen = [*started(), *(claim(second, 1, second, second) for second in range(20))]
    seen += [Observation(20 * S, node, "process", "stopped") for node in VOTERS]
    seen += [*started(21, shown), Observation(40 * S, 2, "log", "transition", "Leader", "Candidate", epoch=2)]
    assert [each.name for each in find_in_run("liveness", history(), seen)] == names


def after_a_removal(*names: str) -> tuple[list[Op], list[Observation]]:
    """Nobody leads from 20 s to 50 s, after the voters have changed; and operations of these names before."""
    seen = [*started(), *(claim(second, 1, second, second) for second in range(19))]
    fewer = json.dumps({"voters": {"2": 19, "3": 19}})
    seen += [replace(claim(19, 1, 19, 19), detail=fewer), Observation(50 * S, 2, "log", "note", detail="the end")]
    return history(*(op for at, name in enumerate(names, start=12) for op in done(at, name, 1))), seen


def test_quorum_whose_voters_changed_elects_a_leader_while_all_nodes_run(find_in_run: FindInRun) -> None:
    [found] = find_in_run("liveness", *after_a_removal("remove_voter"))
    assert (found.name, found.time_ns) == ("no-leader-elected", 19 * S)
    assert "for 31 s none led, while nodes 1, 2, 3 ran and reached each other" in found.message


def test_nothing_is_said_of_changed_voters_after_a_lost_disk(find_in_run: FindInRun) -> None:
    assert find_in_run("liveness", *after_a_removal("lose_disk", "remove_voter")) == []


def test_leader_in_time_is_right(find_in_run: FindInRun) -> None:
    seen = [*started(), Observation(14 * S, 2, "log", "transition", state="Leader", epoch=1)]
    seen += [claim(second, 2, second, second) for second in range(15, 40)]
    assert find_in_run("liveness", history(), seen) == []


def test_nothing_is_said_while_a_fault_is_in_place(find_in_run: FindInRun) -> None:
    seen = [*started(), *(claim(second, 1, second, second) for second in range(10)), claim(60, 1, 10, 10)]
    assert find_in_run("liveness", history(*done(10, "cut", 1)), seen) == []


def of_epoch(seen: Observation, epoch: int) -> Observation:
    return replace(seen, epoch=epoch)


def test_leader_that_was_replaced_and_goes_on_is_found(find_in_run: FindInRun) -> None:
    old = [claim(second, 1, 5, 5) for second in range(30)]
    new = [of_epoch(claim(second, 2, 6, 6), 2) for second in range(12, 30)]
    [found] = find_in_run("liveness", history(*done(5, "cut", 1)), [*started(), *old, *new])
    assert (found.name, found.node, found.time_ns) == ("leader-not-resigned", 1, 13 * S)
    assert "node 1 claimed to lead epoch 1 for 16 s after it had been replaced" in found.message


def test_leader_that_was_paused_may_claim_once_more(find_in_run: FindInRun) -> None:
    old = [claim(second, 1, 5, 5) for second in (*range(8), 40)]
    new = [of_epoch(claim(second, 2, 6, 6), 2) for second in range(12, 41)]
    assert find_in_run("liveness", history(*done(8, "pause", 1)), [*started(), *old, *new]) == []


COMMITS = {
    "nothing": ([claim(second, 1, 5, 9) for second in range(30)], ["nothing-committed"]),
    "all that was appended": ([claim(second, 1, 5, 5) for second in range(30)], []),
    "more and more": ([claim(second, 1, second, 99) for second in range(30)], []),
    "nothing, for a short time": ([claim(second, 1, 5, 9) for second in range(12)], []),
    "nothing before its first commit": ([claim(second, 1, -1, 9) for second in range(30)], ["nothing-committed"]),
}


@pytest.fixture(scope="module")
def commits_found(spark: SparkSession) -> dict[str, list[Finding]]:
    configure_for(spark, rows=1)
    span = spark.createDataFrame([(0, 0, 30 * S, "1, 2, 3")], SPANS)
    return collected_by_case(
        {name: nothing_committed(observation_table(spark, seen), span) for name, (seen, _) in COMMITS.items()}
    )


@pytest.mark.parametrize("name", COMMITS)
def test_leader_commits(name: str, commits_found: dict[str, list[Finding]]) -> None:
    assert [each.name for each in commits_found[name]] == COMMITS[name][1]


def test_gaps_agree_with_their_twin_on_random_signs(spark: SparkSession) -> None:
    source = random.Random(4)
    own = sorted(source.sample(range(0, 4000, 20), 60))
    calm = [Span(begin * S, end * S, VOTERS) for begin, end in zip(own[::2], own[1::2], strict=True)]
    signs = sorted(source.randint(0, 4000) * S for _ in range(150))
    configure_for(spark, rows=len(signs))
    frame = spark.createDataFrame([(0, each.begin_ns, each.end_ns, "") for each in calm], SPANS)
    found = gaps(spark.createDataFrame([(0, each) for each in signs], "run int, time_ns long"), frame).collect()
    expected = twins.gaps(signs, calm, LIMIT_NS)
    assert sorted((row.from_ns, row.to_ns) for row in found) == expected
    assert len(expected) > 8
