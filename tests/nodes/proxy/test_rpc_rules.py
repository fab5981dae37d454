"""Which messages a rule matches, and on which of them it acts."""

from __future__ import annotations

import uuid

import pytest

from harness.model import BadInput
from harness.model.faults.rpc import DROP, HOLD, Api, Direction, RpcMatch, RpcRule, RuleCount, answer
from nodes.proxy.exchange import Exchange, open_exchange
from nodes.proxy.rules import RuleBook, fits
from nodes.wire import codec

METADATA_LOG = "__cluster_metadata"
NOT_CONTROLLER = 41


def vote(version: int = 2, pre_vote: bool = True, epoch: int = 4) -> Exchange:
    """A Vote request from node 2 to node 1."""
    partition = {
        "partition_index": 0,
        "replica_epoch": epoch,
        "replica_id": 2,
        "last_offset_epoch": 3,
        "last_offset": 9,
        "pre_vote": pre_vote,
        "replica_directory_id": None,
        "voter_directory_id": None,
    }
    values = {"cluster_id": "c", "voter_id": 1, "topics": [{"topic_name": METADATA_LOG, "partitions": [partition]}]}
    return _exchange(codec.VOTE, version, values)


def fetch() -> Exchange:
    """A Fetch from node 2 to node 1 of topics `a` (partitions 0 and 3) and `b` (partition 1)."""
    topics = [
        {
            "topic": name,
            "partitions": [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1} for number in numbers],
        }
        for name, numbers in (("a", (0, 3)), ("b", (1,)))
    ]
    values = {"max_wait": 500, "min_bytes": 1, "topics": topics, "forgotten_topics_data": []}
    return _exchange(codec.FETCH, 12, values)


def _exchange(api_key: int, version: int, values: dict[str, object]) -> Exchange:
    request = codec.build(api_key, version, "request", values)
    return open_exchange(codec.encode_request(request, 7, "n2"), (2, 1))


@pytest.mark.parametrize(
    ("match", "direction", "expected"),
    [
        (RpcMatch(), "request", True),
        (RpcMatch(), "response", False),
        (RpcMatch((Api.VOTE,)), "request", True),
        (RpcMatch((Api.FETCH, Api.VOTE)), "request", True),
        (RpcMatch((Api.FETCH,)), "request", False),
        (RpcMatch(sources=(2,), targets=(1, 3)), "request", True),
        (RpcMatch(sources=(1,)), "request", False),
        (RpcMatch(targets=(3,)), "request", False),
        (RpcMatch(direction="response", sources=(1,), targets=(2,)), "response", True),
        (RpcMatch(direction="response", sources=(2,)), "response", False),
        (RpcMatch(pre_vote=True), "request", True),
        (RpcMatch(pre_vote=False), "request", False),
        (RpcMatch(direction="response", pre_vote=True), "response", True),
        (RpcMatch(topic=METADATA_LOG, partition=0), "request", True),
        (RpcMatch(topic=METADATA_LOG, partition=1), "request", False),
        (RpcMatch(topic="other"), "request", False),
    ],
)
def test_fields_match_a_pre_vote_from_node_2_to_node_1(match: RpcMatch, direction: Direction, expected: bool) -> None:
    assert fits(match, vote(), direction) is expected


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [("a", 3, True), ("a", 1, False), ("b", 1, True), ("b", None, True), (None, 0, True), (None, 2, False)],
)
def test_topic_and_partition_must_match_the_same_entry(
    topic: str | None, partition: int | None, expected: bool
) -> None:
    assert fits(RpcMatch(topic=topic, partition=partition), fetch(), "request") is expected


@pytest.mark.parametrize("topic_id", [uuid.UUID(int=1), uuid.UUID(int=77)])
def test_topics_without_names_match_by_id_and_the_metadata_log_by_its_name(topic_id: uuid.UUID) -> None:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    topics = [{"topic_id": topic_id, "partitions": [partition]}]
    values = {"max_wait": 500, "min_bytes": 1, "topics": topics, "forgotten_topics_data": []}
    exchange = _exchange(codec.FETCH, 17, values)
    assert fits(RpcMatch(topic=str(topic_id), partition=0), exchange, "request") is (topic_id.int != 1)
    assert fits(RpcMatch(topic=METADATA_LOG, partition=0), exchange, "request") is (topic_id.int == 1)


