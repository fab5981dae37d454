"""The pytest plugin: the example of docs/pytest.md passes, and failures say what is broken and how to repeat it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.model import Finding, Quantity, Verdict
from harness.planning.plan import Plan
from harness.pytest_plugin import PlayedRun, message_of
from results.run_verdict import ExpectationResult, RunVerdict
from results.store import RunDirectory, new_run
from tests.support.stored_runs import BEGIN

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "harness.pytest_plugin")


def pytest_in(folder: Path, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """pytest on a test file with this text, in a folder that has nothing else."""
    (folder / "test_quorum.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*PYTEST, *flags], cwd=folder, env=environment, capture_output=True, text=True, timeout=250, check=False
    )


def example() -> str:
    """The test file in the documentation."""
    return examples()[0]


def examples() -> list[str]:
    """The parts of test files in the documentation."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "pytest.md").read_text(), re.DOTALL)


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(280)
def test_example_of_the_documentation_passes(tmp_path: Path) -> None:
    result = pytest_in(tmp_path, example(), "--splitbrain-store", str(tmp_path / "store"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 passed" in result.stdout
    assert len([path for path in (tmp_path / "store").glob("2*") if path.is_dir()]) == 3
    assert not (tmp_path / ".hypothesis").exists()


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(280)
def test_fixtures_set_cluster_load_and_faults_of_every_run(tmp_path: Path) -> None:
    text = "import pytest\n" + examples()[1].replace('"kafka:4.3.1"', '"reference"').replace("20}", "4}")
    result = pytest_in(tmp_path, text, "--splitbrain-store", str(tmp_path / "store"), "-k", "reference0")
    assert result.returncode == 0, result.stdout + result.stderr
    (run,) = (RunDirectory(path) for path in (tmp_path / "store").glob("2*"))
    plan = Plan.read(run.plan)
    assert (plan.system, plan.nodes, plan.workload, plan.rate_per_second, plan.seed) == (
        "reference",
        3,
        "register",
        50,
        7,
    )
    assert {step.f for step in plan.story} & {"cut", "cut_links", "kill"}


def test_unknown_key_of_a_fixture_is_refused(tmp_path: Path) -> None:
    text = (
        "import pytest\n@pytest.fixture\ndef splitbrain_cluster(): return {'node': 3}\n"
        "def test_it(splitbrain_run): splitbrain_run()\n"
    )
    result = pytest_in(tmp_path, text)
    assert result.returncode == 1
    assert "node: expected" in result.stdout


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(280)
def test_failure_names_the_guarantee_the_witness_the_report_and_the_command(tmp_path: Path) -> None:
    text = (
        "from harness.model.story import ALL, cut, sleep\n"
        "def test_broken(splitbrain_run):\n"
        "    splitbrain_run(switch={'reference.mutant': 'half-is-a-majority'}, workload='register', seed=3,\n"
        "                   story=[cut(ALL), sleep(4)]).assert_valid()\n"
    )
    result = pytest_in(tmp_path, text)
    assert result.returncode == 1, result.stdout + result.stderr
    assert re.search(r"-run-\w{4}: invalid: \d+ broken guarantees?: ", result.stdout), result.stdout
    assert re.search(r"^  [a-z-]+: .* in epoch \d+", result.stdout, re.MULTILINE), result.stdout
    assert "repeat: splitbrain run --plan " in result.stdout
    # Where CI is set, pytest repeats the whole message in its summary.
    (report,) = set(re.findall(r"^report: (.*)", result.stdout, re.MULTILINE))
    assert Path(report).is_file()


def test_marker_needs_a_scenario(tmp_path: Path) -> None:
    result = pytest_in(tmp_path, "import pytest\n@pytest.mark.splitbrain\ndef test_it(reproduction): pass\n")
    assert 'expected a marker such as @pytest.mark.splitbrain("PV-01")' in result.stdout


def test_unknown_scenario_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.splitbrain('PV01')\ndef test_it(): pass\n"
    result = pytest_in(tmp_path, text, "--strict-markers")
    assert result.returncode == 1
    assert "PV01" in result.stdout
    assert "did you mean PV-01?" in result.stdout


def test_plugin_imports_nothing_that_takes_long() -> None:
    """pytest loads it for every project of a user who has installed splitbrain."""
    script = (
        "import sys, harness.pytest_plugin; print(sorted({'pyspark', 'numpy', 'pydantic', 'kio'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == "[]"


def played(tmp_path: Path, verdict: Verdict, *findings: Finding) -> PlayedRun:
    unmet = ExpectationResult("the leader is deposed", "", False, "leader_deposed", 0.0)
    quantities = (Quantity("quorum", "commit_gap_ms", 620.0, "ms"),)
    run = new_run(tmp_path, "run", BEGIN)
    return PlayedRun(
        RunDirectory(run.path),
        RunVerdict(
            "PV-01",
            verdict,
            "summary",
            findings=findings,
            expectations=(unmet,),
            quantities=quantities,
            command="again",
        ),
    )


def test_message_has_what_a_reader_needs(tmp_path: Path) -> None:
    lost = Finding("register", "lost-write", "invalid", "the write of 7 was lost", witnesses=(3, 9))
    stale = Finding("register", "stale-read", "tolerated", "a stale read")
    run = played(tmp_path, Verdict.INVALID, lost, stale)
    assert message_of(run).splitlines() == [
        "PV-01: invalid: summary",
        "  lost-write: the write of 7 was lost (operations 3, 9)",
        "  expected: the leader is deposed; leader deposed: no",
        f"report: {run.report}",
        "repeat: again",
    ]
    assert run.findings == ["lost-write"]
    assert run.quantity("commit_gap_ms") == 620
    with pytest.raises(KeyError):
        run.quantity("nothing")


@pytest.mark.parametrize("verdict", [Verdict.INVALID, Verdict.UNKNOWN])
def test_only_valid_passes(tmp_path: Path, verdict: Verdict) -> None:
    with pytest.raises(pytest.fail.Exception):
        played(tmp_path, verdict).assert_valid()
    played(tmp_path, Verdict.VALID).assert_valid()
