"""Three replicas of one partition, a scripted controller, and any sequence of faults: nothing acknowledged is lost.

Messages arrive in any order, or not at all. The controller elects in-sync replicas only, and a broker that lost the end
of its log has left the ISR when it comes back (KIP-966), unless it was the last one in it: then it lost nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from nodes.reference.core.partitions import messages
from nodes.reference.core.partitions.following import Phase as FollowerPhase
from nodes.reference.core.partitions.leading import ALL
from nodes.reference.core.partitions.mutants import PartitionMutant
from nodes.wire.batches import Record, encode_batch, heads, records
from tests.support.nodes.partition_simulation import PARTITION, Call, PartitionSimulation

NODES = st.integers(1, 3)
PICK = st.integers(0, 9)
ErrorCode = messages.ErrorCode


class Replicas(RuleBasedStateMachine):
    """The machine; each write has a value of its own."""

    switches: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.simulation = PartitionSimulation(3, min_isr=2, **self.switches)
        self.writes: list[tuple[int, Call]] = []  # value and call
        self.consumed: dict[int, int] = {}  # by offset: the value that a consumer has read
        self.high_watermarks: dict[tuple[int, int], int] = {}  # by broker and leader epoch
        self.lagging: set[int] = set()  # brokers that do not know the metadata

    @initialize()
    def begin(self) -> None:
        for node in (1, 2, 3):
            self.simulation.start(node)
        self.elect(1)
        for node in (1, 2, 3):
            self.inform(node)

    def elect(self, leader: int, isr: tuple[int, ...] | None = None) -> None:
        self.simulation.elect(leader, isr)
        self.lagging = {1, 2, 3}

    # Clients.

    @property
    def leaders(self) -> list[int]:
        """The brokers that consider themselves the leader, the latest first."""
        simulation = self.simulation
        leading = [node for node in simulation.up if PARTITION in simulation.broker(node).leading]
        return sorted(leading, key=lambda node: -simulation.broker(node).leading[PARTITION].epoch)

    @precondition(lambda self: self.leaders)
    @rule(pick=st.sampled_from([0, 0, 1]), count=st.integers(1, 3))
    def write(self, pick: int, count: int) -> None:
        node, value = self.leaders[pick % len(self.leaders)], len(self.writes)
        batch = encode_batch([Record(None, b"%d" % value)] * count, 0, -1, 0)
        request = messages.ProduceRequest(ALL, 10_000, {PARTITION: batch})
        self.writes.append((value, self.simulation.ask(node, request)))

    @precondition(lambda self: self.leaders)
    @rule(pick=PICK, back=st.integers(0, 8))
    def read(self, pick: int, back: int) -> None:
        node = self.leaders[pick % len(self.leaders)]
        wanted = messages.FetchPartition(max(0, self.simulation.members[node].log.end_offset - back))
        self.consume(self.simulation.ask(node, messages.FetchRequest(messages.NO_NODE, {PARTITION: wanted}, 0)))

    def consume(self, call: Call) -> None:
        """What a consumer has read at an offset, it finds there ever after."""
        data = call.response.results[PARTITION].data
        for head in heads(data):
            for number, record in enumerate(records(data, head)):
                value = int(record.value or b"-1")
                assert self.consumed.setdefault(head.base_offset + number, value) == value, "a consumed record changed"

    # The network, the brokers and the controller.

    @precondition(lambda self: self.simulation.flight)
    @rule(pick=PICK)
    def deliver(self, pick: int) -> None:
        flight = self.simulation.flight
        self.simulation.deliver(flight[pick % len(flight)])

    @rule(count=st.integers(2, 20))
    def deliver_in_order(self, count: int) -> None:
        """All brokers learn the metadata, and messages arrive, the oldest first."""
        for node in (1, 2, 3):
            self.inform(node)
        for _ in range(count):
            if self.simulation.flight:
                self.deliver(0)

    @precondition(lambda self: self.simulation.flight)
    @rule(pick=PICK)
    def lose(self, pick: int) -> None:
        flight = self.simulation.flight
        self.simulation.lose(flight[pick % len(flight)])

    @precondition(lambda self: self.lagging)
    @rule(pick=PICK)
    def inform_one(self, pick: int) -> None:
        self.inform(sorted(self.lagging)[pick % len(self.lagging)])

    def inform(self, node: int) -> None:
        """A broker that is up learns the metadata."""
        if node in self.simulation.up and node in self.lagging:
            self.lagging.discard(node)
            self.simulation.inform(node)

    @rule(duration_ms=st.sampled_from([500, 1_000, 31_000]))
    def pass_time(self, duration_ms: int) -> None:
        self.simulation.advance(duration_ms)

    @rule(node=NODES)
    def flush(self, node: int) -> None:
        self.simulation.members[node].log.flush()
        self.simulation.members[node].stored_high_watermark = self.simulation.high_watermark(node)

    @rule(node=NODES, loses_tail=st.booleans())
    def restart(self, node: int, loses_tail: bool) -> None:
        """A broker is killed and starts again. The controller notices if something is lost, or if it led."""
        simulation = self.simulation
        if node not in simulation.up:
            return
        isr = simulation.metadata.isr
        is_last = isr == (node,)
        simulation.crash(node, loses_tail and not is_last)
        if not is_last and (loses_tail or node == simulation.metadata.leader):
            left = tuple(each for each in isr if each != node)
            self.elect(left[0] if simulation.metadata.leader == node else simulation.metadata.leader, left)
        simulation.start(node)
        self.lagging.add(node)

    @precondition(lambda self: len(self.simulation.metadata.isr) > 1)
    @rule(pick=PICK, is_known=st.booleans())
    def prefer(self, pick: int, is_known: bool) -> None:
        """Another in-sync replica is elected, and the ISR stays. It may be the only one that knows."""
        metadata = self.simulation.metadata
        others = [node for node in metadata.isr if node != metadata.leader]
        self.elect(others[pick % len(others)])
        if is_known:
            self.inform(self.simulation.metadata.leader)

    @precondition(lambda self: self.simulation.proposals)
    @rule(is_answered=st.booleans())
    def decide(self, is_answered: bool) -> None:
        before, decide = self.simulation.metadata, self.simulation.decide
        (decide if is_answered else self.simulation.decide_silently)(self.may_join)
        if self.simulation.metadata != before:
            self.lagging = {1, 2, 3}

    def may_join(self, node: int, broker_epoch: int) -> bool:
        """KIP-903: only the process that has fetched joins."""
        return self.simulation.members[node].incarnation == broker_epoch

    # What must hold.

    @invariant()
    def acknowledged_writes_are_on_the_leader(self) -> None:
        leader = self.simulation.metadata.leader
        if leader < 0:
            return
        values = self.values(leader)
        for value, call in self.writes:
            if call.response is not None and call.response.results[PARTITION].error is ErrorCode.none:
                offset = call.response.results[PARTITION].base_offset
                assert values.get(offset) == value, f"the write {value} at {offset} is lost"
        for offset, value in self.consumed.items():
            assert values.get(offset) == value, f"a consumer has read {value} at {offset}, which is truncated"

    def values(self, node: int) -> dict[int, int]:
        """The value of each record of a replica."""
        return {
            head.base_offset + number: int(record.value or b"-1")
            for data, head in self.simulation.members[node].log.batches(0)
            for number, record in enumerate(records(data, head))
        }

    @invariant()
    def records_of_an_epoch_are_equal_and_so_is_what_is_before(self) -> None:
        """Raft's log matching: equal offset and epoch, equal prefix."""
        logs = [self.batches(node) for node in (1, 2, 3)]
        for one in logs:
            for other in logs:
                common = [at for at, each in enumerate(one) if at < len(other) and other[at][0] == each[0]]
                if common:
                    assert one[: common[-1] + 1] == other[: common[-1] + 1], "logs differ before an equal record"

    def batches(self, node: int) -> list[tuple[tuple[int, int], bytes]]:
        """Each batch: its offset and epoch, and its bytes."""
        batches = self.simulation.members[node].log.batches(0)
        return [((head.base_offset, head.leader_epoch), data) for data, head in batches]

    @invariant()
    def high_watermarks_grow_within_an_epoch_and_are_in_the_log(self) -> None:
        for node in self.simulation.up:
            replica = self.simulation.broker(node).replicas.get(PARTITION)
            if replica is None:
                continue
            log, incarnation = replica.log, self.simulation.members[node].incarnation
            assert log.start_offset <= replica.high_watermark <= log.end_offset
            key = (node, incarnation * 1_000 + replica.assignment.leader_epoch)
            if PARTITION in self.simulation.broker(node).leading:
                assert replica.high_watermark >= self.high_watermarks.get(key, 0), "the high watermark went back"
                self.high_watermarks[key] = replica.high_watermark

    @invariant()
    def no_follower_fails(self) -> None:
        for node in self.simulation.up:
            following = self.simulation.broker(node).following.get(PARTITION)
            assert following is None or following.phase is not FollowerPhase.FAILED, following.failure

    def teardown(self) -> None:
        """Without faults, all replicas have the leader's log in the end, and writes are acknowledged."""
        simulation = self.simulation
        if simulation.metadata.leader < 0:
            return
        for _ in range(30):
            for node in (1, 2, 3):
                self.inform(node)
            for _ in range(100):
                if simulation.flight:
                    simulation.deliver(simulation.flight[0])
                if simulation.proposals:
                    self.decide(is_answered=True)
            simulation.advance(1_100)
        leader = simulation.metadata.leader
        assert set(simulation.metadata.isr) == {1, 2, 3}, f"the ISR stays {simulation.metadata.isr}"
        assert all(self.batches(node) == self.batches(leader) for node in (1, 2, 3)), "logs stay different"
        self.acknowledged_writes_are_on_the_leader()


