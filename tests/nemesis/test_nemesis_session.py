"""The nemesis's session: what it injects and heals, what it records beforehand, and how failed operations complete."""

from __future__ import annotations

import asyncio

import pytest

from harness import plugins
from harness.model import NEMESIS, Op, PeerFailure
from harness.model.conditions import LEADER_KNOWN
from harness.model.faults.rpc import DROP, Api, RpcMatch, RpcRule, intercept
from harness.model.story import (
    FOLLOWERS,
    LEADER,
    Step,
    choose,
    cut,
    cut_links,
    heal,
    kill,
    pause,
    resume,
    start,
    stop,
    wait_until,
    when,
)
from nemesis.journal import UndoJournal, pending
from nemesis.session import NemesisSession


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


@pytest.fixture
def known():
    return [LEADER_KNOWN]


@pytest.fixture
def run(context, path, known):
    """Runs steps one after another; returns their completions."""

    async def until(condition, _seconds):
        return condition in known

    session = NemesisSession(context, UndoJournal(path), until, plugins.faults())

    async def one_by_one(steps):
        return [await session.invoke(Op("invoke", step.f, NEMESIS, value=step.value)) for step in steps]

    return lambda *steps: asyncio.run(one_by_one(steps))


def test_a_cut_is_in_the_journal_before_any_link_is_cut(run, context, path):
    seen = []
    context.links.on_cut = lambda: seen.append([undo.kind for undo in pending(path)])
    run(cut(LEADER))
    assert seen == [["heal-links"]]
    assert context.links.down == {(2, 1), (2, 3), (1, 2), (3, 2)}


def test_the_completion_describes_what_was_done(run):
    done, _ = run(cut(FOLLOWERS, "out"), heal())
    assert (done.type, done.process, done.error) == ("info", NEMESIS, None)
    assert done.value == {"links": [[3, 1], [3, 2]], "label": "n3 cannot send"}


def test_heal_heals_links_resumes_and_starts_nodes_and_completes_the_journal(run, context, path):
    run(cut("n1"), pause("n3"), kill("n2"))
    assert [undo.fault for undo in pending(path)] == ["kill", "pause", "cut"]
    (healed,) = run(heal())
    assert healed.error is None
    assert context.links.down == set()
    assert set(context.processes.states.values()) == {"running"}
    assert pending(path) == []


def test_healing_without_faults_does_nothing(run, context, path):
    assert [op.error for op in run(heal(), heal())] == [None, None]
    assert context.processes.actions == []
    assert pending(path) == []


def test_a_cut_without_effect_completes_with_an_error_and_heals(run, context, path):
    context.links.leaking = {(1, 2)}
    failed, healed = run(cut("n1", "out"), heal())
    assert (failed.type, failed.value) == ("info", {"who": "n1", "direction": "out"})
    assert failed.error is not None
    assert failed.error == "verifying links: n1>n2 still pass packets after the cut"
    assert healed.error is None
    assert (context.links.down, pending(path)) == (set(), [])


def test_a_cut_that_affects_other_links_completes_with_an_error(run, context):
    context.links.dead = {(2, 3)}
    (failed,) = run(cut("n1", "out"))
    assert failed.error is not None
    assert "n2>n3 pass no packets" in failed.error


def test_a_fault_that_does_not_heal_stays_in_the_journal_and_others_heal(run, context, path):
    run(cut("n1"), pause("n3"))
    context.links.dead = {(2, 3)}
    (failed,) = run(heal())
    assert failed.error is not None
    assert context.processes.states[3] == "running"
    assert len(pending(path)) == 2


@pytest.mark.parametrize(("step", "state"), [(kill("n1"), "gone"), (stop("n1"), "gone"), (pause("n1"), "paused")])
def test_a_process_fault_is_verified_by_the_state_of_the_process(run, context, step, state):
    run(step)
    assert context.processes.states[1] == state
    context.processes.stuck = {3}
    (failed,) = run(Step(step.f, {"who": "n3"}))
    assert failed.error == f"{step.f} n3: it is running, expected {state}"


