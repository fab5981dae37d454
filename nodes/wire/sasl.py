"""Authentication of a connection by SASL/PLAIN, as Kafka's clients do it (KIP-43, KIP-152).

    connection = WireConnection("10.0.0.1", 9093, "operator", Plain("alice", "secret"))

Contains the two requests, and what their refusal means. Does not contain encryption: with PLAIN the password is
readable on the network.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.model.session import NotSent
from nodes.wire import codec

MECHANISM: Final = "PLAIN"

Call = Callable[[int, Mapping[str, Any]], Awaitable[Any]]
"""Sends a request of an API with these values in the newest common version, and returns its response."""


class NotAuthenticated(NotSent):
    """The peer refuses the credentials or the mechanism. Another attempt with the same ones fails as well."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A user and a password."""

    user: str
    password: str = field(repr=False)

    async def authenticate(self, call: Call) -> None:
        """Authenticate a new connection. Raises NotAuthenticated, and what call raises."""
        handshake = await call(codec.SASL_HANDSHAKE, {"mechanism": MECHANISM})
        if handshake.error_code is not ErrorCode.none:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise NotAuthenticated(f"authenticating by {MECHANISM}: expected it to be enabled, found {offered}")
        token = f"\0{self.user}\0{self.password}".encode()
        answer = await call(codec.SASL_AUTHENTICATE, {"auth_bytes": token})
        if answer.error_code is not ErrorCode.none:
            reason = answer.error_message or answer.error_code.name.upper()
            raise NotAuthenticated(f"authenticating as {self.user} by {MECHANISM}: {reason}")
