"""What was run, as a value in verdict.json and as lines for the text and the report.

Contains the value and its wording. harness.judging.describe makes it from a run's plan and tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from harness.model.plurals import counted
from harness.model.records.fault_intervals import Injections
from results.quantities import duration_text

LINE_LENGTH_MAX: Final = 90
"""What differs between sides is on one line up to this length."""
_PLURALS: Final = {"record batch": "record batches"}


@dataclass(frozen=True, slots=True)
class Judged:
    """A check, and how many of what it judged; `what` is a noun such as `operation`, empty if the check has no number.

    keys is the number of keys of clients' operations; 0 if they have none.
    """

    check: str
    what: str = ""
    number: int = 0
    keys: int = 0

    @property
    def numbers(self) -> str:
        """E.g. `1,204 operations on 5 keys`; empty without a number."""
        if not self.what:
            return ""
        on = f" on {counted(self.keys, 'key')}" if self.keys else ""
        return counted(self.number, self.what, _PLURALS.get(self.what, "")) + on


@dataclass(frozen=True, slots=True)
class RunDescription:
    """What was run, judged and injected.

    system is the system's label. started is ISO 8601 in UTC, empty if unknown; seconds is from the run's start to its
    last record. operations are clients' completions by outcome. failed_heals is the number of heals that ended with an
    error, open_faults that of undo records that are not healed, None if the journal cannot be read.
    """

    workload: str
    system: str
    nodes: int
    hosts: str
    seed: int
    started: str
    seconds: float
    scenario: str | None = None
    side: str | None = None
    operations: Mapping[str, int] | None = None
    judged: tuple[Judged, ...] = ()
    faults: tuple[Injections, ...] = ()
    failed_heals: int = 0
    open_faults: int | None = 0

    @staticmethod
    def from_json(document: Mapping[str, Any] | None) -> RunDescription | None:
        """The value in a verdict.json; None for verdicts of earlier releases. Raises TypeError for other content."""
        if document is None:
            return None
        judged = tuple(Judged(**each) for each in document["judged"])
        faults = tuple(Injections(**each) for each in document["faults"])
        return RunDescription(**{**document, "judged": judged, "faults": faults})

    @property
    def what(self) -> str:
        """`idle workload on reference (pre_vote=false), 3 nodes, netns hosts`."""
        return f"{self.workload} workload on {self.system}, {counted(self.nodes, 'node')}, {self.hosts} hosts"

    @property
    def scenario_side(self) -> str:
        """`PV-01, bad side`; empty without a scenario."""
        return f"{self.scenario}, {self.side} side" if self.scenario else ""

    @property
    def duration(self) -> str:
        return duration_text(self.seconds * 1000)

    @property
    def date(self) -> str:
        """`2026-11-21 05:17:00 UTC`; empty if unknown."""
        return f"{datetime.fromisoformat(self.started).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if self.started else ""

    @property
    def clients(self) -> str:
        """How clients' operations ended; empty without any."""
        names = {"ok": "ok", "fail": "failed", "info": "with an unknown outcome"}
        counts = self.operations or {}
        return ", ".join(f"{counts[kind]:,} {name}" for kind, name in names.items() if counts.get(kind))

    @property
    def checks(self) -> str:
        """`register, availability judged 1,204 operations on 5 keys; …`; empty if that is not known."""
        names: dict[str, list[str]] = {}
        for each in self.judged:
            names.setdefault(each.numbers, []).append(each.check)
        return "; ".join(f"{', '.join(checks)} judged {numbers or 'the run'}" for numbers, checks in names.items())

    @property
    def injected(self) -> str:
        """`partition 3, kill 2: all verified and healed`; or which were not."""
        if not self.faults:
            return "none"
        counts = ", ".join(f"{each.fault} {each.verified + each.failed:,}" for each in self.faults)
        failed = sum(each.failed for each in self.faults)
        problems = [f"{failed:,} without the effect that was planned"] if failed else []
        if self.failed_heals:
            problems.append(f"{counted(self.failed_heals, 'heal')} ended with an error")
        if self.open_faults is None:
            problems.append("whether all are healed is unknown, the journal cannot be read")
        elif self.open_faults:
            problems.append(f"{counted(self.open_faults, 'undo record')} not healed")
        return f"{counts}: {' and '.join(problems) or 'all verified and healed'}"


def facts(named: Sequence[tuple[str, RunDescription]]) -> list[tuple[str, str]]:
    """(name, text) of what there is to say of one or several runs; what is the same for all is said once."""
    rows = {
        "Scenario": [each.scenario_side for _, each in named] if len(named) == 1 else [],
        "Run": [each.what for _, each in named],
        "Started": [each.date for _, each in named],
        "Duration": [each.duration for _, each in named],
        "Seed": [str(each.seed) for _, each in named],
        "Checks": [each.checks for _, each in named],
        "Faults": [each.injected for _, each in named],
        "Clients": [each.clients for _, each in named],
    }
    return [(name, _merged([who for who, _ in named], texts)) for name, texts in rows.items() if any(texts)]


def _merged(names: Sequence[str], texts: Sequence[str]) -> str:
    if len(set(texts)) == 1:
        return texts[0]
    lines = [f"{name}: {text or 'none'}" for name, text in zip(names, texts, strict=True)]
    return ("; " if sum(map(len, lines)) < LINE_LENGTH_MAX else "\n").join(lines)