def test_start_and_resume_have_no_undo_record(run, context, path):
    run(kill("n1"), pause("n3"))
    started, resumed = run(start(), resume())
    assert (started.value, resumed.value) == (
        {"nodes": [1], "label": "n1 started"},
        {"nodes": [3], "label": "n3 resumed"},
    )
    assert set(context.processes.states.values()) == {"running"}
    assert len(pending(path)) == 2


def test_the_start_of_a_node_that_runs_is_an_error(run, context):
    run(pause("n3"))
    failed = [each for node in ("n1", "n3") for each in run(start(node))]
    states = ((1, "running"), (3, "paused"))
    assert [each.error for each in failed] == [
        f"start n{node}: it is {state}, expected a node that is down" for node, state in states
    ]
    assert ("start", 1) not in context.processes.actions


def test_a_condition_that_does_not_hold_in_time_is_an_error(run, known):
    known.clear()
    (failed,) = run(wait_until(LEADER_KNOWN, within=7))
    assert failed.error == "waiting until a leader is known: not so within 7 s"


def test_story_goes_on_without_an_event_that_does_not_happen_in_time(run, known):
    known.clear()
    (done,) = run(when(LEADER_KNOWN, 7))
    assert (done.error, done.value["label"]) == (None, "not within 7 s: a leader is known")


def test_an_action_on_the_leader_waits_for_one_and_fails_if_there_is_none(run, context, known):
    leaders = iter([None, 3])
    context.leader = lambda: next(leaders, 3)
    done, _ = run(kill(LEADER), heal())
    assert done.value["nodes"] == [3]
    context.leader = lambda: None
    (failed,) = run(kill(LEADER))
    assert failed.error == "resolving the leader: no node claims to lead"
    assert known == [LEADER_KNOWN]


def test_an_argument_that_a_step_omits_has_its_default(run):
    (done,) = run(Step("cut", {"who": "n1"}))
    assert done.value["label"] == "n1 cut off"


def test_nodes_that_were_chosen_keep_their_name_when_their_role_changes(run, context):
    chosen, paused, *_ = run(choose("victim", LEADER), pause("$victim"))
    assert chosen.value == {"nodes": [2], "label": "$victim: n2"}
    assert paused.value["nodes"] == [2]
    context.leader = lambda: 1
    killed, missing = run(kill("$victim"), kill("$other"))
    assert killed.value["nodes"] == [2]
    assert missing.error == "node '$other': no earlier step of the story has chosen nodes by this name"


def test_a_choice_of_the_leader_waits_for_one(run, context, known):
    known.clear()
    context.leader = lambda: None
    (done,) = run(choose("victim", LEADER))
    assert done.error == "resolving the leader: no node claims to lead"


def test_an_unknown_action_is_an_error_that_names_the_known_ones(run):
    (failed,) = run(Step("dance"))
    assert failed.error is not None
    assert failed.error.startswith("action 'dance': expected await, heal, packets, cut, heal_links, ")


def test_a_cut_between_unknown_nodes_cuts_nothing(run, context):
    (failed,) = run(cut_links([(1, 9)]))
    assert failed.error == "cut: expected nodes 1 to 3, found [9]"
    assert context.links.down == set()


def test_closing_the_session_heals(context, path, known):
    async def until(condition, _seconds):
        return condition in known

    async def run_session():
        session = NemesisSession(context, UndoJournal(path), until, plugins.faults())
        await session.invoke(Op("invoke", "cut", NEMESIS, value=cut("n1").value))
        context.links.dead = {(2, 3)}
        with pytest.raises(PeerFailure, match="n2>n3"):
            await session.close()
        context.links.dead = set()
        await session.close()

    asyncio.run(run_session())
    assert pending(path) == []


def test_hosts_without_a_proxy_refuse_rpc_rules(run):
    (failed,) = run(intercept(RpcRule("votes", RpcMatch((Api.VOTE,)), DROP)))
    assert failed.error == "rpc: hosts of this kind have no rpcs"
