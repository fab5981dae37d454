"""The summary of a night: as text, as Markdown for a CI job's summary, as JUnit XML, as JSON and as one HTML page.

    text(summary)      markdown(summary)      junit(summary)      page(summary)

It answers in this order: did the night pass, what failed and how to repeat it, what ran on each system, what did not.

Contains the values and their rendering. harness.nightly.summary makes them from a night's ledger and its runs.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Final

from jinja2 import Environment

from harness.model import Verdict
from harness.model.plurals import counted
from results.markdown import cell, code, table
from results.pages import templates
from results.quantities import duration_text
from results.text_tables import text_table
from results.xml import valid_xml_text

HEADERS: Final = ("case", "system", "switches", "passed", "failed", "known", "unknown", "not run")
OUTCOMES: Final = ("failed", "unknown", "known", "passed")
"""What a job can end with, the most important first."""
MESSAGE_LENGTH_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job: what it played, how it ended (None: it did not run), and why.

    problems are the names of findings and of expectations that were not met; message is a sentence. run is its
    directory's name, report the path of its report from the night's directory; both are empty without one. attempts is
    how often it began.
    """

    case: str
    system: str
    variant: str
    seed: int
    outcome: str | None
    problems: tuple[str, ...] = ()
    message: str = ""
    run: str = ""
    report: str = ""
    command: str = ""
    seconds: float = 0.0
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class NightSummary:
    """A night. began and ended are ISO 8601 in UTC; stopped_by is what ended it before its last job, "" if nothing did.

    is_finished: it did not just stop, as after a crash. interrupted counts the runs that were cut off and repeated.
    coverage are lines about what the explored runs reached.
    """

    name: str
    began: str
    ended: str
    seconds: float
    is_finished: bool
    stopped_by: str
    jobs: tuple[JobSummary, ...]
    interrupted: int = 0
    coverage: tuple[str, ...] = ()
    command: str = ""

    @property
    def counts(self) -> Counter[str]:
        """The number of jobs by outcome."""
        return Counter(job.outcome or "not run" for job in self.jobs)

    @property
    def verdict(self) -> Verdict:
        """Invalid if a job failed; unknown if one is unknown, or a case did not run at all; otherwise valid."""
        if self.counts["failed"]:
            return Verdict.INVALID
        never = any(set(counts) <= {"not run"} for _, counts in self.cases)
        return Verdict.UNKNOWN if self.counts["unknown"] or never or not self.jobs else Verdict.VALID

    @property
    def headline(self) -> str:
        """The night in a sentence."""
        ran = sum(number for outcome, number in self.counts.items() if outcome != "not run")
        parts = [f"{number} {outcome}" for outcome in (*OUTCOMES, "not run") if (number := self.counts[outcome])]
        text = f"{counted(ran, 'job')} in {duration_text(self.seconds * 1000)}: {', '.join(parts) or 'nothing ran'}."
        if self.interrupted:
            text += f" {counted(self.interrupted, 'run')} interrupted and repeated."
        if self.stopped_by:
            text += f" It ended early: {self.stopped_by}."
        return text if self.is_finished else f"{text} The night is not finished; the same command resumes it."

    @property
    def cases(self) -> list[tuple[tuple[str, str, str], Counter[str]]]:
        """What was played, on which system, with which switches; and the outcomes, those with failures first."""
        found: dict[tuple[str, str, str], Counter[str]] = {}
        for job in self.jobs:
            key = (job.case, job.system, job.variant)
            found.setdefault(key, Counter())[job.outcome or "not run"] += 1
        return sorted(found.items(), key=lambda item: (-item[1]["failed"], -item[1]["unknown"]))

    def with_reports(self, addresses: Mapping[str, str]) -> NightSummary:
        """The summary with other addresses of the reports, by run; "" where there is none."""
        jobs = tuple(replace(job, report=addresses.get(job.run, "")) for job in self.jobs)
        return replace(self, jobs=jobs)

    @property
    def troubled(self) -> list[JobSummary]:
        """The jobs that did not pass, failed ones first."""
        ran = [job for job in self.jobs if job.outcome not in (None, "passed")]
        return sorted(ran, key=lambda job: OUTCOMES.index(job.outcome or ""))

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON."""
        return {**asdict(self), "verdict": self.verdict.value, "headline": self.headline, "counts": dict(self.counts)}


def text(summary: NightSummary) -> str:
    """The summary for a terminal."""
    parts = [
        f"{summary.name}: {summary.verdict.value.upper()}. {summary.headline}",
        "\n\n".join(_trouble(job) for job in summary.troubled),
        text_table(HEADERS, _rows(summary)),
        "\n".join(summary.coverage),
    ]
    return "\n\n".join(part for part in parts if part)


def _trouble(job: JobSummary) -> str:
    lines = [f"{job.outcome}: {_title(job)}: {', '.join(job.problems) or 'no verdict'}", f"  {_short(job.message)}"]
    lines += [f"  run:    {job.run}"] if job.run else []
    return "\n".join([*lines, f"  repeat: {job.command}"] if job.command else lines)


def _title(job: JobSummary) -> str:
    return f"{job.case} on {job.system}{f' with {job.variant}' if job.variant else ''}, seed {job.seed}"


def _short(message: str) -> str:
    return message if len(message) <= MESSAGE_LENGTH_MAX else f"{message[:MESSAGE_LENGTH_MAX]}…"


def _rows(summary: NightSummary) -> list[tuple[str, ...]]:
    return [
        (*key, *(str(counts[name]) if counts[name] else "" for name in HEADERS[3:])) for key, counts in summary.cases
    ]


def markdown(summary: NightSummary) -> str:
    """The summary for a CI job's page."""
    lines = [f"## {cell(summary.name)}: {summary.verdict.value}", "", cell(summary.headline), ""]
    if summary.troubled:
        lines += table(("outcome", "job", "problem", "repeat"), map(_trouble_cells, summary.troubled))
    lines += table(HEADERS, [[cell(value) for value in row] for row in _rows(summary)])
    lines += [f"- {cell(line)}" for line in summary.coverage]
    return "\n".join(lines) + "\n"


