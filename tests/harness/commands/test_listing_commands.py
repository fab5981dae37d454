"""Commands that only report: results on standard output as text or JSON lines, and exit 0."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from harness import plugins
from harness.model.errors import EXIT_INVALID, EXIT_VALID
from results.store import new_run
from tests.support.command import splitbrain


def test_every_scenario_is_listed():
    result = splitbrain("scenarios")
    assert result.code == EXIT_VALID
    assert {line.split()[0] for line in result.out.splitlines()[2:] if not line.startswith(" ")} == set(
        plugins.scenarios()
    )


@pytest.mark.parametrize("identifier", plugins.scenarios())
def test_scenario_is_shown_with_its_question_and_both_sides(identifier):
    result = splitbrain("scenarios", "show", identifier)
    assert result.code == EXIT_VALID
    assert plugins.scenarios()[identifier].question in result.out
    assert "\nBad side: " in result.out
    assert "\nGood side: " in result.out


def test_runs_are_listed_oldest_first_as_json_lines(store):
    later = new_run(store, "later", datetime(2026, 11, 21, 6, 0, 1, tzinfo=UTC))
    earlier = new_run(store, "earlier", datetime(2026, 11, 21, 6, 0, 0, tzinfo=UTC), "reproduction")
    listed = [json.loads(line) for line in splitbrain("runs", "--store", store, "--format", "json").out.splitlines()]
    assert listed == [
        {"run": earlier.name, "kind": "reproduction", "status": "created", "verdict": "-"},
        {"run": later.name, "kind": "run", "status": "created", "verdict": "-"},
    ]


def test_doctor_shows_a_fix_for_everything_that_does_not_work():
    result = splitbrain("doctor", "--format", "json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert {"namespace tools", "namespace hosts", "Python"} <= {each["name"] for each in found}
    assert [each["name"] for each in found if not each["works"] and not each["fix"]] == []
    failed = [each for each in found if each["needed"] and not each["works"]]
    assert result.code == (EXIT_INVALID if failed else EXIT_VALID)
