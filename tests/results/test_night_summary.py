"""The summary of a night says first whether it passed, then what failed and how to repeat it, in every form."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from harness.model import Verdict
from results.night_summary import JobSummary, NightSummary, junit, markdown, page, text

PASSED = JobSummary("PV-01", "reference", "", 5, "passed", seconds=20, attempts=1)
FAILED = JobSummary(
    "explore",
    "reference",
    "reference.mutant=half-is-a-majority",
    6,
    "failed",
    ("two-leaders-in-one-epoch",),
    "n1 and n2 lead in epoch 7",
    "20261120T020000Z-explore-ab12",
    "../../runs/20261120T020000Z-explore-ab12/report.html",
    "splitbrain run --plan request.toml",
    25,
    1,
)
UNKNOWN = replace(PASSED, case="LP-01", outcome="unknown", message="no memory")
NOT_RUN = replace(PASSED, seed=6, outcome=None, attempts=0)
HOSTILE = "<script>alert(1)</script>|`x`\n# [a](javascript:b) \x00\udcff ../"


def night(*jobs: JobSummary, **values: object) -> NightSummary:
    summary = NightSummary("20261120T020000Z-chaos", "2026-11-20T02:00:00", "2026-11-20T03:00:00", 3600, True, "", jobs)
    return replace(summary, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("jobs", "verdict"),
    [
        ((), Verdict.UNKNOWN),
        ((PASSED,), Verdict.VALID),
        ((PASSED, NOT_RUN), Verdict.VALID),
        ((PASSED, replace(NOT_RUN, case="LP-01")), Verdict.UNKNOWN),
        ((PASSED, UNKNOWN), Verdict.UNKNOWN),
        ((PASSED, UNKNOWN, FAILED), Verdict.INVALID),
        ((PASSED, replace(FAILED, outcome="known")), Verdict.VALID),
    ],
    ids=["nothing", "all", "some", "a case never ran", "unknown", "failed", "known"],
)
def test_verdict(jobs: tuple[JobSummary, ...], verdict: Verdict) -> None:
    assert night(*jobs).verdict is verdict


def test_text_begins_with_the_verdict_and_then_what_failed() -> None:
    lines = text(night(PASSED, UNKNOWN, FAILED, NOT_RUN, coverage=("4 elections",))).splitlines()
    assert lines[0].startswith(
        "20261120T020000Z-chaos: INVALID. 3 jobs in 60 min 0 s: 1 failed, 1 unknown, 1 passed, 1 not"
    )
    assert lines[2].startswith(
        "failed: explore on reference with reference.mutant=half-is-a-majority, seed 6: two-lead"
    )
    assert "  repeat: splitbrain run --plan request.toml" in lines
    assert lines.index("4 elections") > next(at for at, line in enumerate(lines) if line.startswith("PV-01 "))


def test_night_that_stopped_says_why() -> None:
    assert "It ended early: its time, 8 h, was over." in night(PASSED, stopped_by="its time, 8 h, was over").headline
    assert "the same command resumes it" in night(PASSED, is_finished=False).headline
    assert "2 runs interrupted and repeated." in night(PASSED, interrupted=2).headline


def test_markdown_is_short_and_cannot_be_broken_by_names() -> None:
    hostile = replace(FAILED, system=HOSTILE, problems=(HOSTILE,), message=HOSTILE * 1000, command=HOSTILE)
    lines = markdown(night(PASSED, hostile)).splitlines()
    assert lines[0] == "## 20261120T020000Z-chaos: invalid"
    tables = [line for line in lines if line.startswith("|")]
    assert {_cells(line) for line in tables} == {4, 8}
    assert len(tables) == 3 + 4
    assert "<script>" not in "".join(line for line in lines if "`" not in line)
    assert all(len(line) < 2000 for line in lines)


def _cells(line: str) -> int:
    """The number of cells of a row; a bar behind a backslash is text."""
    return line.replace("\\|", "").count("|") - 1


def test_junit_has_a_case_per_job_and_counts_them() -> None:
    hostile = replace(UNKNOWN, message=HOSTILE)
    root = ET.fromstring(junit(night(PASSED, NOT_RUN, hostile, FAILED)))
    suites = {suite.attrib["name"]: suite.attrib for suite in root}
    assert suites["PV-01 reference"] == {
        "name": "PV-01 reference", "tests": "2", "failures": "0", "errors": "0", "skipped": "1",
    }  # fmt: skip
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.attrib["message"] == "two-leaders-in-one-epoch: n1 and n2 lead in epoch 7"
    assert "splitbrain run --plan request.toml" in (failure.text or "")
    assert len(root.findall(".//error")) == 1


class Tags(HTMLParser):
    """The tags of a page, and the targets of its links."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str | None] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]


def test_page_links_to_reports_and_withstands_hostile_text() -> None:
    hostile = replace(FAILED, system=HOSTILE, message=HOSTILE, command=HOSTILE, problems=(HOSTILE,))
    document = Tags(page(night(PASSED, FAILED, hostile)))
    assert "script" not in document.tags
    assert document.links == [FAILED.report, FAILED.report]
    plain = page(night(PASSED))
    assert "What did not pass" not in plain
    assert 'class="severity valid"' in plain


def test_json_has_everything() -> None:
    document = json.loads(json.dumps(night(PASSED, FAILED).to_json()))
    assert (document["verdict"], document["counts"]) == ("invalid", {"passed": 1, "failed": 1})
    assert document["jobs"][1]["problems"] == ["two-leaders-in-one-epoch"]
