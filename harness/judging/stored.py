"""Checks stored runs again and renders their reports; what the runs ran on is not needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness import plugins
from harness.chunks import chunk_files, finished_chunks
from harness.judging.spark import start_spark
from harness.model import BadInput
from harness.model.plurals import counted
from harness.model.systems import Report
from harness.planning.plan import Plan
from harness.recovery.heal import heal_before_judging
from results.run_verdict import RunVerdict, read_verdict
from results.store import RunDirectory
from results.tables import tables_of


def check_paths(paths: Sequence[Path], master: str | None, report: Report) -> Iterator[tuple[RunDirectory, RunVerdict]]:
    """Check each run or reproduction, all in one Spark session.

    Raises BadInput for a path that is neither, and for a run with a damaged file; both while Spark starts.
    """
    directories = [_run_directory(path) for path in paths]
    for directory in directories:
        for line in heal_before_judging(directory):
            report(line)
    report("reading the runs while Spark starts")
    histories = (table for each in directories for table in each.path.glob("**/history/*.parquet"))
    starting = start_spark(master, sum(table.stat().st_size for table in histories))
    for directory in directories:
        refuse_damaged(directory)
    report("waiting for Spark")
    spark = starting.result()
    from harness.judging.batches import directory_verdicts  # imported meanwhile, while Java started

    report(f"checking {counted(len(directories), 'run')}")
    verdicts: dict[Path, RunVerdict] = {}
    for directory, verdict in directory_verdicts(directories, spark, report, is_written=True):
        if not isinstance(verdict, RunVerdict):
            raise verdict
        verdicts[directory.path] = verdict
    for directory in directories:
        yield directory, verdicts[directory.path]


def rewrite_report(path: Path) -> Path:
    """Render a checked run's report; returns where it is."""
    from harness.judging.runs import write_reproduction_report, write_run_report

    directory = _run_directory(path)
    if not directory.verdict.exists():
        raise BadInput(f"{path}: expected a checked run; run splitbrain check {path}")
    for run in directory.own_runs():
        _require_history(run)
    if directory.kind == "reproduction":
        first = Plan.read(directory.own_runs()[0].plan)
        verdicts = {run.name: read_verdict(run.verdict) for run in directory.own_runs()}
        scenario = plugins.scenario(first.scenario or "")
        write_reproduction_report(directory, scenario, read_verdict(directory.verdict), verdicts)
    else:
        write_run_report(directory, read_verdict(directory.verdict))
    return directory.report


def refuse_damaged(directory: RunDirectory) -> None:
    """Raise BadInput for a run whose plan or tables cannot be read, and for a reproduction with one."""
    for run in directory.own_runs():
        Plan.read(run.plan)
        for folder, schema in tables_of(run):
            chunk_files(folder, schema)


def _require_history(run: RunDirectory) -> None:
    """Raise BadInput for a run whose recorded history is gone. A run that was interrupted early may have none."""
    if "recorded" in run.times and not finished_chunks(run.history):
        raise BadInput(f"{run.history}: expected the history of a recorded run, found no finished Parquet file")


def _run_directory(path: Path) -> RunDirectory:
    directory = RunDirectory(path.absolute())
    if not directory.status_file.exists():
        raise BadInput(f"{path}: expected a run directory, with a status.json in it")
    return directory
