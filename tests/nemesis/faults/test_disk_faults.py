"""Disk faults: which nodes they affect, in which state, and how they are verified and healed."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from pydantic import TypeAdapter, ValidationError

from harness.model import PeerFailure
from harness.model.faults.disks import (
    AT_REST,
    LAYERED,
    LIVE,
    corrupt_checkpoint,
    disk_errors,
    fill_disk,
    flip_bits,
    hang_disk,
    lose_disk,
    lose_unsynced,
    read_only_disk,
    slow_disk,
    truncate_log,
)
from harness.model.story import ALL, LEADER, Step
from nemesis.faults.disk import FAULT


class FakeDisks:
    """Fake disks: no fault takes effect on those in `unaffected`, no healing on those in `broken`."""

    def __init__(self, processes):
        self.processes = processes
        self.done = []
        self.faulty = []
        self.unaffected, self.broken, self.reasons = set(), set(), {}

    def unavailable(self, action):
        return self.reasons.get(action)

    async def inject(self, node, action, details):
        self.done.append((node, action, self.processes.state(node)))
        if action in LIVE:
            self.faulty.append(node)
        return dict(details)

    async def heal(self, node):
        self.faulty.remove(node)

    async def probe(self, node, _action, _done):
        return "no effect" if node in self.unaffected else None

    async def problem(self, node):
        return "it hangs" if node in self.broken else None


@pytest.fixture
def disks(context):
    context.disks = FakeDisks(context.processes)
    context.metadata_log = "metadata-0"
    return context.disks


def inject(context, step):
    """Inject a step as the nemesis's session does; returns what was done."""
    assert FAULT.unavailable(context, step.f) is None
    resolved = FAULT.resolve(context, step.f, FAULT.actions[step.f].complete(step.value))
    assert FAULT.undo(step.f, resolved) is not None
    return asyncio.run(FAULT.inject(context, step.f, resolved))


ACTIONS = {
    "a new disk": (lose_disk(LEADER), "n2 lost its disk and has a new one"),
    "a newcomer's disk": (
        lose_disk(LEADER, newcomer=True),
        "n2 lost its disk and has a new one, not a voter's",
    ),
    "power failure": (lose_unsynced(LEADER), "n2 lost its unsynced writes"),
    "flipped bits": (flip_bits("n1", 3), "n1 has 3 flipped bits in metadata-0/*.log"),
    "flipped bits in a topic": (flip_bits("n1", 3, "log-1/*.log"), "n1 has 3 flipped bits in log-1/*.log"),
    "last bytes": (truncate_log("n1", last_bytes=7), "n1 lost the last 7 bytes of metadata-0"),
    "last batches": (truncate_log("n1", last_batches=2), "n1 lost the last 2 batches of metadata-0"),
    "last bytes of a topic": (truncate_log("n1", last_bytes=7, log="log-1"), "n1 lost the last 7 bytes of log-1"),
    "a checkpoint": (corrupt_checkpoint("n1", damage="zeros"), "n1 has zeros in its quorum-state"),
    "full": (fill_disk("n3", 10), "n3 has 10 bytes left on its disk"),
    "read-only": (read_only_disk("n3"), "n3 has a read-only disk"),
    "slow": (slow_disk(LEADER, 50), "n2 has a disk that is 50 ms slower"),
    "hanging": (hang_disk(LEADER), "n2 has a hanging disk"),
    "errors": (disk_errors("n3", 0.25, "ENOSPC"), "n3 has a disk that fails 25% of accesses with ENOSPC"),
}


@pytest.mark.parametrize(("step", "label"), ACTIONS.values(), ids=ACTIONS)
def test_a_step_affects_the_named_node_which_is_down_if_the_action_needs_that(context, disks, step, label):
    done = inject(context, step)
    assert done["label"] == label
    ((node, action, state),) = disks.done
    assert [node] == done["nodes"]
    assert (action, state) == (step.f, "gone" if step.f in AT_REST else "running")


def test_every_action_has_a_step_and_is_at_rest_or_live():
    assert {step.f for step, _ in ACTIONS.values()} == set(FAULT.actions) == {*AT_REST, *LIVE}
    assert set(LAYERED) < set(LIVE)


