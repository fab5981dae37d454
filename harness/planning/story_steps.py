"""One step of a story as it stands in a plan's file, its arguments checked by the action it names.

What may live here: the steps that are no fault's actions, and the check. What may not: what actions take (nemesis) or
do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from harness.model.stored_names import current_arguments, current_op
from harness.model.story import CONDITION, MARK, Step
from nemesis.arguments import Arguments, Seconds
from nemesis.registry import BY_ACTION


class _Await(Arguments):
    condition: Annotated[str, Field(pattern=rf"^({CONDITION})$")]
    within_seconds: Seconds


ACTIONS: Mapping[str, Any] = {
    "await": _Await,
    "sleep": Seconds,
    "heal": None,
    MARK: str,
    **{action: fault.actions[action] for action, fault in BY_ACTION.items()},
}


class StoryStep(BaseModel):
    """harness.model.story.Step as it stands in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    f: str
    value: Any = None

    def step(self) -> Step:
        """The step as a value."""
        return Step(self.f, self.value)

    @model_validator(mode="before")
    @classmethod
    def _by_current_names(cls, stored: Any) -> Any:
        """Plans of earlier releases call some steps and arguments otherwise."""
        if not isinstance(stored, dict) or not isinstance(stored.get("f"), str):
            return stored
        step = {**stored, "f": current_op(stored["f"])}
        return {**step, "value": current_arguments(step["value"])} if "value" in step else step

    @model_validator(mode="after")
    def _takes_its_arguments(self) -> StoryStep:
        if self.f not in ACTIONS:
            raise ValueError(f"action {self.f!r}: expected one of {', '.join(ACTIONS)}")
        try:
            TypeAdapter(ACTIONS[self.f]).validate_json(json.dumps(self.value, default=str), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(dict.fromkeys(map(str, (self.f, *first["loc"]))))  # a shape is named by its first key
            raise ValueError(f"{where}: {first['msg']}") from error
        return self
