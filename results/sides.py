"""One side of a report from a run's directory: its tables and its verdict as a SideData.

What may live here: the way from files to values. What may not: drawing, Spark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from harness.chunks import read_table
from harness.model import NEMESIS, BadInput, Finding, Observation, Op
from harness.model.records.fault_intervals import fault_intervals
from harness.model.records.tables import HISTORY, OBSERVATIONS, RPCS
from harness.model.story import STORY_BEGINS
from results.data import ShownFinding, SideData
from results.load import latencies_of, load_by_second, quantiles_over_time, thinned
from results.messages import counted_messages, shown_messages, telling_rows
from results.rows import ops_of
from results.run_verdict import read_verdict
from results.spans import epoch_steps, state_spans
from results.store import RunDirectory
from results.witnesses import evidence_of, operations_shown

FINDINGS_SHOWN: Final = 25
WITNESSES_SHOWN: Final = 12
PICTURES_MAX: Final = 6
OPS_AROUND: Final = 2
"""How many operations before and after each witness are shown with it."""


def read_side(run: RunDirectory, name: str, system: str) -> SideData:
    """The run as a side of a report. Raises BadInput if it was not judged or a table of it cannot be read."""
    run_verdict = read_verdict(run.verdict)
    history = read_table(run.history, HISTORY)
    observations = [Observation(**row) for row in read_table(run.observations, OBSERVATIONS).to_pylist()]
    end_ns = max(_last_ns(history), max((seen.time_ns for seen in observations), default=0))
    deeds = history.filter(pc.equal(history["process"], NEMESIS))
    rpcs = read_table(run.rpcs, RPCS)
    latencies = latencies_of(history)
    telling = telling_rows(rpcs, _story_begins_ns(deeds))
    return SideData(
        name=name,
        system=system,
        verdict=run_verdict.verdict,
        summary=run_verdict.summary,
        duration_ns=end_ns,
        nodes=tuple(sorted({seen.node for seen in observations})),
        spans=state_spans(observations, end_ns),
        epochs=epoch_steps(observations),
        faults=fault_intervals(ops_of(deeds), end_ns),
        latencies=thinned(latencies),
        quantiles=quantiles_over_time(latencies),
        load=load_by_second(history),
        quantities=run_verdict.quantities,
        expectations=run_verdict.expectations,
        messages=shown_messages(telling),
        messages_total=len(telling),
        message_counts=counted_messages(rpcs),
        findings=_shown(run, run_verdict.findings, history),
        findings_total=len(run_verdict.findings),
        versions=run_verdict.versions,
    )


def _story_begins_ns(deeds: pa.Table) -> int:
    """When the story began; 0 where none did."""
    marks = deeds.filter(pc.equal(deeds["value"], json.dumps(STORY_BEGINS)))
    return pc.min(marks["time_ns"]).as_py() or 0


def _last_ns(history: pa.Table) -> int:
    return pc.max(history["time_ns"]).as_py() or 0


def _shown(run: RunDirectory, findings: Sequence[Finding], history: pa.Table) -> tuple[ShownFinding, ...]:
    """The first findings with the rows around their witnesses, and the first of those that can be drawn with what a
    picture takes. Raises BadInput for evidence that is none."""
    shown: list[ShownFinding] = []
    for finding in findings[:FINDINGS_SHOWN]:
        try:
            evidence = evidence_of(finding)
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{run.verdict}: expected evidence for {finding.name}, found what is none: {error}"
            ) from error
        drawn = sum(1 for each in shown if each.operations) < PICTURES_MAX
        operations = operations_shown(finding, evidence, history) if drawn else ()
        shown.append(ShownFinding(finding, _around(finding, history), operations, evidence))
    return tuple(shown)


def _around(finding: Finding, history: pa.Table) -> tuple[Op, ...]:
    """The finding's first witnesses and the rows around them; a row's index is its position."""
    around = {
        index
        for witness in finding.witnesses[:WITNESSES_SHOWN]
        for index in range(witness - OPS_AROUND, witness + OPS_AROUND + 1)
        if 0 <= index < len(history)
    }
    return tuple(ops_of(history.take(pa.array(sorted(around), pa.int64()))))
