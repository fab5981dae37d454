"""A worker: invokes one operation at a time on its session.

A client worker opens a session when an operation needs one, and closes it after an operation with an unknown outcome,
because its process has crashed. The nemesis worker is given a session and keeps it.

Contains what happens between an invocation and its completion. Does not contain the choice of operations, process
numbers or recording (interpreter.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from harness.model import Op
from harness.model.session import OpenSession, Session

CLOSE_TIMEOUT_S: Final = 5.0

IN_A_ROW: Final = 8
"""The number of operations after which a worker lets others run, even if its session never awaits anything."""

Report = Callable[[int, Op], Op | None]
"""Takes a worker's number and a completion; returns an operation that the worker has to invoke next."""


class _NoSessionError(Exception):
    """A session could not be opened; the text is why."""


@dataclass(slots=True)
class Worker:
    """number is the worker's number; session is None until an operation needs it.

    inbox is the next operation, unless report has returned one. limited limits the time for opening a session, and for
    an operation.
    """

    number: int
    open_session: OpenSession | None
    limited: AbstractContextManager[None]
    report: Report
    session: Session | None = None
    inbox: asyncio.Future[Op] = field(default_factory=asyncio.Future)

    async def run(self) -> None:
        """Invoke the operations from the inbox, and those that follow on them, until cancelled."""
        op: Op | None = None
        in_a_row = 0
        while True:
            if op is None:
                if not self.inbox.done():  # others run while it waits
                    in_a_row = 0
                op = await self.inbox
                self.inbox = asyncio.Future()
            if in_a_row == IN_A_ROW:
                await asyncio.sleep(0)
                in_a_row = 0
            in_a_row += 1
            try:
                session = await self._open(op.process) if self.session is None else self.session
                with self.limited:
                    completion = await session.invoke(op)
            # Nothing was sent, so the operation certainly failed.
            except _NoSessionError as error:
                completion = op.fail(f"no session: {error}")
            # The request may have been sent before the error, so the outcome is unknown.
            except Exception as error:  # noqa: BLE001
                completion = op.info(_describe(error))
            op = self.report(self.number, completion)
            if completion.type == "info":
                await self._close_session()

    async def _open(self, process: int) -> Session:
        assert self.open_session is not None, f"worker {self.number} has neither a session nor a way to open one"
        try:
            with self.limited:
                self.session = await self.open_session(process)
        except Exception as error:
            raise _NoSessionError(_describe(error)) from error
        return self.session

    async def _close_session(self) -> None:
        if self.open_session is not None and self.session is not None:
            session, self.session = self.session, None
            await close_ignoring_errors(session)


async def close_ignoring_errors(session: Session) -> None:
    """Close a session that is no longer used; errors change no outcome."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await session.close()
    except Exception:  # noqa: BLE001, S110
        pass


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no completion within the op timeout"
    return f"{type(error).__name__}: {error}"
