"""No good side is a check that cannot fail: with a planted bug or a wrong setting, each is not as documented.

Scenarios with two sides are run with the switches of their bad side and judged as the good one. For others, BREAKS has
a setting of the reference system.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import plugins
from harness.model.errors import EXIT_VALID
from harness.model.scenario import Scenario
from tests.support.command import splitbrain

NO_PRE_VOTE = "reference.pre_vote=false"
NO_CHECK_QUORUM = "reference.check_quorum=false"
BREAKS = {
    "PV-07": "reference.mutant=half-is-a-majority",
    "PV-10": NO_PRE_VOTE,
    "PV-12": NO_PRE_VOTE,
    "PV-14": "reference.mutant=second-vote-in-an-epoch",
    "PV-17": NO_CHECK_QUORUM,
    "PV-19": NO_PRE_VOTE,
    "PV-20": NO_PRE_VOTE,
    "PV-27": "reference.mutant=pre-vote-without-fallback",
    "PV-34": "reference.mutant=resigned-keeps-its-epoch",
    "PV-36": NO_PRE_VOTE,
    "PV-42": NO_PRE_VOTE,
    "LP-04": NO_PRE_VOTE,
    "RA-29": "controller.quorum.election.timeout.ms=20000",
}
"""A setting with which the good side is not as documented: where there is no bad side, or where the bad side's setting
makes the good side wait for what never comes."""

REFERENCE = {name: each for name, each in plugins.scenarios().items() if "good" in each.sides_on("reference")}


def switches(scenario: Scenario) -> list[str]:
    """The wrong setting, as arguments: the bad side's, if it has another setting on all nodes."""
    bad = scenario.bad.setups.get("reference") if scenario.bad else None
    wrong = [f"{name}={value}" for name, value in bad.switches.items()] if bad else []
    chosen = [BREAKS[scenario.id]] if scenario.id in BREAKS else wrong
    return [argument for each in chosen for argument in ("--switch", each)]


def can_be_broken(scenario: Scenario) -> bool:
    """Whether a switch of the reference system, and not only its stories or Kafka's releases, makes the difference."""
    bad = scenario.bad.setups.get("reference") if scenario.bad else None
    return scenario.id in BREAKS or bool(bad and bad.switches)


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("identifier", [name for name, each in REFERENCE.items() if can_be_broken(each)])
def test_good_side_fails_with_a_wrong_setting(tmp_path: Path, identifier: str) -> None:
    wrong = switches(plugins.scenario(identifier))
    result = splitbrain("reproduce", identifier, "--side", "good", "--store", tmp_path, *wrong, timeout_seconds=240)
    assert result.code != EXIT_VALID, result


def test_the_settings_are_of_scenarios_with_a_good_side_alone() -> None:
    others = {name for name in BREAKS if plugins.scenario(name).bad is not None}
    assert others == {"PV-34"}, "with its bad side's mutant, nodes never follow one leader, for which the story waits"
