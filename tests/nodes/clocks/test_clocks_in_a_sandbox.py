"""A controller skews a node's clocks inside a sandbox, with each privilege."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from nodes.hosts.sandbox import Privilege, enclose
from tests.support import SUPPORT

pytestmark = pytest.mark.netns

ROOT = SUPPORT.parents[1]
SCRIPT = SUPPORT / "nodes" / "skewed_node.py"
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
CLOCKS = ("realtime", "monotonic")
NEAR = 0.2
SCRIPT_SECONDS = 60


def _python_for_nobody() -> str | None:
    """A Python 3.11 that `nobody` can execute and that can read the script."""
    candidates = [sys.executable, shutil.which("python3.11", path="/usr/bin:/usr/local/bin")]
    return next((python for python in candidates if python and _nobody_can_run(python)), None)


def _nobody_can_run(python: str) -> bool:
    argv = [*NOBODY, "env", python, "-c", f"open({str(SCRIPT)!r})"]
    return subprocess.run(argv, capture_output=True, check=False, cwd="/").returncode == 0


def _argv(privilege: Privilege, directory: str) -> list[str]:
    """The command that runs the script in a sandbox; root uses `nobody` for the user namespace where possible."""
    python = _python_for_nobody() if os.geteuid() == 0 and privilege is Privilege.USER_NAMESPACE else None
    argv = enclose([python or sys.executable, str(SCRIPT), f"{directory}/hosts"], privilege)
    return [*NOBODY, *argv] if python else argv


@pytest.fixture(params=list(Privilege), ids=lambda privilege: privilege.name.lower(), scope="module")
def results(request: pytest.FixtureRequest) -> Any:
    privilege: Privilege = request.param
    if privilege is Privilege.ROOT and os.geteuid() != 0:
        pytest.skip("needs root; the same script runs in a user namespace")
    with tempfile.TemporaryDirectory(prefix="splitbrain-clocks-", ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o777)
        result = subprocess.run(
            _argv(privilege, directory),
            capture_output=True,
            text=True,
            timeout=SCRIPT_SECONDS,
            check=False,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("step", "offsets"),
    [("initially", (0, 0)), ("skewed", (-30, 0)), ("both", (4, 4)), ("reset", (0, 0)), ("restarted", (0, 0))],
)
def test_the_node_and_a_reading_from_outside_see_the_skew(results, step, offsets):
    for clock, offset in zip(CLOCKS, offsets, strict=True):
        assert results[step]["logged"][clock] == pytest.approx(offset, abs=NEAR)
        assert results[step]["read"][clock] == pytest.approx(offset, abs=0.002)


def test_the_clock_of_a_node_that_is_down_cannot_be_skewed(results):
    assert results["refusal"] == "finding n1's process: it is gone"
