"""Single requests to chosen nodes: a topic with many partitions, created at one controller; a partition with chosen
replicas; one batch of records, written to one broker.

The first is verified by the controller's log, whose end must move by a record for each partition, the others by the
broker's answer, the batch by its offsets too. Nothing is undone: what was created or written stays.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from harness.model.faults.requests import Acks, Requests, create_topic
from harness.model.story import LEADER, Step
from harness.model.validation import Matching
from nemesis.arguments import PARTITION, Arguments, OnNodes, Replicas
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

PARTITIONS_MAX = 5000
RECORDS_MAX = 10_000
Topic = Annotated[str, Matching(r"[A-Za-z0-9._-]{1,200}", "the name of a topic")]


class CreateTopic(OnNodes):
    """The topic, its number of partitions, and whether the request has to be answered."""

    topic: Topic
    partitions: Annotated[int, Field(ge=1, le=PARTITIONS_MAX)] = 1
    is_answered: bool = True


class CreatePartition(Arguments):
    """The topic, the replicas of its one partition, the preferred one first, and the topic's configs."""

    topic: Topic
    replicas: Replicas
    configs: Annotated[dict[str, str], Field(default_factory=dict)]


class Produce(OnNodes):
    """The broker, the partition that it leads, the number of records, who has to acknowledge them, and their key."""

    partition: Annotated[str, PARTITION]
    records: Annotated[int, Field(ge=1, le=RECORDS_MAX)] = 1
    acks: Acks = "leader"
    key: Annotated[str, Field(min_length=1, max_length=100)] | None = None


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The arguments, with the replicas, or the one node of the role."""
    if f == "create_partition":
        return {**value, "nodes": list(value["replicas"])}
    return {**value, "nodes": [context.require_one(f, value["who"])]}


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Send the request; returns the nodes and a label with what it appended."""
    assert context.requests is not None, "unavailable actions are refused before"
    send = {"create_topic": _create_topic, "create_partition": _create_partition, "produce": _produce}
    return {"nodes": resolved["nodes"], "label": await send[f](context.requests, resolved)}


async def _create_topic(requests: Requests, resolved: Resolved) -> str:
    (node,), topic = resolved["nodes"], resolved["topic"]
    is_answered, partitions = resolved["is_answered"], resolved["partitions"]
    appended = await requests.create_topic(node, topic, partitions, is_answered)
    outcome = "created" if is_answered else "without an answer"
    return f"topic {topic} {outcome}: n{node} appended {appended} records"


async def _create_partition(requests: Requests, resolved: Resolved) -> str:
    topic, replicas = resolved["topic"], resolved["replicas"]
    await requests.create_partition(topic, replicas, resolved["configs"])
    return f"{topic}-0 created on {', '.join(f'n{node}' for node in replicas)}"


async def _produce(requests: Requests, resolved: Resolved) -> str:
    (node,), count, partition = resolved["nodes"], resolved["records"], resolved["partition"]
    topic, _, number = partition.rpartition("-")
    first = await requests.produce(node, (topic, int(number)), count, resolved["acks"], resolved.get("key"))
    offsets = f"offsets {first} to {first + count - 1}" if count > 1 else f"offset {first}"
    return f"n{node} wrote {offsets} of {partition}"


def sample(random_source: random.Random, _nodes: int) -> list[Step]:
    """A topic with a few or many partitions, created at the leader."""
    name = f"burst-{random_source.randrange(1 << 32):08x}"
    return [create_topic(LEADER, name, random_source.choice([1, 10, 200]))]


FAULT = Fault(
    name="requests",
    summary="single requests to chosen nodes: topics, in one batch of metadata records, and batches of records",
    actions={
        "create_topic": Action(CreateTopic, momentary=True),
        "create_partition": Action(CreatePartition, momentary=True),
        "produce": Action(Produce, momentary=True),
    },
    unavailable=lambda context, action: context.why_unavailable("requests") or context.unavailable.get(action),
    resolve=resolve,
    inject=inject,
    sample=sample,
    trials=((create_topic(LEADER, "trial", 10),),),
)
