"""Voters that are added and removed one at a time, as KIP-853 describes it and Kafka does it."""

from __future__ import annotations

import dataclasses
import json
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.k_raft_version_record.v0 import KRaftVersionRecord
from kio.schema.voters_record.v0 import VotersRecord
from kio.serial import entity_reader

from harness.model.quorum_states import State
from nodes.reference.core.messages import (
    AddVoterRequest,
    DescribeQuorumRequest,
    FetchRequest,
    RemoveVoterRequest,
    ReplicaKey,
    UpdateVoterRequest,
    VoteRequest,
    VoterNode,
)
from nodes.reference.core.mutants import Mutant
from nodes.reference.directory_ids import directory_uuid
from nodes.wire.batches import heads, records
from tests.support.nodes.mutant_cases import with_and_without
from tests.support.nodes.quorum_simulation import Simulation, is_ok
from tests.support.nodes.voter_changes import (
    add,
    formatted,
    key,
    outcome,
    remove,
    replace_disk,
    run_until_voters,
    voter_keys,
    voter_node,
)

SLOW = {node: {"election_timeout_ms": 3_000} for node in range(2, 8)}
THREE = (key(1), key(2), key(3))


def led_by_1(**switches: Any) -> Simulation:
    """A quorum that node 1 leads, and that everybody follows."""
    per_node = SLOW | switches.pop("per_node", {})
    quorum = formatted(per_node=per_node, **switches)
    assert quorum.elect() == 1
    quorum.run(1_000)
    return quorum


def test_first_leader_writes_the_voters_in_the_records_of_kafka() -> None:
    quorum = led_by_1()
    data = quorum.node(1).log.read_from(0)
    head = next(heads(data))
    leader_change, kraft_version, voters = records(data, head)
    assert head.is_control
    assert [struct.unpack(">hh", each.key or b"")[1] for each in (leader_change, kraft_version, voters)] == [2, 5, 6]
    assert entity_reader(KRaftVersionRecord)(kraft_version.value or b"", 0)[0].k_raft_version == 1
    decoded = entity_reader(VotersRecord)(voters.value or b"", 0)[0]
    assert [(voter.voter_id, voter.voter_directory_id) for voter in decoded.voters] == [
        (each.node_id, each.directory_id) for each in THREE
    ]
    assert [voter.endpoints[0].host for voter in decoded.voters] == ["n1", "n2", "n3"]
    assert voter_keys(quorum, 4) == THREE


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_dump_tool_of_kafka_reads_the_voters(tmp_path: Path, kafka_libs: Path) -> None:
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(led_by_1().node(1).log.read_from(0))
    tool = ["org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(segment)]
    argv = ["java", "-Xmx256m", "-cp", f"{kafka_libs}/*", *tool]
    dumped = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout
    assert re.search(r'KRaftVersion \{"version":0,"kRaftVersion":1\}', dumped), dumped
    (voters,) = re.findall(r"KRaftVoters (\{.*\})", dumped)
    found = [(voter["voterId"], directory_uuid(voter["voterDirectoryId"])) for voter in json.loads(voters)["voters"]]
    assert found == [(each.node_id, each.directory_id) for each in THREE]


def test_voters_move_one_at_a_time() -> None:
    quorum = led_by_1()
    for joining, leaving in ((4, 2), (5, 3)):
        assert outcome(quorum, add(quorum, 1, key(joining))) is ErrorCode.none
        assert outcome(quorum, remove(quorum, 1, key(leaving))) is ErrorCode.none
    run_until_voters(quorum, key(1), key(4), key(5))
    assert [each.current for each in quorum.assignments(1)] == [
        (1, 2, 3),
        (1, 2, 3, 4),
        (1, 3, 4),
        (1, 3, 4, 5),
        (1, 4, 5),
    ]
    assert quorum.leaders == {1: {1}}
    assert quorum.violations == []


def test_node_that_does_not_lead_refuses() -> None:
    quorum = led_by_1()
    assert outcome(quorum, add(quorum, 2, key(4))) is ErrorCode.not_leader_or_follower
    assert outcome(quorum, remove(quorum, 4, key(3))) is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (AddVoterRequest("test", voter_node(key(2)), 1_000), ErrorCode.duplicate_voter),
        (AddVoterRequest("test", voter_node(key(2, disk=2)), 1_000), ErrorCode.duplicate_voter),
        (AddVoterRequest("test", voter_node(ReplicaKey(4)), 1_000), ErrorCode.invalid_request),
        (AddVoterRequest("other", voter_node(key(4)), 1_000), ErrorCode.inconsistent_cluster_id),
        (RemoveVoterRequest("test", key(4), 1_000), ErrorCode.voter_not_found),
        (RemoveVoterRequest("test", key(2, disk=2), 1_000), ErrorCode.voter_not_found),
        (UpdateVoterRequest("test", 1, voter_node(key(4))), ErrorCode.voter_not_found),
        (UpdateVoterRequest("test", 0, voter_node(key(2))), ErrorCode.fenced_leader_epoch),
        (UpdateVoterRequest("test", 2, voter_node(key(2))), ErrorCode.unknown_leader_epoch),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else type(value).__name__,
)
def test_request_is_refused_and_nothing_is_written(request_: Any, error: ErrorCode) -> None:
    quorum = led_by_1()
    assert outcome(quorum, quorum.invoke(1, request_)) is error
    assert len(quorum.assignments(1)) == 1


