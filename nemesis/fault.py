"""What a fault is: a value that says what it is called, takes, needs and does; one small file a fault ends in one.

    FAULT = Fault(name="partition", actions={"cut": Cut}, resolve=…, undo=…, carry_out=…, heal=…, draw=…, trials=…)

What may live here: the shape. What may not: any fault. An action is carried out in four steps, always in this order:
its
resolve is settled (roles become nodes, chances are drawn), what undoes it goes to the journal, it is put in place, and
its
effect is proved. Healing undoes all actions of a fault, proves that, and is harmless where there is none.

To add one: write its file, name it in nemesis.registry, and say in docs/faults.md what it needs.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.model.hosts import UndoRecord
from harness.model.story import Step
from nemesis.context import NemesisContext

Resolved = Mapping[str, Any]
"""An action's arguments with nothing left open: JSON, with the nodes it befalls under `nodes` where it befalls
nodes.
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to break something.

    actions maps each action's name to the type of its arguments (nemesis.arguments), which plans are checked against.
    missing says why an action cannot be had in this context, None where it can. resolve may raise BadInput for
    arguments
    that mean nothing, PeerFailure where nobody fits a role. undo is None for an action that undoes another. carry_out
    injects, proves the effect and returns what was done, with a `label` for the report; it raises PeerFailure where
    the effect is not there. heal undoes and proves. draw gives the actions of one random sequence, for schedules.
    trials
    are sequences that show the fault at work within seconds, for `splitbrain faults test`.
    """

    name: str
    words: str
    actions: Mapping[str, Any]
    missing: Callable[[NemesisContext, str], str | None]
    resolve: Callable[[NemesisContext, str, Any], Resolved]
    undo: Callable[[str, Resolved], UndoRecord | None]
    carry_out: Callable[[NemesisContext, str, Resolved], Awaitable[dict[str, Any]]]
    heal: Callable[[NemesisContext], Awaitable[Any]]
    draw: Callable[[random.Random, int], list[Step]]
    trials: tuple[tuple[Step, ...], ...]
