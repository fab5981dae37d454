"""Reads one side of a report from a run's directory: its tables and its verdict, as a SideData."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from harness.chunks import read_table
from harness.model import NEMESIS, BadInput, Finding, Op
from harness.model.nemesis_ops import NemesisOps
from harness.model.records.fault_intervals import fault_intervals
from harness.model.records.tables import HISTORY, OBSERVATIONS, RPCS
from harness.model.story import STORY_BEGINS
from results.data import ShownFinding, SideData
from results.description import RunDescription
from results.kinds import kinds_of
from results.reading.findings import Show, indexes_around, shown_kind
from results.reading.load import latencies_of, load_by_second, quantiles_over_time, thinned
from results.reading.messages import counted_messages, relevant_rows, shown_messages
from results.reading.rows import observations_of, ops_of
from results.reading.spans import epoch_steps, state_spans
from results.reading.witnesses import evidence_of, operations_shown
from results.run_verdict import RunVerdict
from results.store import RunDirectory


def read_side(
    run: RunDirectory, name: str, description: RunDescription, ops: NemesisOps, run_verdict: RunVerdict
) -> SideData:
    """The run, with its verdict, as a side of a report. Raises BadInput if one of its tables cannot be read."""
    history = read_table(run.history, HISTORY)
    observations = observations_of(read_table(run.observations, OBSERVATIONS))
    end_ns = max(_last_ns(history), max((each.time_ns for each in observations), default=0))
    nemesis_ops = history.filter(pc.equal(history["process"], NEMESIS))
    rpcs = read_table(run.rpcs, RPCS)
    latencies = latencies_of(history)
    messages = relevant_rows(rpcs, _story_start_ns(nemesis_ops))
    return SideData(
        name=name,
        system=description.system,
        headline=run_verdict.headline or run_verdict.verdict.value,
        summary=run_verdict.summary,
        duration_ns=end_ns,
        nodes=tuple(sorted({each.node for each in observations})),
        spans=state_spans(observations, end_ns),
        epochs=epoch_steps(observations),
        faults=fault_intervals(ops_of(nemesis_ops), end_ns, ops),
        latencies=thinned(latencies),
        quantiles=quantiles_over_time(latencies),
        load=load_by_second(history),
        quantities=run_verdict.quantities,
        expectations=run_verdict.expectations,
        messages=shown_messages(messages),
        messages_total=len(messages),
        message_counts=counted_messages(rpcs),
        kinds=tuple(shown_kind(kind, _shown(run, history)) for kind in kinds_of(run_verdict.findings)),
        versions=run_verdict.versions,
        description=description,
    )


def _story_start_ns(nemesis_ops: pa.Table) -> int:
    """When the story began; 0 without one."""
    marks = nemesis_ops.filter(pc.equal(nemesis_ops["value"], json.dumps(STORY_BEGINS)))
    return pc.min(marks["time_ns"]).as_py() or 0


def _last_ns(history: pa.Table) -> int:
    return pc.max(history["time_ns"]).as_py() or 0


def _shown(run: RunDirectory, history: pa.Table) -> Show:
    """Shows findings of a run. Raises BadInput for invalid evidence."""

    def show(finding: Finding, has_picture: bool) -> ShownFinding:
        try:
            evidence = evidence_of(finding)
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{run.verdict}: invalid evidence for {finding.name}: {error}") from error
        operations = operations_shown(finding, evidence, history) if has_picture else ()
        return ShownFinding(finding, _around(finding, history), operations, evidence)

    return show


def _around(finding: Finding, history: pa.Table) -> tuple[Op, ...]:
    """The rows around the finding's witnesses; a row's index is its position."""
    existing = [index for index in indexes_around(finding) if index < len(history)]
    return tuple(ops_of(history.take(pa.array(existing, pa.int64()))))
