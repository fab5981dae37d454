"""The documentation tells the truth where a program can check it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.scenarios import CATALOGUE

ROOT = Path(__file__).parent.parent


def test_state_diagrams_are_what_the_tables_say() -> None:
    script = [sys.executable, "docs/diagram.py", "--check"]
    assert subprocess.run(script, cwd=ROOT, check=False).returncode == 0, "run python docs/diagram.py"


def test_readme_lists_every_scenario() -> None:
    readme = (ROOT / "README.md").read_text()
    assert set(re.findall(r"^\| ([A-Z]+-\d+) \|", readme, re.MULTILINE)) == set(CATALOGUE)


def test_files_that_the_docs_name_exist() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == [], page.name
