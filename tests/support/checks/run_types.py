"""The rows of a run that a test makes up, and the types of the fixtures in conftest.py, for signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from checkers.framework import contract
from checkers.run_checks import CheckResults
from harness.model import Finding, Observation, Op
from harness.model.faults.rpc import RpcRow
from harness.model.measures import Measure
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.logged_record import LoggedRecord


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of a run."""

    ops: Sequence[Op]
    observations: Sequence[Observation] = ()
    batches: Sequence[LoggedBatch] = ()
    records: Sequence[LoggedRecord] = ()
    rpcs: Sequence[RpcRow] = ()
    measures: tuple[Measure, ...] = ()


WriteRun = Callable[..., Path]
JudgeRun = Callable[..., CheckResults]
FindInRun = Callable[..., list[Finding]]
OpenRuns = Callable[[Sequence[Tables]], contract.Tables]
FindInRuns = Callable[..., dict[str, list[Finding]]]
