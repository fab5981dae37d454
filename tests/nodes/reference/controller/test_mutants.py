"""What each mutant of the controller breaks, and that the same story is right without it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.changes import Election
from nodes.reference.core.controller.messages import ElectLeaders
from nodes.reference.core.controller.mutants import MUTANTS, ControllerMutant
from nodes.reference.core.controller.settings import ELECTIONS_MAX
from tests.nodes.reference.controller.transcript_runner import ControllerTranscript

SOURCES = Path(__file__).parents[4] / "nodes" / "reference" / "core" / "controller"

OFFLINE = "topic t 3,2,1\nisr t-0 3 3\nsilent 3\nadvance 9500\n"
"""Broker 3 alone is in sync, and is fenced."""

NO_ELR = "switches eligible_leader_replicas=false"

STORIES = {
    "designates-online-partitions": (
        f"brokers 3\n{OFFLINE}elect designated t-0=2\nelect designated t-0=1",
        "leader 2 in epoch 2, isr 2, replicas 3,2,1, recovering",
        "leader 1 in epoch 3, isr 1, replicas 3,2,1, recovering",
    ),
    "designates-outsiders": (
        f"brokers 4\n{OFFLINE}elect designated t-0=4",
        "leader none in epoch 1, isr none, elr 3, last known elr 3, replicas 3,2,1",
        "leader 4 in epoch 2, isr 4, replicas 3,2,1, recovering",
    ),
    "designates-fenced-brokers": (
        f"brokers 3\n{OFFLINE}silent 2\nadvance 9500\nelect designated t-0=2",
        "leader none in epoch 1, isr none, elr 3, last known elr 3, replicas 3,2,1",
        "leader 2 in epoch 2, isr 2, replicas 3,2,1, recovering",
    ),
    "fenced-broker-stays-in-isr": (
        "brokers 3\ntopic t 3,2,1\nsilent 2\nadvance 9500",
        "leader 3 in epoch 0, isr 3,1, replicas 3,2,1",
        "leader 3 in epoch 0, isr 3,2,1, replicas 3,2,1",
    ),
    "isr-change-of-old-epoch-accepted": (
        "brokers 3\ntopic t 3,2,1\nheartbeat 3 fence\nheartbeat 3\nisr t-0 3 3 epoch=0 version=0",
        "leader 2 in epoch 1, isr 2,1, replicas 3,2,1",
        "leader 3 in epoch 2, isr 3, replicas 3,2,1",
    ),
    "unclean-without-permission": (
        f"brokers 3\n{OFFLINE}",
        "leader none in epoch 1, isr none, elr 3, last known elr 3, replicas 3,2,1",
        "leader 2 in epoch 1, isr 2, replicas 3,2,1, recovering",
    ),
    "last-replica-leaves-isr": (
        f"{NO_ELR}\nbrokers 3\n{OFFLINE}",
        "leader none in epoch 1, isr 3, replicas 3,2,1",
        "leader none in epoch 1, isr none, replicas 3,2,1",
    ),
    "fenced-broker-joins-isr": (
        "brokers 3\ntopic t 3,2,1\nsilent 2\nadvance 9500\nisr t-0 3 3,2,1",
        "leader 3 in epoch 0, isr 3,1, replicas 3,2,1",
        "leader 3 in epoch 0, isr 3,2,1, replicas 3,2,1",
    ),
    "lost-disk-stays-eligible": (
        f"brokers 3\n{OFFLINE}register 3\nheartbeat 3",
        "leader 3 in epoch 2, isr 3, replicas 3,2,1, recovering",
        "leader 3 in epoch 2, isr 3, replicas 3,2,1",
    ),
}
"""Commands of the transcripts, and the state of t-0 after them: without the mutant, and with it."""


def state_after(commands: str, mutant: str | None) -> str:
    """The state of t-0."""
    transcript = ControllerTranscript()
    switches = [line for line in commands.splitlines() if line.startswith("switches")] or ["switches"]
    others = [line for line in commands.splitlines() if not line.startswith("switches")]
    chosen = f" mutant={mutant}" if mutant else ""
    transcript.run("\n".join([switches[0] + chosen, *others]))
    return transcript.run("state t-0").strip().removeprefix("t-0: ")


@pytest.mark.parametrize("mutant", STORIES)
def test_a_mutant_breaks_its_story(mutant: str) -> None:
    commands, right, wrong = STORIES[mutant]
    assert (state_after(commands, None), state_after(commands, mutant)) == (right, wrong)


@pytest.mark.parametrize(("mutant", "served"), [(None, 1000), ("elections-beyond-limit-dropped", 1002)])
def test_elections_beyond_the_limit_are_not_reported_as_done(mutant: str | None, served: int) -> None:
    transcript = ControllerTranscript()
    transcript.run(f"switches {f'mutant={mutant}' if mutant else ''}\nbrokers 1\ncreate t {ELECTIONS_MAX + 2} 1")
    partitions = [("t", index) for index in range(ELECTIONS_MAX + 2)]
    response = transcript.respond(ElectLeaders(Election.UNCLEAN, partitions))
    assert len(response.results) == served
    assert {each.error for each in response.results[:ELECTIONS_MAX]} == {ErrorCode.election_not_needed}


def test_every_mutant_has_one_branch_a_source_and_a_story() -> None:
    branches = Counter(
        name for path in SOURCES.glob("*.py") for name in re.findall(r'\bhas\("([a-z0-9-]+)"', path.read_text())
    )
    assert branches == Counter(get_args(ControllerMutant))
    assert tuple(MUTANTS) == get_args(ControllerMutant)
    assert MUTANTS.keys() == STORIES.keys() | {"elections-beyond-limit-dropped"}
    assert all(info.effect.endswith(".") and info.source and info.found_by for info in MUTANTS.values())