def test_only_voter_cannot_be_removed() -> None:
    quorum = formatted(size=1, observers=1)
    assert outcome(quorum, remove(quorum, quorum.elect(), key(1))) is ErrorCode.voter_not_found


@pytest.mark.parametrize("voter_changes", ["none", "kip-642"])
def test_quorum_with_another_way_to_change_voters_refuses(voter_changes: Any) -> None:
    quorum = Simulation(voter_changes=voter_changes)
    assert outcome(quorum, add(quorum, quorum.elect(), key(4))) is ErrorCode.unsupported_version


def test_quorum_whose_voters_change_one_at_a_time_is_not_reassigned() -> None:
    quorum = led_by_1()
    assert outcome(quorum, quorum.reassign(1, 1, 2)) is ErrorCode.invalid_request


def test_second_change_is_refused_while_one_is_pending() -> None:
    quorum = led_by_1()
    quorum.cut((1, 2), (1, 3))
    first = remove(quorum, 1, key(3))
    assert outcome(quorum, remove(quorum, 1, key(2))) is ErrorCode.request_timed_out
    assert outcome(quorum, first) in (ErrorCode.request_timed_out, ErrorCode.not_leader_or_follower)


def test_change_is_refused_while_the_one_before_is_not_committed() -> None:
    quorum = led_by_1(request_timeout_ms=500)
    quorum.cut((1, 2), (1, 3))
    assert outcome(quorum, remove(quorum, 1, key(3))) is ErrorCode.request_timed_out
    assert outcome(quorum, remove(quorum, 1, key(2))) is ErrorCode.request_timed_out
    assert [each.current for each in quorum.assignments(1)] == [(1, 2, 3), (1, 2)]


@with_and_without("voters-changed-before-own-record")
def test_new_leader_changes_nothing_before_it_has_committed_a_record_of_its_epoch(mutant: Mutant | None) -> None:
    quorum = led_by_1(mutant=mutant)
    quorum.crash(1)
    quorum.message_rule = lambda _sender, _receiver, request, is_response: (
        None if isinstance(request, FetchRequest) and is_response else 0
    )
    quorum.run_until(lambda: quorum.leader() is not None)
    leader = quorum.leader()
    assert leader is not None
    operation = remove(quorum, leader, key(1))
    quorum.run(100)
    assert (len(quorum.assignments(leader)) == 1) is (mutant is None)
    assert (operation.response is None) is (mutant is not None)


