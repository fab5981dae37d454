"""Whatever brokers do, a leader that was elected cleanly has every committed record: a model of replicas whose logs are
lengths, driven at random, with a real controller.

A record is committed once all of the ISR have it, and with eligible leader replicas only while the ISR is as large as
min.insync.replicas (KIP-966). A broker that is killed loses the end of its logs where the controller is told of unclean
shutdowns, and nothing where it is not, since then nobody could keep what is lost (KIP-966, Motivation).
"""

from __future__ import annotations

import random
import uuid

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

from nodes.reference.core.controller import messages
from nodes.reference.core.controller.changes import Election
from nodes.reference.core.controller.controller import Controller
from nodes.reference.core.controller.mutants import ControllerMutant
from nodes.reference.core.controller.settings import ControllerSettings
from nodes.reference.core.records.entities import MetadataRecord
from nodes.reference.core.records.image import Image, Partition

NODES = (1, 2, 3, 4)
REPLICAS = (1, 2, 3)
nodes, replicas = st.sampled_from(NODES), st.sampled_from(REPLICAS)


class Cluster(RuleBasedStateMachine):
    """Four brokers, of which three replicate t-0 in the beginning."""

    mutant: ControllerMutant | None = None
    has_operator = True  # who asks for elections and reassignments

    @initialize(has_elr=st.booleans(), min_isr=st.integers(1, 2))
    def begin(self, has_elr: bool, min_isr: int) -> None:
        self.settings = ControllerSettings("test", eligible_leader_replicas=has_elr, mutant=self.mutant)
        self.draw = random.Random(0).randrange
        self.controller = Controller(Image(), self.settings, self.draw, 0)
        self.now_ms = self.offset = self.incarnations = 0
        self.lengths = dict.fromkeys(NODES, 0)
        self.committed = 0
        self.up: set[int] = set()
        self.leaders: dict[int, int] = {}  # of t-0, by leader epoch
        self.log: list[MetadataRecord] = []
        self.min_isr = min_isr if has_elr else 1
        for node in NODES:
            self.start(node, is_clean=False)
        topic = messages.NewTopic("t", assignments={0: REPLICAS}, configs={"min.insync.replicas": str(min_isr)})
        self.ask(messages.CreateTopics((topic,)))

    def ask(self, request: messages.ControllerRequest) -> messages.ControllerResponse | None:
        decision = self.controller.handle(request, self.offset, self.now_ms)
        self.offset += len(decision.records)
        self.log += decision.records
        self.follow()
        return decision.response

    def follow(self) -> None:
        """Followers truncate to a leader that runs, and one that was elected uncleanly begins anew."""
        partition = self.partition
        if partition is None:
            return
        if partition.is_recovering and partition.has_leader:
            self.committed = min(self.committed, self.lengths[partition.leader])
        if partition.leader in self.up:
            for node in set(partition.replicas) & self.up:
                self.lengths[node] = min(self.lengths[node], self.lengths[partition.leader])

    @property
    def partition(self) -> Partition | None:
        return self.controller.image.partition("t", 0)

    def start(self, node: int, is_clean: bool) -> None:
        self.incarnations += 1
        before = self.controller.image.brokers.get(node)
        previous = before.epoch if before is not None and is_clean else -1
        request = messages.RegisterBroker(node, "test", uuid.UUID(int=self.incarnations), previous_epoch=previous)
        response = self.ask(request)
        assert isinstance(response, messages.RegisterBrokerResponse)
        if not response.error:
            self.up.add(node)
            self.beat(node)

    def beat(self, node: int) -> None:
        broker = self.controller.image.brokers[node]
        self.ask(messages.Heartbeat(node, broker.epoch, self.offset))

    @precondition(lambda self: self.partition.leader in self.up)
    @rule(count=st.integers(1, 3))
    def write(self, count: int) -> None:
        self.lengths[self.partition.leader] += count
        self.commit()

    @precondition(lambda self: self.partition.leader in self.up)
    @rule(node=nodes)
    def fetch(self, node: int) -> None:
        if node in self.up and node in self.partition.replicas:
            self.lengths[node] = self.lengths[self.partition.leader]
            self.commit()

    def commit(self) -> None:
        isr = self.partition.isr
        if len(isr) >= self.min_isr:
            self.committed = max(self.committed, min(self.lengths[node] for node in isr))

    @precondition(lambda self: self.partition.leader in self.up)
    @rule(node=nodes, grows=st.booleans())
    def change_isr(self, node: int, grows: bool) -> None:
        """The leader adds a follower that has all it has itself, or removes one."""
        partition, leader = self.partition, self.partition.leader
        is_equal = self.lengths[node] == self.lengths[leader]
        if node == leader or node not in partition.replicas or (grows and (node not in self.up or not is_equal)):
            return
        isr = [each for each in partition.isr if each != node] + [node] * grows
        brokers = self.controller.image.brokers
        epochs = partition.leader_epoch, partition.partition_epoch
        change = messages.IsrChange(partition.topic_id, 0, *epochs, tuple((each, -1) for each in isr))
        self.ask(messages.AlterPartition(leader, brokers[leader].epoch, (change,)))
        self.commit()

    @precondition(lambda self: self.up)
    @rule(node=nodes, lost=st.integers(0, 3))
    def kill(self, node: int, lost: int) -> None:
        self.up.discard(node)
        if self.settings.eligible_leader_replicas:
            self.lengths[node] = max(0, self.lengths[node] - lost)

    @rule(node=nodes)
    def restart(self, node: int) -> None:
        if node not in self.up:
            self.start(node, is_clean=False)

    @rule(node=nodes)
    def shut_down(self, node: int) -> None:
        if node in self.up:
            broker = self.controller.image.brokers[node]
            self.ask(messages.Heartbeat(node, broker.epoch, self.offset, wants_shutdown=True))

    @rule(duration_ms=st.sampled_from([1000, 10_000]))
    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        for node in sorted(self.up):
            self.beat(node)
        decision = self.controller.expire(self.offset, self.now_ms)
        self.offset += len(decision.records)
        self.log += decision.records
        self.follow()

    @rule()
    def change_controller(self) -> None:
        """Another node leads the quorum; it has read the whole log."""
        image = Image()
        for record in self.log:
            image.apply(record)
        assert image == self.controller.image
        self.controller = Controller(image, self.settings, self.draw, self.now_ms)

    @precondition(lambda self: self.has_operator)
    @rule(brokers=st.lists(nodes, min_size=1, max_size=3, unique=True))
    def reassign(self, brokers: list[int]) -> None:
        self.ask(messages.Reassign({("t", 0): tuple(brokers)}))

    @precondition(lambda self: self.has_operator)
    @rule()
    def cancel(self) -> None:
        self.ask(messages.Reassign({("t", 0): None}))

    @precondition(lambda self: self.has_operator)
    @rule(how=st.sampled_from([Election.PREFERRED, Election.UNCLEAN]))
    def elect(self, how: Election) -> None:
        self.ask(messages.ElectLeaders(how, [("t", 0)]))

    @precondition(lambda self: self.has_operator)
    @rule(node=nodes)
    def designate(self, node: int) -> None:
        self.ask(messages.ElectLeaders(Election.DESIGNATED, [("t", 0)], {("t", 0): node}))

    @invariant()
    def a_leader_is_in_sync_and_may_lead(self) -> None:
        partition = self.partition
        assert len(set(partition.replicas)) == len(partition.replicas) > 0
        assert set(partition.isr) <= set(partition.replicas)
        assert not set(partition.isr) & set(partition.elr)
        assert partition.isr or partition.elr or partition.last_known_elr
        if partition.has_leader:
            assert partition.leader in partition.isr
            assert self.controller.image.is_active(partition.leader)

    @invariant()
    def an_epoch_has_one_leader(self) -> None:
        partition = self.partition
        assert self.leaders.setdefault(partition.leader_epoch, partition.leader) == partition.leader
        assert partition.leader_epoch == max(self.leaders)

    @invariant()
    def a_leader_has_what_is_committed(self) -> None:
        partition = self.partition
        if partition.has_leader and partition.leader in self.up:
            assert self.lengths[partition.leader] >= self.committed


def test_clean_elections_lose_nothing() -> None:
    run_state_machine_as_test(Cluster, settings=settings(max_examples=100, stateful_step_count=50, deadline=None))


FOUND: dict[ControllerMutant, bool] = {
    "designates-online-partitions": True,
    "designates-fenced-brokers": True,
    "fenced-broker-stays-in-isr": False,
    "last-replica-leaves-isr": False,
    "lost-disk-stays-eligible": False,
}
"""Mutants that break the model, and whether it takes an operator."""


@pytest.mark.parametrize("name", FOUND)
def test_the_model_finds_a_mutant(name: ControllerMutant) -> None:
    class Mutated(Cluster):
        mutant = name
        has_operator = FOUND[name]

    tried = settings(
        max_examples=2000,
        stateful_step_count=50,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Mutated, settings=tried)
