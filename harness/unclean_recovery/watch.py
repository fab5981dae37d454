"""What a tool reports while it works; the command shows it."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Receives how far a tool has come."""

    def stage(self, text: str, total: int) -> None:
        """A stage begins, in which so many things are to be done."""

    def done(self, count: int) -> None:
        """So many of them are done."""

    def note(self, text: str) -> None:
        """Something that an attentive operator wants to see, such as a request that failed and is repeated."""
