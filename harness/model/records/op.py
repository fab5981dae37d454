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
        """The same operation of a process, not recorded yet.

        A load makes each of its operations by this copy. It sets the fields themselves, which takes less than half the
        time of Op(...).
        """
        copy = object.__new__(Op)
        _set_type(copy, self.type)
        _set_f(copy, self.f)
        _set_process(copy, process)
        _set_key(copy, self.key)
        _set_value(copy, self.value)
        _set_node(copy, self.node)
        _set_error(copy, None)
        _set_index(copy, -1)
        _set_time_ns(copy, -1)
        return copy

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


_set_type, _set_f, _set_process, _set_key, _set_value, _set_node, _set_error, _set_index, _set_time_ns = (
    getattr(Op, name).__set__ for name in Op.__slots__
)
