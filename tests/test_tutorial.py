"""Every command of the tutorial does what it says, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(sh|toml)(?: (?:exit=(\d+)|plan=(\S+)))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND_SECONDS = 300


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_every_command_of_the_tutorial_works(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    commands = 0
    for language, exit_code, plan, text in BLOCK.findall(PAGE):
        if language == "toml":
            (tmp_path / plan).write_text(text)
            continue
        for line in text.splitlines():
            done = subprocess.run(
                line,
                shell=True,
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
            assert done.returncode == int(exit_code or 0), f"{line}\n{done.stdout}\n{done.stderr}"
            commands += 1
    assert commands >= 15
