"""The reports of `splitbrain check --model`: a folder with the files of a run's results, for one history or several.

    TIME-etcd.log/        report.html  verdict.json  findings.json  junit.xml
    TIME-3-histories/     report.html (the overview)  junit.xml  etcd.log/report.html  etcd.log/verdict.json  …

Contains where reports are and what they are made of. The pages are rendered by results.history_report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from shlex import join
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as dataset

from checkers.linearizability.signatures import CHECK
from harness.histories.importing import Import, ImportedHistory
from harness.histories.sources import STANDARD_INPUT
from harness.judging.verdicts import FileVerdict, HeldTo, Refused
from harness.model import Finding, Op, Quantity, Verdict
from harness.model.plurals import counted
from harness.model.records.finding import verdict_of
from harness.model.records.tables import HISTORY
from results.data import ShownFinding, SideData
from results.files import write_text
from results.history_report import (
    HistoryData,
    OverviewRow,
    answer_of,
    write_history_report,
    write_overview,
)
from results.junit import junit
from results.kinds import kinds_of
from results.reading.findings import indexes_around, shown_kind
from results.reading.load import latencies_of, load_by_second, quantiles_over_time, thinned
from results.reading.rows import ops_of
from results.reading.witnesses import evidence_of, operations_shown
from results.run_verdict import RunVerdict, write_verdict
from results.store import RunDirectory

DRAWN_ROWS_MAX: Final = 200_000
"""Pictures of keys with more rows are left out, and so are charts of histories with more."""

CHART_SECONDS_MAX: Final = 100_000


@dataclass(slots=True)
class CheckReports:
    """Writes the reports of one command into a folder."""

    folder: Path
    held_to: HeldTo
    imported: Import
    _names: dict[str, int] = field(default_factory=dict)
    _results: list[tuple[OverviewRow, RunVerdict | None]] = field(default_factory=list)

    def write(self, history: ImportedHistory, verdict: FileVerdict) -> FileVerdict:
        """Write a history's report; returns the verdict with the report's path."""
        is_single = len(self.imported.histories) == 1
        folder = self.folder if is_single else self.folder / self._name_of(history)
        folder.mkdir(parents=True, exist_ok=True)
        directory = RunDirectory(folder)
        run_verdict = run_verdict_of(verdict, self._command([history.path]))
        write_verdict(directory, run_verdict)
        write_text(directory.junit, junit([run_verdict]))
        write_history_report(directory.report, self._data(history, verdict, run_verdict))
        link = f"{folder.name}/{directory.report.name}"
        self._results.append((OverviewRow(verdict.path, verdict.verdict.value, run_verdict.summary, link), run_verdict))
        return replace(verdict, report=str(directory.report))

    def note(self, refused: Refused) -> Refused:
        """Add a history that was refused to the overview."""
        self._results.append((OverviewRow(refused.path, "refused", refused.error), None))
        return refused

    def finish(self) -> Path:
        """Write what is about all histories; returns the path of the page to open."""
        directory = RunDirectory(self.folder)
        if len(self.imported.histories) > 1:
            verdicts = [run_verdict for _, run_verdict in self._results if run_verdict is not None]
            worst = verdict_of(finding for each in verdicts for finding in each.findings)
            if worst is Verdict.VALID and len(verdicts) < len(self._results):
                worst = Verdict.UNKNOWN
            command = self._command([history.path for history in self.imported.histories])
            write_text(directory.junit, junit(verdicts))
            write_overview(directory.report, [row for row, _ in self._results], worst.value, command)
        return directory.report

    def _name_of(self, history: ImportedHistory) -> str:
        """A name for the history's folder, distinct from those of the others."""
        name = "standard-input" if history.path == STANDARD_INPUT else history.path.name
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name}-{self._names[name]}"

    def _command(self, paths: Sequence[Path]) -> str:
        held_to = self.held_to
        semantics = [] if held_to.semantics == "strict" else ["--semantics", held_to.semantics]
        initial = [] if held_to.initial is None else ["--initial", held_to.initial]
        skip = ["--skip-malformed"] if held_to.skip_malformed else []
        options = ["--model", held_to.model, *semantics, *initial, *skip]
        named = [str(path) if path == STANDARD_INPUT else str(path.absolute()) for path in paths]
        return join(["splitbrain", "check", *options, *named])

    def _data(self, history: ImportedHistory, verdict: FileVerdict, run_verdict: RunVerdict) -> HistoryData:
        rows = HistoryRows(history, self.imported.common)
        charts = rows.load()
        return HistoryData(
            title=verdict.path if history.path == STANDARD_INPUT else history.path.name,
            question=f"Can a {verdict.model} have produced this history?",
            verdict=verdict.verdict,
            answer=run_verdict.summary,
            facts=facts_of(history, verdict, self.held_to),
            kinds=tuple(shown_kind(kind, partial(shown, rows=rows)) for kind in kinds_of(verdict.findings)),
            load=replace(charts, name=history.path.name),
            has_times=history.has_times,
            command=run_verdict.command,
        )