@pytest.mark.parametrize(("version", "expected"), [(0, False), (1, False), (2, True)])
def test_votes_before_kip_996_are_not_pre_votes(version: int, expected: bool) -> None:
    exchange = vote(version)
    assert exchange.facts.pre_vote is expected
    assert exchange.facts.epoch == 4
    assert fits(RpcMatch(pre_vote=False), exchange, "request") is not expected


def test_a_request_of_an_unknown_version_matches_by_its_header_only() -> None:
    frame = bytearray(vote().frame)
    frame[6:8] = (99).to_bytes(2, "big")
    unknown = open_exchange(bytes(frame), (2, 1))
    assert fits(RpcMatch((Api.VOTE,)), unknown, "request")
    assert not fits(RpcMatch((Api.VOTE,), pre_vote=True), unknown, "request")


@pytest.mark.parametrize(
    ("match", "acted_on"),
    [
        (RpcMatch(), [1, 2, 3, 4, 5]),
        (RpcMatch(nth=3), [3]),
        (RpcMatch(limit=2), [1, 2]),
        (RpcMatch(nth=6), []),
        (RpcMatch(probability=1.0, limit=1), [1]),
    ],
    ids=["always", "third only", "at most two", "sixth of five", "probability 1, at most one"],
)
def test_rule_acts_on_some_of_five_matches(match: RpcMatch, acted_on: list[int]) -> None:
    book = RuleBook(seed=1)
    book.replace([RpcRule("rule", match, DROP)])
    decisions = [book.decide(vote(), "request") for _ in range(5)]
    assert [number for number, rule in enumerate(decisions, start=1) if rule] == acted_on
    assert book.counts({"rule": 3}) == {"rule": RuleCount(5, len(acted_on), 3)}


def test_random_choices_depend_only_on_the_seed() -> None:
    def decisions(seed: int) -> list[bool]:
        book = RuleBook(seed)
        book.replace([RpcRule("sometimes", RpcMatch(probability=0.3), DROP)])
        return [book.decide(vote(), "request") is not None for _ in range(200)]

    assert decisions(1) == decisions(1) != decisions(2)
    assert 30 < sum(decisions(1)) < 90


def test_the_first_rule_that_acts_applies_and_later_rules_see_the_messages_it_skips() -> None:
    book = RuleBook(seed=1)
    book.replace([RpcRule("second only", RpcMatch(nth=2), DROP), RpcRule("rest", RpcMatch(), HOLD)])
    names = [rule.name for rule in (book.decide(vote(), "request") for _ in range(3)) if rule]
    assert names == ["rest", "second only", "rest"]


def test_an_unchanged_rule_keeps_its_counters_and_a_changed_one_starts_at_zero() -> None:
    unchanged, old = RpcRule("unchanged", RpcMatch(limit=1), DROP), RpcRule("changes", RpcMatch(), HOLD)
    book = RuleBook(seed=1)
    book.replace([unchanged, old])
    for _ in range(2):
        book.decide(vote(), "request")
    kept = book.replace([unchanged, RpcRule("changes", RpcMatch(limit=1), HOLD)])
    assert kept == {"unchanged"}
    assert book.counts({}) == {"unchanged": RuleCount(2, 1), "changes": RuleCount()}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([RpcRule("a", RpcMatch((Api.PRODUCE,)), answer(NOT_CONTROLLER))], "an API with a top-level error code"),
        ([RpcRule("a", RpcMatch((9_999,)), answer(NOT_CONTROLLER))], "an API with a top-level error code"),
        ([RpcRule("a", RpcMatch((Api.VOTE,)), answer(9_999))], "one of Kafka's error codes, got 9999"),
        ([RpcRule("a", RpcMatch(sources=("leader",)), DROP)], "expected node numbers, got leader"),
        ([RpcRule("a", RpcMatch(), DROP), RpcRule("a", RpcMatch(), HOLD)], "expected unique names"),
    ],
    ids=["no error code in the response", "unknown API", "unknown error", "a role", "duplicate name"],
)
def test_invalid_rules_are_rejected_and_the_current_rules_stay(rules: list[RpcRule], message: str) -> None:
    book = RuleBook(seed=1)
    book.replace([RpcRule("current", RpcMatch(), DROP)])
    with pytest.raises(BadInput, match=message):
        book.replace(rules)
    assert list(book.counts({})) == ["current"]
