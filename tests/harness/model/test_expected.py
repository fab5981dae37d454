"""Expectations compare values of one type, name paths of a response, and are refused if they are no comparison."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.expected import MISSING, compared, found_at, refuse_malformed, values_of

RESPONSE = {"error_code": "none", "topics": [{"id": 3, "granted": True, "leader": None}]}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("error_code", "none"),
        ("topics.length", 1),
        ("topics.0.id", 3),
        ("topics.0.leader", None),
        ("topics.1.id", MISSING),
        ("topics.x", MISSING),
        ("error_code.0", MISSING),
        ("error", MISSING),
    ],
)
def test_path_leads_to_a_value(path: str, found: Any) -> None:
    assert found_at(RESPONSE, path) is found


@pytest.mark.parametrize(
    ("expected", "found", "holds", "words"),
    [
        (3, 3, True, "3"),
        (3, 4, False, "3"),
        (1, True, False, "1"),
        (False, 0, False, "false"),
        (None, MISSING, False, "null"),
        ({"not": 3}, 4, True, "not 3"),
        ({"not": 3}, 3, False, "not 3"),
        ({"not": 3}, MISSING, False, "not 3"),
        ({"at_least": 3}, 3, True, "at least 3"),
        ({"at_least": 3}, 2, False, "at least 3"),
        ({"at_least": 3}, None, False, "at least 3"),
        ({"at_most": 3}, 4, False, "at most 3"),
        ({"one_of": ["none", None]}, None, True, 'one of ["none", null]'),
        ({"one_of": [1]}, True, False, "one of [1]"),
    ],
)
def test_comparison(expected: Any, found: Any, holds: bool, words: str) -> None:
    result = compared("f", expected, found)
    assert (result.holds, result.expected) == (holds, words)


def test_what_a_response_does_not_have_is_shown_so() -> None:
    assert compared("f", 1, MISSING).found == "no such field"


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({}, "expected a value, or a table of one of not, at_least"),
        ({"nto": 3}, "expected a value, or a table"),
        ({"not": 3, "at_least": 2}, "expected a value, or a table"),
        ({"one_of": 3}, "one_of: expected a list, found 3"),
        ({"one_of": []}, "one_of: expected a list"),
        ({"at_least": "x"}, "at_least: expected a number or a placeholder, found 'x'"),
        ({"at_most": True}, "at_most: expected a number or a placeholder, found true"),
    ],
)
def test_malformed_comparison_is_refused(expected: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        refuse_malformed(expected)


@pytest.mark.parametrize("expected", [3, None, "x", {"at_least": "$epoch"}, {"one_of": [1, 2]}])
def test_well_formed_comparison_is_itself(expected: Any) -> None:
    assert refuse_malformed(expected) == expected
    assert values_of(expected) == (
        [1, 2] if expected == {"one_of": [1, 2]} else ["$epoch"] if isinstance(expected, dict) else [expected]
    )
