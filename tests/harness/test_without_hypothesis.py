"""No command leaves anything of our test tools in the folder where the user works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import environment

PLACES = ["harness.systems.kafka", "harness.running.run", "nodes.wire.codec", "workloads.register"]


@pytest.mark.parametrize("module", PLACES)
def test_importing_what_a_command_needs_leaves_the_folder_empty(tmp_path: Path, module: str) -> None:
    script = f"import {module}, kio.schema.errors, sys; assert 'hypothesis' not in sys.modules; import hypothesis"
    subprocess.run([sys.executable, "-P", "-c", script], cwd=tmp_path, check=True, env=environment())
    assert not list(tmp_path.iterdir())
