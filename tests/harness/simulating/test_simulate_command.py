"""`splitbrain simulate` and `--hosts simulation`: random runs, scenarios, stored runs, refusals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE

import pytest

from harness.commands.main import INTERRUPTED
from harness.judging.spark import SparkLater
from harness.model import Verdict
from harness.model.errors import EXIT_INVALID, EXIT_USAGE, EXIT_VALID
from harness.planning.plan import Plan
from harness.simulating import searching
from harness.simulating import simulate as simulating
from harness.simulating.pool import processes
from harness.simulating.request import SimulationRequest
from harness.simulating.searching import available_actions, request_of_run, screen, screen_all, search
from results.run_verdict import RunVerdict, read_verdict
from results.store import RunDirectory, runs
from tests.support.command import COMMAND, environment, json_lines, splitbrain, splitbrain_here

PLANTED = "reference.mutant=rejected-vote-counted"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_planted_bug_is_found_stored_and_found_again_in_the_stored_run(tmp_path: Path) -> None:
    flags = ["--seeds", "50", "--seed", "1", "--switch", PLANTED, "--store", tmp_path, "--format", "json"]
    result = splitbrain_here("simulate", *flags)
    assert result.code == EXIT_INVALID, result
    verdict, tally = json_lines(result)
    assert "election-safety" in {each["name"] for each in verdict["findings"]}
    (reason,) = tally["reasons"]
    assert reason == "election-safety"
    (name,) = [run.name for run in runs(tmp_path)]
    run = RunDirectory(tmp_path / name)
    plan = Plan.read(run.plan)
    assert plan.hosts == "simulation"
    assert plan.switches["reference.mutant"] == "rejected-vote-counted"
    assert run.report.exists()
    again = splitbrain_here("replay", name, "--store", tmp_path, "--format", "json")
    assert again.code == EXIT_INVALID, again
    assert json_lines(again)[0]["differences"] == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_scenario_has_the_same_verdict_as_on_real_nodes(tmp_path: Path) -> None:
    result = splitbrain_here("simulate", "PV-01", "--store", tmp_path, "--seed", "1")
    assert result.code == EXIT_VALID, result
    assert "Reproduced: the bad side shows the anomaly; the good side does not." in result.out
    assert "Reproduce with: splitbrain reproduce PV-01 --hosts simulation" in result.out


@pytest.mark.parametrize(
    ("system", "other", "message"),
    [
        ("reference", "kafka:4.3.1", " kafka:4.3.1: expected --system kafka, found reference"),
        (
            "kafka:4.3.1",
            "reference",
            " reference: expected kafka:VERSION, another release than that of --system kafka:4.3.1",
        ),
        ("kafka:4.3.1", "kafka", " kafka: expected kafka:VERSION, another release than that of --system kafka:4.3.1"),
        ("kafka:4.3.1", "kafka:4.3.1", " kafka:4.3.1: expected kafka:VERSION, another release than that of --system"),
        ("kafka:4.3.1", "cassandra", ": expected kafka, reference, kafka:VERSION or MODULE:NAME, found"),
    ],
)
@pytest.mark.parametrize("option", ["--beside", "--upgrade-to"])
def test_release_that_cannot_be_in_the_same_run_is_refused(system: str, other: str, message: str, option: str) -> None:
    result = splitbrain("simulate", "--system", system, option, other, "--timed")
    assert (result.code, result.out) == (EXIT_USAGE, "")
    (line,) = result.messages
    assert f"{option}{message}" in line


@pytest.mark.parametrize("flags", [["--beside", "kafka:3.9.1"], ["--timed"], ["--run-seconds", "5"]])
def test_option_of_random_runs_is_refused_for_scenarios(flags: list[str]) -> None:
    result = splitbrain("simulate", "PV-01", "--system", "kafka:4.3.1", *flags)
    assert (result.code, result.out) == (EXIT_USAGE, "")
    assert result.messages == [f"splitbrain: {flags[0]}: expected random runs, found scenarios"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_sample_of_the_runs_that_pass_is_checked_too(tmp_path: Path) -> None:
    flags = ["--seeds", "4", "--seed", "1", "--sample", "1", "--at-once", "1", "--store", tmp_path]
    result = splitbrain_here("simulate", *flags)
    assert result.code == EXIT_VALID, result
    assert re.search(r"\n4 runs of \d+\.\d virtual seconds, [\d,]+ a minute\n4 runs passed, 0 did not\.", result.out)
    verdicts = [read_verdict(RunDirectory(tmp_path / run.name).verdict) for run in runs(tmp_path)]
    assert [verdict.verdict.value for verdict in verdicts] == ["valid"] * 4
    assert all("invariants" in verdict.checks for verdict in verdicts)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_search_goes_on_after_a_node_that_polls_without_a_wait(tmp_path: Path) -> None:
    """The first run has such an observer, and no more; the fourth shows EX-02."""
    flags = ["--system", "kafka:4.3.1", "--timed", "--seeds", "25", "--seed", "1", "--at-once", "1"]
    result = splitbrain_here("simulate", *flags, "--store", tmp_path, "--json")
    assert result.code == EXIT_INVALID, result
    tally = json_lines(result)[-1]
    assert tally["reasons"]["no-spin"]["first_seed"] == 1
    assert tally["reasons"]["voter-set-matches-log"]["first_seed"] == 4


def test_search_ends_with_its_time_limit(tmp_path: Path) -> None:
    flags = ["--seeds", "100000000", "--time-limit", "3", "--at-once", "1", "--store", tmp_path]
    result = splitbrain("simulate", *flags, timeout_seconds=120)
    assert result.code == EXIT_VALID, result
    assert re.search(r"\n\d+ runs? passed, 0 did not\.\n", f"\n{result.out}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_interrupted_search_prints_what_it_has(number: signal.Signals, tmp_path: Path) -> None:
    flags = ["--seeds", "100000000", "--at-once", "1", "--store", str(tmp_path), "--json"]
    argv = [COMMAND, "simulate", *flags]
    with subprocess.Popen(argv, stdout=PIPE, stderr=PIPE, text=True, env=environment()) as command:
        assert command.stderr is not None
        progress = next(line for line in command.stderr if re.search(r"[1-9]\d* runs of", line))
        command.send_signal(number)
        out, messages = command.communicate(timeout=60)
    assert "a minute" in progress
    assert command.returncode == INTERRUPTED, messages
    assert json.loads(out)["runs"] > 0
    assert "resource_tracker" not in messages


@pytest.mark.parametrize(
    ("keep_going", "outcome", "together"),
    [(True, Verdict.INVALID, [2, 1]), (False, Verdict.VALID, [1, 1, 1]), (False, Verdict.INVALID, [1])],
    ids=["all", "until one fails", "the first fails"],
)
def test_stored_runs_are_checked_together_if_the_search_keeps_going(
    keep_going: bool, outcome: Verdict, together: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of five runs do not pass, and are stored. Without keep_going, each may be the last."""
    checked: list[list[str]] = []

    def verdicts(directories: list[RunDirectory], *_: object, **__: object) -> Iterator[object]:
        checked.append([directory.status for directory in directories])
        for directory in directories:
            yield directory, RunVerdict(directory.name, outcome, "judged by this test")

    monkeypatch.setattr(simulating, "directory_verdicts", verdicts)
    monkeypatch.setattr(simulating, "CHECKED_TOGETHER", 2)
    monkeypatch.setattr(SparkLater, "session", lambda _self: None)
    planted = dict([PLANTED.split("=")])
    request = SimulationRequest(seeds=5, seed=1, at_once=1, timed=True, keep_going=keep_going, switches=planted)
    search = simulating.Search(request, tmp_path, None, lambda _event: None)
    assert [directory.status for directory, _ in search.runs()] == ["recorded"] * sum(together)
    assert checked == [["recorded"] * each for each in together]
    assert list(search.unchecked) == []


