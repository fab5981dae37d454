"""Disk faults: whom a step means, that a disk at rest has no server, what proves an action, and what healing mends."""

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
    """Disks that do what they are told, but for the sound, which nothing befalls, and the broken, which stay so."""

    def __init__(self, processes):
        self.processes = processes
        self.done = []
        self.faulty = []
        self.sound, self.broken, self.reasons = set(), set(), {}

    def unavailable(self, action):
        return self.reasons.get(action)

    async def inject(self, node, action, details):
        self.done.append((node, action, self.processes.state(node)))
        if action in LIVE:
            self.faulty.append(node)
        return dict(details)

    async def heal(self, node):
        self.faulty.remove(node)

    async def probe(self, node, _deed, _done):
        return "nothing befell it" if node in self.sound else None

    async def problem(self, node):
        return "it hangs" if node in self.broken else None


@pytest.fixture
def disks(context):
    context.disks = FakeDisks(context.processes)
    return context.disks


def sequence(context, step):
    """Carry out a step as the nemesis's session does, its arguments checked as a plan's are; what was done."""
    TypeAdapter(FAULT.actions[step.f].arguments).validate_json(json.dumps(step.value), strict=True)
    assert FAULT.unavailable(context, step.f) is None
    resolved = FAULT.resolve(context, step.f, step.value)
    assert FAULT.undo(step.f, resolved) is not None
    return asyncio.run(FAULT.inject(context, step.f, resolved))


ACTIONS = {
    "a new disk": (lose_disk(LEADER), "n2 lost its disk and has a new one"),
    "a newcomer's disk": (lose_disk(LEADER, newcomer=True), "n2 lost its disk and has a new one, which never voted"),
    "power failure": (lose_unsynced(LEADER), "n2 lost what it had not synced"),
    "flipped bits": (flip_bits("n1", 3), "n1 has 3 flipped bits in __cluster_metadata-0/*.log"),
    "last bytes": (truncate_log("n1", last_bytes=7), "n1 lost the last 7 bytes of __cluster_metadata-0"),
    "last batches": (truncate_log("n1", last_batches=2), "n1 lost the last 2 batches of __cluster_metadata-0"),
    "a checkpoint": (corrupt_checkpoint("n1", damage="zeros"), "n1 has zeros in its quorum-state"),
    "full": (fill_disk("n3", 10), "n3 has 10 bytes left on its disk"),
    "read-only": (read_only_disk("n3"), "n3 has a read-only disk"),
    "slow": (slow_disk(LEADER, 50), "n2 has a disk slower by 50 ms"),
    "hanging": (hang_disk(LEADER), "n2 has a disk that hangs"),
    "errors": (disk_errors("n3", 0.25, "ENOSPC"), "n3 has a disk with 25% ENOSPC"),
}


@pytest.mark.parametrize(("step", "label"), ACTIONS.values(), ids=ACTIONS)
def test_a_step_befalls_whom_it_names_and_a_disk_at_rest_has_no_server(context, disks, step, label):
    done = sequence(context, step)
    assert done["label"] == label
    ((node, action, state),) = disks.done
    assert [node] == done["nodes"]
    assert (action, state) == (step.f, "gone" if step.f in AT_REST else "running")


def test_every_deed_has_a_step_and_each_is_at_rest_or_live():
    assert {step.f for step, _ in ACTIONS.values()} == set(FAULT.actions) == {*AT_REST, *LIVE}
    assert set(LAYERED) < set(LIVE)


def test_a_node_that_is_down_already_is_not_killed_again(context, disks):
    context.processes.states[1] = "gone"
    sequence(context, flip_bits("n1"))
    assert context.processes.actions == []
    assert [node for node, _, _ in disks.done] == [1]


def test_the_floor_spares_nodes_from_what_kills_them(context, disks):
    context.floor = 2
    assert len(sequence(context, slow_disk(ALL, 50))["nodes"]) == 3
    assert len(sequence(context, lose_disk(ALL))["nodes"]) == 1
    assert len(disks.done) == 4


def test_arguments_left_out_have_their_defaults(context, disks):
    assert sequence(context, Step("flip_bits", {"who": "n1"}))["done"]["n1"]["bits"] == 1
    assert disks.done == [(1, "flip_bits", "gone")]


def test_a_disk_that_nothing_befell_fails(context, disks):
    disks.sound = {2}
    with pytest.raises(PeerFailure, match="proving slow_disk on n2: nothing befell it"):
        sequence(context, slow_disk(LEADER, 50))


def test_what_these_disks_cannot_do_is_not_tried(context, disks):
    disks.reasons = {"lose_unsynced": "tmpfs keeps what was not synced"}
    assert FAULT.unavailable(context, lose_unsynced(LEADER).f) == "tmpfs keeps what was not synced"
    assert FAULT.unavailable(context, lose_disk(LEADER).f) is None


def test_healing_mends_whoever_is_disturbed_and_proves_each(context, disks):
    sequence(context, hang_disk("n1"))
    sequence(context, slow_disk("n3", 50))
    disks.broken = {1, 2}
    with pytest.raises(PeerFailure, match=r"proving that disks are whole: n1: it hangs$"):
        asyncio.run(FAULT.heal(context))
    assert disks.faulty == []


def test_healing_is_nothing_where_there_are_no_disks_to_mend(context):
    assert asyncio.run(FAULT.heal(context)) is None
    assert FAULT.unavailable(context, next(iter(FAULT.actions))) == "hosts of this kind have no disks"


def test_the_undo_of_a_deed_at_rest_is_a_start_and_of_any_other_to_mend_the_disk():
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
def test_a_plan_refuses_what_means_nothing(f, value):
    with pytest.raises(ValidationError):
        TypeAdapter(FAULT.actions[f].arguments).validate_json(json.dumps(value), strict=True)


def test_whatever_is_drawn_is_taken_by_a_plan_and_wipes_nothing():
    for seed in range(100):
        (step,) = FAULT.sample(random.Random(seed), 3)
        assert TypeAdapter(FAULT.actions[step.f].arguments).validate_json(json.dumps(step.value), strict=True)
        assert step.f in LIVE
