"""Properties of nemesis operations that the report and the checks need: what each one ends, and whether it lasts.

Each fault declares them (`nemesis.fault.Action`). `nemesis.fault.nemesis_ops` collects them into a NemesisOps, which is
passed to the code that reads histories.

Contains the value. Does not contain any fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

HEAL: Final = "heal"
"""Ends all active faults."""

AWAIT: Final = "await"
"""Waits for a condition of the cluster."""

CHOOSE: Final = "choose"
"""Gives the nodes of a role a name."""

SLEEP: Final = "sleep"
"""Lets time pass. It is not recorded in the history."""


@dataclass(frozen=True, slots=True)
class NemesisOps:
    """The nemesis operations of a run.

    ends maps an operation to the operations whose effect it ends; HEAL, which ends all, is not in it. momentary are
    operations without a lasting effect, e.g. membership changes and elections. waits only wait for a condition.
    harms_disk are those after which a node's disk fails or lacks what was synced, empties_disk those that leave a node
    without its data, erases_vote those that damage what it has stored of its epoch and vote. faults maps an operation
    to its fault's name.
    """

    ends: Mapping[str, frozenset[str]] = field(default_factory=dict)
    momentary: frozenset[str] = frozenset({CHOOSE})
    waits: frozenset[str] = frozenset({AWAIT})
    harms_disk: frozenset[str] = frozenset()
    empties_disk: frozenset[str] = frozenset()
    erases_vote: frozenset[str] = frozenset()
    faults: Mapping[str, str] = field(default_factory=dict)

    @property
    def heals(self) -> frozenset[str]:
        """The operations that end faults."""
        return frozenset({HEAL, *self.ends})
