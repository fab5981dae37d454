"""The kinds of a run's findings: a run with 167 findings of four kinds reads as four.

Findings of one name and severity are one kind. Contains the grouping, for the text and the report alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.model import Finding
from harness.model.records.finding import Severity, is_rest


@dataclass(frozen=True, slots=True)
class FindingKind:
    """The findings of one kind, in their order; the count includes those that were counted but not listed."""

    name: str
    severity: Severity
    count: int
    findings: tuple[Finding, ...]


def kinds_of(findings: Iterable[Finding]) -> tuple[FindingKind, ...]:
    """The kinds, in the order of their first findings."""
    grouped: dict[tuple[str, Severity], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.name, finding.severity), []).append(finding)
    return tuple(_kind(name, severity, own) for (name, severity), own in grouped.items())


def _kind(name: str, severity: Severity, own: list[Finding]) -> FindingKind:
    listed = tuple(each for each in own if not is_rest(each)) or tuple(own)
    return FindingKind(name, severity, sum(each.count for each in own), listed)