def test_replica_that_lags_is_waited_for_and_then_refused() -> None:
    quorum = led_by_1()
    quorum.crash(4)
    quorum.run(4_000)
    operation = add(quorum, 1, key(4))
    assert outcome(quorum, operation) is ErrorCode.request_timed_out
    assert operation.completed_ms is not None
    assert operation.completed_ms - operation.invoked_ms == 2_000
    assert len(quorum.assignments(1)) == 1


def test_replica_that_catches_up_in_time_is_added() -> None:
    quorum = led_by_1()
    quorum.crash(4)
    quorum.run(4_000)
    operation = add(quorum, 1, key(4))
    quorum.restart(4)
    assert outcome(quorum, operation) is ErrorCode.none


def test_request_that_does_not_wait_for_the_commit_is_answered_at_once() -> None:
    quorum = led_by_1()
    quorum.cut((1, 2), (1, 3))
    operation = quorum.invoke(1, AddVoterRequest("test", voter_node(key(4)), 5_000, ack_when_committed=False))
    assert operation.response is not None
    assert operation.response.error is ErrorCode.none
    assert quorum.node(1).voters.is_committed is False


def test_removed_leader_leads_until_its_removal_is_committed_and_does_not_count_itself() -> None:
    quorum = led_by_1(per_node={3: {"election_timeout_ms": 3_000, "request_timeout_ms": 300}})
    quorum.cut((1, 3))
    operation = remove(quorum, 1, key(1))
    quorum.run(500)
    assert operation.response is None  # node 2 has the record, and is no majority of 2 and 3
    assert quorum.leader() == 1
    quorum.reconnect((1, 3))
    assert outcome(quorum, operation) is ErrorCode.none
    quorum.run_until(lambda: quorum.leader() in (2, 3))
    run_until_voters(quorum, key(2), key(3))
    quorum.isolate(1)
    quorum.run(10_000)
    steps = [(source, target) for node, source, target, _, _ in quorum.transitions if node == 1]
    afterwards = {target for _, target in steps[steps.index((State.LEADER, State.RESIGNED)) :]}
    assert not {State.PROSPECTIVE, State.CANDIDATE, State.LEADER} & afterwards
    assert quorum.violations == []


def test_voter_with_a_new_disk_is_an_observer_until_the_old_one_is_removed_and_it_is_added() -> None:
    quorum = led_by_1()
    quorum.crash(3)
    new = replace_disk(quorum, 3)
    quorum.restart(3)
    quorum.run_until(lambda: voter_keys(quorum, 3) == THREE)
    assert not quorum.node(3).voters.is_voter
    described = quorum.invoke(1, DescribeQuorumRequest()).response
    assert [(each.replica_id, each.directory_id) for each in described.voters] == [
        (each.node_id, each.directory_id) for each in THREE
    ]
    assert (3, new.directory_id) in [(each.replica_id, each.directory_id) for each in described.observers]
    assert outcome(quorum, add(quorum, 1, new)) is ErrorCode.duplicate_voter
    assert outcome(quorum, remove(quorum, 1, key(3))) is ErrorCode.none
    assert outcome(quorum, add(quorum, 1, new)) is ErrorCode.none
    run_until_voters(quorum, key(1), key(2), new)
    assert quorum.node(3).voters.is_voter
    assert quorum.violations == []


def test_new_disk_does_not_count_for_the_voter_with_the_old_one() -> None:
    """Neither its fetches commit a record nor does its vote elect a leader: PV-32's loss cannot happen."""
    quorum = led_by_1()
    quorum.crash(3)
    replace_disk(quorum, 3)
    quorum.restart(3)
    quorum.run_until(lambda: voter_keys(quorum, 3) == THREE)
    quorum.crash(2)
    write = quorum.write(1, "key", "value")
    quorum.run(1_000)
    assert write.response is None
    quorum.run(20_000)
    assert quorum.leader() is None
    votes = [each for each in quorum.members[3].effects if each == "VoteRequest"]
    assert votes == []
    quorum.restart(2)
    later = quorum.write(quorum.elect(), "key", "later")
    quorum.run_until(lambda: is_ok(later))


