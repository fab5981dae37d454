"""Types of the arguments of actions, which validate plans and define the JSON Schema: nodes, roles, links, times.

Contains types that several faults share. Does not contain their use.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from harness.model.story import ROLES
from harness.model.validation import Matching

NODES_MAX = 9


def _all_differ(nodes: list[int]) -> list[int]:
    if len(set(nodes)) < len(nodes):
        raise ValueError(f"expected different nodes, found {nodes}")
    return nodes


Seconds = Annotated[float, Field(gt=0, le=86_400)]
Node = Annotated[int, Field(ge=1, le=NODES_MAX)]
CHOSEN = r"[a-z][a-z0-9_]{0,30}"
"""A name that a story gives to nodes."""

Who = Annotated[
    str,
    Matching(
        rf"({'|'.join(ROLES)}|n[1-9]|\${CHOSEN})",
        f"one of the roles {', '.join(ROLES)}, a node, n1 to n9, or a name that was chosen, e.g. $victim",
    ),
]
PARTITION = Matching(r"[A-Za-z0-9._-]{1,200}-[0-9]{1,6}", "the name of a partition, e.g. t-0")
Replicas = Annotated[list[Node], Field(min_length=1), AfterValidator(_all_differ)]
Pairs = Annotated[list[tuple[Node, Node]], Field(min_length=1)]
Direction = Literal["both", "out", "in"]
Probability = Annotated[float, Field(ge=0, le=1)]


class Arguments(BaseModel):
    """The arguments of an action; each action has a subclass whose fields have types and ranges."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OnNodes(Arguments):
    """The arguments of an action on the nodes of a role, or on one node by name."""

    who: Who


class ExpectedAnswer(Arguments):
    """How a request is expected to end: with success, with an error, or without an answer because it cannot commit."""

    refused: str | None = None
    is_answered: bool = True

    @model_validator(mode="after")
    def _expects_one_outcome(self) -> Self:
        if self.refused and self.is_answered is not True:
            raise ValueError("refused: expected no error, since is_answered expects no answer, or nothing of it")
        return self


_ADAPTERS: dict[int, tuple[Any, TypeAdapter[Any]]] = {}
"""The adapter of each type, by the type's identity, since annotated types may have no hash."""


def adapter_of(arguments: Any) -> TypeAdapter[Any]:
    """What validates arguments of this type. Making one takes about a millisecond, so each is made once."""
    known = _ADAPTERS.get(id(arguments))
    if known is None:
        known = _ADAPTERS[id(arguments)] = (arguments, TypeAdapter(arguments))
    return known[1]
