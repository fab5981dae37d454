"""Every partition is asked for once per broker and elected once, whatever a server's limit; what passes is repeated.

The servers here are models: they answer the first partitions of a request, as the proposal says.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from harness.unclean_recovery.choice import ReplicaLog
from harness.unclean_recovery.elections import Batch, batches
from harness.unclean_recovery.options import ElectionType
from harness.unclean_recovery.outcomes import Outcome, Result
from harness.unclean_recovery.partitions import PartitionState, TopicPartition
from harness.unclean_recovery.survey import LEFT_OUT, BrokerSurvey, answers_of, question, surveys_of
from harness.unclean_recovery.transient import LEAVES_IN_DOUBT, PASSES_AT_A_REPLICA, PASSES_AT_THE_CONTROLLER
from nodes.wire import codec

A_0, A_1, B_0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LOG = ReplicaLog(3, 70)


def ids(*topics: str) -> dict[str, uuid.UUID]:
    return {topic: uuid.uuid5(uuid.NAMESPACE_DNS, topic) for topic in topics}


def listed(number: int, topics: int) -> list[TopicPartition]:
    return [TopicPartition(f"t{at % topics}", at) for at in range(number)]


def log_response(values: Any, limit: int) -> Any:
    """A server's answer for the first partitions of a question, up to its limit."""
    asked = [(topic["topic_id"], number) for topic in values["topic_partitions"] for number in topic["partitions"]]
    served = [
        {
            "topic_id": topic_id,
            "partition_log_info": [
                {"partition": number, "partition_leader_epoch": 3, "log_end_offset": 70, "error_code": ErrorCode.none}
            ],
        }
        for topic_id, number in asked[:limit]
    ]
    response = {
        "throttle_time": 0,
        "broker_epoch": 1,
        "has_more_data": len(asked) > limit,
        "topic_partition_log_info_list": served,
    }
    return codec.build(codec.GET_REPLICA_LOG_INFO, 0, "response", response)


def election_response(values: Any, limit: int, codes: dict[int, ErrorCode] | None = None) -> Any:
    asked = [(topic["topic"], number) for topic in values["topic_partitions"] for number in topic["partitions"]]
    results = [
        {
            "topic": topic,
            "partition_result": [
                {
                    "partition_id": number,
                    "error_code": (codes or {}).get(number, ErrorCode.none),
                    "error_message": None,
                }
            ],
        }
        for topic, number in asked[:limit]
    ]
    response = {"throttle_time": 0, "error_code": ErrorCode.none, "replica_election_results": results}
    return codec.build(codec.ELECT_LEADERS, 3, "response", response)


def refusal(code: ErrorCode) -> Any:
    values = {"throttle_time": 0, "error_code": code, "replica_election_results": []}
    return codec.build(codec.ELECT_LEADERS, 3, "response", values)


NUMBERS = st.integers(0, 60)
SIZES = st.integers(1, 20)


@given(NUMBERS, st.integers(1, 5), SIZES, SIZES, st.data())
def test_each_partition_is_asked_for_once_per_broker(
    number: int, topics: int, page: int, limit: int, data: st.DataObject
) -> None:
    replicas = st.lists(st.integers(1, 4), unique=True, max_size=4)
    names = ids(*(each.topic for each in listed(number, topics)))
    offline = {
        each: PartitionState(names[each.topic], tuple(data.draw(replicas)), None) for each in listed(number, topics)
    }
    for broker, survey in surveys_of(offline, page).items():
        asked, answered = Counter[TopicPartition](), Counter[TopicPartition]()
        while not survey.is_done:
            now = survey.page()
            assert 0 < len(now) <= page
            assert survey.postponed == []
            answers = answers_of(response := log_response(question(now, names), limit), _reversed(names))
            asked.update(now)
            answered.update(list(answers))
            survey.receive(now, answers, response.has_more_data)
        expected = {partition for partition, state in offline.items() if broker in state.replicas}
        assert answered == dict.fromkeys(expected, 1)
        assert survey.logs == dict.fromkeys(expected, LOG)
        if limit >= page:
            assert asked == answered


def _reversed(names: dict[str, uuid.UUID]) -> dict[uuid.UUID, str]:
    return {topic_id: topic for topic, topic_id in names.items()}


