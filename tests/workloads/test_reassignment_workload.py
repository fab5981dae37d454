"""The workload that moves voters: which changes it makes, what clients do beside them, and where it runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from harness import plugins
from harness.engine.randomness import draw
from harness.model import BadInput, Op
from harness.planning.plan import Plan
from harness.planning.workloads import workload_of
from workloads.reassignment import (
    ReassignmentSession,
    make,
    mixed_operation,
    mixed_read,
    moves,
    read,
    there_and_back,
)
from workloads.workload import WorkloadSpec

KIP_642 = {"reference.voter_changes": "kip-642"}


def spec(name: str, **given: Any) -> WorkloadSpec:
    system, _ = plugins.system(name)
    return WorkloadSpec(name, clients=system.clients, **{"nodes": 6, "voters": 3, **given})


def test_voters_are_added_and_removed_one_by_one() -> None:
    changes = [(op.f.removesuffix("_voter"), op.key) for op in there_and_back(5, 3, as_a_whole=False)]
    there = [("add", "n4"), ("remove", "n1"), ("add", "n5"), ("remove", "n2")]
    back = [("add", "n1"), ("remove", "n4"), ("add", "n2"), ("remove", "n5")]
    assert changes == there + back


@pytest.mark.parametrize(("nodes", "voters"), [(6, 3), (4, 3), (7, 2), (2, 1)])
def test_changes_end_with_the_initial_voters(nodes: int, voters: int) -> None:
    now, seen = set(range(1, voters + 1)), []
    for op in there_and_back(nodes, voters, as_a_whole=False):
        node = int(str(op.key)[1:])
        assert (node in now) is (op.f == "remove_voter")
        now ^= {node}
        seen.append(set(now))
    assert now == set(range(1, voters + 1))
    assert set(range(nodes - voters + 1, nodes + 1)) in seen
    assert {len(each) for each in seen} == {voters, voters + 1}


def test_quorum_is_reassigned_as_a_whole_where_it_can_be() -> None:
    first, *changes = make(spec("reference", switches=KIP_642)).changes
    assert first.f == "voters"
    there, back = ("reassign", [4, 5, 6]), ("reassign", [1, 2, 3])
    settled = ("settle", None)
    assert [(op.f, op.value) for op in changes] == [there, settled, back, settled, there, back]


def test_reference_changes_one_voter_at_a_time_as_kafka_does_if_it_is_told_to() -> None:
    by_reference = make(spec("reference", switches={"reference.voter_changes": "kip-853"})).changes
    assert by_reference == make(spec("kafka")).changes
    assert {op.f for op in by_reference} == {"voters", "add_voter", "remove_voter"}


def test_some_reads_ask_for_the_voters() -> None:
    seed, asked = 1, Counter[str]()
    for number in range(800):
        random, seed = draw(seed)
        asked[read(number, random).f] += 1
    assert 60 < asked["voters"] < 140
    assert asked["voters"] + asked["read"] == 800


def test_partitions_move_to_the_last_brokers_and_back() -> None:
    ops = [(op.f, op.value) for op in moves(6) if op.key == "log-1"]
    there, back, moved = ("move", [4, 5, 6]), ("move", [1, 2, 3]), ("moved", None)
    assert ops == [there, moved, back, moved, there, back]
    assert {tuple(op.value) for op in moves(3) if op.f == "move"} == {(2, 3), (1, 2)}


@pytest.mark.parametrize(("name", "switches"), [("reference", KIP_642), ("kafka:4.3.1", {})])
def test_moves_and_changes_of_voters_take_turns(name: str, switches: Mapping[str, str]) -> None:
    workload = make(spec(name, switches=switches, layout="combined", options={"partitions": "move"}))
    first, *changes = workload.changes
    is_of_voters = [op.f not in ("move", "moved") for op in changes]
    assert (first.f, is_of_voters[:10]) == ("voters", [False] * 4 + [True] + [False] * 4 + [True])
    assert {"voter-changes", "log"} < set(workload.checks)
    plain = make(spec(name, switches=switches, layout="combined", options={"partitions": "stay"}))
    assert [op for op, is_it in zip(changes, is_of_voters, strict=True) if is_it] == list(plain.changes[1:])
    finally_done = [op.f for op in workload.final_operations]
    assert finally_done[:12] == ["moved"] * 4 + ["move"] * 4 + ["moved"] * 4
    assert finally_done.count("drain") == 4


def test_clients_use_registers_and_the_log_while_partitions_move() -> None:
    seed, reads, others = 1, Counter[str](), Counter[str]()
    for number in range(2000):
        random, seed = draw(seed)
        reads[mixed_read(number, random).f] += 1
        others[mixed_operation(number, random).f] += 1
    assert min(reads[f] for f in ("voters", "partition")) > 60
    assert min(reads[f] for f in ("read", "poll")) > 600
    assert others["send"] > 800
    assert set(others) == {"send", "read", "write"}


def test_partitions_stay_without_brokers() -> None:
    described = spec("reference", switches=KIP_642, options={"partitions": "move"})
    with pytest.raises(BadInput, match=r"option partitions: expected brokers, --layout combined; found controllers$"):
        make(described)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("reference", {"switches": KIP_642, "voters": None}, "--voters below the number of nodes, 6; found none"),
        ("kafka:4.3.1", {"voters": 6}, "--voters below the number of nodes, 6; found 6"),
        (
            "reference",
            {},
            "--switch reference.voter_changes=kip-642 or --switch reference.voter_changes=kip-853, found none",
        ),
        ("reference", {"clients": {}}, "a system whose voters can change, found --system reference"),
        ("kafka:3.9.1", {"layout": "zookeeper"}, "a system whose voters can change, found --system kafka:3.9.1"),
    ],
)
def test_workload_is_refused_where_no_voter_can_change(name: str, given: Mapping[str, Any], expected: str) -> None:
    described = spec(name, **{key: value for key, value in given.items() if key != "clients"})
    if "clients" in given:
        described = WorkloadSpec(name, nodes=6, voters=3)
    with pytest.raises(BadInput, match=f"^workload reassignment: expected {expected}$"):
        make(described)


def test_changes_need_a_process_of_their_own() -> None:
    plan = Plan(name="few", seed=1, workload="reassignment", nodes=6, voters=3, switch=KIP_642, concurrency=2, story=[])
    with pytest.raises(BadInput, match=r"^--concurrency: workload reassignment: expected at least 3, found 2$"):
        workload_of(plan)


class Recording:
    """A session that records its operations."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def invoke(self, op: Op) -> Op:
        self.seen.append(op.f)
        return op.ok()

    async def close(self) -> None:
        self.seen.append("closed")


def test_session_sends_each_operation_where_it_belongs() -> None:
    voters, registers, partitions, log = Recording(), Recording(), Recording(), Recording()
    session = ReassignmentSession(voters, registers, partitions, log)
    of_partitions, of_log = ("move", "moved", "partition"), ("send", "poll", "assign", "drain")

    async def run() -> None:
        of_voters = ("voters", "read", "reassign", "write", "add_voter", "remove_voter", "settle")
        for f in (*of_voters, *of_partitions, *of_log):
            assert (await session.invoke(Op("invoke", f))).type == "ok"
        await session.close()

    asyncio.run(run())
    assert voters.seen == ["voters", "reassign", "add_voter", "remove_voter", "settle", "closed"]
    assert registers.seen == ["read", "write", "closed"]
    assert partitions.seen == [*of_partitions, "closed"]
    assert log.seen == [*of_log, "closed"]
