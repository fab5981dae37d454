"""Placeholders in a step's arguments: the step replaces them by facts about the cluster when it runs.

    fill({"replica_epoch": "$epoch+1", "cluster_id": "$cluster_id"}, {"epoch": 7, "cluster_id": "x"})
    # {"replica_epoch": 8, "cluster_id": "x"}

A text that is one placeholder becomes the fact; within a longer text a placeholder becomes the fact's text. A number
may have an offset. `$$` is a dollar sign, and a `$` before anything but a lower-case letter stays, so that regular
expressions can end with one.

Contains the names, their check and their replacement. Does not contain where facts come from (nodes.probe.facts).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.model.suggestions import did_you_mean

Facts = Mapping[str, Any]
"""The value of each placeholder, by name."""

NODES_MAX = 9
OF_NODE: Final[Mapping[str, str]] = {
    "node": "the node that is asked",
    "other": "the lowest node that is neither asked nor the leader",
    "own_epoch": "the epoch in the asked node's quorum-state file",
}
"""The placeholders about the node that a request is sent to."""

OF_QUORUM: Final[Mapping[str, str]] = {
    "epoch": "the leader's epoch",
    "log_end": "the leader's log end offset",
    "high_watermark": "the leader's high watermark",
}
"""The placeholders that the leader's answer to DescribeQuorum gives."""

NUMBERS: Final[Mapping[str, str]] = {"leader": "the quorum's leader", **OF_NODE, **OF_QUORUM}
TEXTS: Final[Mapping[str, str]] = {
    "cluster_id": "the cluster's id",
    "controllers": "host:port of every controller, with commas",
    "brokers": "host:port of every broker, with commas",
    **{f"n{node}_host": f"host of n{node}" for node in range(1, NODES_MAX + 1)},
    **{f"n{node}_controller": f"host:port of controller n{node}" for node in range(1, NODES_MAX + 1)},
    **{f"n{node}_broker": f"host:port of broker n{node}" for node in range(1, NODES_MAX + 1)},
}
NAMES: Final[tuple[str, ...]] = (*NUMBERS, *TEXTS)
LEADERS: Final[frozenset[str]] = frozenset({"leader", "other", *OF_QUORUM})
"""The placeholders that need a leader."""

_PLACEHOLDER = re.compile(r"\$(?:(?P<dollar>\$)|(?P<name>[a-z][a-z0-9_]*)(?P<offset>[+-][0-9]{1,18})?)")


def names_in(value: Any) -> frozenset[str]:
    """The names of the placeholders in a JSON value. Keys of tables have none."""
    if isinstance(value, str):
        return frozenset(match["name"] for match in _PLACEHOLDER.finditer(value) if match["name"])
    if isinstance(value, Mapping):
        return frozenset[str]().union(*map(names_in, value.values()))
    if isinstance(value, list | tuple):
        return frozenset[str]().union(*map(names_in, value))
    return frozenset()


def refuse_unknown(value: Any, names: tuple[str, ...] = NAMES) -> Any:
    """The value. Raises ValueError if it has a placeholder of another name."""
    for name in sorted(names_in(value)):
        if name not in names:
            shown = [each for each in names if each not in TEXTS or not each[1].isdigit()]
            expected = f"expected one of the placeholders ${', $'.join(shown)}"
            raise ValueError(f"{expected}, found ${name}{did_you_mean(name, names)}")
    return value


def fill(value: Any, facts: Facts, quoted: Callable[[str], str] = str) -> Any:
    """The value with the facts in place of the placeholders; quoted is applied to what becomes part of a text."""
    if isinstance(value, str):
        whole = _PLACEHOLDER.fullmatch(value)
        if whole and whole["name"] and quoted is str:
            return _fact(whole, facts)
        return _PLACEHOLDER.sub(lambda match: "$" if match["dollar"] else quoted(str(_fact(match, facts))), value)
    if isinstance(value, Mapping):
        return {key: fill(each, facts, quoted) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [fill(each, facts, quoted) for each in value]
    return value


def examples() -> Facts:
    """A possible value of each placeholder, to check arguments before their facts are known."""
    return {**dict.fromkeys(NUMBERS, 1), **dict.fromkeys(TEXTS, "text")}


def _fact(match: re.Match[str], facts: Facts) -> Any:
    """The fact, plus the placeholder's offset; an offset to a text is appended as it is written."""
    fact, offset = facts[match["name"]], match["offset"]
    if offset is None:
        return fact
    return fact + int(offset) if isinstance(fact, int) else f"{fact}{offset}"
