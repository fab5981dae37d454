"""Events as lines of JSON: how a controller sends what it reports to the command that started it.

    print(to_line(Phase("starting the nodes")))      # in the controller
    on_event(from_line(line))                        # in the command

Contains the lines. The events are harness.model.progress.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, TypeAdapter

from harness.model.progress import Event

_EVENT: Final[TypeAdapter[Event]] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


def to_line(event: Event) -> str:
    """An event as a line of JSON."""
    return _EVENT.dump_json(event).decode()


def from_line(line: str) -> Event:
    """The event of a line of JSON."""
    return _EVENT.validate_json(line)
