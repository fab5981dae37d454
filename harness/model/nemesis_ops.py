"""What the nemesis's operations do to a run, as the report and the checks need to know it.

The facts come from the faults themselves (`nemesis.fault.Action`); the composition collects them into a NemesisOps and
passes it to whoever reads a history: `NemesisOps.of(faults)` in nemesis/fault.py makes it.

Contains the value. Does not contain any fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

HEAL: Final = "heal"
"""Ends every fault that is in place."""

AWAIT: Final = "await"
"""Waits for a condition of the cluster."""

SLEEP: Final = "sleep"
"""Lets time pass; it is not written to the history."""


@dataclass(frozen=True, slots=True)
class NemesisOps:
    """ends maps an operation to the operations whose effect it ends; HEAL, which ends all, is not in it.

    momentary are operations whose effect does not last: changes of membership, elections. empties_disk are those after
    which a node remembers nothing.
    """

    ends: Mapping[str, frozenset[str]] = field(default_factory=dict)
    momentary: frozenset[str] = frozenset()
    empties_disk: frozenset[str] = frozenset()

    @property
    def heals(self) -> frozenset[str]:
        """The operations that end a fault."""
        return frozenset({HEAL, *self.ends})
