"""What an operation requires of a model's state and leaves, in a few codes for all models.

A state is a number: a register's value, whether a lock is held, or the node of a text in a tree of texts (below). NIL
is the initial state.

    code          fits if           leaves
    READ_OF       state = a         the state
    REFUSED_SWAP  state ≠ a         the state
    WRITE_OF      always            a
    SWAP          state = a         b
    APPEND        always            the node of the state's text followed by word a

The states of a growing text are the prefixes of what reads returned, as nodes of a tree with one letter per edge. Any
other text is DEAD: no read can return it or an extension of it, so one state represents all of them.

Contains these rules. The searches choose the order in which operations are tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from checkers.kernels.bits import grown, scramble
from checkers.kernels.rows import NIL, NOBODY, Rows, leaf

READ_OF, WRITE_OF, SWAP, REFUSED_SWAP, APPEND = 0, 1, 2, 3, 4

DEAD = -2
"""The state that no read can return."""

IMPOSSIBLE = -3
"""The result of an operation that does not fit."""


class Operations(NamedTuple):
    """One key's operations in order of invocation, a column each; back is NEVER for a crashed one."""

    call: Rows
    back: Rows
    code: Rows
    a: Rows
    b: Rows


class Texts(NamedTuple):
    """The tree of texts as a hash table from (node, letter) to node, and the words that are appended.

    edge holds node * 256 + letter, or NOBODY in a free slot; word i is letters[offsets[i] : offsets[i + 1]].
    """

    edge: Rows
    child: Rows
    letters: Rows
    offsets: Rows


NO_TEXTS = Texts(np.full(1, NOBODY, np.int64), np.zeros(1, np.int64), np.zeros(1, np.uint8), np.zeros(1, np.int64))
"""For models without APPEND."""


@njit(inline="always")
def is_observation(code: int) -> bool:
    """Whether an operation of this code leaves the state as it is."""
    return code in (READ_OF, REFUSED_SWAP)


@njit(inline="always")
def observes(code: int, a: int, held: int) -> bool:
    """Whether this is an observation that fits the state."""
    return (code == READ_OF and a == held) or (code == REFUSED_SWAP and a != held)


@njit(inline="always")
def left_by(code: int, a: int, b: int, held: int, texts: Texts) -> int:
    """The state after a WRITE_OF, SWAP or APPEND, or IMPOSSIBLE."""
    if code == WRITE_OF:
        return a
    if code == SWAP:
        return b if a == held else IMPOSSIBLE
    return appended(held, a, texts)


@leaf
def appended(held: int, word: int, texts: Texts) -> int:
    """The node of a node's text followed by a word."""
    node = held
    for at in range(texts.offsets[word], texts.offsets[word + 1]):
        if node == DEAD:
            return DEAD
        spot = edge_spot(texts.edge, node * 256 + np.int64(texts.letters[at]))
        node = texts.child[spot] if texts.edge[spot] != NOBODY else DEAD
    return node


@njit(cache=True)
def nodes_of(texts: Texts) -> Rows:
    """The node of each word as a text."""
    nodes = np.empty(texts.offsets.shape[0] - 1, np.int64)
    for word in range(nodes.shape[0]):
        nodes[word] = appended(NIL, word, texts)
    return nodes


@leaf
def edge_spot(edge: Rows, wanted: int) -> int:
    """The table's slot of an edge, or a free slot for it."""
    where = np.int64(scramble(np.uint64(wanted)) & np.uint64(edge.shape[0] - 1))
    while edge[where] != NOBODY and edge[where] != wanted:
        where = (where + 1) & (edge.shape[0] - 1)
    return int(where)


@njit(cache=True)
def tree_of(letters: Rows, offsets: Rows) -> tuple[Rows, Rows, Rows]:
    """The tree of these texts: its edges, their children, and the node of each text."""
    edge = np.full(1024, NOBODY, np.int64)
    child = np.zeros(1024, np.int64)
    nodes = np.zeros(offsets.shape[0] - 1, np.int64)
    count = 1
    for text in range(nodes.shape[0]):
        node = np.int64(NIL)
        for at in range(offsets[text], offsets[text + 1]):
            spot = edge_spot(edge, node * 256 + np.int64(letters[at]))
            if edge[spot] == NOBODY:
                edge[spot], child[spot] = node * 256 + np.int64(letters[at]), count
                count += 1
            node = child[spot]
            if 2 * count > edge.shape[0]:
                edge, child = with_more_room(edge, child)
        nodes[text] = node
    return edge, child, nodes


@njit(cache=True)
def with_more_room(edge: Rows, child: Rows) -> tuple[Rows, Rows]:
    """The table of edges four times as large."""
    larger, children = np.full(4 * edge.shape[0], NOBODY, np.int64), grown(grown(child))
    for old in range(edge.shape[0]):
        if edge[old] != NOBODY:
            spot = edge_spot(larger, edge[old])
            larger[spot], children[spot] = edge[old], child[old]
    return larger, children