def _trouble_cells(job: JobSummary) -> Sequence[str]:
    problems = f"**{cell(', '.join(job.problems) or 'no verdict')}**: {cell(_short(job.message))}"
    return job.outcome or "", cell(_title(job)), problems, code(job.command)


def junit(summary: NightSummary) -> str:
    """The summary as JUnit XML: a suite per case, system and switches, with a case per job."""
    root = ET.Element("testsuites", name=summary.name)
    for case, _ in summary.cases:
        name = valid_xml_text(" ".join(part for part in case if part))
        jobs = [job for job in summary.jobs if (job.case, job.system, job.variant) == case]
        counts = Counter(job.outcome for job in jobs)
        suite = ET.SubElement(root, "testsuite", name=name)
        skipped = counts[None] + counts["known"]
        numbers = {"tests": len(jobs), "failures": counts["failed"], "errors": counts["unknown"], "skipped": skipped}
        suite.attrib |= {key: str(number) for key, number in numbers.items()}
        for job in jobs:
            element = ET.SubElement(
                suite, "testcase", classname=name, name=f"seed {job.seed}", time=f"{job.seconds:.1f}"
            )
            _add_result(element, job)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_result(element: ET.Element, job: JobSummary) -> None:
    tag = {"failed": "failure", "unknown": "error", "known": "skipped", None: "skipped"}.get(job.outcome)
    if tag is None:
        return
    message = "not run" if job.outcome is None else f"{', '.join(job.problems)}: {job.message}"
    result = ET.SubElement(element, tag, message=valid_xml_text(message))
    if job.command:
        result.text = valid_xml_text(f"{job.report}\n{job.command}")


def page(summary: NightSummary) -> str:
    """The summary as one HTML page, without scripts; its links lead to the reports of the runs."""
    return _environment().get_template("night.html.j2").render(page_values(summary))


def page_values(summary: NightSummary) -> dict[str, Any]:
    """What the template night_body.html.j2 needs."""
    return {"summary": summary, "headers": HEADERS, "rows": _rows(summary), "title": _title, "short": _short}


@cache
def _environment() -> Environment:
    return templates({})
