"""One worker: takes operations one at a time and has its session carry them out.

A client worker opens a session when an operation needs one; when the outcome of an operation is unknown it lets the
session go, for its process is over. The nemesis is a worker whose session is given and kept.

What may live here: what happens between an invocation and its completion. What may not: which operation comes next,
process numbers and recording (interpreter.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from harness.model import Op
from harness.model.session import OpenSession, Session

CLOSE_TIMEOUT_S: Final = 5.0

Report = Callable[[int, Op], None]


@dataclass(slots=True)
class Worker:
    """number is the worker's; session is None until an operation needs one; inbox holds at most one operation."""

    number: int
    open_session: OpenSession | None
    op_timeout_s: float | None
    report: Report
    session: Session | None = None
    inbox: asyncio.Queue[Op] = field(default_factory=asyncio.Queue)

    async def run(self) -> None:
        """Carry out what comes in, until cancelled."""
        while True:
            completion = await self._carry_out(await self.inbox.get())
            self.report(self.number, completion)
            if completion.type == "info":
                await self._let_go()

    async def _carry_out(self, op: Op) -> Op:
        session = self.session
        if session is None:
            try:
                session = await self._open(op.process)
            # Whatever keeps a session from opening, nothing was sent, and that is a certain failure.
            except Exception as error:  # noqa: BLE001
                return op.fail(f"no session: {_describe(error)}")
        try:
            async with asyncio.timeout(self.op_timeout_s):
                return await session.invoke(op)
        # Whatever a session raises, its request may have left: nobody knows.
        except Exception as error:  # noqa: BLE001
            return op.info(_describe(error))

    async def _open(self, process: int) -> Session:
        assert self.open_session is not None, f"worker {self.number} has neither a session nor a way to open one"
        async with asyncio.timeout(self.op_timeout_s):
            self.session = await self.open_session(process)
        return self.session

    async def _let_go(self) -> None:
        if self.open_session is not None and self.session is not None:
            session, self.session = self.session, None
            await close_quietly(session)


async def close_quietly(session: Session) -> None:
    """Close a session that nobody will use again; how that goes changes no outcome."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await session.close()
    except Exception:  # noqa: BLE001, S110
        pass


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no completion in the time allowed"
    return f"{type(error).__name__}: {error}"
