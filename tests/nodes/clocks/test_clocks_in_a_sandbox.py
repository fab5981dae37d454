"""A node's clocks moved by a controller inside a sandbox, by either right to make one."""

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
SCENE = SUPPORT / "nodes" / "moved_node.py"
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
CLOCKS = ("realtime", "monotonic")
NEAR = 0.2
SCENE_SECONDS = 60


def _python_for_anyone() -> str | None:
    """A Python 3.11 that an unprivileged user can run, with the scene within its reach."""
    candidates = [sys.executable, shutil.which("python3.11", path="/usr/bin:/usr/local/bin")]
    return next((python for python in candidates if python and _nobody_reaches(python)), None)


def _nobody_reaches(python: str) -> bool:
    argv = [*NOBODY, "env", python, "-c", f"open({str(SCENE)!r})"]
    return subprocess.run(argv, capture_output=True, check=False, cwd="/").returncode == 0


def _argv(privilege: Privilege, directory: str) -> list[str]:
    """The scene in a sandbox; as nobody where we are root, it is to be played without root, and nobody can read it."""
    python = _python_for_anyone() if os.geteuid() == 0 and privilege is Privilege.USER_NAMESPACE else None
    scene = enclose([python or sys.executable, str(SCENE), f"{directory}/hosts"], privilege)
    return [*NOBODY, *scene] if python else scene


@pytest.fixture(params=list(Privilege), ids=lambda privilege: privilege.name.lower(), scope="module")
def told(request: pytest.FixtureRequest) -> Any:
    privilege: Privilege = request.param
    if privilege is Privilege.ROOT and os.geteuid() != 0:
        pytest.skip("needs root; the same scene is played in a user namespace")
    with tempfile.TemporaryDirectory(prefix="splitbrain-clocks-", ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o777)
        result = subprocess.run(
            _argv(privilege, directory),
            capture_output=True,
            text=True,
            timeout=SCENE_SECONDS,
            check=False,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("deed", "offsets"),
    [("at first", (0, 0)), ("skewed", (-30, 0)), ("both", (4, 4)), ("reset", (0, 0)), ("begun anew", (0, 0))],
)
def test_the_node_says_what_was_done_and_what_is_read_from_outside(told, deed, offsets):
    for clock, offset in zip(CLOCKS, offsets, strict=True):
        assert told[deed]["said"][clock] == pytest.approx(offset, abs=NEAR)
        assert told[deed]["read"][clock] == pytest.approx(offset, abs=0.002)


def test_the_clock_of_a_node_that_is_down_cannot_be_moved(told):
    assert told["refusal"] == "finding n1's process: it is gone"
