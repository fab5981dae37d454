"""The checks find each mutant of the reference system under random faults, and report nothing that it does not cause.

Each run is the real command on real processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.model.errors import EXIT_INVALID, EXIT_VALID
from tests.support.command import json_lines, splitbrain_here

RUN = [
    "--workload",
    "register",
    "--rate",
    "200",
    "--time-limit",
    "25",
    "--interval",
    "10",
    "--seed",
    "5",
    "--format",
    "json",
]
LEADERS_CUT_OFF = "--faults partition --seed 395"
"""A seed that samples cuts of the leader alone, which reveal a lease that is too long."""

TOLERATED = frozenset({"diverging-tail"})
"""A run may end before a deposed leader has fetched again and truncated its log; Raft allows that."""


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """The flags of a run with a bug; at least one finding of `expected` must appear, those of `consequences` may.

    `unknown` names findings that may leave a question open.
    """

    flags: str
    expected: frozenset[str] = frozenset()
    consequences: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()


def findings(*names: str) -> frozenset[str]:
    return frozenset(names)


# Two leaders append different records at the same offsets of one epoch, so the logs differ (diverged-logs). A record
# that one of them commits is overwritten or missing on a later leader (the next three), and a node that would have to
# truncate it exits (server-exited); a client no longer reads its acknowledged write (non-linearizable).
OF_TWO_LEADERS = findings(
    "diverged-logs",
    "committed-record-missing",
    "committed-record-not-on-leader",
    "high-watermark-went-back",
    "server-exited",
    "non-linearizable",
)

BUGS: Mapping[str, PlantedBug] = {
    # The voter may vote again in the same epoch, which vote-changed shows, and give both candidates a majority.
    "vote-forgotten-on-restart": PlantedBug(
        "--switch reference.mutant=vote-forgotten-on-restart --faults kill --interval 4 --time-limit 60",
        expected=findings("vote-forgotten"),
        consequences=findings("vote-changed", "two-leaders-in-one-epoch") | OF_TWO_LEADERS,
    ),
    # One node of three elects itself, as its LeaderChange record shows, and commits alone. The faults decide which
    # consequence a run shows, so any of the first four is enough. A leader's high watermark is what only its own log
    # holds (high-watermark-without-majority). If two lead from the start, all nodes never follow one leader, so the
    # wait for that fails (fault-not-effective).
    "half-is-a-majority": PlantedBug(
        "--switch reference.mutant=half-is-a-majority --faults partition",
        expected=findings("elected-without-majority", "two-leaders-in-one-epoch", "non-linearizable", "diverged-logs"),
        consequences=findings("high-watermark-without-majority") | OF_TWO_LEADERS,
        unknown=findings("fault-not-effective"),
    ),
    # A deposed leader keeps its tail and appends to it. The tail's epoch may be higher than that of what follows
    # (leader-epoch-went-back), and the leader may send a batch that begins inside the tail, which the follower never
    # accepts (follower-stuck). The leader counts the tail as replicated, so it commits records that no majority holds,
    # and a node without them can be elected (the others; server-exited as above). An epoch still has one leader, and by
    # its own knowledge a majority reached the high watermark.
    "no-truncation": PlantedBug(
        "--switch reference.mutant=no-truncation --faults partition,kill",
        expected=findings("diverged-logs"),
        consequences=findings(
            "leader-epoch-went-back",
            "follower-stuck",
            "committed-record-missing",
            "committed-record-not-on-leader",
            "high-watermark-went-back",
            "server-exited",
            "non-linearizable",
        ),
    ),
    # Only reads are wrong: elections and logs do not depend on the length of the lease.
    "a lease longer than the fetch timeout": PlantedBug(
        f"--switch reference.read_mode=lease --switch reference.read_lease_ms=3000 {LEADERS_CUT_OFF}",
        expected=findings("non-linearizable"),
    ),
    # The same run with a safe lease.
    "nothing": PlantedBug(
        f"--switch reference.read_mode=lease --switch reference.read_lease_ms=1500 {LEADERS_CUT_OFF}"
    ),
}

QUICK = ("half-is-a-majority", "nothing")
PARAMETERS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in BUGS]


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", PARAMETERS)
def test_planted_bug_is_found_and_every_finding_is_its_consequence(name: str, tmp_path: Path) -> None:
    bug = BUGS[name]
    result = splitbrain_here("run", *RUN, *bug.flags.split(), "--store", tmp_path)
    (verdict,) = json_lines(result)
    found = verdict["findings"]
    explained = {
        "invalid": bug.expected | bug.consequences,
        "unknown": bug.unknown,
        "tolerated": TOLERATED,
    }
    assert [each for each in found if each["name"] not in explained[each["severity"]]] == []
    names = {each["name"] for each in found if each["severity"] == "invalid"}
    assert bool(names & bug.expected) == bool(bug.expected), found
    assert result.code == (EXIT_INVALID if bug.expected else EXIT_VALID)
