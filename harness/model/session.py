"""How clients reach the system: a session turns operations into requests, a connection carries them.

The engine uses Session only. A workload implements it on top of Connection; nodes/wire implements Connection for
systems that speak Kafka's protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from harness.model.errors import PeerFailure
from harness.model.records.op import Op


class NotSent(PeerFailure):
    """The request was never sent, so it had no effect. The operation completes as `fail`."""


class NoAnswer(PeerFailure):
    """The request was sent and no answer arrived before the deadline, or the connection broke: `info`."""


class Connection(Protocol):
    """A connection to one node. It is opened on first use, and again after it breaks."""

    async def call(self, request: Any, timeout_ms: int) -> Any:
        """Send a request and return its response; both are kio entities in the highest version that both sides support.

        Raises NotSent if the node cannot be reached, NoAnswer if no response arrives within timeout_ms.
        """

    async def call_latest(self, api_key: int, values: Mapping[str, Any], timeout_ms: int) -> Any:
        """Like call, but builds the request from plain values, in the highest version that both sides support."""

    async def close(self) -> None:
        """Close the connection; a later call opens it again."""


class Session(Protocol):
    """A client process's session with the system."""

    async def invoke(self, op: Op) -> Op:
        """Execute an invocation and return its completion (op.ok(…), op.fail(…), op.info(…)).

        If it raises, the engine records `info`, closes the session and continues with a new process.
        """

    async def close(self) -> None:
        """Close connections."""


OpenSession = Callable[[int], Awaitable[Session]]
"""Opens the session of a process, by process number."""
