"""Plain twins of the rules on zombies: compare every record of a partition with every other, and every word of an
error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.model.records.logged_record import LoggedRecord

FENCED = {"_fenced", "producer_fenced", "invalid_producer_epoch"}
FENCED_IN_JAVA = {"producerfencedexception", "invalidproducerepochexception"}


def is_fenced(error: str | None) -> bool:
    """Whether a word of the error means that a producer was fenced."""
    return any(word.lower() in FENCED | FENCED_IN_JAVA for word in re.findall(r"\w+", error or ""))


def behind_newer(records: Sequence[LoggedRecord]) -> set[tuple[str, int, str]]:
    """(key, offset, value) of each record after a newer epoch of its producer id, on any node."""
    found = set()
    for late in records:
        for newer in records:
            same_log = (newer.node, newer.topic, newer.partition) == (late.node, late.topic, late.partition)
            same_producer = newer.producer_id == late.producer_id >= 0
            is_late = newer.offset < late.offset and newer.producer_epoch > late.producer_epoch
            if same_log and same_producer and is_late and late.value is not None:
                found.add((f"{late.topic}-{late.partition}", late.offset, late.value))
    return found
