"""One process's session of the transactions workload: a producer and a read_committed consumer.

A transaction is `ok` if its commit is confirmed, and `fail` if its abort is confirmed, since it has no effect then.
Otherwise it is `info`; so is an error of EndTxn, because the broker may have started to end the transaction.

At ["fence"] a newer producer with the same transactional.id is initialized at the brokers, which abort the open
transaction, and the older producer continues as a zombie. Its end is requested after the newer one was initialized, so
a fencing error means that the end had no effect (KIP-98), and the op fails. The process's next transaction uses the
newer producer.

Contains the course of a transaction. The clients are transactions_producer.py and transactions_bumping.py, the
operations are in transactions.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from harness.model import Op, PeerFailure
from workloads.log_session import LogSession


class Refused(PeerFailure):
    """The transaction cannot be committed; if it is aborted, or the producer is fenced, it has no effect."""


class Fenced(PeerFailure):
    """A newer producer has fenced this one; an end requested before the fencing may still have taken effect."""


class TransactionalProducer(Protocol):
    """A transactional producer; after any error except Refused the transaction's outcome is unknown."""

    async def send(self, key: str, value: int) -> int:
        """Send a record in the transaction, which the first record begins; returns its offset."""

    async def end(self, commit: bool) -> None:
        """Commit or abort the transaction, if one has begun."""

    async def close(self) -> None:
        """Close all connections; the broker's timeout aborts an open transaction."""


StartNewer = Callable[[], Awaitable[TransactionalProducer]]
"""Initializes a newer producer with the same transactional.id at the brokers. Raises PeerFailure."""

UntilStable = Callable[[str], Awaitable[None]]
"""Waits until no open transaction blocks reads of a key; raises NoAnswer if one remains."""


class TransactionSession:
    """harness.model.session.Session. A poll after a send lasts patience_seconds, or until it returns that record."""

    def __init__(
        self,
        producer: TransactionalProducer,
        reader: LogSession,
        until_stable: UntilStable,
        patience_seconds: float,
        start_newer: StartNewer | None = None,
    ) -> None:
        """start_newer is required if transactions are fenced."""
        self._producer, self._reader, self._start_newer = producer, reader, start_newer
        self._newer: TransactionalProducer | None = None
        self._until_stable, self._patience_seconds = until_stable, patience_seconds

    async def invoke(self, op: Op) -> Op:
        """Execute a transaction or a drain; an exception means info."""
        if op.f == "drain":
            await self._until_stable(str(op.key))
            return await self._reader.invoke(op)
        try:
            return await self._run_transaction(op)
        finally:
            await self._replace_fenced()

    async def _run_transaction(self, op: Op) -> Op:
        """Execute the transaction and determine its end."""
        done: list[list[Any]] = []
        try:
            await self._execute(op, done)
        except Refused as error:
            return replace(await self._abort(op, str(error)), value=_merged(op, done))
        except PeerFailure as error:
            end = op.fail(str(error)) if self._had_no_effect(error) else op.info(str(error))
            return replace(end, value=_merged(op, done))
        is_abort = op.value[-1] == ["abort"]
        return replace(op.fail("aborted") if is_abort else op.ok(), value=_merged(op, done))

    async def close(self) -> None:
        """Close both clients."""
        await self._producer.close()
        await self._reader.close()

    async def _replace_fenced(self) -> None:
        """If a newer producer has been started, use it from now on and close the fenced one."""
        if self._newer is not None:
            fenced, self._producer, self._newer = self._producer, self._newer, None
            await fenced.close()

    def _had_no_effect(self, error: PeerFailure) -> bool:
        """Whether a failed end had no effect: it was requested after the producer had been fenced."""
        return isinstance(error, Fenced) and self._newer is not None

    async def _execute(self, op: Op, done: list[list[Any]]) -> None:
        """Execute every micro-op and the end; the results are appended to done."""
        for micro_op in op.value:
            if micro_op[0] == "send":
                done.append(["send", micro_op[1], [await self._producer.send(micro_op[1], micro_op[2]), micro_op[2]]])
            elif micro_op[0] == "poll":
                done.append(["poll", await self._poll({send[2][1] for send in done if send[0] == "send"})])
            elif micro_op[0] == "fence":
                assert self._start_newer is not None, "a transaction with a fence requires start_newer"
                self._newer = await self._start_newer()
                done.append(micro_op)
        await self._producer.end(commit=op.value[-1] != ["abort"])

    async def _abort(self, op: Op, error: str) -> Op:
        """Abort a transaction that cannot be committed, and determine its end."""
        try:
            await self._producer.end(commit=False)
        except Refused:
            pass
        except PeerFailure as failure:
            if not self._had_no_effect(failure):
                return op.info(f"{error}; aborting it: {failure}")
        return op.fail(error)

    async def _poll(self, own: set[int]) -> dict[str, list[list[int]]]:
        """The new records. own are the values that the transaction sent; if any, poll until one of them arrives."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + (self._patience_seconds if own else 0)
        received: dict[str, list[list[int]]] = {}
        while True:
            polled = await self._reader.invoke(Op("invoke", "poll"))
            for key, records in (polled.value or {}).items():
                received.setdefault(key, []).extend(records)
            if polled.type != "ok":
                raise PeerFailure(f"polling: {polled.error}")
            if clock() >= deadline or own & {value for records in received.values() for _, value in records}:
                return received


def _merged(op: Op, done: list[list[Any]]) -> list[list[Any]]:
    """The results of the executed micro-ops, then the remaining micro-ops as requested."""
    return [*done, *op.value[len(done) :]]