@given(NUMBERS, st.integers(1, 5), SIZES, SIZES)
def test_each_partition_is_elected_once(number: int, topics: int, page: int, limit: int) -> None:
    wanted: dict[TopicPartition, int | None] = {each: each.partition % 3 for each in listed(number, topics)}
    served, outcomes = Counter[tuple[str, int]](), dict[TopicPartition, Outcome]()
    for batch in batches(ElectionType.DESIGNATED, wanted, 0, page):
        while batch.open:
            values = batch.values(1000)
            assert 0 < len(batch.open) <= page
            for topic in values["topic_partitions"]:
                designated = dict(zip(topic["partitions"], topic["designated_leaders"], strict=True))
                assert designated == {number: number % 3 for number in topic["partitions"]}
            assert len({topic["topic"] for topic in values["topic_partitions"]}) == len(values["topic_partitions"])
            response = election_response(values, limit)
            served.update(
                (each.topic, each.partition_result[0].partition_id) for each in response.replica_election_results
            )
            assert batch.receive(response) is False
        outcomes |= batch.outcomes
    assert served == {(each.topic, each.partition): 1 for each in wanted}
    assert outcomes == {each: Outcome(Result.ELECTED, leader) for each, leader in wanted.items()}


def test_a_survey_of_2500_partitions_is_three_requests() -> None:
    names, survey = ids("t0"), BrokerSurvey(listed(2500, 1))
    sizes = []
    while not survey.is_done:
        page = survey.page()
        sizes.append(len(page))
        survey.receive(page, answers_of(log_response(question(page, names), 1000), _reversed(names)), False)
    assert sizes == [1000, 1000, 500]


@pytest.mark.parametrize("more", [False, True])
def test_a_server_that_leaves_everything_out_is_asked_again_after_a_pause(more: bool) -> None:
    survey = BrokerSurvey([A_0, B_0])
    survey.receive(survey.page(), {}, more)
    assert (survey.open, survey.postponed, survey.is_done) == ([], [A_0, B_0], False)
    assert survey.logs[A_0].error == LEFT_OUT
    survey.resume()
    assert survey.page() == (A_0, B_0)


@pytest.mark.parametrize("code", ErrorCode)
def test_errors_of_a_replica_pass_or_are_final(code: ErrorCode) -> None:
    survey = BrokerSurvey([A_0])
    survey.receive((A_0,), {A_0: (code, ReplicaLog(error="" if code is ErrorCode.none else code.name))}, False)
    assert survey.is_done is (code not in PASSES_AT_A_REPLICA)


def test_a_broker_without_an_answer_is_asked_for_all_again_and_keeps_its_answers() -> None:
    survey = BrokerSurvey([A_0, A_1, B_0], page_size=1)
    survey.receive((A_0,), {A_0: (ErrorCode.none, LOG)}, False)
    survey.postpone("the connection broke")
    assert survey.logs == {A_0: LOG, **dict.fromkeys((A_1, B_0), ReplicaLog(error="the connection broke"))}
    survey.resume()
    assert survey.open == [A_1, B_0]
    survey.give_up("no such API")
    assert survey.is_done
    assert survey.logs[B_0].error == "no such API"


def test_answers_that_were_not_asked_for_change_nothing() -> None:
    names = ids("a")
    survey = BrokerSurvey([A_0])
    response = log_response(question([A_0, A_1, B_0], ids("a", "b")), 9)
    survey.receive((A_0,), answers_of(response, _reversed(names)), False)
    assert survey.logs == {A_0: LOG}


def batch(retries: int = 3, kind: ElectionType = ElectionType.DESIGNATED) -> Batch:
    leader = 4 if kind is ElectionType.DESIGNATED else None
    (only,) = batches(kind, {A_0: leader, A_1: leader}, retries)
    return only


@pytest.mark.parametrize("code", PASSES_AT_THE_CONTROLLER)
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_an_error_that_passes_is_retried_so_often_and_no_more(code: ErrorCode, retries: int) -> None:
    elections = batch(retries)
    requests = 1
    while elections.receive(refusal(code)):
        requests += 1
    assert requests == retries + 1
    result = Result.UNKNOWN if code in LEAVES_IN_DOUBT else Result.FAILED
    assert elections.outcomes == dict.fromkeys((A_0, A_1), Outcome(result, 4, code.name.upper()))


