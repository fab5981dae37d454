"""What actions take, as types that plans and the JSON Schema check: nodes, roles, links, times.

What may live here: types that several faults share. What may not: what is done with them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.model.story import ROLES

NODES_MAX = 9

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Node = Annotated[int, Field(ge=1, le=NODES_MAX)]
Who = Annotated[str, Field(pattern=rf"^({'|'.join(ROLES)}|n[1-9])$")]
Pairs = Annotated[list[tuple[Node, Node]], Field(min_length=1)]
Direction = Literal["both", "out", "in"]
Probability = Annotated[float, Field(ge=0, le=1)]


class Arguments(BaseModel):
    """What an action takes; an action's own class says it in fields with ranges."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OnNodes(Arguments):
    """An action that befalls the nodes of a role, or one by name."""

    who: Who
