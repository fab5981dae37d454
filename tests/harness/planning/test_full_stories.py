"""A scenario whose document asks for minutes is short by default, and has its own length with --full."""

from __future__ import annotations

import pytest

from harness import plugins
from harness.model.nemesis_ops import SLEEP
from harness.model.scenario import Scenario

LONG = {name: each for name, each in plugins.scenarios().items() if each.full}


def seconds(scenario: Scenario, is_full: bool) -> float:
    return sum(step.value for step in scenario.story_of("good", is_full) if step.f == SLEEP)


@pytest.mark.parametrize("name", LONG)
def test_full_story_is_longer(name: str) -> None:
    assert seconds(LONG[name], is_full=True) >= seconds(LONG[name], is_full=False)
    assert len(LONG[name].story_of("good", True)) > 4 * len(LONG[name].story_of("good"))


def test_rows_that_ask_for_minutes_have_a_full_story() -> None:
    assert {"PV-29", "PV-35", "LD-09", "LD-19"} <= set(LONG)
