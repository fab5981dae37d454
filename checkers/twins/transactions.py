"""A plain twin of the transactions check: the same findings by loops over the whole history.

A finding is its name and the transactions that it is about. A cycle is given as the component that has it and the
length of its shortest. Real time is every pair of transactions of which one ended before the other began.

It shares only the masks of the classes with the check.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from checkers.transactions.cycles import G2, LOG_ORDER, LOG_WW, ORDERS, PROCESS, RANKS, REALTIME, RW, SINGLE, WR, WW
from checkers.twins.zombies import is_fenced
from harness.model import Op

Version = tuple[str, str]
Edge = tuple[int, int, int]
Cyclic = tuple[str, frozenset[int], int]
"""A class of cycles, the component that has one, and the length of its shortest."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """An operation with both its ends; value is that of its end where it has one."""

    txn: int
    end: int | None
    status: str
    f: str
    process: int
    key: str | None
    value: Any
    fenced: bool = False


def transactions(history: Sequence[Op]) -> list[Transaction]:
    """Each invocation with the next row of its process."""
    found = []
    for start in history:
        if start.type == "invoke" and start.f in ("txn", "drain"):
            later = (op for op in history if op.process == start.process and op.index > start.index)
            end = next(later, None)
            if end is None or end.type == "invoke":
                end = Op("info", start.f)
            value = start.value if end.value is None else end.value
            at = None if end.index < 0 else end.index
            whose = (start.f, start.process, start.key, value or [])
            found.append(Transaction(start.index, at, end.type, *whose, is_fenced(end.error)))
    return found


def text(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, separators=(",", ":"))


def writes(events: Iterable[Transaction]) -> dict[Version, list[Transaction]]:
    """The writers of each version."""
    found: dict[Version, list[Transaction]] = defaultdict(list)
    for each in events:
        for micro_op in each.value if each.f == "txn" else ():
            if micro_op[0] in ("append", "w", "send"):
                bare = micro_op[2][1] if isinstance(micro_op[2], list) else micro_op[2]
                found[micro_op[1], text(bare)].append(each)
    return found


def order(events: Sequence[Transaction], registers: bool) -> dict[str, list[str]]:
    """The versions of each key in the order of their least positions."""
    places: dict[Version, list[int]] = defaultdict(list)
    for each in events:
        for key, position, value in (item for each_read in seen(each, registers) for item in each_read[1]):
            places[key, value].append(position)
        for micro_op in each.value if each.f == "txn" else ():
            if micro_op[0] in ("w", "send") and isinstance(micro_op[2], list):
                places[micro_op[1], text(micro_op[2][1])].append(micro_op[2][0])
    keys: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for (key, value), positions in places.items():
        keys[key].append((min(positions), value))
    return {
        key: [value for _, value in sorted(versions)] for key, versions in keys.items() if key not in disputed(places)
    }


def disputed(places: Mapping[Version, Collection[int]]) -> set[str]:
    """The keys of which a version has two positions, or a position two versions."""
    positions_used = Counter((key, position) for (key, _), positions in places.items() for position in set(positions))
    moved = {key for (key, _), positions in places.items() if len(set(positions)) > 1}
    return moved | {key for (key, _), times in positions_used.items() if times > 1}


Read = tuple[str, list[tuple[str, int, str]]]


def seen(each: Transaction, registers: bool) -> list[Read]:
    """What its reads returned: the word of each, and its versions as (key, position, value)."""
    if each.f == "drain":
        records = each.value if each.status == "ok" else []
        return [("drain", [(str(each.key), offset, text(value)) for offset, value in records])]
    found: list[Read] = []
    for micro_op in each.value:
        if micro_op[0] == "poll":
            records = [(key, *record) for key, got in (micro_op[1] or {}).items() for record in got]
            found.append(("poll", [(key, offset, text(value)) for key, offset, value in records]))
        elif micro_op[0] == "r" and each.status == "ok" and micro_op[2] is not None:
            versions = [micro_op[2]] if registers else list(enumerate(micro_op[2]))
            found.append(("r", [(micro_op[1], position, text(value)) for position, value in versions]))
    return found


def edges(events: Sequence[Transaction], registers: bool) -> set[Edge]:
    """Every dependency, real time as all its pairs."""
    owners = {version: who[0] for version, who in writes(events).items() if len(who) == 1 and who[0].status != "fail"}
    found: set[Edge] = set()
    in_order = order(events, registers)
    known = {key: [value for value in values if (key, value) in owners] for key, values in in_order.items()}
    logs = {micro_op[1] for each in events if each.f == "txn" for micro_op in each.value if micro_op[0] == "send"}
    for key, values in known.items():
        for one, other in pairwise(values):
            found.add((owners[key, one].txn, owners[key, other].txn, LOG_WW if key in logs else WW))
    took_place = [each for each in events if each.f == "txn" and each.status != "fail"]
    for each in took_place:
        found |= read_edges(each, owners, known, registers)
        found |= {(each.txn, other.txn, PROCESS) for other in took_place if next_of(each, other, took_place)}
        ended = each.end if each.status == "ok" and each.end is not None else None
        found |= {(each.txn, other.txn, REALTIME) for other in took_place if ended is not None and ended < other.txn}
    return {(source, target, kind) for source, target, kind in found if source != target}


def next_of(one: Transaction, other: Transaction, among: Iterable[Transaction]) -> bool:
    """Whether a process ran the other right after the one."""
    later = [each.txn for each in among if each.process == one.process and each.txn > one.txn]
    return bool(later) and other.txn == min(later)


def read_edges(
    each: Transaction, owners: Mapping[Version, Transaction], known: Mapping[str, list[str]], registers: bool
) -> set[Edge]:
    """wr and rw of one transaction's reads, except of versions that it had written or read before."""
    found: set[Edge] = set()
    micro_ops = each.value
    for place, micro_op in enumerate(micro_ops):
        own = [other for other in micro_ops[:place] if other[1:2] == micro_op[1:2]]
        if micro_op[0] == "poll":
            got = [(key, text(value)) for key, records in (micro_op[1] or {}).items() for _, value in records]
            found |= {(owners[version].txn, each.txn, WR) for version in got if version in owners}
        elif micro_op[0] == "r" and each.status == "ok" and not (registers and own):
            versions = [] if micro_op[2] is None else ([micro_op[2][1]] if registers else list(micro_op[2]))
            appended = [other[2] for other in own if other[0] == "append"]
            by_others = versions[: len(versions) - len(appended)]
            found |= ends_at(each.txn, micro_op[1], text(by_others[-1]) if by_others else None, owners, known)
    return found


