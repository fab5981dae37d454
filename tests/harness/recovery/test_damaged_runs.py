"""A damaged run blocks nothing: it is listed with the reason, and healed as far as its journal allows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.judging.listing import RunFilter, listed
from harness.model import BadInput, EnvironmentFailure
from harness.model.hosts import UndoRecord
from harness.planning.plan import Plan
from harness.recovery.heal import heal_before_a_run, heal_store
from harness.recovery.liveness import OWNER, SANDBOX
from nemesis.journal import UndoJournal, pending
from results.store import RunDirectory, new_run
from tests.support.command import json_lines, splitbrain

NOW = datetime.now(UTC)
KILL = UndoRecord("kill", "start", {"nodes": [1]})
GONE = UndoRecord("hosts", "ssh", {"label": "left", "inventory": "/no/inventory.toml"})
NESTED = "[" * 100_000

DAMAGE: dict[str, tuple[str, str, str]] = {
    # case: file, content, part of the reason
    "an empty status": ("status.json", "", "status.json: expected a JSON file, found an empty file"),
    "a status that is no JSON": ("status.json", "{", "status.json: line 1, column 2: expected a JSON file"),
    "a nested status": ("status.json", NESTED, "status.json: expected a JSON file, found values that are nested"),
    "another status": ("status.json", '{"kind": "run", "status": "tired"}', "status.json: expected status, one of cre"),
    "another kind": ("status.json", "[]", "status.json: expected kind, one of run, reproduction"),
    "no times": ("status.json", '{"kind": "run", "status": "judged"}', "status.json: expected times"),
    "an empty verdict": ("verdict.json", "", "verdict.json: expected a JSON file, found an empty file"),
    "half a verdict": ("verdict.json", '{"format": 1}', "verdict.json: expected a verdict of format 1, found none wi"),
    "an empty plan": ("plan.json", "", "plan.json: expected a run's plan, found an empty file"),
    "a nested plan": ("plan.json", NESTED, "plan.json: expected a run's plan, found values that are nested too deeply"),
    "a plan that is a list": ("plan.json", "[]", "plan.json: expected a run's plan, found []"),
    "a plan with a bad value": (
        "plan.json",
        '{"name": "a", "seed": -1, "story": []}',
        "plan.json: seed: expected 0 or m",
    ),
    "a journal that is no JSON": ("journal.jsonl", "{}{\\n", "journal.jsonl: line 1: expected an undo record"),
}


def recorded(store: Path, name: str) -> RunDirectory:
    run = new_run(store, name, NOW)
    run.plan.write_text(Plan(name=name, seed=1, story=[]).as_json())
    run.enter("running", NOW)
    run.enter("recorded", NOW)
    return run


def running(store: Path, name: str) -> RunDirectory:
    run = new_run(store, name, NOW)
    run.plan.write_text(Plan(name=name, seed=1, story=[]).as_json())
    run.enter("running", NOW)
    UndoJournal(run.journal).record(KILL)
    return run


def spoil(run: RunDirectory, case: str) -> str:
    """Damage a file of the run; returns part of the reason."""
    name, content, reason = DAMAGE[case]
    (run.path / name).write_text(content.replace("\\n", "\n"))
    return reason


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_run_is_listed_with_the_reason_beside_the_others(store: Path, case: str) -> None:
    damaged, sound = recorded(store, "damaged"), recorded(store, "sound")
    reason = spoil(damaged, case)
    rows = {row.run: row for row in listed(store, RunFilter())}
    assert (rows[damaged.name].status, rows[sound.name].status) == ("damaged", "recorded")
    assert reason in rows[damaged.name].damage
    assert rows[damaged.name].damage.isprintable()
    assert rows[sound.name].damage == ""


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_run_does_not_keep_the_others_from_being_healed(store: Path, case: str) -> None:
    damaged, sound = running(store, "a-damaged"), running(store, "b-sound")
    spoil(damaged, case)
    content = {path.name: path.read_bytes() for path in damaged.path.glob("*.json")}
    lines = list(heal_before_a_run(store))
    assert [line for line in lines if line.startswith(f"{sound.name}: interrupted, 1 open fault gone with its hosts")]
    assert (sound.status, pending(sound.journal)) == ("interrupted", [])
    assert pending(damaged.journal) == []
    if case.endswith("status"):
        assert {path.name: path.read_bytes() for path in damaged.path.glob("*.json")} == content


def test_recorded_run_without_a_plan_is_damaged_and_one_that_was_only_created_is_not(store: Path) -> None:
    recorded(store, "damaged").plan.unlink()
    new_run(store, "created", NOW)
    assert sorted(row.status for row in listed(store, RunFilter())) == ["created", "damaged"]


def test_run_whose_status_file_is_gone_is_listed_and_healed(store: Path) -> None:
    run = running(store, "damaged")
    run.status_file.unlink()
    (row,) = listed(store, RunFilter())
    assert row.damage.endswith("status.json: expected a JSON file, found no such file")
    (line,) = heal_store(store)
    assert line.startswith(f"{run.name}: damaged, nothing of it is left to undo: ")
    assert pending(run.journal) == []


@pytest.mark.parametrize("name", [OWNER, SANDBOX])
@pytest.mark.parametrize(
    "content", ["", "null", "{}", '{"pid": "x"}', '{"pid": -1, "started_ticks": 1}', NESTED[:2000]]
)
def test_file_that_names_no_process_counts_as_an_ended_process(store: Path, name: str, content: str) -> None:
    run = running(store, "left")
    (run.path / name).write_text(content)
    assert [line.partition(",")[0] for line in heal_store(store)] == [f"{run.name}: interrupted"]


def test_readable_lines_of_a_damaged_journal_are_undone_and_the_damage_is_a_failure(store: Path) -> None:
    run = running(store, "left")
    with run.journal.open("ab") as journal:
        journal.write(b"\x00\xff garbage\n")
    with pytest.raises(EnvironmentFailure, match="1 step of healing failed"):
        list(heal_store(store))
    assert (run.status, pending(run.journal)) == ("interrupted", [])


def test_hosts_whose_inventory_is_gone_stay_in_the_journal_and_block_nothing(store: Path) -> None:
    run, other = running(store, "a-left"), running(store, "b-other")
    UndoJournal(run.journal).record(GONE)
    lines = list(heal_before_a_run(store))
    assert lines[0].startswith(
        f"{run.name}: its ssh hosts could not be healed: /no/inventory.toml: expected an inventory"
    )
    assert (run.status, pending(run.journal)) == ("interrupted", [GONE])
    assert (other.status, pending(other.journal)) == ("interrupted", [])
    assert list(heal_before_a_run(store)) == []
    with pytest.raises(EnvironmentFailure, match="1 step of healing failed"):
        list(heal_store(store))


@pytest.mark.parametrize("record", [UndoRecord("hosts", "warp", {}), UndoRecord("hosts", "ssh", {})])
def test_undo_record_that_names_nothing_known_is_a_failure_of_one_run(store: Path, record: UndoRecord) -> None:
    UndoJournal(running(store, "left").journal).record(record)
    with pytest.raises(EnvironmentFailure):
        list(heal_store(store))


def test_commands_on_a_store_with_damaged_runs(store: Path) -> None:
    for case in DAMAGE:
        spoil(recorded(store, case.replace(" ", "-")), case)
    healed, shown = splitbrain("heal", "--store", store), splitbrain("runs", "--store", store, "--json")
    assert (healed.code, healed.messages) == (0, [])
    assert (shown.code, shown.messages) == (0, [])
    assert len(json_lines(shown)) == len(DAMAGE)
    run = next(path for path in store.iterdir() if "an-empty-status" in path.name)
    checked = splitbrain("check", run)
    assert checked.code == 254
    assert checked.messages[-1].startswith(f"splitbrain: {run}/status.json: expected a JSON file, found an empty file")


def test_report_of_a_recorded_run_without_its_history_is_refused(store: Path) -> None:
    from harness.judging.stored import rewrite_report

    run = recorded(store, "run")
    run.verdict.write_text("{}")
    with pytest.raises(BadInput, match="history: expected the history of a recorded run, found no finished Parquet"):
        rewrite_report(run.path)
