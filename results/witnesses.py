"""Which operations a finding's picture shows: those that witness it, then those nearest to them on its key.

A cycle of transactions shows its transactions. The longest order shows its end, what could not follow, and what was
open beside that. Any other history that has no order shows its witnesses with their neighbours.

What may live here: that choice, on rows of history. What may not: reading files, layout.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from harness.model import NEMESIS, Finding, Op
from harness.model.records.evidence import Cycle, Evidence, Order, decoded
from results.data import Operation
from results.rows import ops_of

OPERATIONS_MAX: Final = 40
DRAWN_CHECKS: Final = frozenset({"register", "linearizability", "promised-reads"})
"""The checks whose findings are about what single operations of one key returned."""


def evidence_of(finding: Finding) -> Evidence | None:
    """What the check knew beyond its message. Raises ValueError, KeyError or TypeError where that is no evidence."""
    return None if finding.evidence is None else decoded(finding.evidence)


def operations_shown(finding: Finding, evidence: Evidence | None, history: pa.Table) -> tuple[Operation, ...]:
    """The operations to draw, the ones that matter most first; none where a picture would say nothing."""
    if isinstance(evidence, Cycle):
        wanted = [step.source for step in evidence.steps]
        found = {each.start.index: each for each in operations(_by(history, "process", _processes(history, wanted)))}
        return tuple(found[index] for index in wanted if index in found)
    if finding.check not in DRAWN_CHECKS or not finding.witnesses:
        return ()
    on_key = list(operations(_by(history, "key", [finding.key])))
    return tuple(by_importance(on_key, important(finding, evidence))[:OPERATIONS_MAX])


def important(finding: Finding, evidence: Evidence | None) -> Mapping[int, int]:
    """The history indexes that matter, each with its rank from 0 on."""
    indexes = list(finding.witnesses)
    if isinstance(evidence, Order):
        indexes += [*(need.operation for need in evidence.needs), *reversed(evidence.order)]
    return {index: rank for rank, index in reversed(list(enumerate(indexes)))}


def by_importance(among: Collection[Operation], ranks: Mapping[int, int]) -> list[Operation]:
    """The operations that are named, by rank, and then the others by how near they are to a named one."""
    rank_of = {each.position: rank for each in among if (rank := _rank(each, ranks)) is not None}
    named = sorted(rank_of)

    def order(each: Operation) -> tuple[int, int]:
        if each.position in rank_of:
            return (0, rank_of[each.position])
        after = bisect(named, each.position)
        return (1, min((abs(each.position - place) for place in named[max(after - 1, 0) : after + 1]), default=0))

    return sorted(among, key=order)


def _rank(each: Operation, ranks: Mapping[int, int]) -> int | None:
    ends = [each.start.index] + ([] if each.end is None else [each.end.index])
    return min((ranks[index] for index in ends if index in ranks), default=None)


def operations(rows: pa.Table) -> Iterable[Operation]:
    """The clients' operations of these rows, in order of invocation."""
    begun: dict[int, tuple[Op, int]] = {}
    found: list[Operation] = []
    count = 0
    for op in ops_of(rows.filter(pc.not_equal(rows["process"], NEMESIS))):
        open_one = begun.pop(op.process, None)
        if open_one is not None:
            found.append(Operation(open_one[0], None if op.type == "invoke" else op, open_one[1]))
        if op.type == "invoke":
            begun[op.process] = (op, count)
            count += 1
    found += [Operation(start, None, position) for start, position in begun.values()]
    return sorted(found, key=lambda each: each.start.index)


def _processes(history: pa.Table, indexes: Collection[int]) -> list[int]:
    """Whose these rows are; a row's index is its position."""
    kept = pa.array([index for index in indexes if 0 <= index < len(history)], pa.int64())
    return list(set(history["process"].take(kept).to_pylist()))


def _by(history: pa.Table, column: str, values: list[int] | list[str | None]) -> pa.Table:
    return history.filter(pc.is_in(history[column], pa.array(values, history.schema.field(column).type)))