def ends_at(
    txn: int, key: str, value: str | None, owners: Mapping[Version, Transaction], known: Mapping[str, list[str]]
) -> set[Edge]:
    """wr and rw of a read that ends with this version, None for the one before the first."""
    values = known.get(key, [])
    found = {(owners[key, value].txn, txn, WR)} if value is not None and (key, value) in owners else set()
    if value is None or value in values:
        following = values[0 if value is None else values.index(value) + 1 :][:1]
        found |= {(txn, owners[key, other].txn, RW) for other in following}
    return found


def components(graph: Mapping[int, Collection[int]]) -> list[frozenset[int]]:
    """The sets of nodes that reach each other."""
    reach = {node: reached(graph, node) for node in graph}
    return list(
        {frozenset(other for other in reach[node] if node in reach.get(other, ())) for node in graph} - {frozenset()}
    )


def reached(graph: Mapping[int, Collection[int]], start: int) -> dict[int, int]:
    """How many edges away from start each node is that can be reached by one edge or more."""
    away: dict[int, int] = {}
    layer, distance = {start}, 0
    while layer:
        distance += 1
        layer = {other for node in layer for other in graph.get(node, ()) if other not in away}
        away.update(dict.fromkeys(layer, distance))
    return away


def graph_of(edges: Iterable[Edge], kinds: int) -> dict[int, set[int]]:
    """The successors of each node by edges of these kinds."""
    graph: dict[int, set[int]] = defaultdict(set)
    for source, target, kind in edges:
        if kind & kinds:
            graph[source].add(target)
    return graph


