"""The table at the end of `splitbrain reproduce`: what several runs left in the logs of users' partitions.

    run         switches            rounds  logs                                    outcome
    LD-02 bad   truncation=kip-101  1       n3 t-0: epoch 1: 0-20, epoch 3: 21-30   diverged-logs
                                            n4 t-0: epoch 1: 0-10, epoch 2: 11-20, …
    LD-02 good  truncation=kip-279  1       n3 t-0: epoch 1: 0-20, epoch 3: 21-30   valid

Everything in it was measured: logs are the batches that were on disk at the end, rounds the answers that a follower
needed until it knew where to truncate (checkers.kafka_log.replication), the outcome the findings of the checks.

Contains the rows and their text. Does not contain how runs are carried out or judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Final

from harness.chunks import read_table
from harness.model.records.tables import BATCHES
from results.run_verdict import RunVerdict
from results.store import RunDirectory
from results.text_tables import text_table

ROUNDS: Final = "truncation_rounds_max"
INTERNAL: Final = "__"
"""The prefix of topics that no user has made."""


@dataclass(frozen=True, slots=True)
class EpochRange:
    """Offsets of one epoch, without a gap, from the first to the last, both included."""

    epoch: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}: {self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run, by what it is called. switches are those in which the compared runs differ; logs are by node and
    partition; rounds is None if no follower asked."""

    run: str
    switches: Mapping[str, str]
    logs: Mapping[str, tuple[EpochRange, ...]]
    rounds: int | None
    outcome: str

    def to_json(self) -> dict[str, Any]:
        """The row as JSON."""
        return asdict(self)


Judged = tuple[str, Mapping[str, str], RunDirectory, RunVerdict]
"""What a run is called, its switches, its directory and its verdict."""


def compared(runs: Sequence[Judged]) -> list[ComparedRun]:
    """A row for each run that has a log of a user's partition; none unless there are two."""
    rows = [
        ComparedRun(called, switches, logs, _rounds(verdict), _outcome(verdict))
        for called, switches, run, verdict in runs
        if (logs := logs_of(run))
    ]
    given = [row.switches for row in rows]
    differing = {name for each in given for name in each if len({other.get(name) for other in given}) > 1}
    return [replace(row, switches=_only(row.switches, differing)) for row in rows] if len(rows) > 1 else []


def _only(switches: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in switches.items() if name in names}


def logs_of(run: RunDirectory) -> dict[str, tuple[EpochRange, ...]]:
    """By node and partition, e.g. `n3 t-0`: what each log of a user's partition has, in the order of the log."""
    batches = read_table(run.batches, BATCHES).to_pylist()
    logs: defaultdict[str, list[EpochRange]] = defaultdict(list)
    for each in batches:
        if not each["topic"].startswith(INTERNAL):
            name = f"n{each['node']} {each['topic']}-{each['partition']}"
            logs[name].append(EpochRange(each["leader_epoch"], each["base_offset"], each["last_offset"]))
    return {name: tuple(merged(logs[name])) for name in sorted(logs)}


def merged(ranges: Sequence[EpochRange]) -> list[EpochRange]:
    """Adjacent ranges of one epoch as one; what follows a gap is a range of its own."""
    joined: list[EpochRange] = []
    for epoch, group in groupby(ranges, key=lambda each: each.epoch):
        for each in group:
            if joined and joined[-1].epoch == epoch and joined[-1].last + 1 == each.first:
                joined[-1] = EpochRange(epoch, joined[-1].first, each.last)
            else:
                joined.append(each)
    return joined


def comparison_table(rows: Sequence[ComparedRun]) -> str:
    """The table as text."""
    return text_table(("run", "switches", "rounds", "logs", "outcome"), map(_cells, rows))


def _cells(row: ComparedRun) -> tuple[str, ...]:
    switches = "\n".join(f"{name.removeprefix('reference.')}={value}" for name, value in row.switches.items())
    logs = "\n".join(f"{name}: {', '.join(map(str, ranges))}" for name, ranges in row.logs.items())
    return row.run, switches, "" if row.rounds is None else str(row.rounds), logs, row.outcome


def _rounds(verdict: RunVerdict) -> int | None:
    return next((round(each.value) for each in verdict.quantities if each.name == ROUNDS), None)


def _outcome(verdict: RunVerdict) -> str:
    """The names of the findings that made the verdict, or the verdict itself."""
    names = dict.fromkeys(each.name for each in verdict.findings if each.severity == verdict.verdict.value)
    return ", ".join(names) or verdict.verdict.value
