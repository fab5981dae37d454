"""The documentation tells the truth where a program can check it."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import plugins

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("script", ["docs/diagram.py", "docs/schema.py"])
def test_what_is_generated_is_what_the_code_says(script: str) -> None:
    checked = subprocess.run([sys.executable, script, "--check"], cwd=ROOT, check=False)
    assert checked.returncode == 0, f"run python {script}"


def test_readme_lists_every_scenario() -> None:
    readme = (ROOT / "README.md").read_text()
    assert set(re.findall(r"^\| ([A-Z]+-\d+) \|", readme, re.MULTILINE)) == set(plugins.scenarios())


def test_files_that_the_docs_name_exist() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == [], page.name


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_python_names_in_the_docs_exist(page: Path) -> None:
    packages = "harness|nodes|nemesis|workloads|checkers|results"
    names = re.findall(rf"`((?:{packages})(?:\.\w+)+)`", page.read_text())
    assert [name for name in names if not _exists(name)] == []


def _exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