@pytest.mark.parametrize(("timed", "sizes"), [(False, [1] * 30), (True, [25, 5])], ids=["untimed", "timed"])
def test_search_reports_each_run_as_it_ends_unless_runs_are_timed(
    timed: bool, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So Ctrl-C and --time-limit wait for one run; timed runs take a moment, and go to a driver together."""
    batches: list[int] = []
    monkeypatch.setattr(searching, "screen_all", lambda _request, seeds, _available: batches.append(len(seeds)) or [])
    with ThreadPoolExecutor(1) as pool:
        assert list(search(SimulationRequest(seeds=30, seed=1, at_once=1, timed=timed), (), pool)) == []
    assert batches == sizes


def test_search_simulates_each_seed_once_whatever_the_number_of_processes() -> None:
    request = SimulationRequest(seeds=6, seed=11, at_once=2)
    available = available_actions(request)
    with processes(2) as pool:
        found = {each.seed: each.digest for each in search(request, available, pool)}
    assert sorted(found) == list(range(11, 17))
    plan = _plan(request, 13)
    assert screen(plan).digest == found[13]


@pytest.mark.parametrize(
    ("mutant", "changes", "expected"),
    [
        ("gossip-of-any-age", "kip-642", "address-known"),
        ("addresses-from-responses-alone", "kip-642", "address-known"),
        ("election-before-discovery", "kip-642", "election-after-discovery"),
        ("configured-voters-not-written", "kip-642", "voters-in-log"),
        ("voters-below-former-end-ignored", "kip-853", "voters-of-log"),
        (None, "kip-642", None),
        (None, "kip-853", None),
    ],
)
def test_random_runs_find_bugs_of_changing_voters(mutant: str | None, changes: str, expected: str | None) -> None:
    switches = {"reference.voter_changes": changes, **({"reference.mutant": mutant} if mutant else {})}
    request = SimulationRequest(switches=switches)
    available = available_actions(request)
    runs_at_most = 30 if mutant else 12
    reasons = (each.reason for seed in range(1, runs_at_most + 1) for each in screen_all(request, [seed], available))
    assert next(filter(None, reasons), None) == expected


def _plan(request: SimulationRequest, seed: int) -> Plan:
    from harness.running.run import plan_of

    return plan_of(request_of_run(request, seed, available_actions(request)), {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--seeds", "0"], "--seeds: expected 1 or more, found 0"),
        (["simulate", "--system", "nothing"], "--system: expected"),
        (["simulate", "--switch", "reference.no=1"], "reference.no"),
        (["simulate", "PV-99"], "PV-99"),
        (["run", "--timed"], "--timed: expected --hosts simulation, found netns"),
        (
            ["run", "--timed", "--hosts", "simulation", "--workload", "set"],
            "--timed: expected --workload register, found set",
        ),
        (
            ["run", "--timed", "--hosts", "simulation", "--workload", "register", "--faults", "kill"],
            "story: 0: await: a timed run has no such step",
        ),
        (["run", "--hosts", "simulation", "--layout", "combined", "--workload", "log"], "brokers are not simulated"),
        (["reproduce", "EX-01", "--hosts", "simulation"], "simulated nodes have true clocks"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = splitbrain(*arguments, "--store", tmp_path, timeout_seconds=60)
    assert result.code == EXIT_USAGE, result
    assert message in result.messages[-1]


def test_request_in_json_is_complete() -> None:
    fields = json.loads(SimulationRequest().model_dump_json())
    assert {"seeds", "seed", "run_seconds", "keep_going", "sample"} <= set(fields)
