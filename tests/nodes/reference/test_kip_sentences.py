"""docs/kip-sentences.md names only code, transcripts and tests that exist, and leaves out no sentence."""

from __future__ import annotations

import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
PAGE = HERE.parents[2] / "docs" / "kip-sentences.md"
SENTENCES = 145
NAME = re.compile(r"`([^`]+)`")
SENTENCES_OF_A_BLOCK = re.compile(r"^# (\d+(?:, \d+)*): ", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One sentence: what implements it and what shows it, by name."""

    number: int
    code: list[str]
    transcripts: list[str]
    tests: list[str]
    remarks: str


def rows() -> list[Row]:
    """The rows of the page's tables."""
    cells = [line.strip("|").split(" | ") for line in PAGE.read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    return [
        Row(int(number), *(NAME.findall(each) for each in (code, transcript, test)), remarks.strip())
        for number, _, code, transcript, test, remarks in cells
    ]


def sentences_of(transcript: str) -> set[int]:
    """The sentences that the comments of a transcript name."""
    (path,) = HERE.rglob(f"testdata/{transcript}.txt")
    text = path.read_text()
    return {int(number) for block in SENTENCES_OF_A_BLOCK.findall(text) for number in block.split(", ")}


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"sentence {row.number}")
def test_code_transcripts_and_tests_of_a_sentence_exist(row: Row) -> None:
    for name in row.code:
        is_elsewhere = name.startswith(("harness.", "nodes."))
        assert pkgutil.resolve_name(name if is_elsewhere else f"nodes.reference.core.{name}") is not None
    assert [name for name in row.transcripts if row.number not in sentences_of(name)] == []
    for module, test in (name.split(":") for name in row.tests):
        folder = TESTS if module.startswith("harness/") else HERE
        assert f"\ndef {test}(" in (folder / f"{module}.py").read_text()


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"sentence {row.number}")
def test_sentence_is_shown_or_names_the_scenario_that_covers_it(row: Row) -> None:
    assert row.transcripts or row.tests if row.code else re.search(r"\b[A-Z]{2}-\d\d\b", row.remarks)


def test_every_sentence_has_one_row() -> None:
    assert [row.number for row in rows()] == list(range(1, SENTENCES + 1))


@pytest.mark.parametrize("path", sorted(HERE.rglob("testdata/*.txt")), ids=lambda path: path.stem)
def test_every_sentence_that_a_transcript_names_has_a_row(path: Path) -> None:
    assert sentences_of(path.stem) <= {row.number for row in rows()}
