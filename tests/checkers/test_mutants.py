"""The mutants of benchmarks/mutate_checks.py fit the sources: each changes one place, and names a test that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutate_checks import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.file}: {mutant.instead}")
def test_a_mutant_changes_one_place(mutant: Mutant) -> None:
    assert (ROOT / "checkers" / mutant.file).read_text().count(mutant.text) == 1


@pytest.mark.parametrize("subject", sorted({mutant.subject for mutant in MUTANTS if mutant.subject.endswith(".py")}))
def test_the_tests_of_a_mutant_exist(subject: str) -> None:
    assert (ROOT / "tests" / "checkers" / subject).exists()