def test_vote_request_for_the_old_disk_is_rejected() -> None:
    quorum = led_by_1()
    epoch, log = quorum.node(2).state.epoch, quorum.node(2).log
    for directory, error in ((key(2, disk=2).directory_id, ErrorCode.invalid_voter_key), (None, ErrorCode.none)):
        request = VoteRequest("test", 2, 3, epoch, log.last_epoch, log.end_offset, True, key(3).directory_id, directory)
        assert quorum.invoke(2, request).response.error is error


def test_voter_whose_address_has_changed_is_updated() -> None:
    quorum = led_by_1()
    quorum.crash(2)
    member = quorum.members[2]
    member.settings = dataclasses.replace(member.settings, advertised=("elsewhere", 9))
    quorum.restart(2)
    moved = VoterNode(key(2), "elsewhere", 9)
    quorum.run_until(lambda: moved in quorum.node(3).voters.last.assignment.nodes)
    assert voter_keys(quorum, 1) == THREE
    assert quorum.violations == []


def test_voters_are_found_again_on_restart() -> None:
    quorum = led_by_1()
    assert outcome(quorum, add(quorum, 1, key(4))) is ErrorCode.none
    for node in (1, 2, 3, 4):
        quorum.crash(node)
    for node in (1, 2, 3, 4):
        quorum.restart(node)
        assert voter_keys(quorum, node) == (*THREE, key(4)) or node == 3
    quorum.elect()
    run_until_voters(quorum, *THREE, key(4))


def with_truncated_change(mutant: Mutant | None) -> Simulation:
    """Node 1 appends that 4 votes, cannot commit it, and truncates it when it follows the next leader."""
    quorum = led_by_1(mutant=mutant)
    quorum.cut((1, 2), (1, 3))
    quorum.crash(4)
    quorum.invoke(1, AddVoterRequest("test", voter_node(key(4)), 5_000))
    assert voter_keys(quorum, 1) == (*THREE, key(4))
    quorum.run_until(lambda: quorum.leader() in (2, 3))
    leader = quorum.leader()
    quorum.heal()
    quorum.run_until(lambda: quorum.node(1).state.leader_id == leader and quorum.node(1).log.last_epoch > 1)
    return quorum


@with_and_without("voters-kept-after-truncation")
def test_truncated_change_is_reverted(mutant: Mutant | None) -> None:
    quorum = with_truncated_change(mutant)
    assert (voter_keys(quorum, 1) == THREE) is (mutant is None)


@with_and_without("voters-below-former-end-ignored")
def test_voters_below_the_former_end_of_a_truncated_log_count(mutant: Mutant | None) -> None:
    """EX-02: node 1 had more records than the next leader, which removes 4 at an offset below their end."""
    quorum = led_by_1(mutant=mutant, size=4, max_idle_interval_ms=0)
    quorum.isolate(1)
    for number in range(40):
        quorum.write(1, f"key {number}", "value")
        quorum.run(10)
    quorum.run_until(lambda: quorum.leader() != 1)
    leader = quorum.elect()
    assert outcome(quorum, remove(quorum, leader, key(4 if leader != 4 else 3))) is ErrorCode.none
    quorum.heal()
    end = quorum.node(leader).log.end_offset
    quorum.run_until(lambda: quorum.node(1).log.end_offset >= end and quorum.node(1).state.leader_id == leader)
    quorum.run(1_000)
    assert (voter_keys(quorum, 1) == voter_keys(quorum, leader)) is (mutant is None)


def paused_node_3(sender: int, receiver: int, request: Any, is_response: bool) -> int | None:
    """The message rule while it does not fetch and answers late."""
    if isinstance(request, FetchRequest):
        return None if 3 in (sender, receiver) else 0
    return 500 if is_response and sender == 3 else 0


