"""One row of history: what a process asked of the system, and what came back.

Jepsen's vocabulary: an operation is an `invoke` followed by at most one completion, which is `ok` (it happened), `fail`
(it certainly did not) or `info` (nobody knows; it may take effect at any later time, or never). A process has at
most one operation open; after an `info` it never runs again and a new process takes its place. The nemesis writes
its deeds into the same history, as `info` rows of process NEMESIS.

    Op(type="invoke", f="write", key="k1", value=7, process=3)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

OpType = Literal["invoke", "ok", "fail", "info"]

NEMESIS: Final = -1
"""The process number of the nemesis."""


@dataclass(frozen=True, slots=True)
class Op:
    """An operation's start or end.

    value is any JSON value; what it means is the workload's to say (a write's value, what a read returned).
    index and time_ns are given by the recorder: the row's position, and nanoseconds since the run began.
    node is the node that was asked, error why the operation did not end in `ok`.
    """

    type: OpType
    f: str
    process: int = 0
    key: str | None = None
    value: Any = None
    node: int | None = None
    error: str | None = None
    index: int = -1
    time_ns: int = -1

    def ok(self, value: Any = None) -> Op:
        """The completion that says the operation took effect; value is what it returned."""
        return Op("ok", self.f, self.process, self.key, self.value if value is None else value, self.node)

    def fail(self, error: str) -> Op:
        """The completion that says the operation certainly did not take effect, because of error."""
        return Op("fail", self.f, self.process, self.key, self.value, self.node, error)

    def info(self, error: str) -> Op:
        """The completion that says nobody knows whether the operation took effect, because of error."""
        return Op("info", self.f, self.process, self.key, self.value, self.node, error)
