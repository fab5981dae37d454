"""Changes of single nodes: stopped, changed, started; and given back what the run began with."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import TypeAdapter, ValidationError

from harness.model import BadInput, PeerFailure
from harness.model.story import LEADER, Step, change_version, configure
from nemesis.faults.change import FAULT

TOO_SHORT = {"controller.quorum.fetch.timeout.ms": "100"}


class FakeRecipes:
    """NodeConfigs that remember what they were asked while a node was in which state."""

    def __init__(self, processes):
        self.processes, self.now, self.asked = processes, {}, []

    @property
    def changed(self):
        return tuple(sorted(self.now))

    async def change(self, node, switches, system):
        self.asked.append((node, self.processes.state(node)))
        if system == "kafka:9.9.9":
            raise BadInput("Kafka 9.9.9: not on this machine")
        self.now[node] = system or f"reference {switches}"
        return self.now[node]

    async def restore(self, node):
        self.asked.append((node, self.processes.state(node)))
        self.now.pop(node, None)


@pytest.fixture
def node_configs(context):
    context.node_configs = FakeRecipes(context.processes)
    return context.node_configs


def sequence(context, step):
    TypeAdapter(FAULT.actions[step.f].arguments).validate_python(step.value)
    return asyncio.run(FAULT.inject(context, step.f, FAULT.resolve(context, step.f, step.value)))


def test_a_node_is_changed_while_it_is_down_and_runs_afterwards(context, node_configs):
    done = sequence(context, configure(LEADER, TOO_SHORT))
    assert node_configs.asked == [(2, "gone")]
    assert context.processes.actions == [("stop", 2), ("start", 2)]
    assert done["nodes"] == [2]
    assert "fetch.timeout" in done["label"]


def test_a_paused_node_is_resumed_first_as_it_could_not_be_stopped(context, node_configs):
    context.processes.states[1] = "paused"
    sequence(context, change_version("n1", "kafka:4.3.1"))
    assert context.processes.actions == [("resume", 1), ("stop", 1), ("start", 1)]
    assert node_configs.now == {1: "kafka:4.3.1"}


def test_healing_gives_every_changed_node_back_what_it_had_and_leaves_the_others_alone(context, node_configs):
    sequence(context, configure("n1", TOO_SHORT))
    sequence(context, change_version("n3", "kafka:4.3.1"))
    context.processes.actions.clear()
    asyncio.run(FAULT.heal(context))
    assert node_configs.changed == ()
    assert context.processes.actions == [("stop", 1), ("start", 1), ("stop", 3), ("start", 3)]
    asyncio.run(FAULT.heal(context))
    assert len(context.processes.actions) == 4


def test_a_node_that_does_not_come_back_fails_the_deed(context, node_configs):
    context.processes.states[1] = "gone"
    context.processes.stuck = {1}
    with pytest.raises(PeerFailure, match="n1: it is gone after its start"):
        sequence(context, configure("n1", TOO_SHORT))
    assert node_configs.changed == (1,)


def test_a_release_that_is_not_here_is_bad_input(context, node_configs):
    with pytest.raises(BadInput, match=r"Kafka 9\.9\.9"):
        sequence(context, change_version("n1", "kafka:9.9.9"))
    assert node_configs.changed == ()


@pytest.mark.parametrize(
    "step",
    [
        configure("n1", {}),
        configure("n1", {"a;b": "1"}),
        configure("n1", {"a": "1\nnode.id=7"}),
        change_version("n1", "kafka:$(id)"),
        change_version("n1", "../kafka"),
        Step("configure", {"who": "n1;reboot", "switches": {"a": "1"}}),
    ],
    ids=["nothing", "a name with a semicolon", "a second line", "a command", "a path", "a node with a command"],
)
def test_what_is_no_plain_name_is_refused_before_anything_is_done(step):
    with pytest.raises(ValidationError):
        TypeAdapter(FAULT.actions[step.f].arguments).validate_python(step.value)