def cycles(edges: Collection[Edge]) -> list[Cyclic]:
    """Every class in every component, unless another class already covers it."""
    earlier_cycles: list[tuple[int, int, frozenset[int]]] = []
    found: list[Cyclic] = []
    for order_number, (suffix, more) in enumerate(ORDERS):
        for rank, (name, base, required, others) in enumerate(RANKS[:2] if order_number == LOG_ORDER else RANKS):
            needed = LOG_WW if order_number == LOG_ORDER and rank == 0 else required
            path = graph_of(edges, others | more)
            here: list[frozenset[int]] = []
            for component in components(graph_of(edges, base | more)):
                if any(hidden(*earlier, rank, order_number, component) for earlier in earlier_cycles):
                    continue
                inside = [(s, t) for s, t, kind in edges if kind & needed and s in component and t in component]
                lengths = [
                    reached(path, target)[source] + 1 for source, target in inside if source in reached(path, target)
                ]
                if lengths:
                    here.append(component)
                    found.append((name + suffix, component, min(lengths)))
            earlier_cycles += [(rank, order_number, component) for component in here]
    return found


def hidden(
    rank: int, order_number: int, nodes: frozenset[int], later_rank: int, later_order: int, component: frozenset[int]
) -> bool:
    """Whether a class found on these nodes covers a later class of the component."""
    if not nodes <= component:
        return False
    if order_number == later_order:
        return rank < later_rank and (later_order > 0 or (rank, later_rank) == (SINGLE, G2))
    before = order_number == 0 if later_order == LOG_ORDER else order_number < later_order
    return before and rank <= later_rank


def others(events: Sequence[Transaction], registers: bool) -> Counter[tuple[str, int]]:
    """(name, transaction) of the findings on reads and writes that are no cycles."""
    found: Counter[tuple[str, int]] = Counter()
    aborted: set[tuple[str, int, str, str]] = set()
    written = writes(events)
    for each in events:
        for word, versions in seen(each, registers):
            for key, _, value in versions if each.status == "ok" else ():
                who = written.get((key, value), [])
                if not who:
                    found["phantom-read", each.txn] += 1
                elif len(who) == 1 and who[0].status == "fail" and who[0] is not each:
                    of_log = "zombie-write" if who[0].fenced else "aborted-read"
                    aborted.add(("G1a" if word == "r" else of_log, who[0].txn, key, value))
        if each.status == "ok" and ["fence"] in each.value:
            found["zombie-write", each.txn] += 1
    return found + of_logs(events, written) + Counter((name, writer) for name, writer, *_ in aborted)


def of_logs(
    events: Sequence[Transaction], written: Mapping[Version, Sequence[Transaction]]
) -> Counter[tuple[str, int]]:
    """Lost and torn transactions: for each record, whether it was read, and whether its log was drained after it."""
    read = {
        (key, value) for each in events if each.status == "ok" for _, got in seen(each, False) for key, _, value in got
    }
    visible: dict[int, list[bool]] = defaultdict(list)
    found: Counter[tuple[str, int]] = Counter()
    for (key, value), (first, *more) in written.items():
        sent = any(micro_op[0] == "send" and micro_op[1] == key for micro_op in first.value)
        drains = [each for each in events if each.f == "drain" and each.key == key and each.status == "ok"]
        after = any(each.txn > (first.txn if first.end is None else first.end) for each in drains)
        if sent and not more and ((key, value) in read or after):
            visible[first.txn].append((key, value) in read)
            found["lost-write", first.txn] += first.status == "ok" and (key, value) not in read
    torn = [txn for txn, records in visible.items() if len(set(records)) == 2]
    return +(found + Counter({("torn-transaction", txn): 1 for txn in torn}))
