"""A topic is requested from one controller, and its records have to be in that controller's log."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.session import NoAnswer
from nodes.kafka import requests
from nodes.kafka.requests import CREATE_TOPICS, KafkaRequests
from nodes.wire.produce import write_batch


class FakeController:
    """A controller that appends what it is asked for; it may not lead, refuse, append nothing, or not answer."""

    def __init__(
        self, *, leads: bool = True, error: ErrorCode = ErrorCode.none, appends: bool = True, answers: bool = True
    ):
        self.leads, self.error, self.appends, self.answers = leads, error, appends, answers
        self.end, self.sent, self.closed = 40, [], 0

    async def call(self, _request: Any, _timeout_ms: int) -> Any:
        error = ErrorCode.none if self.leads else ErrorCode.not_leader_or_follower
        voter = SimpleNamespace(replica_id=1, log_end_offset=self.end)
        fields = {
            "leader_id": 1,
            "leader_epoch": 3,
            "high_watermark": 30,
            "current_voters": [voter],
            "observers": [],
            "target_voters": [],
        }
        topic = SimpleNamespace(partitions=[SimpleNamespace(error_code=error, **fields)])
        return SimpleNamespace(error_code=ErrorCode.none, topics=[topic])

    async def call_latest(self, api_key: int, values: Any, _timeout_ms: int) -> Any:
        assert api_key == CREATE_TOPICS
        (topic,) = values["topics"]
        self.sent.append((topic["name"], topic["num_partitions"], topic["replication_factor"]))
        if self.appends and self.error is ErrorCode.none:
            self.end += topic["num_partitions"] + 1
        if not self.answers:
            await asyncio.Event().wait()
        return SimpleNamespace(topics=[SimpleNamespace(error_code=self.error, error_message="no")])

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "TIMEOUT_MS", 200)
    monkeypatch.setattr(requests, "POLL_SECONDS", 0.0)


def create(controller: FakeController, *, is_answered: bool) -> int:
    async def run() -> int:
        sender = KafkaRequests({1: 9093}, [], lambda *_: controller, lambda: None, write_batch)
        try:
            return await sender.create_topic(1, "burst", 1000, is_answered)
        finally:
            await sender.close()

    return asyncio.run(run())


def test_created_topic_returns_how_far_the_log_grew() -> None:
    controller = FakeController()
    assert create(controller, is_answered=True) == 1001
    assert controller.sent == [("burst", 1000, 1)]
    assert controller.closed == 2


def test_request_that_nobody_answers_only_has_to_be_in_the_log() -> None:
    assert create(FakeController(answers=False), is_answered=False) == 1001


@pytest.mark.parametrize(
    ("controller", "problem"),
    [
        (FakeController(leads=False), "creating a topic at n1: expected the leader, found not_leader_or_follower"),
        (
            FakeController(error=ErrorCode.topic_already_exists),
            r"creating the topic burst at n1: .*already_exists \(no\)",
        ),
        (
            FakeController(appends=False, answers=False),
            "creating a topic at n1: expected its log to reach 1040, found 40",
        ),
    ],
    ids=["not the leader", "refused", "not appended"],
)
def test_topic_that_is_not_appended_is_a_failure(controller: FakeController, problem: str) -> None:
    with pytest.raises(PeerFailure, match=problem):
        create(controller, is_answered=False)


def test_request_that_has_to_be_answered_fails_without_an_answer() -> None:
    class Silent(FakeController):
        async def call_latest(self, api_key: int, values: Any, timeout_ms: int) -> Any:
            await super().call_latest(api_key, values, timeout_ms)
            raise NoAnswer("no response within 0.2 s")

    with pytest.raises(NoAnswer):
        create(Silent(), is_answered=True)
