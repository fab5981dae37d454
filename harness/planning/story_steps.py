"""One step of a story as it stands in a plan's file, its arguments checked by the deed it names.

What may live here: the steps that are no fault's deeds, and the check. What may not: what deeds take (nemesis) or do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from harness.model.story import CONDITION, MARK, Step
from nemesis.arguments import Arguments, Seconds
from nemesis.registry import BY_DEED


class _Await(Arguments):
    condition: Annotated[str, Field(pattern=rf"^({CONDITION})$")]
    within_seconds: Seconds


DEEDS: Mapping[str, Any] = {
    "await": _Await,
    "hold": Seconds,
    "heal": None,
    MARK: str,
    **{deed: fault.deeds[deed] for deed, fault in BY_DEED.items()},
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
        if self.f not in DEEDS:
            raise ValueError(f"deed {self.f!r}: expected one of {', '.join(DEEDS)}")
        try:
            TypeAdapter(DEEDS[self.f]).validate_json(json.dumps(self.value, default=str), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(dict.fromkeys(map(str, (self.f, *first["loc"]))))  # a shape is named by its first key
            raise ValueError(f"{where}: {first['msg']}") from error
        return self
