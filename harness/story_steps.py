"""One step of a story as it stands in a plan's file, its arguments checked by the deed it names.

What may live here: which deeds there are and what each takes. What may not: what they do (nemesis).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from harness.model import BadInput
from harness.model.hosts import Clock
from harness.model.rpc import DISTURB, RpcRule
from harness.model.story import MARK, Step

NODES_MAX = 9
MOVED_SECONDS_MAX = 1e8
"""How far a clock may be moved: three years, within what the clocks of nodes can show."""

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Node = Annotated[int, Field(ge=1, le=NODES_MAX)]
Who = Annotated[str, Field(pattern=r"^(leader|follower|cut off|down|paused|skewed|n[1-9])$")]
ClockNames = Annotated[list[Clock], Field(min_length=1)]
Pairs = Annotated[list[tuple[Node, Node]], Field(min_length=1)]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Await(_Arguments):
    condition: Literal["a leader is known", "all follow one leader"]
    within_seconds: Seconds


class _OnNode(_Arguments):
    who: Who


class _Skew(_OnNode):
    offset_seconds: Annotated[float, Field(ge=-MOVED_SECONDS_MAX, le=MOVED_SECONDS_MAX)]
    clocks: ClockNames = ["realtime"]


class _Drift(_OnNode):
    rate: Annotated[float, Field(ge=0, le=10)]
    clocks: ClockNames = ["realtime", "monotonic"]


class _Isolation(_OnNode):
    ways: Literal["both", "out", "in"] = "both"


class _Only(_Arguments):
    only: Pairs
    leader_as: Node


class _Disturbance(_Arguments):
    rules: Annotated[list[dict[str, Any]], Field(min_length=1)]

    @field_validator("rules")
    @classmethod
    def _are_rules(cls, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        try:
            for rule in rules:
                RpcRule.from_json(rule)
        except BadInput as error:
            raise ValueError(str(error)) from error
        return rules


class _Groups(_Arguments):
    groups: Annotated[list[list[Node]], Field(min_length=2)]


class _Links(_Arguments):
    links: Pairs


SHAPES: Mapping[str, type[_Arguments]] = {"who": _Isolation, "only": _Only, "groups": _Groups, "links": _Links}
DEEDS: Mapping[str, Any] = {
    "await": _Await,
    "hold": Seconds,
    "heal": None,
    **dict.fromkeys(("kill", "stop", "start", "pause", "resume", "reset_clock"), _OnNode),
    "skew": _Skew,
    "drift": _Drift,
    DISTURB: _Disturbance,
    MARK: str,
}


class StoryStep(BaseModel):
    """harness.model.story.Step as it stands in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    f: str
    value: Any = None

    def step(self) -> Step:
        """The step as a value."""
        return Step(self.f, self.value)

    @model_validator(mode="after")
    def _takes_its_arguments(self) -> StoryStep:
        try:
            TypeAdapter(self._expected()).validate_json(json.dumps(self.value, default=str), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, (self.f, *first["loc"])))
            raise ValueError(f"{where}: {first['msg']}") from error
        return self

    def _expected(self) -> Any:
        """What the deed takes. Raises ValueError for a deed or a shape of a cut that there is not."""
        if self.f == "cut":
            shape = next((name for name in SHAPES if isinstance(self.value, dict) and name in self.value), None)
            if shape is None:
                raise ValueError(f"cut: expected one of the shapes {', '.join(SHAPES)}")
            return SHAPES[shape]
        if self.f not in DEEDS:
            raise ValueError(f"deed {self.f!r}: expected one of cut, {', '.join(DEEDS)}")
        return DEEDS[self.f]
