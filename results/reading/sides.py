"""Reads one side of a report from a run's directory: its tables and its verdict, as a SideData."""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from harness.chunks import read_table
from harness.model import NEMESIS, BadInput, Finding, Observation, Op
from harness.model.nemesis_ops import NemesisOps
from harness.model.records.fault_intervals import fault_intervals
from harness.model.records.tables import HISTORY, OBSERVATIONS, RPCS
from harness.model.story import STORY_BEGINS
from results.data import ShownFinding, ShownKind, SideData
from results.description import RunDescription
from results.kinds import FindingKind, kinds_of
from results.reading.load import latencies_of, load_by_second, quantiles_over_time, thinned
from results.reading.messages import counted_messages, relevant_rows, shown_messages
from results.reading.rows import ops_of
from results.reading.spans import epoch_steps, state_spans
from results.reading.witnesses import evidence_of, operations_shown
from results.run_verdict import RunVerdict
from results.store import RunDirectory

SHOWN_PER_KIND: Final = 10
WITNESSES_SHOWN: Final = 12
PICTURES_PER_KIND: Final = 3
OPS_AROUND: Final = 2
"""The number of rows shown before and after each witness."""


def read_side(
    run: RunDirectory, name: str, description: RunDescription, ops: NemesisOps, run_verdict: RunVerdict
) -> SideData:
    """The run, with its verdict, as a side of a report. Raises BadInput if one of its tables cannot be read."""
    history = read_table(run.history, HISTORY)
    observations = [Observation(**row) for row in read_table(run.observations, OBSERVATIONS).to_pylist()]
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
        kinds=tuple(_shown(run, kind, history) for kind in kinds_of(run_verdict.findings)),
        versions=run_verdict.versions,
        description=description,
    )


def _story_start_ns(nemesis_ops: pa.Table) -> int:
    """When the story began; 0 without one."""
    marks = nemesis_ops.filter(pc.equal(nemesis_ops["value"], json.dumps(STORY_BEGINS)))
    return pc.min(marks["time_ns"]).as_py() or 0


def _last_ns(history: pa.Table) -> int:
    return pc.max(history["time_ns"]).as_py() or 0


def _shown(run: RunDirectory, kind: FindingKind, history: pa.Table) -> ShownKind:
    """The first findings of a kind with the rows around their witnesses; the first of those that can be drawn also with
    the operations of their pictures, and before the others. Raises BadInput for invalid evidence."""
    shown: list[ShownFinding] = []
    for finding in kind.findings[:SHOWN_PER_KIND]:
        try:
            evidence = evidence_of(finding)
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{run.verdict}: invalid evidence for {finding.name}: {error}") from error
        has_picture = sum(1 for each in shown if each.operations) < PICTURES_PER_KIND
        operations = operations_shown(finding, evidence, history) if has_picture else ()
        shown.append(ShownFinding(finding, _around(finding, history), operations, evidence))
    clearest_first = sorted(shown, key=lambda each: not each.operations)
    return ShownKind(kind.name, kind.severity, kind.count, tuple(clearest_first))


def _around(finding: Finding, history: pa.Table) -> tuple[Op, ...]:
    """The finding's first witnesses and the rows around them; a row's index is its position."""
    around = {
        index
        for witness in finding.witnesses[:WITNESSES_SHOWN]
        for index in range(witness - OPS_AROUND, witness + OPS_AROUND + 1)
        if 0 <= index < len(history)
    }
    return tuple(ops_of(history.take(pa.array(sorted(around), pa.int64()))))
