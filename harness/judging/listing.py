"""The runs of a store that a person asks for.

    rows = listed(store, RunFilter(system="kafka", verdict="invalid"))

Contains the filter. Does not contain reading (harness.judging.index) or printing (harness.commands.runs).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.judging.index import RunRow, index


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list: those that match everything that is given, at most the newest `limit`.

    text is searched in names, problems, seeds and commands, whatever its case.
    """

    system: str | None = None
    workload: str | None = None
    fault: str | None = None
    verdict: str | None = None
    status: str | None = None
    night: str | None = None
    limit: int | None = None
    text: str | None = None

    def matches(self, row: RunRow) -> bool:
        """Whether a run is one of them; a system also by its name without the version."""
        return (
            self.system in (None, row.system, row.family)
            and self.workload in (None, row.scenario, row.workload)
            and (self.fault is None or self.fault in (row.faults or ()))
            and self.verdict in (None, row.verdict)
            and self.status in (None, row.status)
            and self.night in (None, row.night)
            and (self.text is None or self.text.lower() in _searched(row))
        )


def _searched(row: RunRow) -> str:
    problems = (text for problem in row.problems for text in (problem.name, problem.message))
    return "\n".join((row.run, row.case, row.variant, str(row.seed), row.command, row.damage, *problems)).lower()


def listed(store: Path, wanted: RunFilter) -> list[RunRow]:
    """The runs and reproductions of a store, oldest first; not the runs of which a reproduction consists."""
    rows = [row for row in index(store) if row.part_of is None and wanted.matches(row)]
    return rows if wanted.limit is None else rows[max(0, len(rows) - wanted.limit) :]
