"""What a stored run reached, from its tables; what the runs of a store reached together, and what is said of it."""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.engine.records import history_row, observation_row, write_chunk
from harness.exploration.coverage import Coverage, lines_of
from harness.exploration.reached import coverage_of, coverage_of_store
from harness.judging.inputs import record_inputs
from harness.model import NEMESIS, BadInput, Observation, Op
from harness.model.faults.rpc import RpcRow
from harness.model.records.tables import HISTORY, OBSERVATIONS, RPCS
from harness.model.story import MARK
from harness.planning.plan import Plan
from nemesis.moves import MOVES
from results.files import write_text
from results.store import RunDirectory, new_run
from tests.support.command import splitbrain

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def entered(time_ns: int, node: int, state: str, previous: str | None, epoch: int) -> Observation:
    return Observation(time_ns, node, "log", "transition", state=state, previous=previous, epoch=epoch)


def operation(time_ns: int, f: str, value: object, error: str | None = None) -> tuple[Op, Op]:
    """An operation of the nemesis that takes one nanosecond."""
    done = Op("info", f, NEMESIS, value=value, time_ns=time_ns + 1, error=error)
    return Op("info", f, NEMESIS, value={"who": "leader"}, time_ns=time_ns), done


def stored(store: Path, is_checked: bool = True) -> RunDirectory:
    """A run in which n1 leads, is cut off and killed, and n2, of an earlier release, takes over."""
    run = new_run(store, "explore", NOW)
    older = {2: {"reference.pre_vote": "false"}}
    plan = Plan(name="explore", system="reference", seed=1, story=[], node_switches=older)
    write_text(run.plan, plan.as_json())
    record_inputs(run, plan)
    for status in ("running", "recorded", *(("judged",) if is_checked else ())):
        run.enter(status, NOW)
    observations = [
        entered(1, 1, "Unattached", None, 0),
        entered(2, 1, "Prospective", "Unattached", 0),
        entered(3, 1, "Candidate", "Prospective", 1),
        entered(4, 1, "Leader", "Candidate", 1),
        entered(5, 2, "Follower", "Unattached", 1),
        entered(30, 2, "Leader", "Candidate", 2),
    ]
    operations = [
        *operation(10, "cut", {"links": [[1, 2], [2, 1], [1, 3], [3, 1]]}),
        *operation(12, "kill", {"nodes": [2]}),
        *operation(20, "kill", {"nodes": [1]}, error="it still runs"),
        Op("info", MARK, NEMESIS, value="stale follower", time_ns=25),
        *operation(40, "pause", {"nodes": [2, 3]}),
        *operation(50, "remove_voter", {"node": 3}),
    ]
    acted = [(52, "drop"), (52, "pass"), (1, "hold")]
    rpcs = [RpcRow(1, 1, 2, key, 0, 0, "response", 9, action=action) for key, action in acted]
    rows = [history_row(replace(op, index=index)) for index, op in enumerate(operations)]
    for folder, schema, content in (
        (run.history, HISTORY, rows),
        (run.observations, OBSERVATIONS, [observation_row(each) for each in observations]),
        (run.rpcs, RPCS, [astuple(each) for each in rpcs]),
    ):
        folder.mkdir(parents=True)
        write_chunk(folder / "0.parquet", schema, content)
    return run


def test_coverage_of_a_run(tmp_path: Path) -> None:
    reached = coverage_of(stored(tmp_path))
    assert (reached.runs, reached.elections, reached.epochs) == (1, 2, 3)
    assert reached.transitions["Unattached > Prospective"] == 1
    assert reached.transitions["Candidate > Leader"] == 2
    assert reached.faults == {"cut of a Leader": 1, "kill of a Follower": 1, "pause of a Leader": 1}
    assert reached.rpcs == {"drop VOTE response": 1, "hold FETCH response": 1}
    assert reached.membership == {"remove_voter": 1}
    assert reached.versions == {"reference": 1, "reference (reference.pre_vote=false)": 1}
    assert reached.moves == {"stale follower": 1}
    assert {"Follower > Candidate", "Prospective > Candidate"} <= reached.possible.keys(), "of both releases"


def test_coverage_is_kept_with_the_run(tmp_path: Path) -> None:
    run = stored(tmp_path)
    reached = coverage_of(run)
    for path in run.observations.iterdir():
        path.unlink()
    assert coverage_of(run) == reached
    run.coverage.write_text('{"of": "an earlier release"}')
    assert coverage_of(run).elections == 0, "it is read from the tables again"


@pytest.mark.parametrize("content", [[], {"runs": 1}, Coverage().to_json() | {"moves": {"hub": "twice"}}])
def test_coverage_of_another_form_is_refused(content: object) -> None:
    with pytest.raises(BadInput, match=r"a\.json: expected the counts elections, "):
        Coverage.from_json(content, "a.json")


def test_coverage_of_a_store_is_that_of_its_checked_runs(tmp_path: Path) -> None:
    one, other = stored(tmp_path), stored(tmp_path)
    stored(tmp_path, is_checked=False)
    damaged = stored(tmp_path)
    damaged.plan.write_text("{")
    assert coverage_of_store(tmp_path) == coverage_of(one) + coverage_of(other)
    assert coverage_of_store(tmp_path, "reference").runs == 2
    assert coverage_of_store(tmp_path, "kafka:4.3.1") == Coverage()


def test_coverage_of_several_runs_names_what_is_missing(tmp_path: Path) -> None:
    one = coverage_of(stored(tmp_path))
    counts, transitions, faults, moves, rpcs, membership, versions = lines_of(one + one + Coverage(), MOVES)
    assert counts == "4 elections, 6 epochs"
    assert transitions.startswith("transitions: 4 of ")
    assert "Candidate > Follower" in transitions
    assert "Candidate > Leader" not in transitions
    assert faults.startswith("faults by the state that they met: 3 of 42; not yet configure of a Candidate, ")
    assert faults.endswith(" and 31 more")
    assert moves.startswith(f"moves: 1 of {len(MOVES)}; not yet ")
    assert rpcs == "RPCs disturbed: drop VOTE response 2, hold FETCH response 2"
    assert membership == "membership changes: remove_voter 2"
    assert versions == "versions: reference 2, reference (reference.pre_vote=false) 2"


def test_command_shows_the_coverage_of_a_store(tmp_path: Path) -> None:
    reached = coverage_of(stored(tmp_path))
    result = splitbrain("coverage", "--store", tmp_path)
    assert result.code == 0
    assert result.out.splitlines() == ["1 run", *lines_of(reached, MOVES)]
    as_json = splitbrain("coverage", "--store", tmp_path, "--json")
    assert Coverage.from_json(json.loads(as_json.out), "stdout") == reached
    missing = splitbrain("coverage", "--store", tmp_path / "none")
    assert (missing.code, len(missing.messages)) == (254, 1)
