"""The answer to a request that changes voters, where a story expects a refusal, or none after the change is appended.

    found, message = await answer_after(request, appended)     # ("no answer", None)
    compared = compared_answer(expected, found)                # holds, or a finding of the check `responses`

Contains what the two voter faults, membership and reassignment, share. Each knows by itself what "appended" is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from harness.model import PeerFailure
from harness.model.expected import Compared
from harness.model.faults.membership import Refused
from harness.model.session import NoAnswer

POLL_SECONDS = 0.25
APPEND_SECONDS = 10.0
"""How long a leader may take to append a change that it cannot commit."""
ANSWER_SECONDS = 0.5
"""How long a leader that has appended a change must not answer, where no answer is expected."""
ACCEPTED = "accepted"
NO_ANSWER = "no answer"

Answer = tuple[str, str | None]
"""ACCEPTED, NO_ANSWER or the name of an error, and the error's message."""

Appended = Callable[[], Awaitable[str | None]]
"""Looks at the leader: None once the change is appended, else what it has instead."""


async def answer_to(request: Awaitable[None]) -> Answer:
    """The error with which a request is refused, or that it is accepted. Raises PeerFailure without an answer."""
    try:
        await request
    except Refused as refusal:
        return refusal.error, str(refusal)
    return ACCEPTED, None


async def answer_after(request: Coroutine[Any, Any, None], what: str, appended: Appended) -> Answer:
    """Send a request; returns the answer that came before the change was appended or shortly after.

    Raises PeerFailure if the leader neither appends nor answers in time; what is the request in its message.
    """
    answer = asyncio.create_task(answer_to(request))
    try:
        await _until_appended(answer, what, appended)
        await asyncio.wait({answer}, timeout=ANSWER_SECONDS)
        return answer.result() if answer.done() else (NO_ANSWER, None)
    except NoAnswer as failure:
        return NO_ANSWER, str(failure)
    finally:
        answer.cancel()
        await asyncio.wait({answer})  # the request may note that it has no answer


def compared_answer(refused: str | None, found: str) -> list[dict[str, Any]]:
    """The answer beside the expected one, a refusal or none, as a completed action records it."""
    expected = refused or NO_ANSWER
    return [Compared("answer", expected, found, found == expected).to_json()]


async def _until_appended(answer: asyncio.Task[Answer], what: str, appended: Appended) -> None:
    deadline = asyncio.get_running_loop().time() + APPEND_SECONDS
    while not answer.done():
        found = await appended()
        if found is None:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise PeerFailure(f"{what}: not appended after {APPEND_SECONDS:g} s: {found}")
        await asyncio.sleep(POLL_SECONDS)
