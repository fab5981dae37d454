"""Which directed links a partition's shape cuts: pure functions from nodes to links, and nothing else.

Shapes are Jepsen's (jepsen.nemesis, jepsen.nemesis.combined); any of them can be cut one way, but for a ring, which has
no sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

from harness.model.hosts import Link


def one_way(some: Iterable[int], others: Iterable[int], direction: str) -> frozenset[Link]:
    """The links between two sides: both directions, what the first sends (out), or what it receives (in)."""
    first, second = set(some), set(others) - set(some)
    out = {(a, b) for a in first for b in second}
    into = {(b, a) for a, b in out}
    return frozenset({"both": out | into, "out": out, "in": into}[direction])


def isolation(nodes: Iterable[int], node: int, direction: str) -> frozenset[Link]:
    """The links between one node and all others: both directions, its outgoing or its incoming ones."""
    return one_way([node], nodes, direction)


def all_but(nodes: Iterable[int], pairs: Iterable[Link]) -> frozenset[Link]:
    """Every link but those of the given pairs, which stay up both ways."""
    up = {link for a, b in pairs for link in ((a, b), (b, a))}
    return frozenset(set(permutations(nodes, 2)) - up)


def between(groups: Iterable[Iterable[int]]) -> frozenset[Link]:
    """Every link whose ends are in different groups."""
    sets = [set(group) for group in groups]
    return frozenset((a, b) for one, other in permutations(sets, 2) for a in one for b in other)


def halves(order: Sequence[int], direction: str) -> frozenset[Link]:
    """The first half of the nodes, which is the smaller one, from the rest."""
    middle = len(order) // 2
    return one_way(order[:middle], order[middle:], direction)


def bridge(order: Sequence[int], direction: str) -> frozenset[Link]:
    """Two halves that see each other only through the node in the middle, which sees all."""
    middle = len(order) // 2
    return one_way(order[:middle], order[middle + 1 :], direction)


def majorities_ring(order: Sequence[int]) -> frozenset[Link]:
    """Each node sees a majority, itself counted, and no two see the same: its nearest on the ring.

    A majority of an even number of nodes leaves one neighbour over, which is then seen as well, so that seeing is
    mutual; below four nodes the shape leaves every node all the others, or one.
    """
    count = len(order)
    reach = (count // 2 + 1) // 2
    places = {node: place for place, node in enumerate(order)}

    def apart(a: int, b: int) -> int:
        distance = abs(places[a] - places[b])
        return min(distance, count - distance)

    return frozenset((a, b) for a, b in permutations(order, 2) if apart(a, b) > reach)


def swap(pairs: Iterable[tuple[int, ...]], leader: int, role: int) -> set[Link]:
    """The pairs with the leader in the role's place and the role's node in the leader's."""
    exchange = {leader: role, role: leader}
    return {(exchange.get(a, a), exchange.get(b, b)) for a, b in pairs}
