"""What each mutant of partitions breaks, and that the same story is right without it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from nodes.reference.core.partitions.mutants import MUTANTS, PartitionMutant
from tests.nodes.reference.partitions.transcript_runner import PartitionTranscript

SOURCES = Path(__file__).parents[4] / "nodes" / "reference" / "core" / "partitions"


def step_3(n: int, truncation: str) -> str:
    """KIP-279's Scenario 1 at its step 3."""
    return (
        f"brokers 2 truncation={truncation}\nlog A 1:0-10 1:11-20\nlog B 1:0-10 2:11-{n}\n"
        "high-watermark A 11\nhigh-watermark B 11\nstart A B\nleads A epoch=3 isr=A\nproduce A 10\n"
    )


IN_SYNC = "brokers 2\nstart A B\nleads A epoch=1 isr=A,B\nproduce A 2\ndeliver\n"
"""A leads, B is in sync and has two records."""

FIRST = "produce A 2 id=7 producer_epoch=0 sequence=0"

STORIES: dict[PartitionMutant, tuple[str, str, str]] = {
    "follower-never-truncates": (
        step_3(15, "on-fetch") + "deliver\ncompare A B",
        "A and B have the same records",
        "they differ at 11 to 30",
    ),
    "leaders-offset-taken": (
        step_3(20, "kip-279") + "deliver\ncompare A B",
        "A and B have the same records",
        "they differ at 11 to 20",
    ),
    "epochs-not-compared": (
        step_3(20, "on-fetch") + "deliver\ncompare A B",
        "A and B have the same records",
        "they differ at 11 to 20",
    ),
    "fetches-from-leaders-offset": (
        step_3(25, "kip-101") + "deliver\ncompare A B",
        "A and B have the same records",
        "they differ at 11 to 20",
    ),
    "failed-append-skipped": (
        step_3(15, "kip-101") + "deliver\ncompare A B",
        "they differ at 11 to 30",
        "they differ at 11 to 20",
    ),
    "follower-high-watermark-beyond-log": (
        "brokers 2 fetch_partition_bytes=1\nlog A 1:0-4 1:5-9\nhigh-watermark A 10\nstart A B\nleads A epoch=2 isr=A\n"
        "deliver B->A\ndeliver A->B\nstate B",
        "  epochs 1@0, high watermark 5, fetching, 0 rounds, 0 bits",
        "  epochs 1@0, high watermark 10, fetching, 0 rounds, 0 bits",
    ),
    "leader-epoch-not-fenced": (
        IN_SYNC + "leads A epoch=2 tell=A\ndeliver\nproduce A 1\ndeliver\nstate A",
        "  epochs 1@0 2@2, high watermark 2",
        "  epochs 1@0 2@2, high watermark 3",
    ),
    "diverged-fetch-counts": (
        step_3(20, "on-fetch").replace("isr=A", "isr=A,B") + "deliver B->A\nstate A",
        "  epochs 1@0 3@21, high watermark 11",
        "  epochs 1@0 3@21, high watermark 21",
    ),
    "acknowledged-by-leader-alone": (
        IN_SYNC + "drop\nproduce A 1 acks=all",
        "  A has 1:[0,1] 1:[2,2]\n  A replies 1:[2,2], high watermark 2",
        "  A replies first offset 2\n  A replies 1:[2,2], high watermark 2",
    ),
    "pending-isr-not-counted": (
        IN_SYNC.replace("isr=A,B", "isr=A") + "drop\nproduce A 1\nstate A",
        "  epochs 1@0, high watermark 2",
        "  epochs 1@0, high watermark 3",
    ),
    "shrinks-before-confirmed": (
        IN_SYNC + "crash B\nproduce A 1\nadvance 31000\nstate A",
        "  epochs 1@0, high watermark 2",
        "  epochs 1@0, high watermark 3",
    ),
    "joins-before-epoch-start": (
        "brokers 2 min_isr=2\nlog A 1:0-4 1:5-9\nlog B 1:0-4\nhigh-watermark A 5\nstart A B\nleads A epoch=2 isr=A\n"
        "deliver B->A",
        "  A replies 1:[5,9], high watermark 5",
        "  A asks the controller for isr A,B\n  A replies 1:[5,9], high watermark 5",
    ),
    "uncommitted-records-consumed": (
        IN_SYNC + "drop\nproduce A 3\nread A 2",
        "  A replies nothing new, high watermark 2",
        "  A replies 1:[2,4], high watermark 2",
    ),
    "min-isr-ignored": (
        "brokers 2 min_isr=2\nstart A\nleads A epoch=1 isr=A\nproduce A 1 acks=all",
        "  A replies error not_enough_replicas",
        "  A has 1:[0,0]",
    ),
    "sequences-not-checked": (
        f"brokers 1\nstart A\nleads A epoch=1\n{FIRST}\n{FIRST}",
        "  A replies first offset 0",
        "  A replies first offset 2",
    ),
    "sequences-forgotten-by-new-leader": (
        f"brokers 2\nstart A B\nleads A epoch=1 isr=A,B\n{FIRST}\ndeliver\nleads B epoch=2\n"
        + FIRST.replace("produce A", "produce B"),
        "  B replies first offset 0",
        "  B replies first offset 2",
    ),
}
"""Commands of the transcripts, and their last lines: without the mutant, and with it."""


def last_lines(commands: str, mutant: str | None, count: int) -> list[str]:
    """The last lines that the commands print."""
    first, _, others = commands.partition("\n")
    printed = PartitionTranscript().run(f"{first}{f' mutant={mutant}' if mutant else ''}\n{others}")
    return printed.splitlines()[-count:]


@pytest.mark.parametrize("mutant", STORIES)
def test_a_mutant_breaks_its_story(mutant: PartitionMutant) -> None:
    commands, right, wrong = STORIES[mutant]
    assert "\n".join(last_lines(commands, None, right.count("\n") + 1)) == right
    assert "\n".join(last_lines(commands, mutant, wrong.count("\n") + 1)) == wrong


def test_every_mutant_has_a_branch_a_source_and_a_story() -> None:
    branches = {
        name for path in SOURCES.glob("*.py") for name in re.findall(r'\bhas\("([a-z0-9-]+)"', path.read_text())
    }
    assert branches == set(get_args(PartitionMutant))
    assert tuple(MUTANTS) == get_args(PartitionMutant)
    assert MUTANTS.keys() == STORIES.keys()
    assert all(info.effect.endswith(".") and info.source and info.found_by for info in MUTANTS.values())
