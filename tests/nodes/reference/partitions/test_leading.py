"""Leaders: writes, times, the ISR and its proposals, where transcripts would be long."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions import events, messages
from nodes.reference.core.partitions.broker import Broker
from nodes.reference.core.partitions.isr import InSync
from nodes.reference.core.partitions.leading import ALL
from nodes.reference.core.partitions.log import ReplicaLog
from nodes.reference.core.partitions.memory_log import MemoryLog
from nodes.reference.core.partitions.messages import Assignment, IsrResult, TopicPartition
from nodes.reference.core.partitions.settings import PartitionSettings
from nodes.wire.batches import Producer, Record, encode_batch
from tests.support.nodes.partition_simulation import PARTITION, Call, PartitionSimulation


def batch(count: int = 1, timestamp_ms: int = 0, producer: Producer | None = None) -> bytes:
    """A client's batch."""
    return encode_batch([Record(None, b"")] * count, 0, -1, timestamp_ms, producer=producer or Producer())


def written(simulation: PartitionSimulation, data: bytes, acks: int = 1, timeout_ms: int = 1_000) -> Call:
    """A write to broker 1."""
    return simulation.ask(1, messages.ProduceRequest(acks, timeout_ms, {PARTITION: data}))


def error(call: Call) -> ErrorCode:
    """The error of a completed write."""
    found: ErrorCode = call.response.results[PARTITION].error
    return found


def led(brokers: int = 2, isr: tuple[int, ...] = (1, 2), **switches: Any) -> PartitionSimulation:
    """Broker 1 leads; all are up, and know it."""
    simulation = PartitionSimulation(brokers, **switches)
    for node in simulation.members:
        simulation.start(node)
    simulation.elect(1, isr)
    for node in simulation.members:
        simulation.inform(node)
    return simulation


def settle(simulation: PartitionSimulation) -> None:
    """Everything in flight arrives."""
    for _ in range(50):
        if simulation.flight:
            simulation.deliver(simulation.flight[0])


def damaged(data: bytes) -> bytes:
    """The same with its last byte changed."""
    return data[:-1] + bytes([data[-1] ^ 1])


CONTROL = encode_batch([Record(b"", b"")], 0, -1, 0, is_control=True)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(damaged(batch()), ErrorCode.corrupt_message, id="a wrong checksum"),
        pytest.param(batch()[:-1], ErrorCode.corrupt_message, id="a torn batch"),
        pytest.param(b"", ErrorCode.corrupt_message, id="nothing"),
        pytest.param(
            encode_batch([Record(b"", b"")], 0, -1, 0, is_control=True), ErrorCode.invalid_record, id="control"
        ),
        pytest.param(batch(producer=Producer(1, 0, 0)) + batch(), ErrorCode.invalid_record, id="two with a producer"),
        pytest.param(batch() + batch(), ErrorCode.none, id="two without"),
    ],
)
def test_a_leader_appends_intact_batches_of_clients_only(data: bytes, expected: ErrorCode) -> None:
    simulation = led()
    assert error(written(simulation, data)) is expected
    assert (simulation.members[1].log.end_offset > 0) == (expected is ErrorCode.none)


def test_too_few_replicas_after_the_append_are_reported() -> None:
    simulation = led(brokers=3, isr=(1, 2), min_isr=2, high_watermark_needs_min_isr=False)
    call = written(simulation, batch(), ALL, timeout_ms=100_000)
    simulation.set_isr((1,))
    simulation.inform(1)
    assert error(call) is ErrorCode.not_enough_replicas_after_append


def test_the_high_watermark_waits_for_min_insync_replicas() -> None:
    simulation = led(brokers=3, isr=(1, 2), min_isr=2)
    call = written(simulation, batch(), ALL)
    simulation.set_isr((1,))
    simulation.inform(1)
    assert simulation.high_watermark(1) == 0
    simulation.advance(1_000)
    assert error(call) is ErrorCode.request_timed_out


def test_a_write_that_waits_ends_with_leadership() -> None:
    simulation = led()
    call = written(simulation, batch(), ALL)
    simulation.elect(2)
    simulation.inform(1)
    assert error(call) is ErrorCode.not_leader_or_follower


def test_five_batches_of_a_producer_are_remembered() -> None:
    simulation = led(brokers=1, isr=(1,))
    for sequence in range(6):
        assert error(written(simulation, batch(producer=Producer(7, 0, sequence)))) is ErrorCode.none
    again = [written(simulation, batch(producer=Producer(7, 0, sequence))) for sequence in range(6)]
    assert [error(each) for each in again] == [ErrorCode.out_of_order_sequence_number] + [ErrorCode.none] * 5
    assert [each.response.results[PARTITION].base_offset for each in again[1:]] == [1, 2, 3, 4, 5]


def test_a_sequence_begins_at_0_after_the_last_one() -> None:
    simulation = led(brokers=1, isr=(1,))
    assert error(written(simulation, batch(2, producer=Producer(7, 0, 2**31 - 2)))) is ErrorCode.none
    assert error(written(simulation, batch(producer=Producer(7, 0, 0)))) is ErrorCode.none


