"""The directed links that each shape of a partition cuts: pure functions from nodes to links.

The shapes are Jepsen's (jepsen.nemesis, jepsen.nemesis.combined). All can be cut one way except the ring, which has no
sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

from harness.model.hosts import Link


def one_way(some: Iterable[int], others: Iterable[int], direction: str) -> frozenset[Link]:
    """The links between two sides: both directions, those from the first side (out), or those to it (in)."""
    first, second = set(some), set(others) - set(some)
    out = {(a, b) for a in first for b in second}
    into = {(b, a) for a, b in out}
    return frozenset({"both": out | into, "out": out, "in": into}[direction])


def isolation(nodes: Iterable[int], isolated: Iterable[int], direction: str) -> frozenset[Link]:
    """The links between each isolated node and all others: both directions, its outgoing or its incoming ones."""
    every = tuple(nodes)
    return frozenset[Link]().union(*(one_way([node], every, direction) for node in isolated))


def all_but(nodes: Iterable[int], pairs: Iterable[Link]) -> frozenset[Link]:
    """Every link except those of the given pairs, which stay up in both directions."""
    up = {link for a, b in pairs for link in ((a, b), (b, a))}
    return frozenset(set(permutations(nodes, 2)) - up)


def between(groups: Iterable[Iterable[int]]) -> frozenset[Link]:
    """Every link whose ends are in different groups."""
    sets = [set(group) for group in groups]
    return frozenset((a, b) for one, other in permutations(sets, 2) for a in one for b in other)


def halves(order: Sequence[int], direction: str) -> frozenset[Link]:
    """Cut the first half of the nodes, the smaller one, off from the rest."""
    middle = len(order) // 2
    return one_way(order[:middle], order[middle:], direction)


def bridge(order: Sequence[int], direction: str) -> frozenset[Link]:
    """Cut two halves off from each other; the node in the middle stays connected to both."""
    middle = len(order) // 2
    return one_way(order[:middle], order[middle + 1 :], direction)


def majorities_ring(order: Sequence[int]) -> frozenset[Link]:
    """Each node sees its nearest neighbours on a ring: a majority with itself, and no two nodes the same majority.

    If the majority has an odd number of neighbours, a node sees one more, because links are cut in both directions.
    Below four nodes, every node sees all others: nothing is cut.
    """
    count = len(order)
    reach = (count // 2 + 1) // 2
    positions = {node: position for position, node in enumerate(order)}

    def distance(a: int, b: int) -> int:
        clockwise = abs(positions[a] - positions[b])
        return min(clockwise, count - clockwise)

    return frozenset((a, b) for a, b in permutations(order, 2) if distance(a, b) > reach)


def swap(pairs: Iterable[tuple[int, ...]], leader: int, role: int) -> set[Link]:
    """The pairs with the leader and the node of the role exchanged."""
    exchange = {leader: role, role: leader}
    return {(exchange.get(a, a), exchange.get(b, b)) for a, b in pairs}
