"""Selects the operations in a finding's picture: its witnesses, then the operations on its key closest to them.

The picture of a cycle shows the cycle's transactions. The picture of a longest order shows the end of the order, the
operations that cannot follow, and those concurrent with them. Any other picture of a non-linearizable history shows the
witnesses with their neighbours.
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
from results.reading.rows import ops_of

OPERATIONS_MAX: Final = 40
DRAWN_CHECKS: Final = frozenset({"register", "linearizability", "promised-reads"})
"""The checks whose findings are about the results of single operations on one key."""


def evidence_of(finding: Finding) -> Evidence | None:
    """The finding's evidence, decoded. Raises ValueError, KeyError or TypeError if it is invalid."""
    return None if finding.evidence is None else decoded(finding.evidence)


def operations_shown(finding: Finding, evidence: Evidence | None, history: pa.Table) -> tuple[Operation, ...]:
    """The operations to draw, the most important first; empty if the finding has no picture."""
    if isinstance(evidence, Cycle):
        indexes = [step.source for step in evidence.steps]
        by_index = {
            each.start.index: each for each in operations(_by(history, "process", _processes(history, indexes)))
        }
        return tuple(by_index[index] for index in indexes if index in by_index)
    if finding.check not in DRAWN_CHECKS or not finding.witnesses:
        return ()
    on_key = list(operations(_by(history, "key", [finding.key])))
    return tuple(by_importance(on_key, important(finding, evidence))[:OPERATIONS_MAX])


def important(finding: Finding, evidence: Evidence | None) -> Mapping[int, int]:
    """The history indexes of important events, each with its rank from 0 on."""
    indexes = list(finding.witnesses)
    if isinstance(evidence, Order):
        indexes += [*(need.operation for need in evidence.needs), *reversed(evidence.order)]
    return {index: rank for rank, index in reversed(list(enumerate(indexes)))}


def by_importance(among: Collection[Operation], ranks: Mapping[int, int]) -> list[Operation]:
    """The operations with a rank, by rank, then the others by their distance to one with a rank."""
    rank_of = {each.position: rank for each in among if (rank := _rank(each, ranks)) is not None}
    ranked = sorted(rank_of)

    def order(each: Operation) -> tuple[int, int]:
        if each.position in rank_of:
            return (0, rank_of[each.position])
        after = bisect(ranked, each.position)
        return (1, min((abs(each.position - other) for other in ranked[max(after - 1, 0) : after + 1]), default=0))

    return sorted(among, key=order)


def _rank(each: Operation, ranks: Mapping[int, int]) -> int | None:
    ends = [each.start.index] + ([] if each.end is None else [each.end.index])
    return min((ranks[index] for index in ends if index in ranks), default=None)


def operations(rows: pa.Table) -> Iterable[Operation]:
    """The client operations in these rows, in order of invocation."""
    pending: dict[int, tuple[Op, int]] = {}
    matched: list[Operation] = []
    count = 0
    for op in ops_of(rows.filter(pc.not_equal(rows["process"], NEMESIS))):
        invocation = pending.pop(op.process, None)
        if invocation is not None:
            matched.append(Operation(invocation[0], None if op.type == "invoke" else op, invocation[1]))
        if op.type == "invoke":
            pending[op.process] = (op, count)
            count += 1
    matched += [Operation(start, None, position) for start, position in pending.values()]
    return sorted(matched, key=lambda each: each.start.index)


def _processes(history: pa.Table, indexes: Collection[int]) -> list[int]:
    """The processes of these rows; a row's index is its position."""
    valid = pa.array([index for index in indexes if 0 <= index < len(history)], pa.int64())
    return list(set(history["process"].take(valid).to_pylist()))


def _by(history: pa.Table, column: str, values: list[int] | list[str | None]) -> pa.Table:
    return history.filter(pc.is_in(history[column], pa.array(values, history.schema.field(column).type)))
