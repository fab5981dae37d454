"""The documentation tells the truth where a program can check it."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness import plugins
from harness.model.placeholders import NAMES
from harness.model.scenario import on
from harness.scenarios.families import FAMILIES

ROOT = Path(__file__).parent.parent
PACKAGES = ("harness", "nemesis", "workloads", "checkers", "nodes", "results")
FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
A_FILE = re.compile(rf"\b(?:{'|'.join(FOLDERS)})/[\w/]+\.(?:py|sh|md|toml|json|svg)\b")
A_NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")


@pytest.mark.parametrize("script", ["docs/catalogue.py", "docs/diagram.py", "docs/schema.py"])
def test_what_is_generated_is_what_the_code_says(script: str) -> None:
    checked = subprocess.run([sys.executable, script, "--check"], cwd=ROOT, check=False)
    assert checked.returncode == 0, f"run python {script}"


def test_docs_list_every_placeholder() -> None:
    page = (ROOT / "docs/faults.md").read_text()
    assert {name for name in NAMES if f"`${name}`" not in page and not re.match(r"n[2-9]_", name)} == set()


def test_readme_names_scenarios_of_the_catalogue_only() -> None:
    readme = (ROOT / "README.md").read_text()
    named = set(re.findall(r"\b(?:PV|LP|DQ|CB|LD|UR|RA|EX|KAFKA)-\d+\b", readme))
    documents = {str(source) for _, source in FAMILIES.values()}
    assert named - documents <= set(plugins.scenarios())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_files_named_in_docs_and_code_exist() -> None:
    named = {
        (str(path.relative_to(ROOT)), file) for path in [*PAGES, *MODULES] for file in A_FILE.findall(path.read_text())
    }
    assert sorted(place for place in named if not (ROOT / place[1]).exists()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_names_in_docs_exist(page: Path) -> None:
    for name in set(A_NAME.findall(page.read_text())):
        pkgutil.resolve_name(name)


def test_results_of_a_scenario_outlive_its_wording_but_not_its_bounds() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    from catalogue import WAYS, fingerprint

    scenario = plugins.scenario("PV-01")
    assert scenario.bad is not None
    (shown, *others) = scenario.bad.shows
    stricter = replace(scenario.bad, shows=(replace(shown, at_least=shown.at_least + 1), *others))
    reworded = replace(scenario.bad, shows=(replace(shown, text="other words"), *others))
    on_another_release = replace(scenario.bad, setups=on(reference={}, kafka="3.9.0"))
    same = fingerprint(scenario, WAYS["reference"])
    assert fingerprint(replace(scenario, title="Other words", bad=reworded), WAYS["reference"]) == same
    assert fingerprint(replace(scenario, bad=stricter), WAYS["reference"]) != same
    assert fingerprint(replace(scenario, story=scenario.story[:-1]), WAYS["reference"]) != same
    assert fingerprint(replace(scenario, bad=on_another_release), WAYS["kafka"]) != fingerprint(scenario, WAYS["kafka"])
    assert fingerprint(replace(scenario, bad=None), WAYS["reference"]) != same


@pytest.mark.parametrize(
    ("way", "scenario", "sides"),
    [
        ("reference", "PV-01", ["bad", "good"]),
        ("kafka", "PV-32", ["bad"]),
        ("kafka-4.0.0", "PV-01", ["good"]),
        ("kafka-4.0.0", "LP-02", []),
        ("kafka-3.9.1", "LP-02", ["good"]),
        ("defects-4.0.0", "EX-04", ["bad"]),
        ("defects-3.9.1", "EX-04", []),
        ("kafka-reading", "LD-01", []),
    ],
)
def test_a_way_to_play_has_the_sides_that_name_its_releases(way: str, scenario: str, sides: list[str]) -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    from catalogue import WAYS

    played = WAYS[way].sides(plugins.scenario(scenario))
    assert list(played) == sides
    assert {system for side in played.values() for system in side.setups} <= {WAYS[way].system.partition(":")[0]}
