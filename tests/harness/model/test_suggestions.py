"""Suggestions for misspelled names."""

from __future__ import annotations

import pytest

from harness.model.suggestions import did_you_mean

KNOWN = {
    "regster": ("register", "cas-register", "set"),
    "partitoin": ("partition", "kill", "pause"),
    "pre_voet": ("pre_vote", "check_quorum"),
    "PV01": ("PV-01", "CQ-01"),
    "pv-01": ("PV-01", "CQ-01"),
    "kafkaa": ("kafka", "reference"),
    "kil": ("kill", "pause"),
}


@pytest.mark.parametrize(("word", "known"), KNOWN.items(), ids=KNOWN)
def test_a_near_miss_suggests_the_first_name(word: str, known: tuple[str, ...]) -> None:
    assert did_you_mean(word, known) == f"; did you mean {known[0]}?"


@pytest.mark.parametrize("word", ["", "x", "zookeeper", "{}"])
def test_a_word_that_is_near_to_nothing_suggests_nothing(word: str) -> None:
    assert did_you_mean(word, ("register", "partition")) == ""


def test_nothing_is_suggested_where_nothing_is_known() -> None:
    assert did_you_mean("register", ()) == ""
