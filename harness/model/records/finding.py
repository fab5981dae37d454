"""What the checks report: findings, quantities and the verdict.

A finding is a violated guarantee and its witnesses. A quantity is a number for the report and for expectations, whether
or not a guarantee is violated. The verdict has three values, and unknown never passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, get_args

Severity = Literal["invalid", "unknown", "tolerated"]
"""A finding's severity, the most severe first."""


_REST: Final = "and {} more like these"


class Verdict(Enum):
    """valid: all checks ran, no violation; invalid: a guarantee was violated; unknown: neither can be decided."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """A guarantee that was violated (invalid), cannot be judged (unknown), or was violated as allowed (tolerated).

    name is the standard term (`non-linearizable`, `two-leaders-in-one-epoch`); message states the guarantee and its
    witness. witnesses are history indexes, of operations. node and time_ns (run time) identify an event at a node, or
    the last of these operations. count is the number of findings that this row stands for. evidence is JSON that the
    report draws (harness.model.records.evidence), if the check provides it.
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


def rest_of(last: Finding, more: int) -> Finding:
    """The finding that stands for more findings like the last one."""
    return Finding(last.check, last.name, last.severity, _REST.format(more), count=more)


def is_rest(finding: Finding) -> bool:
    """Whether a finding only counts others."""
    return finding.message == _REST.format(finding.count)


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Invalid if any finding is invalid, else unknown if any is, else valid; tolerated findings do not count."""
    severities = {finding.severity for finding in findings}
    if "invalid" in severities:
        return Verdict.INVALID
    return Verdict.UNKNOWN if "unknown" in severities else Verdict.VALID


def most_severe_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by severity, otherwise in their order, so that the first few show what was violated."""
    return tuple(sorted(findings, key=lambda finding: get_args(Severity).index(finding.severity)))
