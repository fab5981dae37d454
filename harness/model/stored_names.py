"""Old names in stored runs, plans and verdicts, and their current names.

The names on the left were written to users' disks by earlier releases. Code that reads stored data translates them
here, so that the rest of the code uses one name for each thing. To rename something that is stored, add a line.

Contains the translation tables. Does not read files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

NEMESIS_OPS: Final[Mapping[str, str]] = {
    "mend": "heal_links",
    "hold": "sleep",
    "settle": "await_membership",
}
"""The `f` of a nemesis operation, in histories and in stories."""

ARGUMENTS: Final[Mapping[str, str]] = {"ways": "direction"}
"""Keys of a nemesis operation's value."""

CHECKS: Final[Mapping[str, str]] = {"deeds": "nemesis"}
FINDINGS: Final[Mapping[str, str]] = {"deed-failed": "fault-not-effective"}


def current_op(f: str) -> str:
    """The current name of a nemesis operation."""
    return NEMESIS_OPS.get(f, f)


def current_arguments(value: Any) -> Any:
    """A nemesis operation's value with current keys; a value that is not a JSON object is returned unchanged."""
    return {ARGUMENTS.get(key, key): each for key, each in value.items()} if isinstance(value, Mapping) else value


def current_finding(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a stored finding, with the current names of the check and of the finding."""
    check, name = str(stored["check"]), str(stored["name"])
    return {**stored, "check": CHECKS.get(check, check), "name": FINDINGS.get(name, name)}


CONDITIONS: Final[Mapping[str, str]] = {
    "a leader is known": "leader_known",
    "all follow one leader": "all_follow_leader",
    "all follow n#": "all_follow",
    "n# stands aside": "is_not_leader",
    "n# is a candidate": "is_candidate",
}
"""Conditions used to be stored as English sentences; n# stands for a node."""


def current_condition(value: Any) -> Any:
    """The condition as a JSON object, from an earlier release's sentence; anything else is returned unchanged."""
    if not isinstance(value, str):
        return value
    node = re.search(r"\bn([1-9])\b", value)
    name = CONDITIONS.get(re.sub(r"\bn[1-9]\b", "n#", value))
    if name is None:
        return value
    return {"name": name, "node": int(node.group(1))} if node else {"name": name}
