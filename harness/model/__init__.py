"""Shared values and protocols that every other package imports.

Contains frozen dataclasses, enums, Protocols, tables of rules, and pure functions on them. Does not contain I/O,
clocks, randomness, sockets or Spark, and imports nothing of ours from outside this package.

    from harness.model import Op, Observation, Finding
"""

from harness.model.errors import BadInput, EnvironmentFailure, PeerFailure, SplitbrainError
from harness.model.records.finding import Finding, Quantity, Verdict
from harness.model.records.observation import Observation
from harness.model.records.op import NEMESIS, Op

__all__ = [
    "NEMESIS",
    "BadInput",
    "EnvironmentFailure",
    "Finding",
    "Observation",
    "Op",
    "PeerFailure",
    "Quantity",
    "SplitbrainError",
    "Verdict",
]
