"""How a workload reaches the system: a connection carries requests, a session turns ops into them.

The engine knows only Session; a workload writes one on top of Connection; nodes/wire implements Connection for every
system that speaks Kafka's protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from harness.model.errors import PeerFailure
from harness.model.records.op import Op


class NotSent(PeerFailure):
    """The request never left: nothing can have happened. An op that ends so has failed."""


class NoAnswer(PeerFailure):
    """The request left and no answer came: a deadline passed or the connection broke. An op that ends so is info."""


class Connection(Protocol):
    """One connection to one node, opened when first needed and opened again after it broke."""

    async def call(self, request: Any, timeout_ms: int) -> Any:
        """Send one request and return its response (both kio entities, the highest version both sides know).

        Raises NotSent where the node cannot be reached, NoAnswer where the answer does not come in timeout_ms.
        """

    async def call_latest(self, api_key: int, values: Mapping[str, Any], timeout_ms: int) -> Any:
        """As call, with the request filled from plain values in the newest version that both sides know."""

    async def close(self) -> None:
        """Close the connection; a later call opens it again."""


class Session(Protocol):
    """One process's view of the system."""

    async def invoke(self, op: Op) -> Op:
        """Carry out an invocation and return its completion (op.ok(…), op.fail(…), op.info(…)).

        A session that raises is taken for info: the engine closes it and gives its worker a new process.
        """

    async def close(self) -> None:
        """Let go of connections."""


OpenSession = Callable[[int], Awaitable[Session]]
"""Opens the session of a process, given its number."""
