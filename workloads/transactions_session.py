"""One process's transactions: a producer, a consumer that reads what is committed, and what is known of how they end.

A transaction is `ok` when its commit was confirmed, and `fail` when its abort was: then it leaves nothing. Where
neither is known it is `info`; an error of EndTxn itself is, for the broker may have begun to end it.

At ["fence"] a newer producer with the same transactional.id is made known to the brokers, which abort what is open, and
the older one goes on all the same: a zombie. That its end was asked for after the newer one was known makes a refusal
of it certain (KIP-98), so that such a transaction has failed; the process's next one is the newer producer's.

What may live here: the course of a transaction. What may not: how a client does it (transactions_producer.py and
transactions_bumping.py), or which operations there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from harness.model import Op, PeerFailure
from workloads.log_session import LogSession


class Refused(PeerFailure):
    """The transaction cannot be committed: aborting it, or having been shut out, leaves nothing of it."""


class Fenced(PeerFailure):
    """A newer producer has this one's place; an end that was asked for before may have taken effect nevertheless."""


class Producing(Protocol):
    """A transactional producer; whatever it raises but Refused leaves open what happened."""

    async def send(self, key: str, value: int) -> int:
        """Send a record in the transaction, which the first one begins; returns its offset."""

    async def end(self, commit: bool) -> None:
        """Commit or abort the transaction, if one has begun."""

    async def close(self) -> None:
        """Let go of connections; an open transaction is left to the broker's timeout."""


Succeed = Callable[[], Awaitable[Producing]]
"""Makes a newer producer of the same transactional.id known to the brokers. Raises PeerFailure."""

UntilStable = Callable[[str], Awaitable[None]]
"""Waits until no open transaction keeps anything of a key back; raises NoAnswer where one stays."""


class TransactionSession:
    """harness.model.session.Session. A poll goes on for so long, or until what its own transaction sent shows."""

    def __init__(
        self,
        producer: Producing,
        reader: LogSession,
        until_stable: UntilStable,
        patience_seconds: float,
        succeed: Succeed | None = None,
    ) -> None:
        """succeed is needed where transactions are fenced."""
        self._producer, self._reader, self._succeed = producer, reader, succeed
        self._newer: Producing | None = None
        self._until_stable, self._patience_seconds = until_stable, patience_seconds

    async def invoke(self, op: Op) -> Op:
        """Carry a transaction or a drain out; what raises is info."""
        if op.f == "drain":
            await self._until_stable(str(op.key))
            return await self._reader.invoke(op)
        try:
            return await self._transacted(op)
        finally:
            await self._hand_over()

    async def _transacted(self, op: Op) -> Op:
        """The transaction with its end."""
        done: list[list[Any]] = []
        try:
            await self._carry_out(op, done)
        except Refused as error:
            return replace(await self._given_up(op, str(error)), value=_told(op, done))
        except PeerFailure as error:
            ended = op.fail(str(error)) if self._is_certain(error) else op.info(str(error))
            return replace(ended, value=_told(op, done))
        aborted = op.value[-1] == ["abort"]
        return replace(op.fail("aborted") if aborted else op.ok(), value=_told(op, done))

    async def close(self) -> None:
        """Close both clients."""
        await self._producer.close()
        await self._reader.close()

    async def _hand_over(self) -> None:
        """The newer producer takes the place of the one that it has fenced, if there is one."""
        if self._newer is not None:
            fenced, self._producer, self._newer = self._producer, self._newer, None
            await fenced.close()

    def _is_certain(self, error: PeerFailure) -> bool:
        """Whether an end that was refused so has no effect: it was asked for when the producer had been fenced."""
        return isinstance(error, Fenced) and self._newer is not None

    async def _carry_out(self, op: Op, done: list[list[Any]]) -> None:
        """Every micro-operation, and the end."""
        for micro_op in op.value:
            if micro_op[0] == "send":
                done.append(["send", micro_op[1], [await self._producer.send(micro_op[1], micro_op[2]), micro_op[2]]])
            elif micro_op[0] == "poll":
                done.append(["poll", await self._poll({sent[2][1] for sent in done if sent[0] == "send"})])
            elif micro_op[0] == "fence":
                assert self._succeed is not None, "a session whose transactions are fenced is told how"
                self._newer = await self._succeed()
                done.append(micro_op)
        await self._producer.end(commit=op.value[-1] != ["abort"])

    async def _given_up(self, op: Op, error: str) -> Op:
        """The end of a transaction that cannot be committed, once it has been aborted."""
        try:
            await self._producer.end(commit=False)
        except Refused:
            pass
        except PeerFailure as unknown:
            if not self._is_certain(unknown):
                return op.info(f"{error}; aborting it: {unknown}")
        return op.fail(error)

    async def _poll(self, own: set[int]) -> dict[str, list[list[int]]]:
        """What is new; where the transaction has sent something, whatever comes until that shows or patience ends."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + (self._patience_seconds if own else 0)
        got: dict[str, list[list[int]]] = {}
        while True:
            polled = await self._reader.invoke(Op("invoke", "poll"))
            for key, records in (polled.value or {}).items():
                got.setdefault(key, []).extend(records)
            if polled.type != "ok":
                raise PeerFailure(f"polling: {polled.error}")
            if clock() >= deadline or own & {value for records in got.values() for _, value in records}:
                return got


def _told(op: Op, done: list[list[Any]]) -> list[list[Any]]:
    """What was done, and then what was asked for."""
    return [*done, *op.value[len(done) :]]
