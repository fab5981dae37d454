"""What the checks say: findings, quantities and the verdict.

A finding is a broken guarantee in words with its witnesses. A quantity is a number that a reader or an expectation
wants whether or not anything broke. The verdict is three-valued, and unknown never passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, get_args

Severity = Literal["invalid", "unknown", "tolerated"]
"""What a finding weighs, the gravest first."""


class Verdict(Enum):
    """valid: every check ran and found nothing; invalid: a guarantee broke; unknown: neither can be said."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """A guarantee that broke (invalid), could not be judged (unknown), or broke as its model allows (tolerated).

    name is the guarantee's standard term (`non-linearizable`, `two-leaders-in-one-epoch`), message a sentence that
    names it and its witness. witnesses are history indexes; where the witness is a node's deed, node and time_ns
    (since the run began) say whose and when. count tells how many such findings this row stands for. evidence is the
    JSON of what a picture of it needs (harness.model.records.evidence), where the check has that.
    """

    check: str
    name: str
    severity: Severity
    message: str
    key: str | None = None
    node: int | None = None
    time_ns: int | None = None
    witnesses: tuple[int, ...] = ()
    count: int = 1
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A measured number, e.g. Quantity('quorum', 'epochs_burned', 7, 'epochs')."""

    check: str
    name: str
    value: float
    unit: str


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Invalid outweighs unknown, unknown outweighs valid; tolerated findings weigh nothing."""
    severities = {finding.severity for finding in findings}
    if "invalid" in severities:
        return Verdict.INVALID
    return Verdict.UNKNOWN if "unknown" in severities else Verdict.VALID


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by what they weigh, and else in their order: who reads a few reads what broke."""
    return tuple(sorted(findings, key=lambda finding: get_args(Severity).index(finding.severity)))
