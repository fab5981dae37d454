"""A broker registers, sends heartbeats, and shuts down, against a controller on a simulated quorum."""

from __future__ import annotations

import uuid

import pytest

from nodes.reference.core.controller import messages
from nodes.reference.core.controller.lifecycle import SOON_MS, Lifecycle, LifecycleSettings
from nodes.reference.core.controller.settings import ControllerSettings
from tests.support.nodes.quorum_simulation import Operation, Simulation

STEP_MS = 10


class Brokers:
    """A broker on each node of a quorum."""

    def __init__(self) -> None:
        self.quorum = Simulation(controller=ControllerSettings("test"))
        self.quorum.elect()
        self.lives = {node: self.life(node) for node in self.quorum.members}
        self.silent: set[int] = set()
        self.waiting: dict[int, Operation] = {}

    def life(self, node: int, number: int = 1, previous_epoch: int = -1) -> Lifecycle:
        incarnation = uuid.UUID(int=node << 64 | number)
        return Lifecycle(
            LifecycleSettings(node, "test", incarnation, previous_epoch=previous_epoch), self.quorum.now_ms
        )

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms // STEP_MS):
            for node, life in self.lives.items():
                self.step(node, life)
            self.quorum.run(STEP_MS)

    def step(self, node: int, life: Lifecycle) -> None:
        now_ms = self.quorum.now_ms
        if node in self.waiting and self.waiting[node].response is not None:
            life.answered(self.waiting.pop(node).response, now_ms)
        if node in self.silent or not self.quorum.members[node].is_up:
            return
        core = self.quorum.node(node)
        request = life.next_request(core.metadata.applied_offset - 1, now_ms)
        if request is None:
            return
        leader = core.leader_id
        if leader is None or not self.quorum.members[leader].is_up:
            life.failed(now_ms)
        else:
            self.waiting[node] = self.quorum.invoke(leader, request)

    @property
    def live(self) -> list[int]:
        """The brokers that are not fenced."""
        leader = self.quorum.elect()
        brokers = self.quorum.node(leader).metadata.image.brokers
        return [node for node, broker in brokers.items() if broker.is_active]


def test_brokers_register_and_are_unfenced() -> None:
    brokers = Brokers()
    brokers.run(1000)
    assert sorted(brokers.live) == [1, 2, 3]
    assert not any(life.is_fenced for life in brokers.lives.values())


def test_a_silent_broker_is_fenced_and_returns_with_its_epoch() -> None:
    brokers = Brokers()
    brokers.run(1000)
    epoch = brokers.lives[2].epoch
    brokers.silent = {2}
    brokers.run(10_000)
    assert sorted(brokers.live) == [1, 3]
    brokers.silent = set()
    brokers.run(3000)
    assert sorted(brokers.live) == [1, 2, 3]
    assert brokers.lives[2].epoch == epoch


def test_heartbeats_go_on_at_the_next_controller() -> None:
    brokers = Brokers()
    brokers.run(1000)
    brokers.quorum.crash(brokers.quorum.elect())
    brokers.run(20_000)
    assert len(brokers.live) == 2


def test_a_controlled_shutdown_ends_when_the_others_know() -> None:
    brokers = Brokers()
    brokers.run(1000)
    brokers.lives[2].stop(brokers.quorum.now_ms)
    brokers.run(SOON_MS)
    assert not brokers.lives[2].may_end
    brokers.run(3000)
    assert brokers.lives[2].may_end
    assert sorted(brokers.live) == [1, 3]


def test_a_broker_that_is_not_registered_ends_at_once() -> None:
    brokers = Brokers()
    brokers.lives[1].stop(brokers.quorum.now_ms)
    assert brokers.lives[1].may_end


@pytest.mark.parametrize("response", [messages.NotController(), None])
def test_a_request_that_fails_is_repeated_soon(response: messages.NotController | None) -> None:
    life = Lifecycle(LifecycleSettings(1, "test", uuid.UUID(int=1)), 0)
    first = life.next_request(-1, 0)
    assert life.next_request(-1, 10_000) is None, "one request at a time"
    life.failed(10) if response is None else life.answered(response, 10)
    assert life.next_request(-1, 10 + SOON_MS - 1) is None
    assert life.next_request(-1, 10 + SOON_MS) == first