def play(name: str, examples: int, **switches: Any) -> None:
    """Run the machine with these switches."""
    machine = type(name, (Replicas,), {"switches": switches})
    tried = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine, settings=tried)


SAFE: dict[str, dict[str, Any]] = {
    "on-fetch": {"truncation": "on-fetch"},
    "kip-279": {"truncation": "kip-279"},
}


@pytest.mark.parametrize("switches", SAFE.values(), ids=SAFE)
def test_nothing_acknowledged_is_lost_and_logs_become_equal(switches: dict[str, Any]) -> None:
    play("Safe", 100, **switches)


LOSSY: dict[str, dict[str, Any]] = {
    "high-watermark": {"truncation": "high-watermark"},
    "kip-101": {"truncation": "kip-101"},
    "kip-279, errors fall back to the high watermark": {"truncation": "kip-279", "truncation_error": "high-watermark"},
}


@pytest.mark.slow
@pytest.mark.parametrize("switches", LOSSY.values(), ids=LOSSY)
def test_other_rules_lose_records_or_leave_logs_different(switches: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        play("Lossy", 10_000, **switches)


@pytest.mark.parametrize(
    "mutant",
    [
        "follower-never-truncates",
        "epochs-not-compared",
        "acknowledged-by-leader-alone",
        "shrinks-before-confirmed",
        "uncommitted-records-consumed",
    ],
)
def test_the_machine_finds_a_mutant(mutant: PartitionMutant) -> None:
    with pytest.raises(AssertionError):
        play("Mutated", 2_000, mutant=mutant)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", ["leaders-offset-taken", "diverged-fetch-counts", "follower-high-watermark-beyond-log"]
)
def test_the_machine_finds_a_rare_mutant(mutant: PartitionMutant) -> None:
    with pytest.raises(AssertionError):
        play("Mutated", 10_000, mutant=mutant, fetch_partition_bytes=1 if mutant.startswith("high") else 2**20)
