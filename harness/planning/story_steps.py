"""A step of a story in a plan file; the fault that has the step's action defines the types of its arguments.

Contains the steps that belong to no fault, and the check. Does not contain faults with their arguments (nemesis).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness import plugins
from harness.model.conditions import TEXTS, WITH_OFFSET, needs_node, needs_partition
from harness.model.nemesis_ops import AWAIT, CHOOSE, HEAL, SLEEP
from harness.model.shown_values import shown
from harness.model.stored_names import current_arguments, current_condition, current_op
from harness.model.story import MARK, STOP_CLIENTS, Step
from harness.model.suggestions import did_you_mean
from harness.model.validation import Matching, dotted, first_problem
from nemesis.arguments import CHOSEN, PARTITION, Arguments, Node, Seconds, Who, adapter_of


class _Condition(Arguments):
    name: str
    node: Node | None = None
    partition: Annotated[str, PARTITION] | None = None
    offset: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _is_known(self) -> _Condition:
        if self.name not in TEXTS:
            hint = did_you_mean(self.name, TEXTS)
            raise ValueError(f"expected one of the conditions {', '.join(TEXTS)}, found {shown(self.name)}{hint}")
        if needs_node(self.name) != (self.node is not None):
            raise ValueError(f"condition {self.name}: expected {'a' if needs_node(self.name) else 'no'} node")
        if needs_partition(self.name) != (self.partition is not None):
            raise ValueError(f"condition {self.name}: expected {'a' if needs_partition(self.name) else 'no'} partition")
        if self.offset is not None and self.name not in WITH_OFFSET:
            raise ValueError(f"condition {self.name}: expected no offset")
        return self


class _Await(Arguments):
    condition: _Condition
    within_seconds: Seconds
    is_required: bool = True


class _Choose(Arguments):
    name: Annotated[str, Matching(CHOSEN, "a name of lower-case letters, digits and underscores, e.g. victim")]
    who: Who


OWN_STEPS: dict[str, Any] = {AWAIT: _Await, CHOOSE: _Choose, SLEEP: Seconds, HEAL: None, MARK: str, STOP_CLIENTS: None}
"""The steps that belong to no fault, each with the type of its arguments."""


@cache
def step_types() -> Mapping[str, Any]:
    """Every step by name, with the type of its arguments."""
    return OWN_STEPS | {name: fault.actions[name].arguments for name, fault in plugins.actions().items()}


class StoryStep(BaseModel):
    """harness.model.story.Step in a plan file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    f: str
    value: Any = None

    @staticmethod
    def of(step: Step) -> StoryStep:
        """The step of this value."""
        return StoryStep(f=step.f, value=step.value)

    def step(self) -> Step:
        """The step as a value."""
        return Step(self.f, self.value)

    @model_validator(mode="before")
    @classmethod
    def _by_current_names(cls, stored: Any) -> Any:
        """Plans of earlier releases have other names for some steps, arguments and conditions."""
        if not isinstance(stored, dict) or not isinstance(stored.get("f"), str):
            return stored
        step = {**stored, "f": current_op(stored["f"])}
        if "value" in step:
            step["value"] = current_arguments(step["value"])
        if step["f"] == AWAIT and isinstance(step.get("value"), dict) and "condition" in step["value"]:
            step["value"] |= {"condition": current_condition(step["value"]["condition"])}
        return step

    @model_validator(mode="after")
    def _takes_its_arguments(self) -> StoryStep:
        types = step_types()
        if self.f not in types:
            hint = did_you_mean(self.f, types)
            raise ValueError(f"step {shown(self.f)}: expected one of {', '.join(types)}{hint}")
        try:
            stored = json.dumps(self.value, default=str)
        except (ValueError, RecursionError) as error:  # more digits, or deeper, than JSON is written
            raise ValueError(f"{self.f}: expected arguments that can be stored as JSON") from error
        try:
            adapter_of(types[self.f]).validate_json(stored, strict=True)
        except ValidationError as error:
            problem = first_problem(error, types[self.f])
            where = dotted(dict.fromkeys((self.f, *problem.path)))  # a shape is named by its first key
            raise ValueError(f"{where}: {problem}") from error
        return self


def _names_are_chosen(story: list[StoryStep]) -> list[StoryStep]:
    """The story. Raises ValueError for a step on nodes by a name that no earlier step has chosen."""
    chosen: set[str] = set()
    for number, step in enumerate(story):
        value = step.value if isinstance(step.value, dict) else {}
        who = value.get("who", "")
        if who.startswith("$") and who.removeprefix("$") not in chosen:
            raise ValueError(f"{number}: {step.f}.who: expected a name that an earlier step has chosen, found {who}")
        if step.f == CHOOSE:
            chosen.add(value["name"])
    return story


Story = Annotated[list[StoryStep], AfterValidator(_names_are_chosen)]
"""The steps of a plan, in order."""
