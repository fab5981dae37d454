"""Evidence: what a check knows about a finding beyond its message, so that the report can draw it.

Operations are identified by the history index of their invocation, points in time by the index of their row. A finding
stores its evidence as JSON text with its type in `kind`.

    text = encoded(Zones((Zone("5", first_return=22, last_call=1401), Zone("117", first_return=754, last_call=757))))
    decoded(text)

Contains the values and their JSON. Checks make them (checkers), the report draws them (results/drawing).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Zone:
    """The zone of a value (Gibbons and Korach), or of a chain of values that compare-and-sets replaced one by another.

    If first_return comes before last_call, the register holds the value from the one to the other (a forward zone);
    otherwise it may hold it at one moment between last_call and first_return. -1 is before the first row.
    """

    value: str
    first_return: int
    last_call: int


@dataclass(frozen=True, slots=True)
class Zones:
    """Two zones that conflict: each value must hold before the other."""

    zones: tuple[Zone, ...]


@dataclass(frozen=True, slots=True)
class Need:
    """What an operation outside the order requires: `needs 3`, `leaves 4`."""

    operation: int
    words: str


@dataclass(frozen=True, slots=True)
class Order:
    """The longest linearization that was found.

    order are its last operations, before is the number of operations ahead of these. order is empty if there is none,
    or if it was not found again within its budget. stuck is the operation that fits nowhere; needs are its requirements
    and those of the concurrent operations. leaves is the state after the order, if states have names.
    """

    order: tuple[int, ...]
    before: int
    stuck: int
    needs: tuple[Need, ...]
    leaves: str | None = None


@dataclass(frozen=True, slots=True)
class CycleStep:
    """An edge of a dependency cycle (ww, wr, rw, process or realtime): transaction target comes after source.

    For ww and rw, value is the source's version and following the one that the target wrote. For wr, value is what
    source wrote and target read. For process, key is the process.
    """

    source: int
    target: int
    edge: str
    key: str | None = None
    value: str | None = None
    following: str | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle: each transaction comes after the previous one, and the first after the last."""

    steps: tuple[CycleStep, ...]


Evidence = Zones | Order | Cycle
KINDS: Final[Mapping[type[Evidence], str]] = {Zones: "zones", Order: "order", Cycle: "cycle"}


def encoded(evidence: Evidence) -> str:
    """The evidence as JSON text."""
    return json.dumps({"kind": KINDS[type(evidence)], **asdict(evidence)}, ensure_ascii=False)


def decoded(text: str) -> Evidence:
    """The evidence in a JSON text. Raises ValueError, KeyError or TypeError if the text is not evidence."""
    fields: dict[str, Any] = json.loads(text)
    match fields.pop("kind"):
        case "zones":
            return Zones(tuple(Zone(**each) for each in fields["zones"]))
        case "order":
            needs = tuple(Need(**each) for each in fields["needs"])
            return Order(tuple(fields["order"]), fields["before"], fields["stuck"], needs, fields["leaves"])
        case "cycle":
            return Cycle(tuple(CycleStep(**each) for each in fields["steps"]))
        case kind:
            raise ValueError(f"kind {kind!r}: expected one of {', '.join(KINDS.values())}")
