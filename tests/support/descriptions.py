"""A literal description of a run, for tests of verdicts and reports."""

from __future__ import annotations

from harness.model.records.fault_intervals import Injections
from results.description import Judged, RunDescription

DESCRIPTION = RunDescription(
    workload="register",
    system="reference (pre_vote=false)",
    nodes=3,
    hosts="netns",
    seed=42,
    started="2026-11-21T05:17:00.123456+00:00",
    seconds=20.9,
    scenario="PV-01",
    side="bad",
    operations={"ok": 1_180, "fail": 20, "info": 4},
    judged=(
        Judged("register", "operation", 1_204, 5),
        Judged("availability", "operation", 1_204, 5),
        Judged("divergence", "record batch", 1),
        Judged("etcd-terms"),
    ),
    faults=(Injections("partition", 3, 0), Injections("kill", 2, 0)),
)
