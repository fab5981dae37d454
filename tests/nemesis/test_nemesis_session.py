"""The nemesis as a session: what it does, what it writes down before it does it, and how an action that failed ends."""

from __future__ import annotations

import asyncio

import pytest

from harness import plugins
from harness.model import NEMESIS, Op, PeerFailure
from harness.model.conditions import LEADER_KNOWN
from harness.model.faults.rpc import DROP, Api, RpcMatch, RpcRule, intercept
from harness.model.story import FOLLOWERS, LEADER, Step, cut, heal, kill, pause, resume, start, stop, wait_until
from nemesis.journal import UndoJournal, pending
from nemesis.session import NemesisSession


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


@pytest.fixture
def known():
    return [LEADER_KNOWN.to_json()]


@pytest.fixture
def play(context, path, known):
    """Carries out steps one after another; returns their completions."""

    async def until(condition, _seconds):
        return condition in known

    session = NemesisSession(context, UndoJournal(path), until, plugins.faults())

    async def one_by_one(steps):
        return [await session.invoke(Op("invoke", step.f, NEMESIS, value=step.value)) for step in steps]

    return lambda *steps: asyncio.run(one_by_one(steps))


def test_a_cut_is_in_the_journal_before_any_link_is(play, context, path):
    seen = []
    context.links.on_cut = lambda: seen.append([undo.kind for undo in pending(path)])
    play(cut(LEADER))
    assert seen == [["heal-links"]]
    assert context.links.down == {(2, 1), (2, 3), (1, 2), (3, 2)}


def test_the_completion_says_what_was_done_to_whom(play):
    done, _ = play(cut(FOLLOWERS, "out"), heal())
    assert (done.type, done.process, done.error) == ("info", NEMESIS, None)
    assert done.value == {"links": [[3, 1], [3, 2]], "label": "n3 cannot send"}


def test_heal_mends_resumes_and_starts_and_crosses_everything_out(play, context, path):
    play(cut("n1"), pause("n3"), kill("n2"))
    assert [undo.fault for undo in pending(path)] == ["kill", "pause", "cut"]
    (healed,) = play(heal())
    assert healed.error is None
    assert context.links.down == set()
    assert set(context.processes.states.values()) == {"running"}
    assert pending(path) == []


def test_healing_when_all_is_well_does_nothing(play, context, path):
    assert [op.error for op in play(heal(), heal())] == [None, None]
    assert context.processes.actions == []
    assert pending(path) == []


def test_a_cut_that_does_not_bite_ends_with_its_error_and_heals(play, context, path):
    context.links.leaking = {(1, 2)}
    failed, healed = play(cut("n1", "out"), heal())
    assert (failed.type, failed.value) == ("info", {"who": "n1", "direction": "out"})
    assert failed.error is not None
    assert "links [(1, 2)] pass though cut" in failed.error
    assert healed.error is None
    assert (context.links.down, pending(path)) == (set(), [])


def test_a_cut_that_hits_more_than_it_should_ends_with_its_error(play, context):
    context.links.dead = {(2, 3)}
    (failed,) = play(cut("n1", "out"))
    assert failed.error is not None
    assert "links [(2, 3)] do not though not cut" in failed.error


def test_a_fault_that_does_not_heal_stays_in_the_journal_and_keeps_none_other_from_healing(play, context, path):
    play(cut("n1"), pause("n3"))
    context.links.dead = {(2, 3)}
    (failed,) = play(heal())
    assert failed.error is not None
    assert context.processes.states[3] == "running"
    assert len(pending(path)) == 2


@pytest.mark.parametrize(("step", "state"), [(kill("n1"), "gone"), (stop("n1"), "gone"), (pause("n1"), "paused")])
def test_a_process_fault_is_proved_by_what_the_kernel_says(play, context, step, state):
    play(step)
    assert context.processes.states[1] == state
    context.processes.stuck = {3}
    (failed,) = play(Step(step.f, {"who": "n3"}))
    assert failed.error == f"{step.f} n3: it is running, expected {state}"


def test_start_and_resume_are_undoings_and_need_none(play, context, path):
    play(kill("n1"), pause("n3"))
    started, resumed = play(start(), resume())
    assert (started.value, resumed.value) == (
        {"nodes": [1], "label": "n1 started"},
        {"nodes": [3], "label": "n3 resumed"},
    )
    assert set(context.processes.states.values()) == {"running"}
    assert len(pending(path)) == 2


def test_an_awaited_condition_that_does_not_come_is_an_error_with_its_time(play, known):
    known.clear()
    (failed,) = play(wait_until(LEADER_KNOWN, within=7))
    assert failed.error == "waiting until a leader is known: not so within 7 s"


def test_a_deed_that_means_the_leader_waits_for_one_and_fails_where_none_comes(play, context, known):
    leaders = iter([None, 3])
    context.leader = lambda: next(leaders, 3)
    done, _ = play(kill(LEADER), heal())
    assert done.value["nodes"] == [3]
    context.leader = lambda: None
    (failed,) = play(kill(LEADER))
    assert failed.error == "choosing the leader: no node claims to lead just now"
    assert known == [LEADER_KNOWN.to_json()]


def test_an_unknown_deed_is_an_error_that_names_those_there_are(play):
    (failed,) = play(Step("dance"))
    assert failed.error is not None
    assert failed.error.startswith("action 'dance': expected await, heal, packets, cut, heal_links, ")


@pytest.mark.parametrize("links", [[[1, 9]], [[0, 1]]])
def test_a_cut_between_nodes_that_are_not_there_cuts_nothing(play, context, links):
    (failed,) = play(Step("cut", {"links": links}))
    assert failed.error is not None
    assert "expected nodes 1 to 3" in failed.error
    assert context.links.down == set()


def test_closing_the_session_heals(context, path, known):
    async def until(condition, _seconds):
        return condition in known

    async def scene():
        session = NemesisSession(context, UndoJournal(path), until, plugins.faults())
        await session.invoke(Op("invoke", "cut", NEMESIS, value=cut("n1").value))
        context.links.dead = {(2, 3)}
        with pytest.raises(PeerFailure, match=r"\(2, 3\)"):
            await session.close()
        context.links.dead = set()
        await session.close()

    asyncio.run(scene())
    assert pending(path) == []


def test_rpcs_cannot_be_disturbed_where_no_proxy_stands_between_the_nodes(play):
    (failed,) = play(intercept(RpcRule("votes", RpcMatch((Api.VOTE,)), DROP)))
    assert failed.error == "rpc: hosts of this kind have no rpcs"
