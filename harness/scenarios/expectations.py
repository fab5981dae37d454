"""The outcomes that scenarios expect, each a bound on a quantity of the checks.

All are counted from the beginning of the story, so that the first election of a fresh quorum is not counted.
"""

from __future__ import annotations

from harness.model.scenario import Expectation

leader_deposed = Expectation("the leader is deposed", "leader_deposed", 1)


def epochs_burned(at_least: int) -> Expectation:
    """The epoch grows by so many or more."""
    return Expectation(f"{at_least} or more epochs are burned", "epochs_burned", at_least)


def epochs_burned_until_heal(at_least: int) -> Expectation:
    """The epoch grows by so many or more while the faults are in place."""
    return Expectation(f"{at_least} or more epochs are burned under the faults", "epochs_burned_until_heal", at_least)


def leader_changes_until_heal(at_least: int) -> Expectation:
    """Somebody begins to lead so many times or more while the faults are in place."""
    return Expectation(
        f"{at_least} or more leaders are elected under the faults", "leader_changes_until_heal", at_least
    )


def leader_changes(at_least: int) -> Expectation:
    """Leadership goes from one node to another so many times or more."""
    return Expectation(f"leadership changes {at_least} or more times", "leader_changes", at_least)


def two_leaders(at_least_ms: int) -> Expectation:
    """One node answers as leader while another leads a later epoch, for so long or longer."""
    return Expectation(
        f"a deposed leader still answers as one for {at_least_ms / 1000:g} s or longer", "two_leaders_ms", at_least_ms
    )


def no_leader(at_least_ms: int) -> Expectation:
    """Nobody leads for so long or longer, all such times together."""
    return Expectation(f"nobody leads for {at_least_ms / 1000:g} s or longer", "no_leader_ms", at_least_ms)


def commit_gap(at_least_ms: int) -> Expectation:
    """No high watermark rises for so long or longer."""
    return Expectation(f"nothing is committed for {at_least_ms / 1000:g} s or longer", "commit_gap_ms", at_least_ms)
