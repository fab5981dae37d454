"""The contents of a report from literal histories and observations."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import plugins
from harness.chunks import read_table
from harness.engine import Recorder, VirtualClock
from harness.model import NEMESIS, BadInput, Finding, Observation, Op, Verdict
from harness.model.records.fault_intervals import (
    FaultInterval,
    Injections,
    fault_intervals,
    injections,
    spans_of,
)
from harness.model.records.tables import HISTORY
from results.data import EpochStep, LatencyPoint, SecondOfLoad, StateSpan
from results.reading.load import BUCKETS, latencies_of, load_by_second, quantiles_over_time, thinned
from results.reading.sides import read_side
from results.reading.spans import epoch_steps, state_spans
from results.run_verdict import RunVerdict, read_verdict, write_verdict
from results.store import RunDirectory, new_run
from tests.support.descriptions import DESCRIPTION


def transition(time_ns: int, node: int, previous: str, state: str, epoch: int) -> Observation:
    return Observation(time_ns, node, "log", "transition", state, previous, epoch)


def test_span_lasts_from_one_transition_to_the_next_or_the_end() -> None:
    observations = [transition(10, 1, "Unattached", "Candidate", 1), transition(15, 1, "Candidate", "Leader", 1)]
    assert state_spans(observations, end_ns=100) == (
        StateSpan(1, "Unattached", None, 0, 10),
        StateSpan(1, "Candidate", 1, 10, 15),
        StateSpan(1, "Leader", 1, 15, 100),
    )


def test_node_is_down_from_its_stop_to_its_start() -> None:
    observations = [
        Observation(0, 2, "process", "started"),
        transition(10, 2, "Unattached", "Follower", 3),
        Observation(50, 2, "process", "stopped", detail="SIGKILL"),
        Observation(70, 2, "process", "started"),
        transition(75, 2, "Unattached", "Follower", 4),
    ]
    assert state_spans(observations, end_ns=100) == (
        StateSpan(2, "Unattached", None, 0, 10),
        StateSpan(2, "Follower", 3, 10, 50),
        StateSpan(2, "Down", None, 50, 70),
        StateSpan(2, "Unattached", None, 70, 75),
        StateSpan(2, "Follower", 4, 75, 100),
    )


def test_transitions_to_the_same_state_are_merged_into_one_span() -> None:
    observations = [transition(30, 1, "Follower", "Follower", 1), transition(10, 1, "Unattached", "Follower", 1)]
    assert state_spans(observations, end_ns=40)[1:] == (StateSpan(1, "Follower", 1, 10, 40),)


def claim(time_ns: int, node: int, epoch: int) -> Observation:
    return Observation(time_ns, node, "zookeeper", "claim", epoch=epoch, leader=node)


def test_node_of_a_system_without_transitions_leads_while_it_claims_to() -> None:
    second = 1_000_000_000
    observations = [
        Observation(0, 1, "process", "started"),
        *(claim(at * second, 1, epoch=1) for at in (1, 2, 3)),
        Observation(3 * second, 1, "process", "stopped"),
        *(claim(at * second, 2, epoch=2) for at in (5, 6, 9, 10)),
    ]
    spans = state_spans(observations, end_ns=12 * second)
    assert [(span.node, span.state, span.epoch, span.start_ns // second, span.end_ns // second) for span in spans] == [
        (1, "Leader", 1, 1, 3),
        (1, "Down", None, 3, 12),
        (2, "Leader", 2, 5, 6),
        (2, "Leader", 2, 9, 10),
    ]


def test_claims_add_nothing_to_transitions() -> None:
    observations = [transition(10, 1, "Candidate", "Leader", 1), claim(20, 1, 1), claim(30, 1, 1)]
    assert state_spans(observations, end_ns=40)[-1] == StateSpan(1, "Leader", 1, 10, 40)


def test_epoch_steps_come_from_observations_of_any_source() -> None:
    observations = [
        transition(10, 1, "Unattached", "Candidate", 1),
        Observation(12, 1, "quorum-state", "durable", epoch=1),
        Observation(30, 1, "describe-quorum", "claim", epoch=3),
        Observation(31, 1, "describe-quorum", "silence"),
    ]
    assert epoch_steps(observations) == (EpochStep(1, 1, 10), EpochStep(1, 3, 30))


def nemesis_op(time_ns: int, f: str, value: object = None, error: str | None = None) -> Op:
    return Op("info", f, NEMESIS, value=value, error=error, time_ns=time_ns)


def test_fault_lasts_from_its_injection_until_it_is_healed() -> None:
    history = [
        nemesis_op(10, "cut", {"nodes": [2]}),
        nemesis_op(12, "cut", "n2 cut from all"),
        Op("invoke", "write", 0, time_ns=20),
        nemesis_op(30, "heal"),
        nemesis_op(34, "heal"),
    ]
    assert fault_intervals(history, 99, plugins.ops()) == (FaultInterval("n2 cut from all", 10, 34),)


def test_start_ends_a_kill_but_not_a_cut() -> None:
    ops = [("cut", "a"), ("cut", "a"), ("kill", "b"), ("kill", "b"), ("start", None), ("start", None)]
    history = [nemesis_op(time_ns, f, value) for time_ns, (f, value) in enumerate(ops, start=1)]
    assert fault_intervals(history, 99, plugins.ops()) == (FaultInterval("a", 1, 99), FaultInterval("b", 3, 6))


def test_mark_has_no_duration() -> None:
    assert fault_intervals([nemesis_op(7, "mark", "reading back")], 99, plugins.ops()) == (
        FaultInterval("reading back", 7, 7, momentary=True),
    )


def test_membership_change_is_momentary_and_waiting_is_no_fault() -> None:
    history = [
        nemesis_op(10, "remove_voter", {"who": "leader"}),
        nemesis_op(18, "remove_voter", {"label": "n1 removed"}),
        nemesis_op(20, "await_membership"),
        nemesis_op(30, "await_membership"),
    ]
    assert fault_intervals(history, 99, plugins.ops()) == (FaultInterval("n1 removed", 10, 18, momentary=True),)


def test_injections_count_faults_by_name_with_those_without_effect() -> None:
    completed = [("cut", None), ("kill", None), ("start", None), ("stop", "still running"), ("await", "too late")]
    history = [
        nemesis_op(at, f, error=each) for at, (f, error) in enumerate(completed, start=1) for each in (None, error)
    ]
    history += [nemesis_op(90, "mark", "reading back"), nemesis_op(91, "heal"), nemesis_op(92, "heal")]
    history += [nemesis_op(93, "pause")]
    assert injections(history, plugins.ops()) == (
        Injections("partition", 1, 0),
        Injections("kill", 1, 1),
        Injections("pause", 0, 1),
    )


def links(*pairs: tuple[int, int], label: str = "cut") -> dict[str, Any]:
    return {"links": [list(pair) for pair in pairs], "label": label}


def test_partition_ends_when_all_of_its_links_are_healed() -> None:
    history = [
        *(nemesis_op(1, "cut", {"who": "n1"}), nemesis_op(2, "cut", links((1, 2), (1, 3)))),
        *(nemesis_op(3, "heal_links", links((1, 2))), nemesis_op(4, "heal_links", links((1, 2)))),
        *(nemesis_op(5, "heal_links", links((1, 3), (2, 3))), nemesis_op(6, "heal_links", links((1, 3), (2, 3)))),
    ]
    assert fault_intervals(history, 99, plugins.ops()) == (FaultInterval("cut", 1, 6),)


def test_start_ends_the_kill_of_its_own_nodes_only() -> None:
    history = [
        *(nemesis_op(1, "kill", {"who": "n1"}), nemesis_op(2, "kill", {"nodes": [1], "label": "n1 killed"})),
        *(nemesis_op(3, "kill", {"who": "n2"}), nemesis_op(4, "kill", {"nodes": [2], "label": "n2 killed"})),
        *(nemesis_op(5, "start", {"who": "n2"}), nemesis_op(6, "start", {"nodes": [2], "label": "n2 started"})),
    ]
    assert fault_intervals(history, 99, plugins.ops()) == (
        FaultInterval("n1 killed", 1, 99),
        FaultInterval("n2 killed", 3, 6),
    )


def test_overlapping_fault_intervals_are_merged() -> None:
    intervals = [
        FaultInterval("a", 1, 4),
        FaultInterval("mark", 2, 2),
        FaultInterval("b", 3, 6),
        FaultInterval("c", 8, 9),
        FaultInterval("d", 9, 11),
    ]
    assert spans_of(intervals) == ((1, 6), (8, 11))
    assert spans_of(intervals[1:2]) == ()


def test_label_without_text_is_the_value_and_its_length_is_limited() -> None:
    [interval] = fault_intervals([nemesis_op(1, "skew", {"seconds": list(range(50))})], 9, plugins.ops())
    assert interval.label.startswith('skew {"seconds": [0, 1,')
    assert len(interval.label) == 48


def history_table(*rows: tuple[int, int, str]) -> pa.Table:
    """Rows of (time_ns, process, type)."""
    return pa.Table.from_pylist(
        [
            {"index": index, "time_ns": time_ns, "process": process, "type": kind, "f": "write"}
            for index, (time_ns, process, kind) in enumerate(rows)
        ],
        schema=HISTORY,
    )


def test_latency_is_the_time_from_invocation_to_completion() -> None:
    table = history_table(
        (0, 0, "invoke"), (1_000_000, 1, "invoke"), (2_000_000, 1, "fail"), (5_000_000, 0, "ok"), (9, -1, "info")
    )
    assert set(latencies_of(table)) == {LatencyPoint(0, 5.0, "ok"), LatencyPoint(1_000_000, 1.0, "fail")}


def test_thinned_latencies_include_the_slowest() -> None:
    rows = []
    for number in range(20_000):
        rows += [(number * 1000, 0, "invoke"), (number * 1000 + (900 if number == 12_345 else 100), 0, "ok")]
    points = thinned(latencies_of(history_table(*rows)))
    assert len(points) <= 2 * BUCKETS
    assert LatencyPoint(12_345_000, 0.0009, "ok") in points


def test_quantiles_are_of_ok_operations_by_period() -> None:
    points = [LatencyPoint(1000 * at, 1.0 if at < 50 else float(at), "ok") for at in range(150)]
    points += [LatencyPoint(1000 * at, 9999.0, "info") for at in range(150)]
    quantiles = quantiles_over_time(points)
    assert len(quantiles) == 7
    assert (quantiles[0].p50_ms, quantiles[0].p99_ms) == (1.0, 1.0)
    assert quantiles[-1].p50_ms == pytest.approx(139, abs=1)
    assert all(each.p50_ms <= each.p95_ms <= each.p99_ms < 150 for each in quantiles)
    assert quantiles_over_time(points[:19]) == ()


def test_load_counts_completions_per_second_including_idle_seconds() -> None:
    second = 1_000_000_000
    table = history_table((0, 0, "invoke"), (5, 0, "ok"), (6, 0, "invoke"), (2 * second, 0, "info"), (3, -1, "info"))
    assert load_by_second(table) == (SecondOfLoad(0, 1, 0, 0), SecondOfLoad(1, 0, 0, 0), SecondOfLoad(2, 0, 0, 1))
    assert load_by_second(history_table((3, -1, "info"))) == ()


@pytest.fixture
def judged_run(tmp_path: Path) -> RunDirectory:
    """A recorded run of ten writes during a cut, with the verdict that the sixth is lost."""
    run = new_run(tmp_path, "PV-01", datetime(2026, 11, 21, tzinfo=UTC))
    clock = VirtualClock()
    with Recorder(run.path, clock) as recorder:
        recorder.observe(transition(5, 1, "Candidate", "Leader", 1))
        for op in [nemesis_op(0, "cut"), nemesis_op(0, "cut", "n2 cut from all")]:
            recorder.record(op)
        for number in range(10):
            clock.time_ns += 10
            recorder.record(invocation := Op("invoke", "write", 0, "k1", {"n": number}))
            clock.time_ns += 10
            recorder.record(invocation.ok())
    lost = Finding("appends", "lost-write", "invalid", "A write is lost.", witnesses=(12,))
    write_verdict(run, RunVerdict("PV-01", Verdict.INVALID, "a write is lost", findings=(lost,) * 30))
    return run


def test_side_is_read_from_a_recorded_run(judged_run: RunDirectory) -> None:
    side = read_side(judged_run, "bad", DESCRIPTION, plugins.ops(), read_verdict(judged_run.verdict))
    assert (side.headline, side.duration_ns, side.nodes) == ("invalid", 200, (1,))
    assert side.spans[-1] == StateSpan(1, "Leader", 1, 5, 200)
    assert side.faults == (FaultInterval("n2 cut from all", 0, 200),)
    assert side.load == (SecondOfLoad(0, 10, 0, 0),)
    [kind] = side.kinds
    assert (kind.name, kind.count, len(kind.shown)) == ("lost-write", 30, 10)


def test_finding_is_shown_with_the_rows_around_its_witness(judged_run: RunDirectory) -> None:
    shown = read_side(judged_run, "bad", DESCRIPTION, plugins.ops(), read_verdict(judged_run.verdict)).findings[0]
    assert [(op.index, op.type, op.value) for op in shown.ops] == [
        (10, "invoke", {"n": 4}),
        (11, "ok", {"n": 4}),
        (12, "invoke", {"n": 5}),
        (13, "ok", {"n": 5}),
        (14, "invoke", {"n": 6}),
    ]


def test_truncated_chunk_is_bad_input_with_its_name(judged_run: RunDirectory) -> None:
    chunk = judged_run.history / "00000001.parquet"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    with pytest.raises(BadInput, match=r"history/00000001\.parquet: expected a whole Parquet file"):
        read_side(judged_run, "bad", DESCRIPTION, plugins.ops(), read_verdict(judged_run.verdict))


def test_chunk_with_other_columns_is_bad_input_with_its_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"index": [1]}), tmp_path / "00000001.parquet")
    with pytest.raises(BadInput, match=r"00000001\.parquet: expected column time_ns of type int64, found no such"):
        read_table(tmp_path, HISTORY)


def test_run_without_a_verdict_is_bad_input(tmp_path: Path) -> None:
    run = new_run(tmp_path, "PV-01", datetime(2026, 11, 21, tzinfo=UTC))
    with pytest.raises(BadInput, match=r"verdict\.json: expected a JSON file, found no such file"):
        read_side(run, "bad", DESCRIPTION, plugins.ops(), read_verdict(run.verdict))
