"""How many of the reference system's mutants `splitbrain explore` finds, after how long, and by which findings.

    .venv/bin/python benchmarks/detection.py [MUTANT …]            explore what has not been explored; write the page
    .venv/bin/python benchmarks/detection.py --seeds 3             three times each, with other seeds
    .venv/bin/python benchmarks/detection.py --before              the same with the schedules of `splitbrain run`
    .venv/bin/python benchmarks/detection.py --simulate            the same with `splitbrain simulate`, on one core
    .venv/bin/python benchmarks/detection.py --page                write docs/detection.md alone

Each mutant (nodes/reference/core/mutants.py) is explored until a run breaks a guarantee, or for a fixed time; nothing
tells the exploration which bug it is. Every outcome is stored in docs/detection.json as soon as it is known, so an
interrupted benchmark continues where it ended.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.running.run import plan_of
from harness.simulating.request import SimulationRequest
from harness.simulating.searching import available_actions, request_of_run, screen
from nodes.reference.core.mutants import MUTANTS

DOCS = Path(__file__).parents[1] / "docs"
STORED, PAGE = DOCS / "detection.json", DOCS / "detection.md"
SECONDS, SECONDS_BEFORE, SECONDS_SIMULATED = 300, 120, 60
FINDINGS_SHOWN = 3
NOT_IN_THE_FAULT_MODEL = {
    "checksums-not-verified": "needs a damaged disk, which a correct node may not survive either: not drawn",
    "torn-tail-kept": "needs a log cut inside a batch, which loses synced records: not drawn",
}
"""Why a mutant is not expected to be found."""
REASONS = {
    "pre-vote-without-fallback": (
        "the older voters need no fallback: one of them becomes Candidate and wins. It takes a quorum in "
        "which only nodes of the later release can win, and one of the older ones runs"
    ),
    "prospective-never-fetches": (
        "every response that names the leader, and the leader's own requests, return the node to it; so it "
        "makes a difference only while no node that it reaches knows a leader"
    ),
    "read-confirmed-by-one-follower": (
        "it takes five voters, a leader that is cut off with one of them, and a read there after a write "
        "to its successor, before the leader resigns after one and a half fetch timeouts"
    ),
    "own-vote-restored-before-leader": (
        "it takes a node that was a Candidate in the epoch of its leader, is removed, and restarts in the same epoch"
    ),
    "unattached-ends-at-leaders-response": (
        "it takes a node whose log is behind the record that made its leader a voter, and that restarts "
        "before it has fetched that"
    ),
}
"""Why a mutant was not found; shown while it is not."""
VOTER_CHANGES = {
    "kip-642": (
        "voters-change-when-committed",
        "voters-kept-after-truncation",
        "reassignment-acknowledged-early",
        "gossip-of-any-age",
        "election-before-discovery",
        "addresses-from-responses-alone",
        "configured-voters-not-written",
        "voters-of-snapshot-ignored",
    ),
    "kip-853": (
        "voters-below-former-end-ignored",
        "removed-voter-ends-leader",
        "own-vote-restored-before-leader",
        "unattached-ends-at-leaders-response",
        "voters-changed-before-own-record",
    ),
}
"""The mutants of voter changes, by reference.voter_changes: without it their branch is not reached."""

HEAD = """# Which planted bugs random exploration finds

The reference system has {mutants} named mutants, in [its core](../nodes/reference/core/mutants.py):
bugs of consensus protocols, each in one branch that is off by default. `make detection` explores each of them with
`splitbrain explore` for {seconds} s at most, without a hint about the bug; mutants of the ways in which voters change
on a quorum that changes them so (`reference.voter_changes`). It found {found} of the {tried} that it has explored.
*Before* are the schedules of `splitbrain run --workload register --faults partition,kill`, for {before} s.

Seconds include the start of Java and the checks, which may end a minute after the last run. Several runs take place at
a time, so seconds per run are fewer than a run lasts. *Simulated* are the runs that `splitbrain simulate` draws, until
one does not pass its screen, for {simulated} s of one core at most: how many runs that took, and why. It found
{simulated_found} of {simulated_tried}.

