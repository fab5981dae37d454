"""How quantities read: units, order, and names that the table does not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import checkers
from harness.model import Quantity
from harness.scenarios import expectations
from results.quantities import DISPLAYS, duration_text, measured_text, shown_quantities


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (0.412, "0.41 ms"),
        (66.37, "66 ms"),
        (99.4, "99 ms"),
        (99.9, "0.10 s"),
        (620, "0.62 s"),
        (7252.9, "7.25 s"),
        (13_832.9, "13.8 s"),
        (125_000, "2 min 5 s"),
        (-620, "-0.62 s"),
    ],
)
def test_durations_read_as_a_person_says_them(ms: float, text: str) -> None:
    assert duration_text(ms) == text


def test_expected_quantities_come_first_then_the_table_then_unknown_ones_then_details() -> None:
    names = ["epochs_per_minute", "widgets", "leader_changes", "commit_gap_ms", "leader_changes_until_heal"]
    quantities = [Quantity("a check", name, 3, "widgets") for name in names]
    shown = shown_quantities(quantities, {"leader_changes_until_heal"})
    assert [(each.name, each.detail) for each in shown] == [
        ("leader_changes_until_heal", False),
        ("commit_gap_ms", False),
        ("leader_changes", False),
        ("widgets", False),
        ("epochs_per_minute", True),
    ]
    assert [each.text for each in shown] == ["3", "3 ms", "3", "3 widgets", "3 per minute"]


def test_latencies_have_a_table_of_their_own() -> None:
    assert shown_quantities([Quantity("availability", "latency_read_ms_p99", 3, "ms")]) == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("commit_gap_ms", 620, "longest commit gap: 0.62 s"),
        ("leader_deposed", 1, "leader deposed: yes"),
        ("lease_gap_ms", 620, "lease gap: 0.62 s"),
        ("epochs_burned", 7, "epochs burned: 7"),
    ],
)
def test_a_measured_quantity_reads_as_a_sentence(name: str, value: float, text: str) -> None:
    assert measured_text(name, value) == text


def test_every_quantity_of_a_check_and_of_an_expectation_has_a_title() -> None:
    sources = [path.read_text() for path in Path(checkers.__path__[0]).rglob("*.py")]
    measured = {name for text in sources for name in re.findall(r'"(\w+)": "(?:ms|ops|ops/s|epochs|runs)"', text)}
    measured |= {name for text in sources for name in re.findall(r'"(stale_read\w*|writers_open_at_heal)"', text)}
    expected = set(re.findall(r', "([a-z_]+)", ', Path(expectations.__file__).read_text()))
    assert len(measured) > 10
    assert len(expected) > 5
    assert (measured | expected) - {"unit"} <= set(DISPLAYS)
