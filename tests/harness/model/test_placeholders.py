"""Placeholders become facts of their own type, or part of a text; unknown names are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.model.placeholders import NAMES, examples, fill, names_in, refuse_unknown

FACTS = {"epoch": 7, "cluster_id": "x.y", "leader": 2, "controllers": "a:1,b:1"}
FILLED = {
    # case: value, with the facts
    "a number": ("$epoch", 7),
    "a later number": ("$epoch+1", 8),
    "an earlier number": ("$epoch-10", -3),
    "a text": ("$cluster_id", "x.y"),
    "within a text": ("at $controllers!", "at a:1,b:1!"),
    "several in a text": ("$leader-$epoch+1", "2-8"),
    "an offset to a text": ("$cluster_id+1", "x.y+1"),
    "a dollar sign": ("$$epoch costs 5$", "$epoch costs 5$"),
    "nested": ({"a": [{"b": "$epoch"}, True, None]}, {"a": [{"b": 7}, True, None]}),
    "no placeholder": ("epoch", "epoch"),
}


@pytest.mark.parametrize(("value", "filled"), FILLED.values(), ids=FILLED)
def test_value_is_filled(value: Any, filled: Any) -> None:
    assert fill(value, FACTS) == filled


def test_fact_in_a_regular_expression_is_quoted_and_its_end_stays() -> None:
    pattern = fill(r"^id:\s+$cluster_id$", FACTS, re.escape)
    assert pattern == r"^id:\s+x\.y$"
    assert re.search(pattern, "id:  x.y")
    assert not re.search(pattern, "id:  xzy")


def test_names_are_found_at_any_depth_and_not_in_keys() -> None:
    assert names_in({"$leader": ["$epoch-1", {"a": "$$other $node"}]}) == {"epoch", "node"}


@pytest.mark.parametrize(
    ("value", "message"), [("$epoc+1", "did you mean epoch"), ("$x", "expected one of the placeh")]
)
def test_unknown_name_is_refused(value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        refuse_unknown([value])


def test_every_placeholder_has_an_example() -> None:
    assert examples().keys() == set(NAMES)
