"""A reproduction's report as a literal value: a follower is isolated for ten seconds, with and without Pre-Vote."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from harness.model import Finding, Op, Quantity
from harness.model.records.fault_intervals import FaultInterval
from results.data import (
    EpochStep,
    LatencyPoint,
    ReportData,
    SecondOfLoad,
    ShownFinding,
    ShownKind,
    SideData,
    StateSpan,
)
from results.run_verdict import ExpectationResult
from tests.support.descriptions import DESCRIPTION

SECOND = 1_000_000_000
INJECTION = "<script>alert('epoch & \"leader\"')</script>"


def span(node: int, state: str, epoch: int | None, start_s: float, end_s: float) -> StateSpan:
    return StateSpan(node, state, epoch, round(start_s * SECOND), round(end_s * SECOND))


def step(node: int, epoch: int, time_s: float) -> EpochStep:
    return EpochStep(node, epoch, round(time_s * SECOND))


def bad_spans() -> tuple[StateSpan, ...]:
    return (
        span(1, "Unattached", 0, 0.2, 1.4),
        span(1, "Candidate", 1, 1.4, 1.5),
        span(1, "Leader", 1, 1.5, 14.31),
        span(1, "Unattached", 7, 14.31, 14.9),
        span(1, "Follower", 8, 14.9, 20),
        span(2, "Unattached", 0, 0.2, 1.45),
        span(2, "Follower", 1, 1.45, 6),
        *(span(2, "Candidate", epoch, 6 + 1.4 * (epoch - 2), 6 + 1.4 * (epoch - 1)) for epoch in range(2, 8)),
        span(2, "Unattached", 8, 14.4, 14.95),
        span(2, "Follower", 8, 14.95, 20),
        span(3, "Unattached", 0, 0.2, 1.45),
        span(3, "Follower", 1, 1.45, 14.35),
        span(3, "Unattached", 7, 14.35, 14.6),
        span(3, "Candidate", 8, 14.6, 14.85),
        span(3, "Leader", 8, 14.85, 20),
    )


def good_spans() -> tuple[StateSpan, ...]:
    return (
        span(1, "Unattached", 0, 0.2, 1.3),
        span(1, "Prospective", 0, 1.3, 1.36),
        span(1, "Candidate", 1, 1.36, 1.42),
        span(1, "Leader", 1, 1.42, 20),
        span(2, "Unattached", 0, 0.2, 1.45),
        span(2, "Follower", 1, 1.45, 6),
        span(2, "Prospective", 1, 6, 14.2),
        span(2, "Follower", 1, 14.2, 20),
        span(3, "Unattached", 0, 0.2, 1.45),
        span(3, "Follower", 1, 1.45, 17),
        span(3, "Down", None, 17, 18.4),
        span(3, "Unattached", 1, 18.4, 18.5),
        span(3, "Follower", 1, 18.5, 20),
    )


def load() -> tuple[SecondOfLoad, ...]:
    return tuple(SecondOfLoad(s, 190 + 9 * (s % 4), 0 if s != 14 else 60, 0 if s != 14 else 7) for s in range(20))


def latencies() -> tuple[LatencyPoint, ...]:
    fast = [LatencyPoint(n * SECOND // 20, 3 + 2 * math.sin(n * n), "ok") for n in range(400)]
    slow = [LatencyPoint(14 * SECOND + n * 40_000_000, 900 - 40 * n, "info" if n % 3 else "fail") for n in range(14)]
    return (*fast, *slow)


@pytest.fixture
def bad_side() -> SideData:
    finding = Finding(
        "quorum",
        "leader-deposed",
        "invalid",
        f"A healthy leader was deposed: n1 led epoch 1 with a majority fetching until n2 came back ({INJECTION}).",
        node=1,
        time_ns=14_310_000_000,
        witnesses=(4121,),
    )
    ops = tuple(
        Op(kind, "write", 3, "k1", index, 1, error, 4119 + index, 14_300_000_000 + index * 3_000_000)  # type: ignore[arg-type]
        for index, (kind, error) in enumerate(
            [("invoke", None), ("ok", None), ("invoke", None), ("info", "NOT_LEADER_OR_FOLLOWER"), ("invoke", None)]
        )
    )
    return SideData(
        name="bad",
        system="Kafka 3.9.1, three controllers",
        headline="anomaly shown, as expected",
        summary="a healthy leader was deposed and 7 epochs were burned",
        duration_ns=20 * SECOND,
        nodes=(1, 2, 3),
        spans=bad_spans(),
        epochs=(
            step(1, 0, 0.2),
            step(1, 1, 1.4),
            step(1, 7, 14.31),
            step(1, 8, 14.9),
            step(2, 0, 0.2),
            step(2, 1, 1.45),
            *(step(2, epoch, 6 + 1.4 * (epoch - 2)) for epoch in range(2, 8)),
            step(2, 8, 14.4),
            step(3, 0, 0.2),
            step(3, 1, 1.45),
            step(3, 7, 14.35),
            step(3, 8, 14.6),
        ),
        faults=(FaultInterval("n2 cut from all", 4 * SECOND, 14 * SECOND),),
        latencies=latencies(),
        load=load(),
        quantities=(
            Quantity("quorum", "epochs_per_minute", 21, "epochs/min"),
            Quantity("quorum", "commit_gap_ms", 620, "ms"),
            Quantity("a plugin", "lease_gap_ms", 540, "ms"),
            Quantity("quorum", "epochs_burned", 7, "epochs"),
        ),
        expectations=(
            ExpectationResult("a healthy leader is deposed", "deposed once, at 14.310 s", met=True),
            ExpectationResult("at least 2 epochs are burned", "epochs_burned = 7", True, "epochs_burned", 7),
        ),
        kinds=(ShownKind("leader-deposed", "invalid", 3, (ShownFinding(finding, ops),)),),
        versions={"kafka": "3.9.1", "splitbrain": "0.1.0"},
        description=DESCRIPTION,
    )


@pytest.fixture
def good_side() -> SideData:
    return SideData(
        name="good",
        system="Kafka 4.1.0, three controllers",
        headline="valid",
        summary="the leader stayed the same",
        duration_ns=20 * SECOND,
        nodes=(1, 2, 3),
        spans=good_spans(),
        epochs=(
            step(1, 0, 0.2),
            step(1, 1, 1.36),
            step(2, 0, 0.2),
            step(2, 1, 1.45),
            step(3, 0, 0.2),
            step(3, 1, 1.45),
        ),
        faults=(
            FaultInterval("n2 cut from all", 4 * SECOND, 14 * SECOND),
            FaultInterval("n3 paused", 13 * SECOND, 16 * SECOND),
            FaultInterval("n3 killed", 17 * SECOND, 18 * SECOND),
        ),
        quantities=(Quantity("quorum", "epochs_burned", 0, "epochs"),),
        expectations=(
            ExpectationResult("no healthy leader is deposed", "none deposed", met=True),
            ExpectationResult("no epoch is burned", "0 epochs", met=None),
        ),
        versions={"kafka": "4.1.0", "splitbrain": "0.1.0"},
        description=replace(DESCRIPTION, system="reference", side="good", seconds=19.1),
    )


@pytest.fixture
def report_data(bad_side: SideData, good_side: SideData) -> ReportData:
    return ReportData(
        title="PV-01: A follower that was cut off deposes the leader when it comes back",
        question="Does a voter that was partitioned from the rest depose a healthy leader on its return (KIP-996)?",
        headline="valid",
        answer="Reproduced: the leader is deposed on the bad side, and stays on the good side.",
        sides=(bad_side, good_side),
        plan='{\n  "seed": 42\n}',
        command="splitbrain reproduce PV-01 --seed 42",
    )
