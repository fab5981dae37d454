"""What the parts of a node share during one event: the time, the log, and the list of effects they add to.

What may live here: nothing that decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nodes.reference.core.events import Draw, Effect, Note
from nodes.reference.core.records.log import Log
from nodes.reference.core.records.registers import Registers
from nodes.reference.core.settings import NodeSettings


@dataclass(slots=True)
class Context:
    """now_ms is the shell's monotonic clock at the event at hand; wall_offset_ms turns it into wall-clock time."""

    settings: NodeSettings
    draw: Draw
    log: Log
    wall_offset_ms: int = 0
    now_ms: int = 0
    turn: int = 0  # counts events: finer than the clock, it orders what happens within a millisecond
    registers: Registers = field(default_factory=Registers)
    effects: list[Effect] = field(default_factory=list)

    def emit(self, effect: Effect) -> None:
        """Have the shell do something after everything emitted before."""
        self.effects.append(effect)

    def note(self, text: str, logger: str = "KafkaRaftClient") -> None:
        """Have the shell log a line."""
        self.effects.append(Note(text, logger))

    @property
    def wall_ms(self) -> int:
        """The time of the event at hand, for time stamps that people and tools read."""
        return self.now_ms + self.wall_offset_ms

    def take_effects(self) -> list[Effect]:
        """The effects so far; the list starts anew."""
        taken, self.effects = self.effects, []
        return taken

    def draw_election_timeout_ms(self) -> int:
        """Random in [T, 2T), as Kafka draws it."""
        timeout_ms = self.settings.election_timeout_ms
        return self.draw(timeout_ms, 2 * timeout_ms) if timeout_ms else 0
