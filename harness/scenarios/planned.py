"""The documented scenarios that cannot be run yet, each with what is missing.

Together with the scenarios that run by name these are the 150 rows of the catalogue (docs/catalogue.md). A row leaves
this list when its scenario is written; a test compares the list with the ids of each family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.scenario import Source

FAMILIES: Mapping[str, tuple[int, Source]] = {
    "PV": (42, Source("KIP-996")),
    "LP": (9, Source("KIP-595") / "Leader Progress Timeout"),
    "DQ": (7, Source("KIP-595") / "DescribeQuorum"),
    "CB": (1, Source("KIP-595") / "Cluster Bootstrapping"),
    "LD": (21, Source("KIP-279")),
    "UR": (33, Source("KAFKA-20098")),
    "RA": (37, Source("KIP-642")),
}
"""How many scenarios each document has, by the prefix of their ids, and the document."""

PROMOTION = "needs KIP-642's observer-based promotion in the reference system"
BOOTSTRAP = "needs KIP-642's bootstrapping in the reference system"


@dataclass(frozen=True, slots=True)
class Planned:
    """A documented scenario that cannot be run yet: its id, its title, and what is missing."""

    id: str
    title: str
    missing: str

    @property
    def source(self) -> Source:
        """The document that describes it."""
        return FAMILIES[self.id.partition("-")[0]][1]


def _rows(family: str, rows: Mapping[int, tuple[str, str]]) -> tuple[Planned, ...]:
    return tuple(Planned(f"{family}-{number:02d}", title, missing) for number, (title, missing) in rows.items())


QUORUM_REASSIGNMENT = _rows(
    "RA",
    {
        17: ("Rejected alternative: an observer decides itself when it has caught up", PROMOTION),
        25: ("A step of the bootstrapping procedure is skipped", BOOTSTRAP),
        26: ("Old gossip about a node's address replaces newer", BOOTSTRAP),
    },
)

PLANNED: Mapping[str, Planned] = {each.id: each for each in QUORUM_REASSIGNMENT}
"""The documented scenarios that cannot be run yet, by id."""
