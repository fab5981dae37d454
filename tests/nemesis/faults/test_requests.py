"""A topic is requested from one chosen controller."""

from __future__ import annotations

import asyncio

import pytest

from harness import plugins
from harness.model import BadInput, PeerFailure
from harness.model.faults.requests import create_topic
from harness.model.story import ALL, LEADER
from nemesis.faults.requests import FAULT
from nemesis.session import refuse_unavailable


class FakeRequests:
    """Records the requests; each appends a record for the topic and for each partition."""

    def __init__(self):
        self.sent = []

    async def create_topic(self, node, topic, partitions, is_answered):
        self.sent.append((node, topic, partitions, is_answered))
        return partitions + 1


def inject(context, step):
    value = FAULT.actions[step.f].complete(step.value)
    return asyncio.run(FAULT.inject(context, step.f, FAULT.resolve(context, step.f, value)))


@pytest.mark.parametrize(("is_answered", "outcome"), [(True, "created"), (False, "without an answer")])
def test_topic_is_requested_from_the_chosen_node(context, is_answered, outcome):
    context.requests = FakeRequests()
    done = inject(context, create_topic(LEADER, "burst", 1000, is_answered))
    assert context.requests.sent == [(2, "burst", 1000, is_answered)]
    assert done == {"nodes": [2], "label": f"topic burst {outcome}: n2 appended 1001 records"}


def test_role_must_have_one_node(context):
    with pytest.raises(PeerFailure, match="create_topic: expected one node in the role all, found 3"):
        FAULT.resolve(context, "create_topic", {"who": ALL})


def test_system_without_topics_is_refused_before_the_run(context):
    reference, _ = plugins.system("reference")
    kafka, _ = plugins.system("kafka")
    step = create_topic(LEADER, "burst", 10)
    assert FAULT.unsupported(reference, step) == "reference has no topics"
    assert FAULT.unsupported(kafka, step) is None
    with pytest.raises(BadInput, match="story: action create_topic"):
        refuse_unavailable(["create_topic"], context, plugins.actions())