| mutant | what it does | found by | seconds | runs | before | simulated |
|---|---|---|---|---|---|---|
"""

Outcome = dict[str, Any]


def main() -> None:
    """Explore what is missing, and write the page."""
    arguments = parsed()
    stored: dict[str, list[Outcome]] = json.loads(STORED.read_text()) if STORED.exists() else {}
    if not arguments.page:
        for name, seed in missing(stored, arguments):
            outcome = SEARCHES[arguments.generator](name, seed)
            stored.setdefault(name, []).append(outcome)
            STORED.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")
            print(f"{name}: {in_words(outcome)}", flush=True)
    PAGE.write_text(page(stored))


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help="all by default")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds for each mutant, from 1 on")
    generators = parser.add_mutually_exclusive_group()
    for flag, generator, text in (
        ("--before", "run", "the schedules of `splitbrain run`"),
        ("--simulate", "simulate", "simulated runs"),
    ):
        generators.add_argument(flag, dest="generator", action="store_const", const=generator, help=f"use {text}")
    parser.set_defaults(generator="explore")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.mutants if name not in MUTANTS]
    if unknown:
        parser.error(f"expected mutants of nodes/reference/core/mutants.py, found {', '.join(unknown)}")
    return arguments


def missing(stored: dict[str, list[Outcome]], arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """The mutants and seeds without an outcome, one seed after another."""
    generator = arguments.generator
    for seed in range(1, arguments.seeds + 1):
        for name in arguments.mutants or MUTANTS:
            known = {(each["generator"], each["seed"]) for each in stored.get(name, [])}
            if (generator, seed) not in known and name not in NOT_IN_THE_FAULT_MODEL:
                yield name, seed


def explored(mutant: str, seed: int) -> Outcome:
    """The outcome of `splitbrain explore`."""
    with TemporaryDirectory(prefix="splitbrain-detection-") as store:
        flags = ["--time-limit", str(SECONDS), "--seed", str(seed)]
        return {"generator": "explore", "seed": seed, **watched(command("explore", mutant, store, *flags))}


def searched_before(mutant: str, seed: int) -> Outcome:
    """The outcome of runs of a minute with the faults and the load that the first measurements had."""
    began, runs, outcome = time.monotonic(), 0, {"findings": []}
    with TemporaryDirectory(prefix="splitbrain-detection-") as store:
        while not outcome["findings"] and time.monotonic() - began < SECONDS_BEFORE:
            flags = ["--workload", "register", "--faults", "partition,kill", "--seed", str(seed + 1000 * runs)]
            outcome = watched(command("run", mutant, store, *flags))
            runs += 1
    seconds = round(time.monotonic() - began, 1)
    return {"generator": "run", "seed": seed, **outcome, "seconds": seconds, "runs": runs}


def simulated(mutant: str, seed: int) -> Outcome:
    """The outcome of simulated runs: the reason of the first that does not pass the screen."""
    request = SimulationRequest(seed=seed, switch=switches(mutant))
    available = available_actions(request)
    screen(plan_of(request_of_run(request, 0, available), {}))  # the first run also loads modules
    began, runs, findings = time.process_time(), 0, []
    while not findings and time.process_time() - began < SECONDS_SIMULATED:
        each = screen(plan_of(request_of_run(request, 1_000_000 * seed + runs, available), {}))
        runs += 1
        findings = [each.reason] if each.reason else []
    seconds = round(time.process_time() - began, 1)
    return {"generator": "simulate", "seed": seed, "findings": findings, "seconds": seconds, "runs": runs} | {
        "commit": commit()
    }


SEARCHES = {"explore": explored, "run": searched_before, "simulate": simulated}


def command(verb: str, mutant: str, store: str, *flags: str) -> list[str]:
    """A command of splitbrain on the reference system with a mutant."""
    splitbrain = [str(Path(sys.executable).with_name("splitbrain")), verb, "--json", "--quiet", "--store", store]
    given = (part for name, value in switches(mutant).items() for part in ("--switch", f"{name}={value}"))
    return [*splitbrain, *given, *flags]


def switches(mutant: str) -> dict[str, str]:
    """The switches of a mutant's system."""
    way = next((way for way, mutants in VOTER_CHANGES.items() if mutant in mutants), None)
    return {"reference.mutant": mutant, **({} if way is None else {"reference.voter_changes": way})}


