"""One simulated node: its configuration, its disk, the running core if it runs, and what waits while it is paused.

Contains state alone. Does not contain what happens to it (cluster.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.model.quorum_states import KIP_595, TransitionTable
from nodes.reference.core.node import Node
from nodes.reference.core.settings import NEVER_MS
from nodes.reference.properties import ServerConfig
from nodes.simulation.reference.disk import SimulatedDisk
from nodes.simulation.timeline import Action


@dataclass(eq=False, slots=True)
class Pending:
    """A request that has no response yet, by the id that the core gave it."""

    request_id: int


@dataclass(eq=False, slots=True)
class Member:
    """One node. core is None while it is down; incarnation counts its starts.

    pending are its requests by peer, connections the numbers of its connections to them. served are what to do with
    the responses that it owes, by request id; None says that it has ended instead. waiting is what a paused node has
    not handled yet. table has the transitions that a voter with its settings makes, whatever a mutant does. deadline_ms
    is the core's, as of its latest event; tick_ms is when its next tick is due, None if none is scheduled.
    """

    config: ServerConfig
    disk: SimulatedDisk
    core: Node | None = None
    incarnation: int = 0
    is_paused: bool = False
    pending: dict[int, Pending] = field(default_factory=dict)
    connections: dict[int, int] = field(default_factory=dict)
    served: dict[int, Callable[[Any], None]] = field(default_factory=dict)
    waiting: deque[Action] = field(default_factory=deque)
    table: TransitionTable = KIP_595
    deadline_ms: int = NEVER_MS
    tick_ms: int | None = None

    @property
    def node_id(self) -> int:
        """The node's number."""
        return self.config.settings.node_id
