"""Single requests to chosen nodes: a topic with many partitions, created at one controller.

The request is verified by the controller's log, whose end must move by a record for each partition. Nothing is undone:
a created topic stays.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from harness.model.faults.requests import create_topic
from harness.model.story import LEADER, Step
from harness.model.validation import Matching
from nemesis.arguments import OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

PARTITIONS_MAX = 5000
Topic = Annotated[str, Matching(r"[A-Za-z0-9._-]{1,200}", "the name of a topic")]


class CreateTopic(OnNodes):
    """The topic, its number of partitions, and whether the request has to be answered."""

    topic: Topic
    partitions: Annotated[int, Field(ge=1, le=PARTITIONS_MAX)] = 1
    is_answered: bool = True


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The arguments, with the one node of the role."""
    return {**value, "nodes": [context.require_one(f, value["who"])]}


async def inject(context: NemesisContext, _f: str, resolved: Resolved) -> dict[str, Any]:
    """Send the request; returns the node and a label with what it appended."""
    assert context.requests is not None, "unavailable actions are refused before"
    (node,), topic = resolved["nodes"], resolved["topic"]
    is_answered, partitions = resolved["is_answered"], resolved["partitions"]
    appended = await context.requests.create_topic(node, topic, partitions, is_answered)
    outcome = "created" if is_answered else "without an answer"
    return {"nodes": [node], "label": f"topic {topic} {outcome}: n{node} appended {appended} records"}


def sample(random_source: random.Random, _nodes: int) -> list[Step]:
    """A topic with a few or many partitions, created at the leader."""
    name = f"burst-{random_source.randrange(1 << 32):08x}"
    return [create_topic(LEADER, name, random_source.choice([1, 10, 200]))]


FAULT = Fault(
    name="requests",
    summary="single requests to chosen nodes: a topic with many partitions, in one atomic batch of metadata records",
    actions={"create_topic": Action(CreateTopic, momentary=True)},
    unsupported=lambda system, _step: None if system.requests else f"{system.name} has no topics",
    unavailable=lambda context, _action: context.why_unavailable("requests"),
    resolve=resolve,
    inject=inject,
    sample=sample,
    trials=((create_topic(LEADER, "trial", 10),),),
)
