"""Cycles of dependencies between transactions, by class (Adya, 1999; the suffixes are those of Jepsen's Elle).

    G0         writes of two transactions are in different orders: only ww edges
    G1c        information flows in a circle: ww and wr edges, at least one wr
    G-single   the same with exactly one rw edge, e.g. a torn read or a lost update
    G2         with one rw edge or more; reported if no G-single was found
    -process   the same including the order in which a process ran its transactions
    -realtime  the same including the order of a completion and a later call

Every class searches for its shortest cycle in each strongly connected component of its own edges. A suffix is reported
only if the cycle needs it, that is, if no cycle of the same or a lower class was found without it. A log's writes are
never isolated, so their ww edges (LOG_WW) count apart: a cycle that needs them violates no guarantee of Kafka's.

Contains the search for cycles in arrays of edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from checkers.kernels.cycles import adjacency, components, shortest_cycle
from checkers.kernels.rows import NOBODY, Rows
from harness.model.records.finding import Severity

WW, WR, RW, PROCESS, REALTIME, LOG_WW = 1, 2, 4, 8, 16, 32
"""Kinds of edges: bits of a mask."""

STEPS_MAX = 10_000_000
"""The steps of the searches for the shortest cycle of one component; beyond them the reported cycle may be longer."""

ORDERS = (("", 0), ("-process", PROCESS), ("-realtime", PROCESS | REALTIME), ("", LOG_WW))
"""The suffixes, each with the edges that it adds to a class's own."""

LOG_ORDER = 3


class Rank(NamedTuple):
    """A class without suffix: all its edges, the kind that a cycle must have once, and the kinds of its other edges."""

    name: str
    edges: int
    required: int
    others: int


RANKS = (
    Rank("G0", WW, WW, WW),
    Rank("G1c", WW | WR, WR, WW | WR),
    Rank("G-single", WW | WR | RW, RW, WW | WR),
    Rank("G2", WW | WR | RW, RW, WW | WR | RW),
)
SINGLE, G2 = 2, 3


@dataclass(frozen=True, slots=True)
class Cycle:
    """The nodes of a cycle in order, and the kind of the edge from each to the next."""

    name: str
    severity: Severity
    rank: int
    order: int
    nodes: tuple[int, ...]
    kinds: tuple[int, ...]

    def hides(self, rank: int, order: int) -> bool:
        """Whether a class is not reported where this cycle is, because it would add nothing."""
        if self.order == order:
            return self.rank < rank and (order > 0 or (self.rank, rank) == (SINGLE, G2))
        return self.rank <= rank and (self.order < order if order < LOG_ORDER else self.order == 0)


def cycles(nodes: int, sources: Rows, targets: Rows, kinds: Rows) -> list[Cycle]:
    """The cycles of a graph whose edges have one kind each."""
    label = components(*adjacency(nodes, sources, targets))
    # Edges between components are in no cycle. A valid history has no others.
    inside = (label[sources] == label[targets]) & (sources != targets)
    edges = sources[inside], targets[inside], kinds[inside]
    # A fixed order of edges makes the witness deterministic.
    in_order = np.lexsort(edges[::-1])
    edges = edges[0][in_order], edges[1][in_order], edges[2][in_order]
    found_so_far: list[Cycle] = []
    if inside.any():
        for order in range(len(ORDERS)):
            for rank in range(2 if order == LOG_ORDER else len(RANKS)):
                found_so_far += _of_class(nodes, *edges, rank, order, found_so_far)
    return found_so_far


def _of_class(
    nodes: int, sources: Rows, targets: Rows, kinds: Rows, rank: int, order: int, found_so_far: list[Cycle]
) -> Iterator[Cycle]:
    """The shortest cycle of a class in each component where it is to be reported."""
    (name, edges, required, others), (suffix, more) = RANKS[rank], ORDERS[order]
    if order == LOG_ORDER and rank == 0:
        required = LOG_WW
    of_class = (kinds & (edges | more)) > 0
    label = components(*adjacency(nodes, sources[of_class], targets[of_class]))
    starts, out = _masked(nodes, sources, targets, (kinds & (others | more)) > 0)
    known = {label[cycle.nodes[0]] for cycle in found_so_far if cycle.hides(rank, order)}
    predecessor, queue = np.full(nodes, NOBODY, np.int64), np.empty(nodes, np.int64)
    for through in _by_component(label[sources], ((kinds & required) > 0) & (label[sources] == label[targets])):
        if label[sources[through[0]]] in known:
            continue
        found = shortest_cycle(starts, out, label, sources[through], targets[through], predecessor, queue, STEPS_MAX)
        if len(found):
            steps = _kinds(found, sources, targets, kinds, required, others | more)
            severity: Severity = "tolerated" if order == LOG_ORDER else "invalid"
            yield Cycle(name + suffix, severity, rank, order, tuple(found.tolist()), steps)


def _masked(nodes: int, sources: Rows, targets: Rows, mask: Rows) -> tuple[Rows, Rows]:
    return adjacency(nodes, sources[mask], targets[mask])


def _by_component(label: Rows, wanted: Rows) -> Iterator[Rows]:
    """The numbers of the wanted edges, component by component."""
    numbers = np.flatnonzero(wanted)
    numbers = numbers[np.argsort(label[numbers], kind="stable")]
    if len(numbers):
        yield from np.split(numbers, np.flatnonzero(np.diff(label[numbers])) + 1)


def _kinds(cycle: Rows, sources: Rows, targets: Rows, kinds: Rows, required: int, others: int) -> tuple[int, ...]:
    """The kind of each step: the one that the class requires where the cycle closes, the strongest elsewhere.

    The edges are in the order of their sources.
    """
    steps: list[int] = []
    for node, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        closes = len(steps) == len(cycle) - 1
        own = slice(*np.searchsorted(sources, [node, node + 1]))
        both = kinds[own][targets[own] == following]
        steps.append(int(both[(both & (required if closes else others)) > 0].min()))
    return tuple(steps)
