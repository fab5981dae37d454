"""A simulation takes a state change for what the log parser would read in the node's log line."""

from __future__ import annotations

import random

import pytest

from nodes.observe.log_lines import LogEvent, parse_text
from nodes.reference.core.events import StateChange
from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.reference import cluster as reference_cluster
from nodes.simulation.reference.cluster import ReferenceCluster
from nodes.simulation.reference.state_changes import state_change

NODES = (1, 2, 3)
STATES = {"Unattached", "Follower", "Prospective", "Candidate", "Leader", "Resigned"}
FAULTS = ("cut", "restore", "restart", "stop")


def test_each_state_change_is_what_its_log_line_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[str | None, str | None]] = set()

    def compared(change: StateChange) -> LogEvent:
        event = state_change(change)
        assert event == parse_text(0, change.note.text)
        seen.add((event.previous, event.state))
        return event

    monkeypatch.setattr(reference_cluster, "state_change", compared)
    for seed in range(20):
        _run(seed)
    assert {after for _, after in seen} == STATES
    assert {before for before, _ in seen} == {None, *STATES}


def _run(seed: int) -> None:
    """Ten virtual seconds with cuts, restarts and shutdowns."""
    choice = random.Random(seed)
    switches = {node: {"reference.pre_vote": "false"} if seed % 2 else {} for node in NODES}
    cluster = ReferenceCluster(SimulationSpec(seed, len(NODES), switches=switches), lambda _observation: None)
    for node in NODES:
        cluster.start(node)
    while cluster.now_ms < 10_000:
        node, fault = choice.choice(NODES), choice.choice(FAULTS)
        if fault == "cut":
            cluster.cut([link for peer in NODES if peer != node for link in ((node, peer), (peer, node))])
        elif fault == "restore":
            cluster.restore()
        elif fault == "restart":
            cluster.kill(node)
            cluster.start(node)
        elif cluster.status(node) is not None:
            cluster.stop(node)
        end_ms = cluster.now_ms + choice.choice((100, 500, 1_500))
        while cluster.now_ms < end_ms:
            cluster.advance(end_ms)
