"""Known defects of Kafka in runs without a scenario: which findings show one, and which may follow from it.

    apart = known_in("kafka:4.3.1", findings)
    apart[0].defect         # 'EX-02'
    apart[0].shown          # 2 findings that nothing else is known to cause
    apart[0].may_follow     # 5 findings that the defect has caused in its scenario

A finding is new unless it is one of these. The verdict stays what the findings make it: a known defect is a broken
guarantee, too. What follows is only counted apart where the defect itself shows, and may still have another cause.

Contains the table and the counting. Findings for which there is an issue are in known.py; the defects' pages are in
docs/findings. To add one: a line of DEFECTS, and a case of test_known_defects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.model import Finding
from harness.model.records.finding import is_rest
from results.run_verdict import KnownDefect


@dataclass(frozen=True, slots=True)
class _Defect:
    """A scenario's id, the finding that shows its defect, what its message has, and findings that follow from it."""

    name: str
    shown_by: str
    message: str
    follow: frozenset[str]


_TWO_LEADERS_COMMIT = {
    "committed-record-missing",
    "committed-record-not-on-leader",
    "diverged-logs",
    "elected-without-majority",
    "high-watermark-went-back",
    "lost-change",
    "lost-write",
    "non-linearizable",
    "server-exited",
}
DEFECTS = (
    _Defect("EX-02", "stale-voters", "", frozenset(_TWO_LEADERS_COMMIT)),
    _Defect("EX-03", "server-exited", "Unexpected acknowledgement from non-voter", frozenset()),
)
SYSTEM = "kafka"


def known_in(system: str, findings: Sequence[Finding]) -> tuple[KnownDefect, ...]:
    """The known defects that a run's broken guarantees show; system may have a version, as in kafka:4.3.1."""
    if system.partition(":")[0] != SYSTEM:
        return ()
    broken = [finding for finding in findings if finding.severity == "invalid"]
    shown = {defect: list(_shown(defect, broken)) for defect in DEFECTS}
    taken = {id(finding) for each in shown.values() for finding in each}
    apart = []
    for defect, own in shown.items():
        if own:
            following = [each for each in broken if each.name in defect.follow and id(each) not in taken]
            taken |= {id(each) for each in following}
            apart.append(KnownDefect(defect.name, defect.shown_by, _count(own), _count(following)))
    return tuple(apart)


def counted_apart(findings: Sequence[Finding], known: Sequence[KnownDefect]) -> str:
    """How many of the broken guarantees are known defects, may follow from them, or are new; empty without one.

    It begins with a space, to follow the verdict's summary.
    """
    if not known:
        return ""
    broken = _count([finding for finding in findings if finding.severity == "invalid"])
    texts = [f"{each.shown} show the known defect {each.defect} ({each.finding})" for each in known]
    texts += [f"{each.may_follow} may follow from {each.defect}" for each in known if each.may_follow]
    new = broken - sum(each.shown + each.may_follow for each in known)
    return f" Of these, {', '.join(texts)}; new: {new}."


def _shown(defect: _Defect, findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings that show a defect. One that stands for more like the last one shows what that one shows."""
    is_shown = False
    for finding in findings:
        if finding.name == defect.shown_by:
            is_shown = is_shown if is_rest(finding) else re.search(defect.message, finding.message) is not None
            if is_shown:
                yield finding


def _count(findings: Sequence[Finding]) -> int:
    return sum(finding.count for finding in findings)