def run_verdict_of(verdict: FileVerdict, command: str) -> RunVerdict:
    """The verdict in the form that runs have."""
    quantities = (
        Quantity(CHECK, "operations", verdict.ops, "operations"),
        Quantity(CHECK, "keys", verdict.keys, "keys"),
        Quantity(CHECK, "seconds", verdict.seconds, "s"),
    )
    return RunVerdict(
        name=Path(verdict.path).name,
        verdict=verdict.verdict,
        summary=answer_of(verdict.verdict, verdict.findings, verdict.ops, verdict.model),
        checks=(CHECK,),
        findings=verdict.findings,
        quantities=quantities,
        versions={"splitbrain": version("splitbrain")},
        command=command,
    )


def facts_of(history: ImportedHistory, verdict: FileVerdict, held_to: HeldTo) -> tuple[tuple[str, str], ...]:
    """The rows of `what was checked`."""
    size = f" ({history.size_bytes:,} bytes)" if history.size_bytes else ""
    return (
        ("History", f"{verdict.path}{size}"),
        ("Rows", f"{history.rows:,}" + (f", and {history.malformed:,} malformed" if history.malformed else "")),
        ("Model", f"{verdict.model}, {verdict.semantics} semantics, initial value {held_to.initial or 'nil'}"),
        ("Checked", f"{counted(verdict.ops, 'operation')} on {counted(verdict.keys, 'key')}"),
        ("Algorithms", verdict.algorithm or "none"),
        ("Read and judged in", f"{verdict.seconds:.2f} s, without the start of Spark"),
        ("Date", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"),
        ("Version", f"splitbrain {version('splitbrain')}"),
    )


@dataclass(frozen=True)
class HistoryRows:
    """The rows of a history, read as far as they are needed; times are from the first row on."""

    history: ImportedHistory
    common: Path | None

    def where(self, condition: dataset.Expression) -> pa.Table:
        """The rows that satisfy a condition, in order."""
        if self.history.tables:
            rows = dataset.dataset(list(map(str, self.history.tables)), format="parquet")
        else:
            condition &= dataset.field("file") == self.history.number
            rows = dataset.dataset(str(self.common), format="parquet")
        return rows.to_table(columns=HISTORY.names, filter=condition).sort_by("index")

    def from_start(self, rows: pa.Table) -> pa.Table:
        """These rows with the time since the history's first row."""
        return rows.set_column(1, "time_ns", pc.subtract(rows["time_ns"], self._first_ns))

    @cached_property
    def _first_ns(self) -> pa.Scalar:
        return self.where(dataset.field("index") == 0)["time_ns"][0]

    def on_key(self, key: str | None) -> pa.Table:
        """The rows of a key."""
        column = dataset.field("key")
        return self.from_start(self.where(column.is_null() if key is None else column == key))

    def around(self, finding: Finding) -> tuple[Op, ...]:
        """The rows around the finding's witnesses."""
        return tuple(ops_of(self.from_start(self.where(dataset.field("index").isin(indexes_around(finding))))))

    def load(self) -> SideData:
        """Latencies and throughput; empty for a history without times, and for one that is too long for a chart."""
        nothing = SideData("", "", "", "", 0, ())
        if not self.history.has_times or self.history.rows > DRAWN_ROWS_MAX:
            return nothing
        rows = self.from_start(self.where(dataset.field("index") >= 0))
        span = pc.min_max(rows["time_ns"]).as_py()
        if span["min"] < 0 or not 0 < span["max"] <= CHART_SECONDS_MAX * 10**9:
            return nothing
        points = latencies_of(rows)
        return replace(
            nothing,
            duration_ns=span["max"],
            latencies=thinned(points),
            quantiles=quantiles_over_time(points),
            load=load_by_second(rows),
        )


def shown(finding: Finding, has_picture: bool, rows: HistoryRows) -> ShownFinding:
    """A finding with the rows around its witnesses and, if it is to be drawn, the operations of its picture."""
    evidence = evidence_of(finding)
    on_key = rows.on_key(finding.key) if has_picture and finding.witnesses else HISTORY.empty_table()
    is_drawn = 0 < len(on_key) <= DRAWN_ROWS_MAX
    operations = operations_shown(finding, evidence, on_key) if is_drawn else ()
    return ShownFinding(finding, rows.around(finding), operations, evidence)
