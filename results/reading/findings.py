"""Which findings of a kind a report shows, which of them with pictures, and which rows around their witnesses.

Contains the choice, for runs and for external histories alike. Their rows are read by sides.py and by
harness.judging.check_reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.model import Finding
from results.data import ShownFinding, ShownKind
from results.kinds import FindingKind

SHOWN_PER_KIND: Final = 10
PICTURES_PER_KIND: Final = 3
WITNESSES_SHOWN: Final = 12
OPS_AROUND: Final = 2
"""The number of rows shown before and after each witness."""

Show = Callable[[Finding, bool], ShownFinding]
"""Reads the rows of a finding and, if the flag is set, the operations of its picture."""


def shown_kind(kind: FindingKind, show: Show) -> ShownKind:
    """The first findings of a kind, those with a picture before the others."""
    shown: list[ShownFinding] = []
    for finding in kind.findings[:SHOWN_PER_KIND]:
        pictures = sum(bool(each.operations) for each in shown)
        shown.append(show(finding, pictures < PICTURES_PER_KIND))
    clearest_first = sorted(shown, key=lambda each: not each.operations)
    return ShownKind(kind.name, kind.severity, kind.count, tuple(clearest_first))


def indexes_around(finding: Finding) -> list[int]:
    """The indexes of the finding's first witnesses and of the rows around them, in order; some may not exist."""
    around = {
        index
        for witness in finding.witnesses[:WITNESSES_SHOWN]
        for index in range(max(0, witness - OPS_AROUND), witness + OPS_AROUND + 1)
    }
    return sorted(around)