@with_and_without("removed-voter-ends-leader")
def test_removed_voter_that_answers_late_does_not_end_the_leader(mutant: Mutant | None) -> None:
    """EX-03: node 3 pauses, so the leader announces itself again, and the answer arrives after its removal."""
    quorum = led_by_1(mutant=mutant)
    quorum.message_rule = paused_node_3
    quorum.members[1].effects.clear()
    quorum.run_until(lambda: "BeginQuorumEpochRequest" in quorum.members[1].effects)
    assert outcome(quorum, remove(quorum, 1, key(3))) is ErrorCode.none
    quorum.run(3_000)
    assert quorum.members[1].halted == (None if mutant is None else "Unexpected acknowledgement from non-voter 3")


@with_and_without("own-vote-restored-before-leader")
def test_removed_node_that_voted_for_itself_starts_again(mutant: Mutant | None) -> None:
    """EX-04: node 3 stood in the election that node 1 won, and kept its vote; then it was removed."""
    quorum = led_by_1(mutant=mutant)
    assert outcome(quorum, remove(quorum, 1, key(3))) is ErrorCode.none
    quorum.run_until(lambda: voter_keys(quorum, 3) == THREE[:2])
    quorum.crash(3)
    member = quorum.members[3]
    member.election = dataclasses.replace(member.election, voted_id=3, voted_directory_id=key(3).directory_id)
    quorum.restart(3)
    assert member.halted == (None if mutant is None else "Local replica 3 must be in the set of voters")


@with_and_without("own-vote-restored-before-leader")
def test_last_voter_that_voted_for_itself_does_not_lead_the_epoch_of_another_leader(mutant: Mutant | None) -> None:
    """EX-12: node 1 leads and removes itself; node 2 has the record, and restarts before node 1 knows that it has."""
    quorum = led_by_1(mutant=mutant)
    assert outcome(quorum, remove(quorum, 1, key(3))) is ErrorCode.none

    def later_fetches_are_lost(sender: int, _receiver: int, request: Any, is_response: bool) -> int | None:
        is_fetch = isinstance(request, FetchRequest) and sender == 2 and not is_response
        return None if is_fetch and voter_keys(quorum, 2) == (key(2),) else 0

    quorum.message_rule = later_fetches_are_lost
    quorum.invoke(1, RemoveVoterRequest("test", key(1), 60_000))
    quorum.run_until(lambda: voter_keys(quorum, 2) == (key(2),))
    quorum.crash(2)
    member = quorum.members[2]
    member.election = dataclasses.replace(member.election, voted_id=2, voted_directory_id=key(2).directory_id)
    quorum.restart(2)
    quorum.run(100)
    led = [quorum.node(node).state.epoch for node in (1, 2) if quorum.node(node).state.kind is State.LEADER]
    assert len(led) - len(set(led)) == (0 if mutant is None else 1)
    assert quorum.node(1).state.kind is State.LEADER


def with_leader_that_removes_itself(mutant: Mutant | None) -> Simulation:
    """Node 1 appends its own removal, which node 2 fetches; it is not committed without node 3, which is cut off."""
    quorum = led_by_1(mutant=mutant, fetch_timeout_ms=60_000)
    quorum.isolate(3)
    quorum.invoke(1, RemoveVoterRequest("test", key(1), 60_000))
    quorum.run_until(lambda: voter_keys(quorum, 2) == (key(2), key(3)))
    return quorum


@with_and_without("unattached-ends-at-leaders-response")
def test_voter_restarts_while_the_leader_removes_itself(mutant: Mutant | None) -> None:
    """EX-07."""
    quorum = with_leader_that_removes_itself(mutant)
    quorum.crash(2)
    quorum.restart(2)
    quorum.run(1_000)
    failure = "Expected to be Follower, but the current state is Unattached"
    assert quorum.members[2].halted == (None if mutant is None else failure)


def test_leader_that_removes_itself_is_among_the_observers_it_describes() -> None:
    quorum = with_leader_that_removes_itself(None)
    described = quorum.invoke(1, DescribeQuorumRequest())
    quorum.run_until(lambda: described.response is not None)
    assert [each.replica_id for each in described.response.voters] == [2, 3]
    (itself,) = (each for each in described.response.observers if each.replica_id == 1)
    assert itself.end_offset == quorum.node(1).log.end_offset
