"""Tables of text: cells stay as they are, and are wrapped to their column's width."""

from __future__ import annotations

import pytest

from results.text_tables import text_table


@pytest.mark.parametrize("cell", ["1,443", "1e5", "007", "-0.0", "1_000", "nan", "True"])
@pytest.mark.parametrize("widths", [None, (60, 60)])
def test_cell_that_looks_like_a_number_stays_as_it_is(cell: str, widths: tuple[int, int] | None) -> None:
    header, _, row = text_table(["measured", "value"], [("latency", cell)], widths).splitlines()
    assert (header.split(), row.split()) == (["measured", "value"], ["latency", cell])


def test_long_cell_is_wrapped_at_words_and_keeps_its_own_lines() -> None:
    lines = text_table(["name", "text"], [("a", "one two three\nfour"), ("b", "x" * 12)], (10, 8)).splitlines()
    assert [line.split(maxsplit=1)[-1].strip() for line in lines[2:]] == ["one two", "three", "four", "x" * 8, "x" * 4]


def test_table_without_rows_has_its_headers() -> None:
    assert text_table(["name", "text"], []).splitlines()[0].split() == ["name", "text"]
