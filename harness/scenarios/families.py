"""The documents whose scenarios the catalogue has, 150 in all, by the prefix of the scenarios' ids.

A test compares the ids of each family with the scenarios that run by name.
"""

from __future__ import annotations

from collections.abc import Mapping

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
