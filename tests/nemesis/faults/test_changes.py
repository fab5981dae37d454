"""Changes to single nodes: stop, change, start; and restore."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from harness.model import BadInput, PeerFailure
from harness.model.story import LEADER, Step, change_version, configure
from nemesis.faults.change import FAULT

TOO_SHORT = {"controller.quorum.fetch.timeout.ms": "100"}


class FakeNodeConfigs:
    """Fake configurations that record the state of a node at each change."""

    def __init__(self, processes):
        self.processes, self.now, self.states = processes, {}, []

    @property
    def changed(self):
        return tuple(sorted(self.now))

    async def change(self, node, switches, system):
        self.states.append((node, self.processes.state(node)))
        if system == "kafka:9.9.9":
            raise BadInput("Kafka 9.9.9: not on this machine")
        self.now[node] = system or f"reference {switches}"
        return self.now[node]

    async def restore(self, node):
        self.states.append((node, self.processes.state(node)))
        self.now.pop(node, None)


@pytest.fixture
def node_configs(context):
    context.node_configs = FakeNodeConfigs(context.processes)
    return context.node_configs


def inject(context, step):
    value = FAULT.actions[step.f].complete(step.value)
    return asyncio.run(FAULT.inject(context, step.f, FAULT.resolve(context, step.f, value)))


def test_a_node_is_changed_while_it_is_down_and_runs_afterwards(context, node_configs):
    done = inject(context, configure(LEADER, TOO_SHORT))
    assert node_configs.states == [(2, "gone")]
    assert context.processes.actions == [("stop", 2), ("start", 2)]
    assert done["nodes"] == [2]
    assert "fetch.timeout" in done["label"]


def test_a_paused_node_is_resumed_before_it_is_stopped(context, node_configs):
    context.processes.states[1] = "paused"
    inject(context, change_version("n1", "kafka:4.3.1"))
    assert context.processes.actions == [("resume", 1), ("stop", 1), ("start", 1)]
    assert node_configs.now == {1: "kafka:4.3.1"}


def test_healing_restores_only_changed_nodes(context, node_configs):
    inject(context, configure("n1", TOO_SHORT))
    inject(context, change_version("n3", "kafka:4.3.1"))
    context.processes.actions.clear()
    asyncio.run(FAULT.heal(context))
    assert node_configs.changed == ()
    assert context.processes.actions == [("stop", 1), ("start", 1), ("stop", 3), ("start", 3)]
    asyncio.run(FAULT.heal(context))
    assert len(context.processes.actions) == 4


def test_a_node_that_does_not_start_fails_the_action(context, node_configs):
    context.processes.states[1] = "gone"
    context.processes.stuck = {1}
    with pytest.raises(PeerFailure, match="n1: it is gone after its start"):
        inject(context, configure("n1", TOO_SHORT))
    assert node_configs.changed == (1,)


def test_a_release_that_is_not_installed_is_bad_input(context, node_configs):
    with pytest.raises(BadInput, match=r"Kafka 9\.9\.9"):
        inject(context, change_version("n1", "kafka:9.9.9"))
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
    ids=["no property", "semicolon in a name", "second line", "command", "path", "command in a node"],
)
def test_invalid_names_and_values_are_refused(step):
    with pytest.raises(ValidationError):
        FAULT.actions[step.f].complete(step.value)


def test_healing_kills_a_node_that_does_not_stop(context, node_configs, monkeypatch):
    inject(context, configure(LEADER, TOO_SHORT))

    async def stop(node):
        raise PeerFailure(f"ending n{node} with SIGTERM: still running after 30 s")

    monkeypatch.setattr(context.processes, "stop", stop)
    context.processes.actions.clear()
    asyncio.run(FAULT.heal(context))
    assert node_configs.now == {}
    assert context.processes.actions == [("kill", 2), ("start", 2)]
