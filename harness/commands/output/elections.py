"""What the tools for elections print.

Replicas and outcomes go to standard output, and one line for each failure to standard error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.commands.output.console import Output, print_error, print_json
from harness.commands.output.tables import print_table

if TYPE_CHECKING:
    from harness.unclean_recovery.outcomes import Outcome
    from harness.unclean_recovery.partitions import TopicPartition
    from harness.unclean_recovery.recover import ReplicaRow, Report

REPLICA_COLUMNS = ("topic", "partition", "broker", "epoch", "log end offset", "error", "chosen")
OUTCOME_COLUMNS = ("topic", "partition", "outcome", "leader", "reason")


def print_replicas(report: Report, output: Output) -> None:
    """A row for each replica; with --json an object."""
    if output.is_json:
        for row in report.replicas:
            print_json(_replica_json(row))
        return
    print_table(REPLICA_COLUMNS, [_replica_cells(row) for row in report.replicas])
    print()


def print_outcomes(report: Report, output: Output, lists_all: bool = True) -> None:
    """A row for each partition that succeeded, the failures, and the counts; lists_all: also those without a change."""
    from harness.unclean_recovery.outcomes import Result, counts_of

    unchanged = () if lists_all else (Result.ALREADY_ONLINE, Result.NOT_NEEDED)
    ordered = dict(sorted(report.outcomes.items()))
    counts = counts_of(ordered.values())
    if output.is_json:
        for partition, outcome in ordered.items():
            print_json(_outcome_json(partition, outcome))
        print_json({"kind": "summary", "counts": counts, "interrupted": report.is_interrupted})
    else:
        rows = [_outcome_cells(*each) for each in ordered.items() if _is_listed(each[1], unchanged)]
        if rows:
            print_table(OUTCOME_COLUMNS, rows)
            print()
        print(_summary(counts, report.is_interrupted), flush=True)
    for partition, outcome in ordered.items():
        if not outcome.is_success:
            print_error(f"{partition}: {_failure(outcome)}")


def _is_listed(outcome: Outcome, unchanged: tuple[Any, ...]) -> bool:
    return outcome.is_success and outcome.result not in unchanged


def _replica_cells(row: ReplicaRow) -> tuple[str, ...]:
    epoch, log_end = ("-", "-") if row.log.error else (_epoch(row), str(row.log.log_end_offset))
    partition, chosen = row.partition, "yes" if row.is_chosen else ""
    return partition.topic, str(partition.partition), str(row.broker), epoch, log_end, row.log.error, chosen


def _epoch(row: ReplicaRow) -> str:
    """The partition's epoch, and that of the last record where it is known and another one."""
    written = row.log.last_written_epoch
    return str(row.log.epoch) if written in (None, row.log.epoch) else f"{row.log.epoch} (last record {written})"


def _replica_json(row: ReplicaRow) -> dict[str, Any]:
    is_known = not row.log.error
    return {
        "kind": "replica",
        **_place(row.partition),
        "broker": row.broker,
        "epoch": row.log.epoch if is_known else None,
        "last_written_epoch": row.log.last_written_epoch,
        "log_end_offset": row.log.log_end_offset if is_known else None,
        "error": row.log.error or None,
        "chosen": row.is_chosen,
    }


def _outcome_cells(partition: TopicPartition, outcome: Outcome) -> tuple[str, ...]:
    leader = "-" if outcome.leader is None else str(outcome.leader)
    return partition.topic, str(partition.partition), outcome.result.value, leader, outcome.reason


def _outcome_json(partition: TopicPartition, outcome: Outcome) -> dict[str, Any]:
    values = {"outcome": outcome.result.value, "leader": outcome.leader, "reason": outcome.reason or None}
    return {"kind": "partition", **_place(partition), **values}


def _place(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def _failure(outcome: Outcome) -> str:
    leader = "" if outcome.leader is None else f", leader {outcome.leader}"
    return f"{outcome.result.value}{leader}: {outcome.reason}"


def _summary(counts: Mapping[str, int], is_interrupted: bool) -> str:
    """E.g. `2 elected, 1 already online`."""
    parts = ", ".join(f"{count:,} {result}" for result, count in counts.items())
    if is_interrupted:
        return f"interrupted; {parts or 'nothing was done'}"
    return parts or "no partition needs an election"
