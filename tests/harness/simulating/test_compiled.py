"""`splitbrain simulate --compiled`: the same runs, from modules that mypyc has compiled."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from harness.model import EnvironmentFailure
from harness.model.errors import EXIT_USAGE
from harness.simulating.pool import processes
from harness.simulating.request import SimulationRequest
from harness.simulating.searching import available_actions, screen_all, search
from nodes.simulation import compiled
from tests.support.command import splitbrain_here

KIP_853 = {"reference.voter_changes": "kip-853"}
KIP_642 = {"reference.voter_changes": "kip-642"}
REQUESTS = (
    SimulationRequest(seeds=50, seed=1, timed=True),
    SimulationRequest(seeds=25, seed=1, timed=True, switch=KIP_853),
    SimulationRequest(seeds=6, seed=1),
    SimulationRequest(seeds=4, seed=1, switch=KIP_642),
    SimulationRequest(seeds=25, seed=1, timed=True, switch={"reference.mutant": "rejected-vote-counted"}),
)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled modules. They are compiled for this test, as quickly as the compiler can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compiled.LEVEL, "0")
        return compiled.compiled(cache=tmp_path_factory.mktemp("cache"))


def test_modules_can_be_translated_to_c(tmp_path: Path) -> None:
    """What takes the time is the compilation of the C code."""
    translate = "import sys; from mypyc.build import mypycify; mypycify(sys.argv[1:])"
    modules = compiled.copied_sources(tmp_path)
    assert "nodes/reference/core/node.py" in modules
    argv = [sys.executable, "-c", translate, "--ignore-missing-imports", *modules]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_compiled_modules_simulate_the_same_runs(modules: Path) -> None:
    for request in REQUESTS:
        available = () if request.timed else available_actions(request)
        expected = screen_all(request, range(1, 1 + request.seeds), available)
        with processes(2, modules) as pool:
            found = sorted(search(request, available, pool), key=lambda each: each.seed)
        assert [(each.seed, each.reason, each.digest, each.virtual_ms) for each in found] == [
            (each.seed, each.reason, each.digest, each.virtual_ms) for each in expected
        ]
    assert any(each.reason == "election-safety" for each in found)


@pytest.mark.slow
def test_processes_import_the_compiled_modules(modules: Path) -> None:
    with processes(1, modules) as pool:
        assert Path(pool.submit(_file_of, "nodes.reference.core.node").result()).is_relative_to(modules)
    with processes(1) as pool:
        assert Path(pool.submit(_file_of, "nodes.reference.core.node").result()).suffix == ".py"


def _file_of(module: str) -> str:
    return str(importlib.import_module(module).__file__)


@pytest.mark.slow
def test_modules_are_compiled_once(modules: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compiled.LEVEL, "0")
        patch.setattr(compiled, "_compile", pytest.fail)
        assert compiled.compiled(cache=modules.parent) == modules


@pytest.mark.slow
def test_modules_that_are_imported_already_are_refused(modules: Path) -> None:
    with pytest.raises(AssertionError, match=r"imported before: .*nodes\.reference\.core\.node"):
        compiled.import_from(modules)


def test_source_that_does_not_compile_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("number: int = 'text'\n")
    with pytest.raises(EnvironmentFailure, match=r"compiling the reference system: wrong\.py:1: error: Incompatible"):
        compiled._compile(tmp_path, ["wrong.py"])


def test_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "right.py").write_text("number: int = 1\n")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(EnvironmentFailure, match=r"no-such-compiler.*apt-get install -y gcc"):
        compiled._compile(tmp_path, ["right.py"])


def test_only_the_reference_system_is_compiled(tmp_path: Path) -> None:
    result = splitbrain_here("simulate", "--system", "kafka", "--compiled", "--store", tmp_path)
    assert result.code == EXIT_USAGE
    assert "--compiled: expected --system reference, found kafka" in "\n".join(result.messages)