def test_a_node_that_is_down_already_is_not_killed_again(context, disks):
    context.processes.states[1] = "gone"
    inject(context, flip_bits("n1"))
    assert context.processes.actions == []
    assert [node for node, _, _ in disks.done] == [1]


def test_the_floor_limits_actions_that_kill_nodes(context, disks):
    context.floor = 2
    assert len(inject(context, slow_disk(ALL, 50))["nodes"]) == 3
    assert len(inject(context, lose_disk(ALL))["nodes"]) == 1
    assert len(disks.done) == 4


def test_omitted_arguments_have_their_defaults(context, disks):
    assert inject(context, Step("flip_bits", {"who": "n1"}))["done"]["n1"]["bits"] == 1
    assert disks.done == [(1, "flip_bits", "gone")]


@pytest.mark.parametrize(
    ("checkpoint", "file"),
    [
        ("quorum-state", "metadata-0/quorum-state"),
        ("leader-epoch-checkpoint", "metadata-0/leader-epoch-checkpoint"),
        ("meta.properties", "meta.properties"),
    ],
)
@pytest.mark.usefixtures("disks")
def test_checkpoints_are_in_the_metadata_log_of_the_system_except_meta_properties(context, checkpoint, file):
    assert inject(context, corrupt_checkpoint("n1", checkpoint))["done"]["n1"]["file"] == file


def test_a_fault_without_effect_fails(context, disks):
    disks.unaffected = {2}
    with pytest.raises(PeerFailure, match="verifying slow_disk on n2: no effect"):
        inject(context, slow_disk(LEADER, 50))


def test_an_action_that_is_not_possible_on_these_disks_is_unavailable(context, disks):
    disks.reasons = {"lose_unsynced": "tmpfs keeps what was not synced"}
    assert FAULT.unavailable(context, lose_unsynced(LEADER).f) == "tmpfs keeps what was not synced"
    assert FAULT.unavailable(context, lose_disk(LEADER).f) is None


def test_healing_heals_and_verifies_every_disturbed_disk(context, disks):
    inject(context, hang_disk("n1"))
    inject(context, slow_disk("n3", 50))
    disks.broken = {1, 2}
    with pytest.raises(PeerFailure, match=r"verifying that disks work: n1: it hangs$"):
        asyncio.run(FAULT.heal(context))
    assert disks.faulty == []


def test_healing_does_nothing_on_hosts_without_disks(context):
    assert asyncio.run(FAULT.heal(context)) is None
    assert FAULT.unavailable(context, next(iter(FAULT.actions))) == "hosts of this kind have no disks"


def test_actions_at_rest_are_undone_by_a_start_and_others_by_healing_the_disk():
    undos = {action: FAULT.undo(action, {"nodes": [1]}) for action in FAULT.actions}
    assert {action for action, undo in undos.items() if undo.kind == "start"} == set(AT_REST)
    assert {action for action, undo in undos.items() if undo.kind == "heal-disks"} == set(LIVE)


@pytest.mark.parametrize(
    ("f", "value"),
    [
        ("slow_disk", {"who": "n1", "delay_ms": 1}),
        ("slow_disk", {"who": "n1"}),
        ("disk_errors", {"who": "n1", "rate": 0.001}),
        ("disk_errors", {"who": "n1", "rate": 0.5, "error": "EPERM"}),
        ("truncate_log", {"who": "n1"}),
        ("truncate_log", {"who": "n1", "last_bytes": 1, "last_batches": 1}),
        ("flip_bits", {"who": "n1", "files": "../../etc/passwd"}),
        ("flip_bits", {"who": "n1", "files": "/etc/passwd"}),
        ("corrupt_checkpoint", {"who": "n1", "checkpoint": "server.log"}),
    ],
)
def test_a_plan_refuses_invalid_arguments(f, value):
    with pytest.raises(ValidationError):
        TypeAdapter(FAULT.actions[f].arguments).validate_json(json.dumps(value), strict=True)


def test_every_sample_is_valid_in_a_plan_and_loses_no_data():
    for seed in range(100):
        (step,) = FAULT.sample(random.Random(seed), 3)
        assert TypeAdapter(FAULT.actions[step.f].arguments).validate_json(json.dumps(step.value), strict=True)
        assert step.f in LIVE
