"""The reference system's core on a simulated cluster: elections, faults of nodes and disks, clients, the digest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model import BadInput, Observation
from harness.model.faults.rpc import HOLD, Api, RpcMatch, RpcRule
from harness.model.quorum_states import State
from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.hosts import CLIENT
from nodes.simulation.reference.cluster import ReferenceCluster
from nodes.wire import codec
from workloads.register import read_of, write_of

NODES = (1, 2, 3)


class Quorum:
    """A simulated quorum that has been started, and what it has reported."""

    def __init__(self, seed: int = 1, nodes: int = 3, switches: dict[int, dict[str, str]] | None = None) -> None:
        self.observations: list[Observation] = []
        self.cluster = ReferenceCluster(SimulationSpec(seed, nodes, switches=switches or {}), self.observations.append)
        for node in range(1, nodes + 1):
            self.cluster.start(node)

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        end_ms = self.cluster.now_ms + duration_ms
        while self.cluster.now_ms < end_ms:
            self.cluster.advance(end_ms)

    def until(self, is_met: Callable[[], bool], limit_ms: int = 30_000) -> None:
        """Let time pass until a condition holds."""
        end_ms = self.cluster.now_ms + limit_ms
        while not is_met():
            assert self.cluster.now_ms < end_ms, f"not within {limit_ms} ms"
            self.cluster.advance(min(end_ms, self.cluster.now_ms + 10))

    def leader(self) -> int | None:
        """The node that leads the highest epoch and has committed in it."""
        statuses = {node: self.cluster.status(node) for node in self.cluster._members}  # type: ignore[attr-defined]
        leaders = [(each.epoch, node) for node, each in statuses.items() if each is not None and each.has_committed]
        return max(leaders)[1] if leaders else None

    def elect(self) -> int:
        """Run until there is a leader."""
        self.until(lambda: self.leader() is not None)
        leader = self.leader()
        assert leader is not None
        return leader

    def call(self, node: int, request: Any) -> Any:
        """A client's request, and its response."""
        answers: list[Any] = []
        assert self.cluster.call(node, request, answers.append)
        self.until(lambda: bool(answers))
        return answers[0]

    def write(self, node: int, value: int) -> str:
        """A write, and the name of its error."""
        return str(self.call(node, write_of(["r"], value)).responses[0].error_code.name)

    def read(self, node: int) -> Any:
        """What a read of the same register returns."""
        configs = self.call(node, read_of(["r"])).results[0].configs
        return json.loads(configs[0].value) if configs else None


def test_leader_is_elected_and_serves_clients() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    assert quorum.write(leader, 7) == "none"
    assert quorum.read(leader) == 7
    follower = next(node for node in NODES if node != leader)
    assert quorum.write(follower, 8) == "not_controller"
    assert quorum.cluster.violations == []


def test_killed_leader_is_replaced_and_writes_stay() -> None:
    quorum = Quorum()
    first = quorum.elect()
    quorum.write(first, 7)
    quorum.cluster.kill(first)
    assert quorum.cluster.status(first) is None
    assert not quorum.cluster.call(first, read_of(["r"]), lambda _: None)
    second = quorum.elect()
    assert second != first
    assert quorum.read(second) == 7
    quorum.cluster.start(first)
    quorum.until(lambda: (status := quorum.cluster.status(first)) is not None and status.leader == second)
    assert quorum.cluster.violations == []


def test_request_that_a_killed_node_owes_breaks() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    quorum.cluster.cut([(other, leader) for other in NODES if other != leader])
    answers: list[Any] = []
    quorum.cluster.call(leader, write_of(["r"], 1), answers.append)
    quorum.run(500)
    assert answers == []
    quorum.cluster.kill(leader)
    quorum.run(100)
    assert answers == [None]


def test_paused_node_handles_what_has_arrived_when_it_is_resumed() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    follower = next(node for node in NODES if node != leader)
    quorum.cluster.pause(follower)
    quorum.run(10_000)
    assert quorum.cluster.status(follower) is None
    assert quorum.leader() == leader
    quorum.cluster.resume(follower)
    quorum.until(lambda: (status := quorum.cluster.status(follower)) is not None and status.leader == leader)
    assert quorum.cluster.violations == []


def test_graceful_stop_hands_over_leadership() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    quorum.cluster.stop(leader)
    quorum.until(lambda: quorum.cluster.status(leader) is None)
    quorum.elect()
    assert State.RESIGNED.value in {each.state for each in quorum.observations if each.node == leader}


@pytest.mark.parametrize("mutant", ["", "log-not-synced"])
def test_power_failure_loses_what_was_not_synced(mutant: str) -> None:
    switches = {node: {"reference.mutant": mutant} for node in NODES} if mutant else {}
    quorum = Quorum(switches=switches)
    leader = quorum.elect()
    assert quorum.write(leader, 7) == "none"
    for node in NODES:
        quorum.cluster.kill(node)
        quorum.cluster.lose_unsynced(node)
        quorum.cluster.start(node)
    quorum.until(lambda: quorum.leader() is not None or bool(quorum.cluster.violations), 60_000)
    assert bool(quorum.cluster.violations) is bool(mutant)


