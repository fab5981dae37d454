"""The choice of the leader, compared with the proposal's rule and with what would be lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.unclean_recovery.choice import ReplicaLog, choose

CASES = {
    # case: assignment, logs, choice
    "UR-07: the highest epoch, then the longest log": (
        [3, 4, 5],
        {3: ReplicaLog(3, 40), 4: ReplicaLog(4, 30), 5: ReplicaLog(4, 35)},
        5,
    ),
    "UR-08: only the current epoch is known": ([3, 4], {3: ReplicaLog(7, 100), 4: ReplicaLog(7, 60)}, 3),
    "UR-08: the epoch of the last record is known": (
        [3, 4],
        {3: ReplicaLog(7, 100, 5), 4: ReplicaLog(7, 60, 7)},
        4,
    ),
    "UR-08: it is known of one only": ([3, 4], {3: ReplicaLog(7, 100), 4: ReplicaLog(7, 60, 7)}, 3),
    "UR-03: an empty log of a later epoch": ([5, 3], {5: ReplicaLog(9, 0), 3: ReplicaLog(7, 50)}, 3),
    "nothing but empty logs": ([5, 3], {5: ReplicaLog(7, 0), 3: ReplicaLog(8, 0)}, 3),
    "a tie": ([4, 3, 5], {3: ReplicaLog(7, 50), 4: ReplicaLog(7, 50), 5: ReplicaLog(7, 49)}, 4),
    "the best has an error": ([3, 4], {3: ReplicaLog(error="KAFKA_STORAGE_ERROR"), 4: ReplicaLog(1, 1)}, 4),
    "the best did not answer": ([3, 4], {4: ReplicaLog(1, 1)}, 4),
    "nobody answered": ([3, 4], {}, None),
    "no replicas": ([], {3: ReplicaLog(7, 9)}, None),
    "the best is no replica": ([4], {3: ReplicaLog(7, 9), 4: ReplicaLog(1, 1)}, 4),
}


@pytest.mark.parametrize(("replicas", "logs", "expected"), CASES.values(), ids=CASES)
def test_choice(replicas: list[int], logs: dict[int, ReplicaLog], expected: int | None) -> None:
    assert choose(replicas, logs) == expected


BROKERS = st.integers(1, 6)
LOGS = st.builds(
    ReplicaLog,
    epoch=st.integers(0, 3),
    log_end_offset=st.integers(0, 4),
    last_written_epoch=st.none() | st.integers(-1, 3),
    error=st.sampled_from(["", "", "", "no answer"]),
)


@given(st.lists(BROKERS, unique=True, max_size=6), st.dictionaries(BROKERS, LOGS, max_size=6))
def test_nobody_would_have_been_a_better_choice(replicas: list[int], logs: dict[int, ReplicaLog]) -> None:
    chosen = choose(replicas, logs)
    candidates = {broker: logs[broker] for broker in replicas if broker in logs and logs[broker].error == ""}
    assert (chosen is None) == (not candidates)
    if chosen is None:
        return
    assert chosen in candidates
    best = logs[chosen]
    by_record = None not in {each.last_written_epoch for each in candidates.values()}
    for broker, other in candidates.items():
        epochs = (other.last_written_epoch, best.last_written_epoch) if by_record else (other.epoch, best.epoch)
        if other.log_end_offset == 0 or best.log_end_offset == 0:
            assert other.log_end_offset == 0 or best.log_end_offset > 0
        if (other.log_end_offset > 0) == (best.log_end_offset > 0):
            assert epochs[0] <= epochs[1]  # type: ignore[operator]
            assert epochs[0] != epochs[1] or other.log_end_offset <= best.log_end_offset
            is_equal = epochs[0] == epochs[1] and other.log_end_offset == best.log_end_offset
            assert not is_equal or replicas.index(chosen) <= replicas.index(broker)


@given(st.lists(BROKERS, unique=True, min_size=2, max_size=6), st.data())
def test_order_of_the_assignment_decides_only_between_equals(replicas: list[int], data: st.DataObject) -> None:
    logs = {broker: data.draw(LOGS) for broker in replicas}
    one, other = choose(replicas, logs), choose(list(reversed(replicas)), logs)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert logs[one].log_end_offset == logs[other].log_end_offset
