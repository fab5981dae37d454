"""A topic is requested from one chosen controller, a batch is written to one chosen broker."""

from __future__ import annotations

import asyncio

import pytest

from harness import plugins
from harness.model import BadInput, PeerFailure
from harness.model.faults.requests import create_partition, create_topic, produce
from harness.model.story import ALL, LEADER, Step
from harness.planning.story_steps import StoryStep
from nemesis.faults.requests import FAULT
from nemesis.session import refuse_unavailable


class FakeRequests:
    """Records the requests; each appends a record for the topic and for each partition."""

    def __init__(self):
        self.sent = []

    async def create_topic(self, node, topic, partitions, is_answered):
        self.sent.append((node, topic, partitions, is_answered))
        return partitions + 1

    async def create_partition(self, topic, replicas, configs):
        self.sent.append((topic, list(replicas), configs))

    async def produce(self, node, partition, records, acks, key):
        self.sent.append((node, partition, records, acks, key))
        return 11


def inject(context, step):
    value = FAULT.actions[step.f].complete(step.value)
    return asyncio.run(FAULT.inject(context, step.f, FAULT.resolve(context, step.f, value)))


@pytest.mark.parametrize(("is_answered", "outcome"), [(True, "created"), (False, "without an answer")])
def test_topic_is_requested_from_the_chosen_node(context, is_answered, outcome):
    context.requests = FakeRequests()
    done = inject(context, create_topic(LEADER, "burst", 1000, is_answered))
    assert context.requests.sent == [(2, "burst", 1000, is_answered)]
    assert done == {"nodes": [2], "label": f"topic burst {outcome}: n2 appended 1001 records"}


def test_partition_is_created_with_its_replicas_in_order(context):
    context.requests = FakeRequests()
    done = inject(context, create_partition("t", (2, 1), {"min.insync.replicas": "1"}))
    assert context.requests.sent == [("t", [2, 1], {"min.insync.replicas": "1"})]
    assert done == {"nodes": [2, 1], "label": "t-0 created on n2, n1"}


@pytest.mark.parametrize(
    ("records", "key", "offsets"), [(1, None, "offset 11"), (10, None, "offsets 11 to 20"), (1, "k", "offset 11")]
)
def test_batch_is_written_to_the_chosen_node(context, records, key, offsets):
    context.requests = FakeRequests()
    done = inject(context, produce("n1", "a-b-3", records, acks="all", key=key))
    assert context.requests.sent == [(1, ("a-b", 3), records, "all", key)]
    assert done == {"nodes": [1], "label": f"n1 wrote {offsets} of a-b-3"}


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (create_partition("t", (1, 1)), "expected different nodes"),
        (create_partition("t", ()), "at least 1"),
        (create_partition("t/0", (1,)), "the name of a topic"),
        (produce("n1", "t", 1), "the name of a partition"),
        (produce("n1", "t-0", 0), "1 or more"),
        (Step("produce", {"who": "n1", "partition": "t-0", "acks": "none"}), "leader"),
    ],
    ids=["a replica twice", "no replica", "not a topic", "not a partition", "no record", "not acknowledged"],
)
def test_arguments_are_refused(step, problem):
    with pytest.raises(ValueError, match=step.f) as refused:
        StoryStep.of(step)
    assert problem in str(refused.value)


def test_action_that_a_layout_does_not_support_has_its_reason(context):
    context.requests, context.unavailable = FakeRequests(), {"produce": "no brokers"}
    assert FAULT.unavailable(context, "produce") == "no brokers"
    assert FAULT.unavailable(context, "create_topic") is None


def test_role_must_have_one_node(context):
    with pytest.raises(PeerFailure, match="create_topic: expected one node in the role all, found 3"):
        FAULT.resolve(context, "create_topic", {"who": ALL})


def test_hosts_without_the_capability_are_refused(context):
    with pytest.raises(BadInput, match="story: action create_topic"):
        refuse_unavailable(["create_topic"], context, plugins.actions())