@pytest.mark.parametrize(
    ("time", "offset", "found_ms"),
    [(0, 0, 10), (10, 0, 10), (11, 2, 30), (30, 2, 30), (31, -1, -1)],
)
def test_the_first_record_of_a_time_is_found(time: int, offset: int, found_ms: int) -> None:
    simulation = led(brokers=1, isr=(1,))
    for timestamp_ms in (10, 30):
        written(simulation, batch(2, timestamp_ms))
    question = messages.OffsetsRequest(messages.NO_NODE, {PARTITION: messages.OffsetQuestion(time)})
    answer = simulation.ask(1, question).response.answers[PARTITION]
    assert (answer.offset, answer.timestamp_ms) == (offset, found_ms)


def test_a_proposal_without_an_answer_is_repeated() -> None:
    simulation = led(brokers=2, isr=(1,))
    settle(simulation)
    first = simulation.proposals[0][2]
    node, request_id, _ = simulation.proposals.pop()
    simulation.handle(node, events.ControllerAnswered(request_id, None))
    simulation.advance(50)
    assert [request for _, _, request in simulation.proposals] == [first]


def test_a_leader_that_was_elected_uncleanly_reports_its_recovery() -> None:
    simulation = PartitionSimulation(1)
    simulation.start(1)
    recovering = Assignment(PARTITION, 1, 3, (1,), (1, 2), 5, is_recovering=True)
    simulation.handle(1, events.Assign((recovering,)))
    [(_, _, request)] = simulation.proposals
    assert request.proposals[0].has_recovered
    assert request.proposals[0].isr == ((1, 1),)


def in_sync() -> InSync:
    """ISR 1 and 2 in partition epoch 4, and 3 is proposed."""
    isr = InSync((1, 2), 4, is_recovering=False)
    isr.propose((1, 2, 3))
    return isr


@pytest.mark.parametrize(
    ("error_code", "is_repeated", "maximal"),
    [
        (ErrorCode.ineligible_replica, False, {1, 2}),
        (ErrorCode.fenced_leader_epoch, False, {1, 2, 3}),
        (ErrorCode.invalid_update_version, False, {1, 2, 3}),
        (ErrorCode.not_controller, True, {1, 2, 3}),
        (ErrorCode.unknown_server_error, True, {1, 2, 3}),
    ],
)
def test_a_refused_proposal_counts_until_it_is_known_to_have_no_effect(
    error_code: ErrorCode, is_repeated: bool, maximal: set[int]
) -> None:
    isr = in_sync()
    assert isr.ended(IsrResult(PARTITION, error_code), leader_epoch=1) is is_repeated
    assert isr.maximal == maximal


def test_the_metadata_ends_a_proposal_and_its_late_answer_is_ignored() -> None:
    isr = in_sync()
    isr.assigned(Assignment(PARTITION, 1, 1, (1,), (1, 2, 3), 5))
    assert isr.maximal == {1}
    assert not isr.ended(IsrResult(PARTITION, ErrorCode.invalid_update_version), leader_epoch=1)
    assert not isr.is_waiting


class _Logs:
    """Empty logs."""

    def open(self, _partition: TopicPartition) -> ReplicaLog:
        """A new log."""
        return MemoryLog()

    def stored_high_watermark(self, _partition: TopicPartition) -> int:
        """None was stored."""
        return 0


def test_a_follower_has_one_request_to_each_leader_with_all_its_partitions() -> None:
    broker = Broker(PartitionSettings(1), _Logs(), 0)
    leaders = {TopicPartition("t", number): 2 + number % 2 for number in range(6)}
    assigned = tuple(Assignment(key, leader, 1, (leader,), (1, 2, 3), 0) for key, leader in leaders.items())
    sent = [effect for effect in broker.handle(events.Assign(assigned), 0) if isinstance(effect, events.Send)]
    fetches = [(each.peer, each.request) for each in sent if isinstance(each.request, messages.FetchRequest)]
    assert [(peer, len(request.partitions)) for peer, request in fetches] == [(2, 3), (3, 3)]
    assert broker.handle(events.Tick(), 1) == []


def test_a_follower_asks_again_after_a_pause_when_its_leader_does_not_answer() -> None:
    simulation = led()
    simulation.lose(simulation.flight[0])
    assert simulation.flight == []
    simulation.advance(999)
    assert simulation.flight == []
    simulation.advance(1)
    assert len(simulation.flight) == 1


def test_a_response_to_an_earlier_epoch_is_ignored() -> None:
    simulation = led()
    written(simulation, batch())
    simulation.deliver(simulation.flight[0])
    [late] = simulation.flight
    simulation.elect(1)
    simulation.inform(2)
    simulation.deliver(late)
    assert simulation.members[2].log.end_offset == 0


def test_a_partition_that_goes_to_other_brokers_is_forgotten() -> None:
    simulation = led()
    simulation.handle(1, events.Assign((Assignment(PARTITION, 2, 9, (2,), (2, 3), 99),)))
    assert not simulation.broker(1).replicas
    assert error(written(simulation, batch())) is ErrorCode.unknown_topic_or_partition


def test_a_fetch_waits_for_its_time_and_its_bytes() -> None:
    simulation = led(brokers=1, isr=(1,))
    request = messages.FetchRequest(messages.NO_NODE, {PARTITION: messages.FetchPartition(0)}, 300, min_bytes=100)
    waiting = simulation.ask(1, request)
    written(simulation, batch())
    assert waiting.response is None
    simulation.advance(300)
    assert waiting.response.results[PARTITION].data
    enough = simulation.ask(1, request)
    written(simulation, batch())
    assert enough.response is not None
