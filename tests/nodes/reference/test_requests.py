"""Requests between nodes: the one after an abandoned request needs a connection of its own."""

from __future__ import annotations

from nodes.reference.core.context import Context
from nodes.reference.core.events import Election, Send, Stored
from nodes.reference.core.messages import DiscoverRequest
from nodes.reference.core.roles.requests import Requests
from nodes.reference.core.settings import NodeSettings

REQUEST = DiscoverRequest("c", (), -1, 0)


def sent(requests: Requests, context: Context, peer: int) -> Send:
    requests.send(peer, REQUEST)
    (effect,) = context.take_effects()
    assert isinstance(effect, Send)
    return effect


def test_a_request_after_one_whose_response_is_ignored_is_marked_once() -> None:
    settings = NodeSettings(1, (1, 2, 3), "c", request_timeout_ms=500)
    context = Context.restored(settings, Stored(Election()), lambda low, _: low, 0, 0)
    requests = Requests(context)
    first = sent(requests, context, 2)
    assert not first.is_after_abandoned
    context.now_ms = 500
    requests.expire()
    assert not requests.ended(2, first.request_id, retry_later=False), "its response is ignored"
    second = sent(requests, context, 2)
    assert second.is_after_abandoned
    assert requests.ended(2, second.request_id, retry_later=False)
    assert not sent(requests, context, 2).is_after_abandoned
    assert not sent(requests, context, 3).is_after_abandoned


def test_a_transition_abandons_what_is_pending() -> None:
    context = Context.restored(NodeSettings(1, (1, 2, 3), "c"), Stored(Election()), lambda low, _: low, 0, 0)
    requests = Requests(context)
    sent(requests, context, 2)
    requests.clear()
    assert [sent(requests, context, peer).is_after_abandoned for peer in (2, 3)] == [True, False]
