"""What a stored run reached, from its tables, and what is said of several."""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from pathlib import Path

from harness.engine.records import history_row, observation_row, write_chunk
from harness.exploration.coverage import Coverage, coverage_of, lines_of
from harness.model import NEMESIS, Observation, Op
from harness.model.faults.rpc import RpcRow
from harness.model.quorum_states import KIP_996_RULES
from harness.model.records.tables import HISTORY, OBSERVATIONS, RPCS
from results.store import RunDirectory


def entered(time_ns: int, node: int, state: str, previous: str | None, epoch: int) -> Observation:
    return Observation(time_ns, node, "log", "transition", state=state, previous=previous, epoch=epoch)


def operation(time_ns: int, f: str, value: object, error: str | None = None) -> tuple[Op, Op]:
    """An operation of the nemesis that takes one nanosecond."""
    done = Op("info", f, NEMESIS, value=value, time_ns=time_ns + 1, error=error)
    return Op("info", f, NEMESIS, value={"who": "leader"}, time_ns=time_ns), done


def stored(path: Path) -> RunDirectory:
    """A run in which n1 leads, is cut off and killed, and n2 takes over."""
    run = RunDirectory(path)
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
        *operation(40, "pause", {"nodes": [2, 3]}),
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
    reached = coverage_of(stored(tmp_path), [KIP_996_RULES])
    assert (reached.runs, reached.elections, reached.epochs) == (1, 2, 3)
    assert reached.transitions["Unattached > Prospective"] == 1
    assert reached.transitions["Candidate > Leader"] == 2
    assert reached.faults == {"cut of a Leader": 1, "kill of a Follower": 1, "pause of a Leader": 1}
    assert reached.rpcs == {"drop VOTE response": 1, "hold FETCH response": 1}


def test_coverage_is_stored_as_json(tmp_path: Path) -> None:
    stored_counts = json.loads(json.dumps(coverage_of(stored(tmp_path), [KIP_996_RULES]).to_json()))
    assert (stored_counts["elections"], stored_counts["rpcs"]["drop VOTE response"]) == (2, 1)


def test_coverage_of_several_runs_names_what_is_missing(tmp_path: Path) -> None:
    one = coverage_of(stored(tmp_path), [KIP_996_RULES])
    counts, transitions, faults, rpcs = lines_of(one + one + Coverage())
    assert counts == "4 elections, 6 epochs"
    assert transitions.startswith("transitions: 4 of ")
    assert "Candidate > Follower" in transitions
    assert "Candidate > Leader" not in transitions
    assert faults.startswith("faults by the state that they met: 3 of 42; not yet configure of a Candidate, ")
    assert faults.endswith(" and 31 more")
    assert rpcs == "RPCs disturbed: drop VOTE response 2, hold FETCH response 2"