def test_emptied_disk_is_filled_again_and_breaks_no_invariant() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    quorum.write(leader, 7)
    follower = next(node for node in NODES if node != leader)
    quorum.cluster.kill(follower)
    quorum.cluster.lose_disk(follower)
    assert quorum.cluster.log(follower) == b""
    quorum.cluster.start(follower)
    quorum.run(5_000)
    assert quorum.cluster.log(follower).startswith(quorum.cluster.log(leader)[:50])
    assert quorum.cluster.violations == []


def test_changed_configuration_counts_from_the_next_start_on() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    follower = next(node for node in NODES if node != leader)
    quorum.cluster.configure(follower, {"controller.quorum.fetch.timeout.ms": "60000"})
    quorum.cluster.kill(follower)
    quorum.cluster.start(follower)
    quorum.until(lambda: (status := quorum.cluster.status(follower)) is not None and status.leader == leader)
    quorum.cluster.cut([(leader, follower), (follower, leader)])
    quorum.run(20_000)
    status = quorum.cluster.status(follower)
    assert status is not None
    assert status.state is State.FOLLOWER


def test_held_fetches_end_a_leader() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    rule = RpcRule("held", RpcMatch((Api.FETCH,), "request", targets=(leader,)), HOLD)
    quorum.cluster.intercept([rule])
    quorum.until(lambda: quorum.leader() not in (None, leader))
    assert quorum.cluster.rule_counts()["held"].holding > 0
    assert quorum.cluster.intercept([])["held"].acted > 0
    quorum.run(2_000)
    assert quorum.cluster.violations == []


def test_quorum_with_a_node_before_kip_996_elects_leaders_all_the_same() -> None:
    """The answer that a voter has no Pre-Vote comes while the node still sends its requests to the others."""
    old = {1: {"reference.pre_vote": "false"}}
    for seed in range(10):
        quorum = Quorum(seed, nodes=5, switches=old)
        quorum.cluster.cut([link for node in range(2, 6) for link in ((1, node), (node, 1))])
        quorum.until(lambda quorum=quorum: quorum.leader() is not None)  # type: ignore[misc]


def test_other_apis_are_answered_and_unknown_ones_are_not() -> None:
    quorum = Quorum()
    leader = quorum.elect()
    served = quorum.call(leader, codec.build(codec.API_VERSIONS, 3, "request", CLIENT))
    assert codec.DESCRIBE_QUORUM in {each.api_key for each in served.api_keys}
    moved = {"timeout": 1_000, "topics": []}
    reassigned = quorum.call(leader, codec.build(codec.ALTER_PARTITION_REASSIGNMENTS, 0, "request", moved))
    assert (reassigned.error_code, reassigned.responses) == (ErrorCode.none, ())
    listed = quorum.call(leader, codec.build(codec.LIST_PARTITION_REASSIGNMENTS, 0, "request", moved))
    assert (listed.error_code, listed.topics) == (ErrorCode.none, ())
    removal = {"cluster_id": None, "voter_id": 1, "voter_directory_id": None}
    assert quorum.call(leader, codec.build(codec.REMOVE_RAFT_VOTER, 0, "request", removal)) is None


def test_unknown_switch_is_refused() -> None:
    with pytest.raises(BadInput, match=r"reference\.no_such_switch"):
        Quorum(switches={2: {"reference.no_such_switch": "1"}})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("splitbrain.controller.port", "9095", "simulated nodes do not differ in it"),
        ("splitbrain.format", "standalone", "simulated nodes do not differ in it"),
        ("splitbrain.bootstrap.nodes", "7", "expected numbers of nodes, among 1,2,3"),
    ],
)
def test_property_of_splitbrain_that_is_not_simulated_is_refused(name: str, value: str, expected: str) -> None:
    with pytest.raises(BadInput, match=f"{name}={value}: {expected}"):
        Quorum(switches={2: {name: value}})


DIGEST = """
from tests.nodes.simulation.reference.test_reference_cluster import Quorum
quorum = Quorum(seed={seed}, nodes=5)
leader = quorum.elect()
quorum.write(leader, 1)
quorum.cluster.kill(leader)
quorum.elect()
quorum.run(5_000)
print(quorum.cluster.digest())
"""


def test_digest_is_the_same_in_every_process() -> None:
    def digest(seed: int, hash_seed: str) -> str:
        argv = [sys.executable, "-c", DIGEST.format(seed=seed)]
        environment = {"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin"}
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout

    first = digest(1, "1")
    assert len(first) == 17
    assert digest(1, "2") == first
    assert digest(2, "1") != first
