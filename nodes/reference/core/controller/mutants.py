"""The mutants of the controller: wrong designs that KAFKA-20098 and the catalogue's rows warn of, each one branch.

Contains their names and what each breaks. They read ControllerSettings.has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nodes.reference.core.mutants import MutantInfo

ControllerMutant = Literal[
    "designates-online-partitions",
    "designates-outsiders",
    "designates-fenced-brokers",
    "elections-beyond-limit-dropped",
    "fenced-broker-stays-in-isr",
    "isr-change-of-old-epoch-accepted",
    "unclean-without-permission",
    "last-replica-leaves-isr",
    "fenced-broker-joins-isr",
    "lost-disk-stays-eligible",
]

MUTANTS: Mapping[ControllerMutant, MutantInfo] = {
    "designates-online-partitions": MutantInfo(
        "A designated election replaces a leader that is online.", "KAFKA-20098, Proposed Changes", "UR-16, UR-22"
    ),
    "designates-outsiders": MutantInfo(
        "A broker without a replica is designated.", "KAFKA-20098, Proposed Changes", "UR-17"
    ),
    "designates-fenced-brokers": MutantInfo(
        "A fenced broker is designated.", "KAFKA-20098, Proposed Changes", "UR-17, UR-21"
    ),
    "elections-beyond-limit-dropped": MutantInfo(
        "A request for more than 1,000 elections reports success for those that were left out.",
        "KAFKA-20098, Designated Leader Elections",
        "UR-15",
    ),
    "fenced-broker-stays-in-isr": MutantInfo(
        "A fenced broker stays in the ISR and may be elected when its partition needs a leader.", "KIP-631", "UR-24"
    ),
    "isr-change-of-old-epoch-accepted": MutantInfo(
        "A leader that was replaced still changes the ISR.", "KIP-497", "LD-19"
    ),
    "unclean-without-permission": MutantInfo(
        "A partition without a live in-sync replica gets any live leader.", "KIP-106", "UR-01, UR-05"
    ),
    "last-replica-leaves-isr": MutantInfo(
        "The last in-sync replica leaves the ISR when it is fenced, so nobody knows who is complete.",
        "KIP-631",
        "UR-05",
    ),
    "fenced-broker-joins-isr": MutantInfo("A leader adds a fenced broker to the ISR.", "KIP-841", "UR-21"),
    "lost-disk-stays-eligible": MutantInfo(
        "A broker that restarts after an unclean shutdown stays eligible to lead.", "KIP-966", "UR-33"
    ),
}
"""Every mutant of the controller."""
