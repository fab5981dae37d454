"""The commands that only tell: results on standard output, as text or as one JSON object a line, and exit 0."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from harness import plugins
from harness.model.errors import EXIT_INVALID, EXIT_VALID
from results.store import new_run
from tests.support.command import splitbrain


def test_every_scenario_is_listed_with_its_source():
    said = splitbrain("scenarios")
    assert said.code == EXIT_VALID
    assert {line.split()[0] for line in said.out.splitlines()[2:] if not line.startswith(" ")} == set(
        plugins.scenarios()
    )


@pytest.mark.parametrize("identifier", plugins.scenarios())
def test_a_scenario_is_shown_with_its_question_and_both_sides(identifier):
    said = splitbrain("scenarios", "show", identifier)
    assert said.code == EXIT_VALID
    assert plugins.scenarios()[identifier].question in said.out


def test_runs_are_listed_oldest_first_as_one_json_object_a_line(store):
    later = new_run(store, "later", datetime(2026, 11, 21, 6, 0, 1, tzinfo=UTC))
    earlier = new_run(store, "earlier", datetime(2026, 11, 21, 6, 0, 0, tzinfo=UTC), "reproduction")
    listed = [json.loads(line) for line in splitbrain("runs", "--store", store, "--format", "json").out.splitlines()]
    assert listed == [
        {"run": earlier.name, "kind": "reproduction", "status": "created", "verdict": "-"},
        {"run": later.name, "kind": "run", "status": "created", "verdict": "-"},
    ]


def test_doctor_shows_a_fix_for_whatever_does_not_work():
    said = splitbrain("doctor", "--format", "json")
    found = [json.loads(line) for line in said.out.splitlines()]
    assert {"namespace tools", "namespace hosts", "Python"} <= {each["name"] for each in found}
    assert [each["name"] for each in found if not each["works"] and not each["fix"]] == []
    unfit = [each for each in found if each["needed"] and not each["works"]]
    assert said.code == (EXIT_INVALID if unfit else EXIT_VALID)
