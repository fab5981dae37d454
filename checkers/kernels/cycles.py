"""Cycles of a dependency graph: strongly connected components, and the shortest cycle through given edges.

Nodes are dense numbers from 0. Edges are two parallel arrays; their kinds are bits, so that a class of cycles is a few
masks. Components use Tarjan's algorithm (1972) with an explicit stack: linear in nodes and edges. The shortest cycle is
a breadth-first search from the target of each required edge back to its source. The searches of one component share a
budget of steps; when it is spent, the shortest cycle found so far is returned.

Contains graphs as arrays. It knows nothing of transactions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from checkers.kernels.rows import NOBODY, Rows


@njit(cache=True)
def adjacency(nodes: int, sources: Rows, targets: Rows) -> tuple[Rows, Rows]:
    """(starts, out): the targets of node i's edges are out[starts[i]:starts[i + 1]]."""
    starts = np.zeros(nodes + 1, np.int64)
    for edge in range(sources.shape[0]):
        starts[sources[edge] + 1] += 1
    starts = np.cumsum(starts)
    free, out = starts.copy(), np.empty(sources.shape[0], np.int64)
    for edge in range(sources.shape[0]):
        out[free[sources[edge]]] = targets[edge]
        free[sources[edge]] += 1
    return starts, out


@njit(cache=True)
def components(starts: Rows, out: Rows) -> Rows:
    """Each node's component, as a number common to its members."""
    nodes = starts.shape[0] - 1
    label, low, number = np.full(nodes, NOBODY), np.zeros(nodes, np.int64), np.full(nodes, NOBODY)
    following = starts[:-1].copy()
    path, open_nodes = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    depth = opened = seen = labels = 0
    for root in range(nodes):
        if number[root] != NOBODY:
            continue
        path[0], depth = root, 1
        while depth:
            node = path[depth - 1]
            if number[node] == NOBODY:
                number[node] = low[node] = seen
                seen += 1
                open_nodes[opened] = node
                opened += 1
            if following[node] < starts[node + 1]:
                other = out[following[node]]
                following[node] += 1
                if number[other] == NOBODY:
                    path[depth] = other
                    depth += 1
                elif label[other] == NOBODY:
                    low[node] = min(low[node], number[other])
                continue
            depth -= 1
            if depth:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[node])
            if low[node] == number[node]:
                opened = close(open_nodes, opened, node, label, labels)
                labels += 1
    return label


@njit(cache=True)
def close(open_nodes: Rows, opened: int, root: int, label: Rows, name: int) -> int:
    """Label the open nodes from root on as one component; returns how many nodes remain open."""
    while True:
        opened -= 1
        label[open_nodes[opened]] = name
        if open_nodes[opened] == root:
            return opened


@njit(cache=True)
def shortest_cycle(
    starts: Rows, out: Rows, label: Rows, sources: Rows, targets: Rows, predecessor: Rows, queue: Rows, steps_max: int
) -> Rows:
    """The shortest cycle that passes one of the edges sources[i] → targets[i], all of one component, along `out`.

    Its nodes in order, from that edge's target to its source; empty if there is no such cycle.
    predecessor and queue are scratch, one entry a node; predecessor is all NOBODY before and after.
    """
    best, steps = np.empty(0, np.int64), 0
    for edge in range(sources.shape[0]):
        goal, first = sources[edge], targets[edge]
        predecessor[first] = first
        queue[0], head, tail = first, 0, 1
        while head < tail and predecessor[goal] == NOBODY:
            node = queue[head]
            head += 1
            for at in range(starts[node], starts[node + 1]):
                steps += 1
                other = out[at]
                if predecessor[other] == NOBODY and label[other] == label[goal]:
                    predecessor[other] = node
                    queue[tail] = other
                    tail += 1
        if predecessor[goal] != NOBODY:
            cycle = walk(predecessor, first, goal)
            if best.shape[0] == 0 or cycle.shape[0] < best.shape[0]:
                best = cycle
        for at in range(tail):
            predecessor[queue[at]] = NOBODY
        if best.shape[0] == 2 or steps > steps_max:
            break
    return best


@njit(cache=True)
def walk(predecessor: Rows, first: int, goal: int) -> Rows:
    """The path from first to goal along the predecessors."""
    length, node = 1, goal
    while node != first:
        node = predecessor[node]
        length += 1
    nodes = np.empty(length, np.int64)
    node = goal
    for place in range(length - 1, -1, -1):
        nodes[place] = node
        node = predecessor[node]
    return nodes


@njit(cache=True)
def real_time(node: Rows, begins: Rows, nodes: int) -> tuple[Rows, Rows]:
    """Edges (sources, targets) from nodes that ended to nodes that began later, without edges that others imply.

    The events are in order of time: node[i] begins or ends. Edges start only at the nodes that ended last, those with
    no successor that has ended. So a node has at most as many incoming edges as nodes run concurrently.
    """
    sources, targets = [np.int64(0) for _ in range(0)], [np.int64(0) for _ in range(0)]
    first_edge, last_edge = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    frontier = [np.int64(0) for _ in range(0)]
    for event in range(node.shape[0]):
        one = node[event]
        if begins[event]:
            first_edge[one] = len(sources)
            for ended in frontier:
                sources.append(ended)
                targets.append(one)
            last_edge[one] = len(sources)
        else:
            before = sources[first_edge[one] : last_edge[one]]
            frontier = [ended for ended in frontier if ended not in before]
            frontier.append(one)
    return np.array(sources, np.int64), np.array(targets, np.int64)
