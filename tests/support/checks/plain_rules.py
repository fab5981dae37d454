"""Plain twins of those rules on transactions that checkers/twins/transactions.py does not have.

A rule's result is its name and the number of transactions or versions that violate it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from checkers.twins.transactions import Transaction, text, writes

WRITES = ("append", "w", "send")


def names(events: Sequence[Transaction], registers: bool) -> Counter[str]:
    """How often each of these rules is violated."""
    found = Counter[str]()
    for each in events:
        if each.f == "txn":
            found["precommitted-read"] += sum(len(polled_of_own(each, place)) for place in range(len(each.value)))
            contradictions = [place for place in range(len(each.value)) if contradicts(each, place, registers)]
            found["internal"] += len(contradictions)
            sound = [place for place in range(len(each.value)) if place not in contradictions]
            found["G1b"] += sum(is_intermediate(each, place, events, registers) for place in sound)
    found["value-written-twice"] += sum(len(who) > 1 for who in writes(events).values())
    found["incompatible-order"] += disagreements(events, registers)
    found["not-drained"] += len(undrained(events))
    return +found


def polled_of_own(each: Transaction, place: int) -> list[tuple[str, str]]:
    """What a poll of the transaction returned of what it had sent itself before."""
    micro_op = each.value[place]
    if micro_op[0] != "poll":
        return []
    sent = {(other[1], text(bare(other))) for other in each.value[:place] if other[0] == "send"}
    return [(key, text(value)) for key, got in micro_op[1].items() for _, value in got if (key, text(value)) in sent]


def bare(micro_op: Sequence[Any]) -> Any:
    """The value that a write wrote, without its position."""
    return micro_op[2][1] if isinstance(micro_op[2], list) else micro_op[2]


def is_same(one: Any, other: Any) -> bool:
    """Whether two versions of a register can be equal; a value may lack its position."""
    if isinstance(one, list) and isinstance(other, list):
        return one == other
    return (one[1] if isinstance(one, list) else one) == (other[1] if isinstance(other, list) else other)


def contradicts(each: Transaction, place: int, registers: bool) -> bool:
    """Whether a read contradicts what the transaction did to the key before."""
    micro_op = each.value[place]
    if micro_op[0] != "r" or each.status != "ok":
        return False
    earlier = [other for other in each.value[:place] if other[0] != "poll" and other[1] == micro_op[1]]
    if registers:
        return bool(earlier) and not is_same(micro_op[2], earlier[-1][2])
    got, appended, known = list(micro_op[2] or []), [], None
    for other in earlier:
        if other[0] == "append":
            appended.append(other[2])
        else:
            known, appended = list(other[2] or []), []
    if known is not None:
        return got != known + appended
    return got[max(0, len(got) - len(appended)) :] != appended


def is_intermediate(each: Transaction, place: int, events: Sequence[Transaction], registers: bool) -> bool:
    """Whether a read ends with a write that its transaction overwrote."""
    micro_op = each.value[place]
    if micro_op[0] != "r" or each.status != "ok" or not micro_op[2]:
        return False
    if registers:
        if any(other[1] == micro_op[1] for other in each.value[:place]):
            return False
        last = micro_op[2][1]
    else:
        own = sum(other[:2] == ["append", micro_op[1]] for other in each.value[:place])
        by_others = micro_op[2][: len(micro_op[2]) - own]
        if not by_others:
            return False
        last = by_others[-1]
    who = writes(events).get((micro_op[1], text(last)), [])
    if len(who) != 1 or who[0] is each:
        return False
    return bare([other for other in who[0].value if other[0] in WRITES and other[1] == micro_op[1]][-1]) != last


def places(events: Sequence[Transaction], registers: bool) -> Iterator[tuple[str, int, str]]:
    """Every position of a version: key, position, value."""
    for each in events:
        if each.f == "drain":
            yield from ((str(each.key), at, text(value)) for at, value in each.value if each.status == "ok")
            continue
        for number, micro_op in enumerate(each.value):
            if micro_op[0] == "poll":
                yield from ((key, at, text(value)) for key, got in micro_op[1].items() for at, value in got)
            elif micro_op[0] in ("w", "send") and isinstance(micro_op[2], list):
                yield micro_op[1], micro_op[2][0], text(micro_op[2][1])
            elif (
                micro_op[0] == "r" and micro_op[2] and each.status == "ok" and is_about_others(each, number, registers)
            ):
                versions = [micro_op[2]] if registers else enumerate(micro_op[2])
                yield from ((micro_op[1], at, text(value)) for at, value in versions)


def disagreements(events: Sequence[Transaction], registers: bool) -> int:
    """The number of positions with two versions, and of versions, except a list's, with two positions."""
    by_place, by_version = defaultdict(set), defaultdict(set)
    lists = {
        micro_op[1] for each in events if each.f == "txn" for micro_op in each.value if micro_op[0] in ("append", "r")
    }
    for key, at, value in places(events, registers):
        by_place[key, at].add(value)
        if registers or key not in lists:
            by_version[key, value].add(at)
    return sum(len(seen) > 1 for each in (by_place, by_version) for seen in each.values())


def undrained(events: Sequence[Transaction]) -> set[str]:
    """Logs to which something was committed after which no drain began that returned."""
    found = set()
    for (key, _), who in writes(events).items():
        is_log = any(micro_op[0] == "send" and micro_op[1] == key for micro_op in who[0].value)
        drains = [each.txn for each in events if each.f == "drain" and each.key == key and each.status == "ok"]
        if is_log and len(who) == 1 and who[0].status == "ok" and max(drains, default=-1) < (who[0].end or 0):
            found.add(key)
    return found


def sound(events: Sequence[Transaction], registers: bool) -> list[Transaction]:
    """The transactions without the reads that say nothing about other transactions."""
    return [replace(each, value=sound_micro_ops(each, registers)) if each.f == "txn" else each for each in events]


def sound_micro_ops(each: Transaction, registers: bool) -> list:
    """The micro-operations, with a placeholder for each read that says nothing about other transactions."""
    return [
        micro_op if micro_op[0] != "r" or is_about_others(each, place, registers) else ["aside", micro_op[1], None]
        for place, micro_op in enumerate(each.value)
    ]


def is_about_others(each: Transaction, place: int, registers: bool) -> bool:
    """Whether a read agrees with its own transaction, and is no repeated access to a register."""
    micro_op = each.value[place]
    known = registers and any(other[1] == micro_op[1] for other in each.value[:place])
    return not known and not contradicts(each, place, registers)