def test_only_what_failed_is_retried() -> None:
    elections = batch(1)
    assert elections.receive(election_response(elections.values(1), 9, {1: ErrorCode.not_controller})) is True
    assert elections.outcomes == {A_0: Outcome(Result.ELECTED, 4)}
    assert elections.values(1)["topic_partitions"] == [{"topic": "a", "partitions": [1], "designated_leaders": [4]}]
    elections.receive(election_response(elections.values(1), 9))
    assert elections.outcomes[A_1] == Outcome(Result.ELECTED, 4)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code not in PASSES_AT_THE_CONTROLLER])
def test_every_other_error_is_an_outcome(code: ErrorCode) -> None:
    elections = batch()
    assert elections.receive(election_response(elections.values(1), 9, {0: code, 1: code})) is False
    expected = {
        ErrorCode.none: Outcome(Result.ELECTED, 4),
        ErrorCode.election_not_needed: Outcome(Result.ALREADY_ONLINE),
    }
    assert elections.outcomes[A_0] == expected.get(code, Outcome(Result.FAILED, 4, code.name.upper()))
    if code is not ErrorCode.none:
        refused = batch()
        assert refused.receive(refusal(code)) is False
        assert {each.result for each in refused.outcomes.values()} == {Result.FAILED}


def test_a_preferred_election_that_is_not_needed_says_so() -> None:
    elections = batch(kind=ElectionType.PREFERRED)
    elections.receive(election_response(elections.values(1), 9, dict.fromkeys((0, 1), ErrorCode.election_not_needed)))
    assert elections.outcomes == dict.fromkeys((A_0, A_1), Outcome(Result.NOT_NEEDED))
    assert elections.values(1)["election_type"] == 0


def test_a_request_without_an_answer_is_in_doubt_until_another_answer() -> None:
    elections = batch(1)
    assert elections.lose("the connection broke", was_sent=True) is True
    elections.receive(election_response(elections.values(1), 1, {0: ErrorCode.election_not_needed}))
    assert elections.outcomes[A_0].result is Result.ALREADY_ONLINE
    assert "whose answer was lost" in elections.outcomes[A_0].reason
    assert elections.lose("timed out", was_sent=False) is False
    assert elections.outcomes[A_1] == Outcome(Result.UNKNOWN, 4, "timed out")


def test_only_partitions_whose_election_timed_out_are_in_doubt() -> None:
    elections = batch(0)
    codes = {0: ErrorCode.request_timed_out, 1: ErrorCode.not_controller}
    assert elections.receive(election_response(elections.values(1), 9, codes)) is False
    assert [elections.outcomes[each].result for each in (A_0, A_1)] == [Result.UNKNOWN, Result.FAILED]


def test_a_request_that_was_never_sent_has_failed() -> None:
    elections = batch(0)
    assert elections.lose("connection refused", was_sent=False) is False
    assert elections.outcomes[A_0] == Outcome(Result.FAILED, 4, "connection refused")


@pytest.mark.parametrize(
    ("was_sent", "result"), [(False, Result.NOT_DONE), (True, Result.UNKNOWN)], ids=["not sent", "sent"]
)
def test_interrupted_elections_are_not_done_unless_a_request_is_in_doubt(was_sent: bool, result: Result) -> None:
    elections = batch()
    elections.lose("the connection broke", was_sent)
    elections.interrupt()
    assert {each.result for each in elections.outcomes.values()} == {result}
    assert elections.open == {}


def test_a_server_that_answers_for_no_partition_uses_up_the_retries() -> None:
    elections = batch(2)
    assert [elections.receive(election_response(elections.values(1), 0)) for _ in range(3)] == [True, True, False]
    assert elections.outcomes[A_0] == Outcome(Result.FAILED, 4, LEFT_OUT)


def test_page_lists_every_error_that_passes() -> None:
    page = (Path(__file__).parents[3] / "docs/unclean-recovery.md").read_text()
    table = page[page.index("## Errors that pass") :].split("\n\n")[1]
    assert set(re.findall(r"[A-Z]+_[A-Z_]+", table)) == {code.name.upper() for code in PASSES_AT_A_REPLICA}
