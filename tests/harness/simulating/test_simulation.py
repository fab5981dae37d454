"""One plan on simulated nodes: what the story does, what is recorded, and that a run is the same again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from harness import plugins
from harness.model import NEMESIS, BadInput
from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN
from harness.model.faults.disks import corrupt_checkpoint, lose_unsynced
from harness.model.faults.requests import create_topic
from harness.model.story import (
    DOWN,
    LEADER,
    Step,
    change_version,
    configure,
    cut,
    heal,
    kill,
    pause,
    sleep,
    start,
    stop,
    wait_until,
)
from harness.planning.plan import Plan, ReproductionRequest, Request
from harness.planning.story_steps import StoryStep
from harness.running.reproduce import plans_to_run
from harness.running.run import plan_of
from harness.simulating.simulated import simulate
from harness.simulating.simulation import Outcome, unavailable_actions
from nodes.simulation.kafka.cluster import IN_FILES

FAULTS: dict[str, Sequence[Step]] = {
    "cut": [cut(LEADER)],
    "kill": [kill(LEADER)],
    "stop": [stop(LEADER)],
    "pause": [pause(LEADER)],
    "configure": [configure("n2", {"controller.quorum.fetch.timeout.ms": "700"})],
    "lose_unsynced": [lose_unsynced("n3"), start("n3")],
}


def plan(*story: Step, seed: int = 1, **values: Any) -> Plan:
    """A plan on simulated nodes, with a light load of registers unless values say otherwise."""
    given = {"workload": "register", "rate": 5.0, "hosts": "simulation", **values}
    return Plan(name="test", seed=seed, story=[StoryStep.of(step) for step in story], **given)


def ops_of(outcome: Outcome) -> list[tuple[str, str | None]]:
    """What the nemesis completed, with the errors."""
    return [(op.f, op.error) for op in outcome.history if op.process == NEMESIS and op.type == "info"][1::2]


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_takes_effect_and_the_quorum_recovers(fault: str) -> None:
    story = [wait_until(ALL_FOLLOW_LEADER), *FAULTS[fault], sleep(4), heal(), wait_until(LEADER_KNOWN), sleep(1)]
    outcome = simulate(plan(*story))
    assert [op for op in outcome.history if op.process == NEMESIS and op.error] == []
    assert outcome.violations == ()
    assert outcome.virtual_ms > 5_000
    oks = [op for op in outcome.history if op.type == "ok"]
    assert {op.f for op in oks} == {"read", "write"}
    assert len(oks) > 10


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("step", "label"),
    [
        (change_version("n2", "kafka:4.3.1"), "n2 is kafka:4.3.1"),
        (
            configure("n2", {"controller.quorum.fetch.timeout.ms": "700"}),
            "n2 is controller.quorum.fetch.timeout.ms=700",
        ),
    ],
    ids=["release", "property"],
)
def test_node_of_kafka_is_changed_and_healed(step: Step, label: str) -> None:
    story = [wait_until(ALL_FOLLOW_LEADER), step, wait_until(ALL_FOLLOW_LEADER), heal(), wait_until(ALL_FOLLOW_LEADER)]
    outcome = simulate(plan(*story, system="kafka:3.9.1", switches=IN_FILES), observes=True)
    assert [op for op in outcome.history if op.process == NEMESIS and op.error] == []
    assert [op for op in outcome.history if op.f == step.f][-1].value["label"] == label
    ends = [each.detail for each in outcome.observations if each.node == 2 and each.kind == "stopped"]
    assert ends == ["stopped", "stopped", "killed"]
    assert outcome.violations == ()


@pytest.mark.parametrize("later", ["kafka:4.3.1", "reference"])
def test_change_to_another_system_is_refused(later: str) -> None:
    with pytest.raises(BadInput) as refused:
        simulate(plan(change_version("n1", later), system="reference"))
    expected = "expected a release of reference on simulated nodes"
    assert str(refused.value) == f"story: change_version {later}: {expected}"


def test_run_is_the_same_again_with_and_without_observers() -> None:
    story = [wait_until(ALL_FOLLOW_LEADER), kill(LEADER), sleep(3), heal(), sleep(2)]
    first, again = (simulate(plan(*story), observes=observes) for observes in (False, True))
    assert (first.digest, first.history, first.virtual_ms) == (again.digest, again.history, again.virtual_ms)
    assert "claim" in {each.kind for each in again.observations} - {each.kind for each in first.observations}
    assert simulate(plan(*story, seed=2)).digest != first.digest


def test_observations_are_those_of_real_nodes() -> None:
    outcome = simulate(plan(wait_until(ALL_FOLLOW_LEADER), kill(LEADER), sleep(3), heal(), sleep(1)), observes=True)
    kinds = {each.kind for each in outcome.observations}
    assert kinds >= {"started", "stopped", "transition", "durable", "claim", "denial", "silence", "note"}
    times = [each.time_ns for each in outcome.observations]
    assert times == sorted(times)
    assert all(outcome.logs.values())


@pytest.mark.parametrize("system", ["reference", pytest.param("kafka:4.3.1", marks=pytest.mark.kafka)])
def test_story_starts_the_nodes_that_do_not_start_with_the_run(system: str) -> None:
    story = [sleep(3), start("n2"), wait_until(ALL_FOLLOW_LEADER), start(DOWN), wait_until(ALL_FOLLOW_LEADER)]
    outcome = simulate(plan(*story, system=system, not_started=[2, 3]), observes=True)
    starts = {each.node: each.time_ns // 1_000_000_000 for each in outcome.observations if each.kind == "started"}
    assert (starts[1], starts[2]) == (0, 3)
    assert starts[3] > 3
    first_led = min(each.time_ns for each in outcome.observations if each.state == "Leader")
    assert first_led // 1_000_000_000 >= 3
    assert [error for _, error in ops_of(outcome) if error] == []


def test_broken_invariant_ends_a_screened_run_but_not_a_recorded_one() -> None:
    story = [wait_until(ALL_FOLLOW_LEADER), cut(LEADER), sleep(5), heal(), sleep(30)]
    broken = plan(*story, switch={"reference.mutant": "no-truncation"}, rate=50.0)
    outcome = simulate(broken)
    assert outcome.violations != ()
    assert outcome.virtual_ms < 30_000
    assert simulate(broken, observes=True).virtual_ms > 35_000


PLAYED = ["PV-01", "PV-26", "PV-32K", "LP-01", "RA-01", "RA-18", "RA-36", "DQ-01"]
PLAYED += ["EX-02", "EX-03", "EX-04", "EX-07", "EX-08", "EX-09"]


@pytest.mark.parametrize("identifier", PLAYED)
def test_scenario_plays_without_an_error(identifier: str) -> None:
    request = ReproductionRequest(hosts="simulation", seed=3)
    for each in plans_to_run(plugins.scenario(identifier), request, lambda _: None):
        outcome = simulate(each)
        assert [op for op in outcome.history if op.process == NEMESIS and op.error] == []


def test_topic_is_as_many_records_at_the_leader_whether_they_are_committed_or_not() -> None:
    led = wait_until(ALL_FOLLOW_LEADER)
    story = [led, create_topic(LEADER, "t", 40), cut(LEADER), create_topic(LEADER, "u", 30, is_answered=False)]
    outcome = simulate(plan(*story, rate=1.0, layout="combined"))
    labels = [op.value["label"] for op in outcome.history if op.f == "create_topic" and "label" in (op.value or {})]
    created, appended = (re.fullmatch(r"topic . (.*): n\d appended (\d+) records", label) for label in labels)
    assert created is not None
    assert appended is not None
    assert (created[1], appended[1]) == ("created", "without an answer")
    assert int(created[2]) >= 40
    assert int(appended[2]) >= 30


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (create_topic("n9", "t", 1), "n9"),
        (create_topic("follower", "t", 1), "creating the topic t at n[123]: not_controller .*"),
        (
            corrupt_checkpoint("n3", "quorum-state", "zeros"),
            "corrupt_checkpoint n3: expected quorum-state missing, on a simulated disk, found quorum-state zeros",
        ),
    ],
)
def test_action_that_cannot_be_carried_out_says_why(step: Step, error: str) -> None:
    outcome = simulate(plan(wait_until(ALL_FOLLOW_LEADER), step, layout="combined"))
    (failed,) = [op.error for op in outcome.history if op.process == NEMESIS and op.f == step.f and op.error]
    assert re.search(error, failed)


def test_voter_without_its_quorum_state_starts_at_the_epoch_of_its_log() -> None:
    story = [wait_until(ALL_FOLLOW_LEADER), corrupt_checkpoint("n3", "quorum-state", "missing"), start("n3"), sleep(3)]
    outcome = simulate(plan(*story))
    starts = [each for each in outcome.observations if each.node == 3 and each.kind == "transition"]
    first = [each for each in starts if each.previous is None]
    assert [(each.state, each.leader, each.voted) for each in first] == [("Unattached", None, None)] * 2
    assert (first[1].epoch or 0) >= 1
    assert outcome.violations == ()


def test_unavailable_actions_have_reasons() -> None:
    reasons = unavailable_actions(plan())
    assert {name for name, reason in reasons.items() if reason is None} >= {"cut", "kill", "pause", "rpc", "configure"}
    assert reasons["drift"] == "simulated nodes have true clocks"
    assert reasons["run_tool"] == "tools need sockets, which simulated nodes do not have"
    assert "simulated disks have lose_disk, lose_unsynced, corrupt_checkpoint only" in str(reasons["fill_disk"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layout": "combined", "workload": "log"}, "brokers are not simulated, which log needs"),
        ({"layout": "zookeeper"}, "brokers are not simulated, which --layout zookeeper needs"),
        ({"node_switches": {2: {"process.roles": "broker"}}}, "expected nodes that are controllers alone"),
        ({"node_systems": {2: "kafka:4.3.1"}}, "expected nodes of one system, reference, found kafka:4.3.1 on n2"),
        ({"story": [StoryStep(f="drift", value={"who": "n1", "rate": 0.5})]}, "simulated nodes have true clocks"),
    ],
)
def test_plan_that_cannot_be_simulated_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        simulate(plan().model_copy(update=values))


@pytest.mark.parametrize("fault", ["clock", "disk"])
def test_fault_that_simulated_nodes_lack_is_refused_before_a_run_is_planned(fault: str) -> None:
    request = Request(system="reference", hosts="simulation", faults=("partition", fault), seed=1)
    with pytest.raises(BadInput, match=f"^--faults {fault}: simulated"):
        plan_of(request, {})


def test_faults_that_are_drawn_for_simulated_nodes_are_those_that_they_have() -> None:
    request = Request(system="reference", hosts="simulation", faults=("partition", "kill", "rpc"), seed=1)
    reasons = unavailable_actions(plan())
    drawn = {step.f for step in plan_of(request, {}).story}
    assert not [action for action in drawn if reasons.get(action)]
    assert drawn & {"cut", "kill", "rpc"}
