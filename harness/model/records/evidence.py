"""What a check knows of a finding beyond its sentence, so that a report can draw it.

Operations are named by the history index of their invocation, moments by the index of their row. A finding carries its
evidence as JSON text with the kind of it in `kind`, as tables carry values.

    text = encoded(Zones((Zone("5", first_return=22, last_call=1401), Zone("117", first_return=754, last_call=757))))
    decoded(text)

What may live here: these values and their JSON. What may not: how they come about, and how they are drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Zone:
    """All operations on a value, or on a chain of values of which each was swapped for the next, stand together.

    Where first_return comes before last_call the value holds from the one to the other, else it can hold at one moment
    between last_call and first_return. -1 is before the first row.
    """

    value: str
    first_return: int
    last_call: int


@dataclass(frozen=True, slots=True)
class Zones:
    """Two values of which each must hold before the other."""

    zones: tuple[Zone, ...]


@dataclass(frozen=True, slots=True)
class Need:
    """What an operation that is not in the order asks for: `needs 3`, `leaves 4`."""

    operation: int
    words: str


@dataclass(frozen=True, slots=True)
class Order:
    """The longest order that was found: its last operations, and how many come before these. stuck is in none; needs
    are its own and those of the operations open beside it. leaves is the state after the order, where states have
    names. order is empty where nothing came before, or where it was not found again within its budget."""

    order: tuple[int, ...]
    before: int
    stuck: int
    needs: tuple[Need, ...]
    leaves: str | None = None


@dataclass(frozen=True, slots=True)
class CycleStep:
    """The transaction target comes after source: by an edge (ww, wr, rw, process or realtime), and what it is about.

    Of ww and rw the source has `value` and the target wrote `following`; of wr value is what both have; of process the
    key is the process.
    """

    source: int
    target: int
    edge: str
    key: str | None = None
    value: str | None = None
    following: str | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """Transactions of which each comes after the one before it, and the first after the last."""

    steps: tuple[CycleStep, ...]


Evidence = Zones | Order | Cycle
KINDS: Final[Mapping[type[Evidence], str]] = {Zones: "zones", Order: "order", Cycle: "cycle"}


def encoded(evidence: Evidence) -> str:
    """The evidence as JSON text."""
    return json.dumps({"kind": KINDS[type(evidence)], **asdict(evidence)}, ensure_ascii=False)


def decoded(text: str) -> Evidence:
    """The evidence of a JSON text. Raises ValueError, KeyError or TypeError where it is none."""
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
