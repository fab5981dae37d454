"""One row of the history: the invocation or the completion of an operation.

As in Jepsen, an operation is an `invoke` followed by at most one completion: `ok` (it took effect), `fail` (it did not)
or `info` (indeterminate: it may take effect at any later time, or never). A process has at most one open operation;
after an `info` it is replaced by a new process. Nemesis operations are in the same history, as rows of process NEMESIS.

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
    """An operation's invocation or completion.

    value is any JSON value; the workload defines its meaning, e.g. the value that a write writes or a read returns.
    index and time_ns are set by the recorder: the row's position, and nanoseconds since the run began. node is the node
    that received the request; error is why the operation did not complete as `ok`.
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

    def for_process(self, process: int) -> Op:
        """The same operation of a process, not recorded yet. A load makes each of its operations by this copy."""
        copy: Any = _Unfrozen()
        copy.type = self.type
        copy.f = self.f
        copy.process = process
        copy.key = self.key
        copy.value = self.value
        copy.node = self.node
        copy.error = None
        copy.index = copy.time_ns = -1
        copy.__class__ = Op
        frozen: Op = copy
        return frozen

    def at(self, index: int, time_ns: int) -> Op:
        """The operation as a row of a history, with its place and time there."""
        return Op(self.type, self.f, self.process, self.key, self.value, self.node, self.error, index, time_ns)

    def ok(self, value: Any = None) -> Op:
        """The completion of an operation that took effect; value is what it returned."""
        return Op("ok", self.f, self.process, self.key, self.value if value is None else value, self.node)

    def fail(self, error: str) -> Op:
        """The completion of an operation that did not take effect, with the reason."""
        return Op("fail", self.f, self.process, self.key, self.value, self.node, error)

    def info(self, error: str) -> Op:
        """The completion of an operation that may or may not have taken effect, with the reason."""
        return Op("info", self.f, self.process, self.key, self.value, self.node, error)


class _Unfrozen:
    """An Op whose fields can still be set. To fill it takes a fifth of the time of Op(...), which freezes it first."""

    __slots__ = Op.__slots__
