"""`splitbrain compare` on a store: the query on Spark, every output, and the exit code."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import timedelta
from pathlib import Path

import pytest

from harness.model.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_USAGE, EXIT_VALID
from tests.support.command import json_lines, splitbrain, splitbrain_here
from tests.support.stored_runs import BEGIN, failed_verdict, judged_run, passed_verdict, register_plan

KNOWN = '[[known]]\nfinding = "lost-write"\nissue = "KAFKA-1"\nexpires = 2099-01-01\n'
BASE, HEAD = "2026-11-20", "2026-11-21"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight runs that passed, and a day later eight that lost writes."""
    runs = tmp_path_factory.mktemp("compared") / "runs"
    for seed in range(8):
        judged_run(runs, "before", register_plan(seed=seed), passed_verdict(), BEGIN)
        judged_run(runs, "now", register_plan(seed=seed), failed_verdict(), BEGIN + timedelta(days=1))
    return runs


pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_regression_is_named_in_every_output(store: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("out.md", "out.xml", "out.html")]
    flags = [
        each for flag, file in zip(("--markdown", "--junit", "--html"), files, strict=True) for each in (flag, file)
    ]
    result = splitbrain_here("compare", BASE, HEAD, "--store", store, *flags)
    assert result.code == EXIT_INVALID, result.messages
    assert "register with kill on reference fails in 8 of 8 runs (lost-write)" in result.out.splitlines()[0]
    assert "8 of 8 failed" in files[0].read_text()
    assert ET.parse(files[1]).getroot().find(".//failure") is not None
    assert "<h1>2026-11-21 against 2026-11-20</h1>" in files[2].read_text()


def test_same_runs_show_nothing(store: Path) -> None:
    (comparison,) = json_lines(splitbrain_here("compare", HEAD, HEAD, "--store", store, "--json"))
    assert [(case["status"], case["head"]["failed"]) for case in comparison["cases"]] == [("still failing", 8)]
    assert comparison["verdict"] == "valid"
    passing = splitbrain_here("compare", BASE, BASE, "--store", store)
    assert passing.code == EXIT_VALID
    assert "1 case as before." in passing.out


def test_known_findings_and_baselines(store: Path, tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(KNOWN)
    assert splitbrain("baseline", "set", "good", BASE, "--store", store).out == "good: 8 runs\n"
    result = splitbrain_here("compare", "good", HEAD, "--store", store, "--known", tmp_path / "known.toml", "--json")
    (comparison,) = json_lines(result)
    assert comparison["cases"][0]["head"] == {
        "failed": 0, "decided": 0, "unknown": 0, "known": 8, "low": 0.0, "high": 1.0,
    }  # fmt: skip
    assert json.loads(splitbrain("baseline", "list", "--store", store, "--json").out)["baseline"] == "good"
    assert splitbrain("baseline", "remove", "good", "--store", store).code == EXIT_VALID


def test_case_that_did_not_run_is_undecided(store: Path) -> None:
    other = judged_run(store, "other", register_plan(workload="set"), passed_verdict(), BEGIN + timedelta(days=2))
    result = splitbrain_here("compare", BASE, other.name, "--store", store)
    assert result.code == EXIT_UNKNOWN
    assert "not run" in result.out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nothing", HEAD], "nothing: expected a night, a run, a baseline, a date, latest or previous"),
        ([BASE, HEAD, "--html", "/proc/x/y.html"], "/proc/x/y.html: expected a file that can be written"),
        (
            [BASE, HEAD, "--known", "/no/such.toml"],
            "/no/such.toml: expected known findings in TOML, found no such file",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(store: Path, words: list[str], problem: str) -> None:
    result = splitbrain_here("compare", *words, "--store", store, "--quiet")
    assert (result.code, len(result.messages)) == (EXIT_USAGE, 1), result.messages
    assert problem in result.messages[0]
