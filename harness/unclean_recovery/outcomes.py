"""How it went, partition by partition, and what that means for the exit code.

A partition that is online already counts as a success: the proposal wants exit 0 only "if all elections for the input
set are successful", and wants the tool to be safe to repeat; a repeated run of a recovery that succeeded has nothing to
elect.

An election whose request got no answer is `unknown`, not failed: it may have taken effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from kio.schema.errors import ErrorCode

from harness.model.errors import EXIT_INVALID, EXIT_VALID


class Result(Enum):
    """How it ended for one partition."""

    ELECTED = "elected"
    CHOSEN = "chosen"
    """A leader was chosen, and nothing was changed."""
    ALREADY_ONLINE = "already online"
    NOT_NEEDED = "not needed"
    """The preferred replica leads already."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOT_DONE = "not done"
    """The tool was interrupted before."""


SUCCESSES = frozenset({Result.ELECTED, Result.CHOSEN, Result.ALREADY_ONLINE, Result.NOT_NEEDED})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended for one partition; leader is the replica that was elected, chosen or asked for, if known."""

    result: Result
    leader: int | None = None
    reason: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the partition is as it was meant to be."""
        return self.result in SUCCESSES


def named(code: ErrorCode, message: str | None = None) -> str:
    """An error as Kafka writes it, with the server's message."""
    return f"{code.name.upper()} ({message})" if message else code.name.upper()


def counts_of(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """The number of partitions by result, in the order of Result; results that did not occur are left out."""
    numbers = Counter(each.result for each in outcomes)
    return {result.value: numbers[result] for result in Result if numbers[result]}


def exit_code_of(outcomes: Iterable[Outcome], is_interrupted: bool) -> int:
    """0 if all succeeded and nothing interrupted the tool, else 1."""
    return EXIT_VALID if not is_interrupted and all(each.is_success for each in outcomes) else EXIT_INVALID
