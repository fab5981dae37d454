"""The nemesis's session: injects faults for the operations of a story, and heals them.

Every fault is recorded in the undo journal before it is injected, and recorded as healed afterwards. An operation whose
effect is not verified completes with an error in the history, and the run's verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from harness.model import BadInput, EnvironmentFailure, Op, PeerFailure, SplitbrainError
from harness.model.conditions import LEADER_KNOWN, Condition
from harness.model.hosts import UndoRecord
from harness.model.nemesis_ops import AWAIT, CHOOSE, HEAL
from nemesis.context import LEADER_SECONDS, NemesisContext, NoLeader
from nemesis.fault import Fault, by_action

T = TypeVar("T")


class Journal(Protocol):
    """Where faults are recorded before they are injected (nemesis.journal)."""

    def record(self, undo: UndoRecord) -> int:
        """Record how to undo a fault; returns the entry's id."""

    def healed(self, identifier: int) -> None:
        """Record that a fault is undone."""


Await = Callable[[Condition, float], Awaitable[bool]]
"""Waits until a condition (harness.model.conditions) holds; False if it does not within this many seconds."""


def refuse_unavailable(actions: Iterable[str], context: NemesisContext, faults: Mapping[str, Fault]) -> None:
    """Raise BadInput for the first action of a story that is not possible here; called before the story starts."""
    for f in actions:
        reason = faults[f].unavailable(context, f) if f in faults else None
        if reason:
            raise BadInput(f"story: action {f}: {reason}")


class NemesisSession:
    """harness.model.session.Session for the nemesis's process."""

    def __init__(self, context: NemesisContext, journal: Journal, until: Await, faults: Mapping[str, Fault]) -> None:
        """faults are those that the story may use, by name, in the order in which they are healed."""
        self._faults = tuple(faults.values())
        self._by_action = by_action(self._faults)
        self._context = context
        self._journal = journal
        self._until = until
        self._open_faults: list[int] = []

    async def invoke(self, op: Op) -> Op:
        """Carry out an operation. The completion is always `info`; its value is what was done."""
        try:
            done = await self._perform(op.f, op.value)
        except SplitbrainError as error:
            return Op("info", op.f, op.process, value=op.value, error=str(error))
        return Op("info", op.f, op.process, value=done)

    async def close(self) -> None:
        """Heal all faults that are still in place."""
        await self._heal()

    async def _perform(self, f: str, value: Any) -> Any:
        if f == AWAIT:
            return await self._await(value)
        if f == HEAL:
            return await self._heal()
        if f == CHOOSE:
            return await self._choose(value)
        fault = self._by_action.get(f)
        if fault is None:
            raise BadInput(f"action {f!r}: expected await, heal, {', '.join(self._by_action)}")
        reason = fault.unavailable(self._context, f)
        if reason:
            raise EnvironmentFailure(f"{f}: {reason}")
        arguments = fault.actions[f].complete(value)
        resolved = await self._with_leader(lambda: fault.resolve(self._context, f, arguments))
        undo = fault.undo(f, resolved)
        if undo:
            self._open_faults.append(self._journal.record(undo))
        return await fault.inject(self._context, f, resolved)

    async def _with_leader(self, resolve: Callable[[], T]) -> T:
        """What resolve returns; if it needs the leader while there is none, wait for the next leader."""
        try:
            return resolve()
        except NoLeader:
            await self._until(LEADER_KNOWN, LEADER_SECONDS)
            return resolve()

    async def _await(self, value: Mapping[str, Any]) -> Any:
        condition = Condition.from_json(value["condition"])
        holds = await self._until(condition, value["within_seconds"])
        if not (holds or value.get("is_required", True)):
            return {**value, "label": f"not within {value['within_seconds']:g} s: {condition}"}
        if not holds:
            raise PeerFailure(f"waiting until {condition}: not so within {value['within_seconds']:g} s")
        return value

    async def _choose(self, value: Mapping[str, Any]) -> Any:
        """Name the nodes of a role."""
        nodes = await self._with_leader(lambda: self._context.nodes_in_role(value["who"]))
        self._context.chosen[value["name"]] = nodes
        named = ", ".join(f"n{node}" for node in nodes) or "no node"
        return {"nodes": list(nodes), "label": f"${value['name']}: {named}"}

    async def _heal(self) -> dict[str, Any]:
        """Heal each fault in heal order, even if others fail.

        Raises PeerFailure with the reasons of all that failed.
        """
        problems: list[str] = []
        for fault in self._faults:
            try:
                await fault.heal(self._context)
            except SplitbrainError as error:
                problems.append(str(error))
        if problems:
            raise PeerFailure("; ".join(problems))
        while self._open_faults:
            self._journal.healed(self._open_faults.pop())
        return {"label": "healed"}
