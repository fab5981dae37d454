"""Faults that a plan's system does not support are refused before the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import plugins
from harness.model import BadInput
from harness.model.faults.disks import corrupt_checkpoint, fill_disk, flip_bits, truncate_log
from harness.model.faults.membership import elect
from harness.model.faults.requests import create_topic
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.systems.cluster import refuse_unavailable_faults
from harness.systems.reference import REFERENCE

WITHOUT_LOG = "expected {}, because plugin has no metadata log, which is the default"
DAMAGE = {
    # case: step, the reason for a system without a metadata log; None if it supports the step
    "its log": (truncate_log("n1", last_bytes=1), WITHOUT_LOG.format("log")),
    "its segments": (flip_bits("n1"), WITHOUT_LOG.format("files")),
    "its checkpoint": (corrupt_checkpoint("n1"), "plugin has no metadata log, and so no checkpoints"),
    "another log": (truncate_log("n1", last_bytes=1, log="data"), None),
    "other files": (flip_bits("n1", files="data/*"), None),
    "the disk": (fill_disk("n1"), None),
}


def plan(step):
    return Plan(name="plugin", seed=1, story=[StoryStep.of(step)])


@pytest.mark.parametrize(("step", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_damage_to_a_metadata_log_is_refused_if_the_system_has_none(monkeypatch, step, reason):
    monkeypatch.setattr(plugins, "system", lambda _name: (replace(REFERENCE, name="plugin", metadata_log=None), ""))
    if reason is None:
        refuse_unavailable_faults(plan(step))
        return
    with pytest.raises(BadInput) as refused:
        refuse_unavailable_faults(plan(step))
    assert str(refused.value) == f"story: {step.f}: {reason}"


@pytest.mark.parametrize(
    ("step", "capability"),
    [(elect(), "membership"), (create_topic("n1", "t", 1), "requests")],
    ids=["membership", "requests"],
)
def test_capability_that_a_system_lacks_is_refused_by_name(monkeypatch, step, capability):
    bare = replace(REFERENCE, name="plugin", unavailable=lambda _layout, _voters: {}, **{capability: None})
    monkeypatch.setattr(plugins, "system", lambda _name: (bare, ""))
    with pytest.raises(BadInput, match=f"^story: {step.f}: not supported by --system plugin$"):
        refuse_unavailable_faults(plan(step))


@pytest.mark.parametrize("way", ["none", "kip-642", "kip-853"])
def test_reference_changes_single_voters_only_with_its_switch(way):
    reasons = REFERENCE.reasons("combined", 3, {"reference.voter_changes": way})
    assert ("voters" in reasons) is (way != "kip-853")


@pytest.mark.parametrize("step", [step for step, _ in DAMAGE.values()], ids=DAMAGE)
def test_every_damage_is_possible_if_the_system_has_a_metadata_log(step):
    refuse_unavailable_faults(plan(step))
