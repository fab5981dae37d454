"""An installed wheel works in any folder, and a package outside the tree adds a system without a change here."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.model.errors import EXIT_USAGE, EXIT_VALID
from results.store import runs
from tests.support.command import COMMAND

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "etcd"
LINES_MAX = 100
PACKAGES = ("harness", "nodes", "nemesis", "workloads", "checkers", "results")
ENTRY = "import sys; from harness.commands.main import main; sys.argv[0] = 'splitbrain'; main()"


def pip(*arguments: str) -> None:
    argv = [sys.executable, "-m", "pip", "-q", *arguments, "--no-deps", "--no-build-isolation"]
    subprocess.run(argv, check=True, capture_output=True, text=True)


def copied(source: Path, target: Path) -> Path:
    """A copy to build from, so that nothing is written into the tree."""
    by_name = shutil.ignore_patterns(".*", "*.egg-info", "build", "__pycache__", "tests", "benchmarks")

    def ignored(folder: str, names: list[str]) -> set[str]:
        stored = {"runs", "nights"} if Path(folder) == source / "results" else set()
        return set(by_name(folder, names)) | stored

    return Path(shutil.copytree(source, target, ignore=ignored))


@pytest.fixture(scope="module")
def wheel_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed wheel."""
    scratch = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--wheel-dir", str(scratch), str(copied(ROOT, scratch / "source")))
    (wheel,) = scratch.glob("splitbrain-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(scratch / "site")
    return scratch / "site"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with packages of the same names, which fail when they are imported."""
    for name in ("harness", "results", "nodes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise ImportError('{name} of the current folder')\n")
    return tmp_path


def installed(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a folder."""
    argv = [sys.executable, "-P", "-c", ENTRY, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False)


def test_every_file_of_the_packages_is_in_the_wheel(wheel_site: Path) -> None:
    def files(root: Path) -> set[str]:
        found = (path.relative_to(root) for name in PACKAGES for path in (root / name).rglob("*") if path.is_file())
        ignored = {Path("results", "runs"), Path("results", "nights")}
        return {str(path) for path in found if "__pycache__" not in path.parts and not ignored & set(path.parents)}

    assert files(wheel_site) == files(ROOT)


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_an_installed_wheel_runs_checks_and_reports_in_a_folder_with_packages_of_the_same_names(
    wheel_site: Path, folder: Path
) -> None:
    run = installed(wheel_site, folder, "run", "--faults", "partition", "--time-limit", "3", "--interval", "2")
    assert run.returncode == EXIT_VALID, run.stderr
    (directory,) = [run.path for run in runs(folder / "results" / "runs")]
    checked = installed(wheel_site, folder, "check", str(directory), "--format", "json")
    assert checked.returncode == EXIT_VALID, checked.stderr
    assert json.loads(checked.stdout)["verdict"] == "valid"
    (directory / "report.html").unlink()
    assert installed(wheel_site, folder, "report", str(directory)).returncode == EXIT_VALID
    assert (directory / "report.html").exists()


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_an_installed_wheel_reproduces_in_a_folder_with_packages_of_the_same_names(
    wheel_site: Path, folder: Path
) -> None:
    reproduced = installed(wheel_site, folder, "reproduce", "PV-01")
    assert reproduced.returncode == EXIT_VALID, reproduced.stderr


def code_lines(path: Path) -> int:
    """Lines that are not blank, comments or docstrings."""
    text = path.read_text()
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        kinds = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if isinstance(node, kinds) and ast.get_docstring(node):
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and at not in documented for at, line in lines)


def test_the_etcd_example_is_short() -> None:
    assert sum(map(code_lines, EXAMPLE.glob("*.py"))) < LINES_MAX


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """An environment with the example package and an etcd: this machine's, or Debian's, unpacked and not installed."""
    scratch = tmp_path_factory.mktemp("etcd")
    binary = shutil.which("etcd")
    if binary is None:
        try:
            subprocess.run(["apt-get", "download", "-q", "etcd-server"], cwd=scratch, check=True, capture_output=True)
            for package in scratch.glob("*.deb"):
                subprocess.run(["dpkg-deb", "--extract", package, scratch], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no etcd here, and apt-get cannot download it; as root: apt-get install -y etcd-server")
        binary = str(scratch / "usr/bin/etcd")
    pip("install", "--target", str(scratch / "site"), str(copied(EXAMPLE, scratch / "source")))
    return {**os.environ, "PYTHONPATH": str(scratch / "site"), "SPLITBRAIN_ETCD": binary}


def splitbrain(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [COMMAND, *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_each_part_of_the_example_package_is_listed(etcd: Mapping[str, str]) -> None:
    listed = [json.loads(line) for line in splitbrain(etcd, "plugins", "--format", "json").stdout.splitlines()]
    assert {(each["kind"], each["name"]) for each in listed if each["package"] == "splitbrain-etcd"} == {
        ("systems", "etcd"),
        ("workloads", "etcd-register"),
        ("faults", "stutter"),
        ("checks", "etcd-terms"),
        ("scenarios", "etcd"),
    }
    assert "Serializable reads of a partitioned leader are stale" in splitbrain(etcd, "scenarios").stdout
    assert "--system etcd" in splitbrain(etcd, "scenarios", "show", "ETCD-01").stdout


def test_a_fault_that_etcd_cannot_have_is_refused(etcd: Mapping[str, str], tmp_path: Path) -> None:
    refused = splitbrain(etcd, "run", "--system", "etcd", "--faults", "rpc", "--store", str(tmp_path))
    assert refused.returncode == EXIT_USAGE
    assert refused.stderr == "splitbrain: --faults rpc: the proxy does not know etcd's protocol\n"


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_etcd_runs_under_partitions_kills_and_a_fault_of_its_own(etcd: Mapping[str, str], tmp_path: Path) -> None:
    flags = ["--faults", "partition,kill,stutter", "--interval", "3", "--time-limit", "10", "--seed", "4"]
    load = ["--system", "etcd", "--workload", "etcd-register", "--store", str(tmp_path), "--format", "json"]
    run = splitbrain(etcd, "run", *load, *flags)
    assert run.returncode == EXIT_VALID, run.stdout + run.stderr
    verdict: dict[str, Any] = json.loads(run.stdout)
    assert verdict["checks"] == ["nemesis", "servers", "register", "etcd-terms", "availability"]
    assert (Path(verdict["run"]) / "report.html").exists()


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_scenario_of_the_example_package_reproduces(etcd: Mapping[str, str], tmp_path: Path) -> None:
    reproduced = splitbrain(etcd, "reproduce", "ETCD-01", "--system", "etcd", "--store", str(tmp_path))
    assert reproduced.returncode == EXIT_VALID, reproduced.stdout + reproduced.stderr
