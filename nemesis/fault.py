"""A fault: one way to break something. Each small file in nemesis/faults ends in one value of this type.

    FAULT = Fault(name="partition", actions={"cut": Action(Cut)}, resolve=…, inject=…, heal=…, sample=…, trials=…)

An action runs in four steps: resolve its arguments (roles become nodes, random choices are made), write how to undo
it to the journal, inject it, verify its effect. Healing undoes all actions of a fault and verifies that; it is safe if
there is nothing to undo.

To add a fault, write its file, register the value in the entry point group `splitbrain.faults`, and describe its
requirements in docs/faults.md.

Contains the type. Does not contain any fault.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.model.hosts import UndoRecord
from harness.model.nemesis_ops import AWAIT, CHOOSE, NemesisOps
from harness.model.story import Step
from harness.model.systems import SystemKind
from nemesis.arguments import adapter_of
from nemesis.context import NemesisContext

Resolved = Mapping[str, Any]
"""An action's arguments with roles and random choices resolved, as JSON; `nodes` are the nodes that it affects."""


@dataclass(frozen=True, slots=True)
class Action:
    """A nemesis operation that a fault offers.

    arguments is the type that validates its arguments in plans (nemesis.arguments). ends names the actions whose effect
    this one ends. momentary: the effect does not last, so nothing has to end it. waits: it only waits for a condition.
    harms_disk: the disk of a node fails, or what was synced on it is changed. empties_disk: a node's data is gone
    afterwards. erases_vote: its quorum-state may be gone or damaged.
    """

    arguments: Any
    ends: frozenset[str] = frozenset()
    momentary: bool = False
    waits: bool = False
    harms_disk: bool = False
    empties_disk: bool = False
    erases_vote: bool = False

    def complete(self, value: Any) -> Any:
        """A step's arguments as JSON values, with the defaults of those that the step omits."""
        adapter = adapter_of(self.arguments)
        return adapter.dump_python(adapter.validate_python(value), mode="json")


def nodes_of_role(context: NemesisContext, _f: str, value: Mapping[str, Any]) -> Resolved:
    """The arguments, with the nodes of the role `who` under `nodes`."""
    return {**value, "nodes": list(context.nodes_in_role(value["who"]))}


async def nothing_to_heal(_context: NemesisContext) -> None:
    """Do nothing: for a fault whose effect does not last."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to break something.

    - summary describes it for `splitbrain faults`.
    - actions are the fault's actions, by name.
    - unsupported returns why a system does not support a step, None if it does; it is checked before the run.
    - unavailable returns why an action is not possible in this context, None if it is.
    - resolve receives all arguments of the action, with their defaults. It may raise BadInput for invalid arguments,
      PeerFailure if no node has a role. The default resolves the role `who`.
    - undo returns the journal's record, None for an action that undoes another.
    - inject injects, verifies the effect and returns what was done, with a `label` for the report; it raises
      PeerFailure if the effect is missing.
    - heal undoes and verifies.
    - sample returns the steps of one random fault sequence, for schedules.
    - trials are step sequences that show the fault within seconds, for `splitbrain faults test`.
    - checks names the checks that judge every run whose story has an action of this fault.
    - heal_order: faults heal in ascending order. The network comes first, because the rest is verified over it;
      processes come after disks and clocks; membership comes last.
    """

    name: str
    summary: str
    actions: Mapping[str, Action]
    inject: Callable[[NemesisContext, str, Resolved], Awaitable[dict[str, Any]]]
    sample: Callable[[random.Random, int], list[Step]]
    unsupported: Callable[[SystemKind, Step], str | None] = lambda _system, _step: None
    unavailable: Callable[[NemesisContext, str], str | None] = lambda _context, _f: None
    resolve: Callable[[NemesisContext, str, Any], Resolved] = nodes_of_role
    undo: Callable[[str, Resolved], UndoRecord | None] = lambda _f, _resolved: None
    heal: Callable[[NemesisContext], Awaitable[Any]] = nothing_to_heal
    trials: tuple[tuple[Step, ...], ...] = ()
    checks: tuple[str, ...] = ()
    heal_order: int = 50


def by_action(faults: Iterable[Fault]) -> dict[str, Fault]:
    """The fault of each action, by the action's name."""
    return {action: fault for fault in faults for action in fault.actions}


def nemesis_ops(faults: Iterable[Fault]) -> NemesisOps:
    """The properties of these faults' actions that plans and reports need."""
    faults = tuple(faults)
    actions = {name: action for fault in faults for name, action in fault.actions.items()}
    return NemesisOps(
        ends={name: action.ends for name, action in actions.items() if action.ends},
        momentary=frozenset({CHOOSE, *(name for name, action in actions.items() if action.momentary)}),
        waits=frozenset({AWAIT, *(name for name, action in actions.items() if action.waits)}),
        harms_disk=frozenset(name for name, action in actions.items() if action.harms_disk),
        empties_disk=frozenset(name for name, action in actions.items() if action.empties_disk),
        erases_vote=frozenset(name for name, action in actions.items() if action.erases_vote),
        faults={name: fault.name for fault in faults for name in fault.actions},
    )
