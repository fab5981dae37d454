"""Random sequences of cuts, crashes and restarts: the protocol's invariants hold, and no read is stale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.reference.core.records.entities import ConfigRecord
from nodes.reference.core.records.metadata import decode
from nodes.reference.core.settings import READINGS
from nodes.wire.batches import heads, records
from tests.support.nodes.quorum_simulation import Operation, Simulation, is_ok, value_of

NODES = st.integers(1, 3)
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["isolate", "crash", "stop", "restart"]), NODES),
    st.tuples(st.sampled_from(["cut", "cut_one_way"]), NODES, NODES),
    st.tuples(st.just("heal")),
)
SWITCHES: dict[str, Mapping[str, Any]] = {
    "defaults": {},
    "lease": {"read_mode": "lease"},
    "no pre-vote": {"pre_vote": False},
    "reading=kip": READINGS["kip"],
    "reading=kafka": READINGS["kafka"],
    "new election": {"pre_vote": False, "leader_without_majority": "new-election"},
    "votes denied": {"pre_vote": False, "deny_votes_within_fetch_timeout": True},
    "other policies": {
        "end_quorum_grants": True,
        "prospective_follows": "begin-quorum",
        "starts_as_prospective": True,
    },
}
STEPS = st.lists(st.tuples(ACTIONS, st.integers(1, 4_000)), min_size=1, max_size=12)


def act(quorum: Simulation, action: tuple[Any, ...]) -> None:
    """Carry out one generated action, if it applies now."""
    name, *nodes = action
    is_up = quorum.members[nodes[0]].node is not None if nodes else False
    if name == "restart":
        if not is_up:
            quorum.restart(nodes[0])
    elif name == "cut":
        quorum.cut((nodes[0], nodes[1]))
    elif name != "stop" or is_up:
        getattr(quorum, name)(*nodes)


def load(quorum: Simulation, duration_ms: int, writes: list[Operation], reads: list[Operation]) -> None:
    """Every 20 ms, send a write of a new value and a read to each node that considers itself the leader."""
    for _ in range(max(1, duration_ms // 20)):
        for node, member in quorum.members.items():
            if member.node is not None and member.node.leader_id == node:
                writes.append(quorum.write(node, "k", str(len(writes))))
                reads.append(quorum.read(node, "k"))
        quorum.run(20)


def stale_reads(quorum: Simulation, writes: list[Operation], reads: list[Operation]) -> list[str]:
    """The reads that missed a write acknowledged before they were invoked."""
    rows = [record for batch in quorum.committed for head in heads(batch) for record in records(batch, head)]
    positions = {each.value: at for at, each in enumerate(map(decode, rows)) if isinstance(each, ConfigRecord)}
    acknowledged = [
        (write.completed_ms or 0, positions[write.request.changes[0].value]) for write in writes if is_ok(write)
    ]
    stale = []
    for read in filter(is_ok, reads):
        newest = max((at for completed_ms, at in acknowledged if completed_ms < read.invoked_ms), default=-1)
        if positions.get(value_of(read, "k") or "", -1) < newest:
            stale.append(f"a read invoked at {read.invoked_ms} ms returned {value_of(read, 'k')}, older than {newest}")
    return stale


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
@settings(
    max_examples=settings.default.max_examples // 8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(0, 1_000), steps=STEPS)
def test_random_faults_break_no_invariant_and_no_read(switches: Mapping[str, Any], seed: int, steps: list[Any]) -> None:
    quorum = Simulation(seed=seed, **switches)
    writes: list[Operation] = []
    reads: list[Operation] = []
    load(quorum, 3_000, writes, reads)
    for action, duration_ms in steps:
        act(quorum, action)
        load(quorum, duration_ms, writes, reads)
    quorum.heal()
    for node, member in quorum.members.items():
        if member.node is None:
            quorum.restart(node)
    quorum.run(8_000)  # requests lost on the network time out first, which may cost an election
    quorum.elect()
    load(quorum, 100, writes, reads)
    quorum.run(2_000)
    assert quorum.violations == []
    assert stale_reads(quorum, writes, reads) == []
    assert is_ok(writes[-1]), f"no progress after all faults were healed: {quorum.describe()}"
