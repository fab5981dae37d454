"""Known defects of Kafka in runs without a scenario: which findings show one, and which may follow from it.

    apart = known_in(["kafka:4.3.1"], findings)
    apart[0].defect                                             # 'EX-02'
    apart[0].shown                                              # 2 findings that nothing else is known to cause
    apart[0].may_follow                                         # 5 findings that the defect has caused in its scenario
    known_reason(["kafka:4.3.1"], "voter-set-matches-log")      # 'EX-02', for a simulated run that did not pass

A finding is new unless it is one of these. The verdict stays what the findings make it: a known defect is a broken
guarantee, too. What follows is only counted apart where the defect itself shows, and may still have another cause.

Contains the table and the counting. Findings for which there is an issue are in known.py; the defects' pages are in
docs/findings. To add one: a line of DEFECTS, and a case of test_known_defects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.model import Finding
from harness.model.records.finding import is_rest
from results.run_verdict import KnownDefect


@dataclass(frozen=True, slots=True)
class _Defect:
    """name is a scenario, or a page of docs/findings; or several that look alike: 'EX-16 or EX-17'.

    shown_by are the findings, and the reasons of simulated runs, that show it and nothing else is known to cause;
    message is what theirs have, and releases what the release begins with, as regular expressions. follow are findings
    that it has caused.
    """

    name: str
    shown_by: frozenset[str]
    message: str = ""
    releases: str = ""
    follow: frozenset[str] = frozenset()


_EXITS = frozenset({"server-exited", "server-cannot-start", "no-exception"})
_TWO_LEADERS_COMMIT = frozenset(
    {
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
)
DEFECTS = (
    _Defect("EX-02", frozenset({"stale-voters", "voter-set-matches-log"}), follow=_TWO_LEADERS_COMMIT),
    _Defect("EX-03", _EXITS, "Unexpected acknowledgement from non-voter"),
    _Defect("EX-04", _EXITS, "IllegalArgumentException: Local replica", releases="4"),
    _Defect("EX-06 or EX-11", frozenset({"no-recovery"}), "no node can be elected$"),
    _Defect("EX-07", _EXITS, "Expected to be Follower, but the current state is Unattached"),
    _Defect("EX-09", _EXITS, "Full log truncation expected but didn't happen"),
    _Defect("EX-14", _EXITS, "Received unexpected invalid request error"),
    _Defect("EX-15", _EXITS, "Unexpected offset in append|Illegal append at offset", releases=r"3\.9|4\.0"),
    _Defect("EX-16 or EX-17", _EXITS, "Unknown leader endpoints"),
    _Defect("busy-observers", frozenset({"no-spin"})),
)
"""A defect whose symptoms could have any cause is not among them: EX-12's two leaders in an epoch, or KAFKA-18345's
elections that nobody wins."""

SYSTEM = "kafka"


def known_in(systems: Iterable[str], findings: Sequence[Finding]) -> tuple[KnownDefect, ...]:
    """The known defects that a run's broken guarantees show; systems are those of its nodes, as in kafka:4.3.1."""
    broken = [finding for finding in findings if finding.severity == "invalid"]
    shown = {defect: list(_shown(defect, broken)) for defect in _defects_of(systems)}
    taken = {id(finding) for each in shown.values() for finding in each}
    apart = []
    for defect, own in shown.items():
        if own:
            following = [each for each in broken if each.name in defect.follow and id(each) not in taken]
            taken |= {id(each) for each in following}
            apart.append(KnownDefect(defect.name, own[0].name, _count(own), _count(following)))
    return tuple(apart)


def known_reason(systems: Iterable[str], reason: str) -> str | None:
    """The known defect that explains why a simulated run does not pass (harness.simulating.screening); None if none."""
    name, _, message = reason.partition(": ")
    matching = (each for each in _defects_of(systems) if name in each.shown_by and re.search(each.message, message))
    return next((defect.name for defect in matching), None)


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


def _defects_of(systems: Iterable[str]) -> list[_Defect]:
    """The defects that these releases of Kafka may have; one whose version is not known may have all."""
    releases = [release for kind, _, release in (each.partition(":") for each in systems) if kind == SYSTEM]
    return [each for each in DEFECTS if any(not release or re.match(each.releases, release) for release in releases)]


def _shown(defect: _Defect, findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings that show a defect. One that stands for more like the last one shows what that one shows."""
    is_shown = False
    for finding in findings:
        if finding.name in defect.shown_by:
            is_shown = is_shown if is_rest(finding) else re.search(defect.message, finding.message) is not None
            if is_shown:
                yield finding


def _count(findings: Sequence[Finding]) -> int:
    return sum(finding.count for finding in findings)
