"""Followers as whole brokers, over random histories of leader changes and logs that begin at different offsets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.reference.core.partitions.memory_log import MemoryLog
from tests.nodes.reference.partitions.lineages import Entry, Unclean, entries, unclean_histories
from tests.support.nodes.partition_simulation import PARTITION, PartitionSimulation

SWITCHES: dict[str, dict[str, Any]] = {
    "on-fetch": {"truncation": "on-fetch"},
    "kip-279": {"truncation": "kip-279"},
    "one batch a fetch": {"truncation": "on-fetch", "fetch_partition_bytes": 1},
}


def brokers_of(history: Unclean, **switches: Any) -> PartitionSimulation:
    """Brokers with the logs of a history; its leader leads once more."""
    simulation = PartitionSimulation(len(history.logs), **switches)
    for node, log in enumerate(history.logs, start=1):
        simulation.members[node].log = log
        simulation.members[node].stored_high_watermark = history.high_watermarks[node - 1]
        simulation.start(node)
    while simulation.metadata.leader_epoch <= history.epoch:
        simulation.elect(history.leader + 1, (history.leader + 1,))
    for node in simulation.members:
        simulation.inform(node)
    return simulation


def settle(simulation: PartitionSimulation) -> None:
    """Everything in flight arrives, and so does what follows from it."""
    for _ in range(500):
        if not simulation.flight:
            return
        simulation.deliver(simulation.flight[0])
    raise AssertionError(f"messages without an end: {simulation.flight}")


def readable(log: MemoryLog, start: int) -> list[Entry]:
    """The records from start on."""
    return [each for each in entries(log) if each.offset >= start]


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
@settings(max_examples=200, deadline=None)
@given(history=unclean_histories(), starts=st.lists(st.integers(0, 20), min_size=3, max_size=3))
def test_followers_have_the_leaders_log_in_the_end(
    switches: dict[str, Any], history: Unclean, starts: list[int]
) -> None:
    for log, start in zip(history.logs, starts, strict=False):
        log.advance_start(min(start, log.end_offset))
    simulation = brokers_of(history, **switches)
    settle(simulation)
    simulation.advance(500)  # fetches that wait are answered, with the start of the leader's log
    settle(simulation)
    leader = history.logs[history.leader]
    for node in simulation.members:
        log = simulation.members[node].log
        assert (log.end_offset, log.start_offset) == (leader.end_offset, max(log.start_offset, leader.start_offset))
        assert readable(log, log.start_offset) == readable(leader, log.start_offset)
        assert simulation.high_watermark(node) <= simulation.high_watermark(history.leader + 1)
        following = simulation.broker(node).following.get(PARTITION)
        assert following is None or following.is_settled