def watched(argv: Sequence[str]) -> Outcome:
    """What a command's verdicts say: the findings of the first that is invalid, after how long, and in which run."""
    began, runs, findings = time.monotonic(), 0, []
    found_after: float | None = None
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            verdict = parsed_line(argv, line)
            if "verdict" not in verdict or found_after is not None:
                continue
            runs += 1
            if verdict["verdict"] == "invalid":
                found_after = time.monotonic() - began
                invalid = (each["name"] for each in verdict["findings"] if each["severity"] == "invalid")
                findings = list(dict.fromkeys(invalid))
    if process.returncode not in (0, 1, 2):
        raise SystemExit(f"{shlex.join(argv)}: exit {process.returncode}")
    seconds = time.monotonic() - began if found_after is None else found_after
    return {"findings": findings, "seconds": round(seconds, 1), "runs": runs, "commit": commit()}


def parsed_line(argv: Sequence[str], line: str) -> dict[str, Any]:
    """A verdict, or the tally at the end. Ends the benchmark for anything else."""
    try:
        content: dict[str, Any] = json.loads(line)
    except ValueError:
        raise SystemExit(f"{shlex.join(argv)}: expected a line of JSON, found {line!r}") from None
    return content


def commit() -> str:
    """The commit of the sources."""
    return subprocess.check_output(["git", "rev-parse", "--short=10", "HEAD"], cwd=DOCS, text=True).strip()


def in_words(outcome: Outcome) -> str:
    """One outcome."""
    if not outcome["findings"]:
        return f"not found in {outcome['seconds']:.0f} s, {outcome['runs']} runs"
    return f"{', '.join(outcome['findings'][:FINDINGS_SHOWN])} after {outcome['seconds']:.0f} s, {outcome['runs']} runs"


def page(stored: dict[str, list[Outcome]]) -> str:
    """docs/detection.md."""
    rows = [row(name, stored.get(name, [])) for name in MUTANTS]
    tried = [name for name in MUTANTS if of(stored.get(name, []), "explore")]
    found = [name for name in tried if any(each["findings"] for each in of(stored[name], "explore"))]
    simulations = [outcomes for name in MUTANTS if (outcomes := of(stored.get(name, []), "simulate"))]
    text = HEAD.format(
        mutants=len(MUTANTS),
        seconds=SECONDS,
        found=len(found),
        tried=len(tried),
        before=SECONDS_BEFORE,
        simulated=SECONDS_SIMULATED,
        simulated_found=sum(any(each["findings"] for each in outcomes) for outcomes in simulations),
        simulated_tried=len(simulations),
    )
    return text + "".join(f"{each}\n" for each in rows)


def of(outcomes: Sequence[Outcome], generator: str) -> list[Outcome]:
    """The outcomes of one generator."""
    return [each for each in outcomes if each["generator"] == generator]


def row(name: str, outcomes: Sequence[Outcome]) -> str:
    """One mutant: what found it in most seeds, and the medians where it was found."""
    cells = [f"`{name}`", MUTANTS[name].effect, *searched(name, of(outcomes, "explore"))]  # type: ignore[index]
    cells += [before(of(outcomes, "run")), in_simulation(of(outcomes, "simulate"))]
    return f"| {' | '.join(cells)} |"


def searched(name: str, outcomes: Sequence[Outcome]) -> tuple[str, str, str]:
    """Found by which findings, after how many seconds and runs."""
    if not outcomes:
        return NOT_IN_THE_FAULT_MODEL.get(name, "not explored yet"), "", ""
    found = [each for each in outcomes if each["findings"]]
    share = f" ({len(found)} of {len(outcomes)} seeds)" if len(outcomes) > 1 else ""
    if not found:
        reason = f": {REASONS[name]}" if name in REASONS else ""
        return f"**not found**{share}{reason}", median(outcomes, "seconds"), median(outcomes, "runs")
    names = ", ".join(f"`{each}`" for each in found[0]["findings"][:FINDINGS_SHOWN])
    return names + share, median(found, "seconds"), median(found, "runs")


def median(outcomes: Sequence[Outcome], field: str) -> str:
    """The median of a field."""
    return f"{statistics.median(each[field] for each in outcomes):.0f}"


def before(outcomes: Sequence[Outcome]) -> str:
    """Whether the earlier schedules found it."""
    if not outcomes:
        return ""
    return "found" if any(each["findings"] for each in outcomes) else "not found"


def in_simulation(outcomes: Sequence[Outcome]) -> str:
    """After how many simulated runs, the median, and why a run did not pass."""
    found = [each for each in outcomes if each["findings"]]
    if not found:
        return f"not in {median(outcomes, 'runs')} runs" if outcomes else ""
    return f"{median(found, 'runs')}: `{found[0]['findings'][0]}`"


if __name__ == "__main__":
    main()
