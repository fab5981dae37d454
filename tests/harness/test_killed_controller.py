"""`splitbrain run` killed at random moments of its life: what it recorded reads, and nothing of it is left.

Twenty runs, four at a time, on the reference quorum with clients, cuts and kills. The moments are drawn from a fixed
seed and reach from before the run has a directory to well into its faults.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from real_command import begin, processes_naming, splitbrain, wait_until

from harness.engine.records import read_history
from harness.model.errors import EXIT_UNKNOWN, EXIT_VALID
from nemesis.journal import pending
from results.store import RunDirectory, runs

pytestmark = [pytest.mark.netns, pytest.mark.timeout(150)]

KILLS = 20
AT_A_TIME = 4
EARLY_SECONDS, LATE_SECONDS = 0.1, 9.0
FLAGS = ["--system", "reference", "--workload", "register", "--faults", "partition,kill", "--interval", "2"]
LOAD = ["--time-limit", "60", "--rate", "50", "--concurrency", "3"]


@dataclass(frozen=True, slots=True)
class Aftermath:
    """A store with the runs that were killed, and what was seen after each kill and at the two healings."""

    store: Path
    before: list[int]
    left: list[list[str]]
    healed: list[str]
    healed_again: list[str]

    @property
    def runs(self) -> list[RunDirectory]:
        return runs(self.store)


def moments() -> list[float]:
    """When to kill, in seconds after the start: a quarter of them within the first second, the others any time."""
    drawn = random.Random(996)
    early = [drawn.uniform(EARLY_SECONDS, 1.0) for _ in range(KILLS // 4)]
    return sorted([*early, *(drawn.uniform(1.0, LATE_SECONDS) for _ in range(KILLS - len(early)))])


def kill_after(seconds: float, name: str, store: Path) -> tuple[int, list[str]]:
    """Start a run and kill it; how many processes it had then, and which are left when the kernel had time."""
    command = begin("run", *FLAGS, *LOAD, "--name", name, "--seed", 7, "--store", store)
    with pytest.raises(subprocess.TimeoutExpired):
        command.wait(seconds)
    before = len(processes_of(name, store))
    command.kill()
    assert command.wait() == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while (left := processes_of(name, store)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return before, left


def processes_of(name: str, store: Path) -> list[str]:
    """The processes of a run beside its command: a run's directory bears its name, which no other has."""
    return [words for words in processes_naming(store) if f"-{name}-" in words]


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    store = tmp_path_factory.mktemp("killed")
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        kills = [pool.submit(kill_after, at, f"k{number:02}", store) for number, at in enumerate(moments())]
        before, left = zip(*(kill.result() for kill in kills), strict=True)
    first, second = (splitbrain("heal", "--store", store) for _ in range(2))
    assert (first.code, second.code) == (EXIT_VALID, EXIT_VALID)
    return Aftermath(store, list(before), list(left), first.out.splitlines(), second.out.splitlines())


def test_the_moments_reach_from_the_start_up_into_the_faults(aftermath):
    recorded = [run for run in aftermath.runs if list(run.history.glob("*.parquet"))]
    faulty = [run for run in aftermath.runs if run.journal.exists()]
    assert len(aftermath.runs) >= KILLS // 2
    assert len(recorded) < KILLS
    assert len(faulty) >= KILLS // 4


def test_the_kernel_ends_every_process_of_a_run_whose_command_was_killed(aftermath):
    assert sum(aftermath.before) > KILLS * AT_A_TIME
    assert aftermath.left == [[]] * KILLS
    assert processes_naming(aftermath.store) == []


def test_what_was_recorded_is_a_prefix_of_the_history_without_gaps(aftermath):
    lengths = []
    for run in aftermath.runs:
        if run.history.is_dir():
            ops = list(read_history(run.history))
            assert [op.index for op in ops] == list(range(len(ops)))
            lengths.append(len(ops))
    assert max(lengths) > 100


def test_heal_says_what_it_did_and_a_second_time_there_is_nothing_to_heal(aftermath):
    told = {line.partition(":")[0] for line in aftermath.healed}
    assert told == {run.name for run in aftermath.runs}
    assert aftermath.healed_again == ["nothing to heal"]


def test_after_healing_every_run_is_interrupted_with_no_fault_open(aftermath):
    assert {run.status for run in aftermath.runs} <= {"interrupted", "judged"}
    assert [undo for run in aftermath.runs for undo in pending(run.journal)] == []


def test_a_reproduction_that_was_killed_is_healed_with_its_sides(tmp_path):
    command = begin("reproduce", "PV-01", "--store", tmp_path)
    wait_until(lambda: list(tmp_path.glob("*/bad-1/history/*.parquet")), "the bad side has recorded something")
    command.kill()
    command.wait()
    wait_until(lambda: not processes_naming(tmp_path), "nothing is left of it")
    (reproduction,) = runs(tmp_path)
    first, second = (splitbrain("heal", "--store", tmp_path) for _ in range(2))
    assert {line.partition(":")[0] for line in first.out.splitlines()} == {reproduction.name, "bad-1"}
    assert [run.status for run in (reproduction, *reproduction.sides())] == ["interrupted", "interrupted"]
    assert second.out == "nothing to heal\n"


@pytest.mark.spark
def test_a_killed_run_can_be_judged_and_is_never_valid(aftermath):
    longest = max(aftermath.runs, key=lambda run: len(list(run.history.glob("*.parquet"))))
    said = splitbrain("check", longest.path)
    assert said.code == EXIT_UNKNOWN, said
    assert "interrupted" in said.out
