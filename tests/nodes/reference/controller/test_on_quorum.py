"""The controller on a simulated quorum: what it acknowledges is committed, and the next controller has it."""

from __future__ import annotations

import random
import uuid

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.core.controller import messages
from nodes.reference.core.controller.settings import ControllerSettings
from nodes.reference.core.records.image import Image
from tests.support.nodes.quorum_simulation import Operation, Simulation

SETTINGS = ControllerSettings("test")


def quorum(seed: int = 0) -> tuple[Simulation, int]:
    """Three voters with a leader that has committed."""
    simulation = Simulation(seed, controller=SETTINGS)
    return simulation, simulation.elect()


def answered(simulation: Simulation, node: int, request: messages.ControllerRequest) -> Operation:
    """The request with its response."""
    operation = simulation.invoke(node, request)
    simulation.run_until(lambda: operation.response is not None)
    return operation


def register(node: int) -> messages.RegisterBroker:
    return messages.RegisterBroker(node, "test", uuid.UUID(int=node))


def with_topic(simulation: Simulation, leader: int, name: str = "t") -> None:
    """Brokers 1 and 2 are live, and replicate the topic."""
    for node in (1, 2):
        registered = answered(simulation, leader, register(node)).response
        heartbeat = messages.Heartbeat(node, registered.broker_epoch, registered.broker_epoch)
        assert not answered(simulation, leader, heartbeat).response.is_fenced
    created = answered(simulation, leader, create(name)).response
    assert [result.error for result in created.results] == [ErrorCode.none]


def create(name: str) -> messages.CreateTopics:
    return messages.CreateTopics((messages.NewTopic(name, assignments={0: (1, 2)}),))


def image_of(simulation: Simulation, node: int) -> Image:
    return simulation.node(node).metadata.image


def test_only_the_leader_decides() -> None:
    simulation, leader = quorum()
    follower = next(node for node in simulation.members if node != leader)
    assert simulation.invoke(follower, register(1)).response == messages.NotController()


def test_a_broker_epoch_is_the_offset_of_its_registration() -> None:
    simulation, leader = quorum()
    first = answered(simulation, leader, register(1)).response.broker_epoch
    second = answered(simulation, leader, register(2)).response.broker_epoch
    assert first < second < simulation.node(leader).log.end_offset
    assert {broker.epoch for broker in image_of(simulation, leader).brokers.values()} == {first, second}


def test_what_is_acknowledged_is_on_every_node_and_on_the_next_controller() -> None:
    simulation, leader = quorum()
    with_topic(simulation, leader)
    simulation.run(1000)
    assert all(image_of(simulation, node) == image_of(simulation, leader) for node in simulation.members)
    simulation.crash(leader)
    successor = simulation.elect()
    exists = answered(simulation, successor, create("t")).response
    assert [result.error for result in exists.results] == [ErrorCode.topic_already_exists]


def test_a_response_waits_until_its_records_are_committed() -> None:
    simulation, leader = quorum()
    with_topic(simulation, leader)
    simulation.isolate(leader)
    operation = simulation.invoke(leader, create("u"))
    simulation.run(500)
    assert operation.response is None
    assert "u" not in image_of(simulation, leader).topics
    simulation.run_until(lambda: operation.response is not None)
    assert operation.response == messages.NotController()


def test_a_response_without_records_waits_for_what_it_depends_on() -> None:
    simulation, leader = quorum()
    with_topic(simulation, leader)
    simulation.isolate(leader)
    created, repeated = simulation.invoke(leader, create("u")), simulation.invoke(leader, create("u"))
    simulation.run(500)
    assert (created.response, repeated.response) == (None, None)


def test_a_leader_fences_brokers_that_are_silent() -> None:
    simulation, leader = quorum()
    with_topic(simulation, leader)
    simulation.run(SETTINGS.session_timeout_ms + 1000)
    image = image_of(simulation, leader)
    assert {broker.is_fenced for broker in image.brokers.values()} == {True}
    assert not image.topics["t"].partitions[0].has_leader


@pytest.mark.parametrize("seed", range(10))
def test_metadata_is_the_same_everywhere_under_crashes_and_cuts(seed: int) -> None:
    simulation, leader = quorum(seed)
    with_topic(simulation, leader)
    draw, acknowledged = random.Random(seed), []
    for number in range(30):
        fault = draw.choice(["crash", "isolate", "heal"])
        victim = draw.choice(list(simulation.members))
        if fault == "crash" and simulation.members[victim].is_up:
            simulation.crash(victim)
            simulation.restart(victim)
        elif fault == "isolate":
            simulation.heal()
            simulation.isolate(victim)
        else:
            simulation.heal()
        at = draw.choice([node for node, member in simulation.members.items() if member.is_up])
        operation = simulation.invoke(at, register(number + 10))
        simulation.run(draw.choice([100, 1000, 4000]))
        if isinstance(operation.response, messages.RegisterBrokerResponse):
            acknowledged.append(number + 10)
    simulation.heal()
    leader = simulation.elect()
    simulation.run(2000)
    assert simulation.violations == []
    images = [image_of(simulation, node) for node in simulation.members]
    assert all(image == images[0] for image in images)
    assert acknowledged
    assert set(acknowledged) <= images[0].brokers.keys()
