"""The sizes and habits of docs on style, held by a test: no function over 70 lines, no file over 500, medians small.

There are no exemptions by name. A limit is a ceiling to lower, never to raise.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("harness", "nodes", "nemesis", "workloads", "checkers", "results")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.stat().st_size)
ALL_FILES = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
JAVA = sorted((ROOT / "nodes/simulation").rglob("*.java"))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a file with its number of lines, docstring left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = ast.get_docstring(node) is not None
            docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - docstring


@pytest.mark.parametrize("path", [*ALL_FILES, *JAVA], ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_no_longer_than_500_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500


@pytest.mark.parametrize("path", ALL_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_function_is_longer_than_70_lines(path: Path) -> None:
    assert [name for name, lines in functions(path) if lines > 70] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_says_first_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no module docstring"


def test_median_function_is_at_most_12_lines_and_nine_in_ten_at_most_35() -> None:
    lengths = sorted(lines for path in SOURCES for _, lines in functions(path))
    assert statistics.median(lengths) <= 12
    assert lengths[int(len(lengths) * 0.9)] <= 35


def test_median_file_is_at_most_200_lines() -> None:
    assert statistics.median(len(path.read_text().splitlines()) for path in SOURCES) <= 200
