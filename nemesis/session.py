"""The nemesis as a session: turns the deeds of a story into faults, and undoes them.

Every fault is written to the undo journal before it is injected and crossed out after it is healed. A deed that did not
do what it says ends with its error in the history, and the run it belongs to is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from harness.model import BadInput, EnvironmentFailure, Op, PeerFailure, SplitbrainError
from harness.model.hosts import UndoRecord
from harness.model.rpc import Rpcs
from nemesis import clock, partition, process, rpc
from nemesis.journal import UndoJournal
from nemesis.situation import Situation

Await = Callable[[str, float], Awaitable[bool]]
"""Waits until a named condition holds; False where it does not in so many seconds."""


class NemesisSession:
    """harness.model.session.Session for the nemesis's process."""

    def __init__(self, situation: Situation, journal: UndoJournal, until: Await) -> None:
        self._situation = situation
        self._journal = journal
        self._until = until
        self._open_faults: list[int] = []

    async def invoke(self, op: Op) -> Op:
        """Carry out a deed. The completion is `info`, as the nemesis's always is, with what was done as its value."""
        try:
            done = await self._carry_out(op.f, op.value)
        except SplitbrainError as error:
            return Op("info", op.f, op.process, value=op.value, error=str(error))
        return Op("info", op.f, op.process, value=done)

    async def close(self) -> None:
        """Undo whatever is still in place."""
        await self._heal()

    async def _carry_out(self, f: str, value: Any) -> Any:
        if f == "await":
            return await self._await(value)
        if f == "heal":
            return await self._heal()
        if f == partition.NAME:
            self._record(partition.undo_record(self._situation))
            return await partition.inject(self._situation, value)
        if f in process.DEEDS:
            nodes = self._situation.whoever_is(value["who"])
            self._record(process.undo_record(f, nodes))
            return await process.carry_out(self._situation, f, nodes)
        if f in clock.DEEDS:
            nodes = self._situation.whoever_is(value["who"])
            self._record(clock.undo_record(f, nodes))
            return await clock.carry_out(self._situation, f, nodes, value)
        if f == rpc.NAME:
            self._record(rpc.undo_record(self._situation))
            return await rpc.inject(self._proxy(), self._situation, value)
        raise BadInput(f"deed {f!r}: expected await, heal, cut, rpc, {', '.join([*process.DEEDS, *clock.DEEDS])}")

    def _proxy(self) -> Rpcs:
        if self._situation.rpcs is None:
            raise EnvironmentFailure("disturbing RPCs: no proxy stands between the nodes of this run")
        return self._situation.rpcs

    async def _await(self, value: Mapping[str, Any]) -> Any:
        if not await self._until(value["condition"], value["within_seconds"]):
            raise PeerFailure(f"awaiting that {value['condition']}: not so within {value['within_seconds']:g} s")
        return value

    async def _heal(self) -> dict[str, Any]:
        """Undo each kind of fault, whatever becomes of the others; the dead, whose new clocks are true, come last."""
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(process.heal, self._situation)
            last_first.push_async_callback(clock.heal, self._situation)
            if self._situation.rpcs is not None:
                last_first.push_async_callback(rpc.heal, self._situation.rpcs, self._situation)
            last_first.push_async_callback(partition.heal, self._situation)
        while self._open_faults:
            self._journal.healed(self._open_faults.pop())
        return {"label": "healed"}

    def _record(self, undo: UndoRecord | None) -> None:
        if undo:
            self._open_faults.append(self._journal.record(undo))
