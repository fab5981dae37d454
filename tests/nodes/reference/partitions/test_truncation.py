"""Truncation by each rule, over histories of leader changes, beside an oracle: LD-07 to LD-10, LD-14 to LD-17."""

from __future__ import annotations

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions.memory_log import MemoryLog
from nodes.reference.core.partitions.questions import EpochAnswer, KnownEpoch, LargestEpoch, Lineage, answer
from nodes.reference.core.partitions.truncation import RULES, TRUNCATIONS, FollowerLog, Move, Truncation
from tests.nodes.reference.partitions.lineages import (
    Clean,
    Outcome,
    Unclean,
    batch,
    clean_histories,
    common_end,
    entries,
    of,
    reconcile,
    unclean_histories,
)

SAFE: tuple[Truncation, ...] = ("kip-279", "on-fetch")
FALLS_BACK: tuple[Truncation, ...] = ("kip-279-letter", "kip-279-alternative-1", "kip-279-alternative-2")
"""Right, unless the replicas have no epoch in common; then they truncate to the high watermark."""

SEARCH = settings(max_examples=20_000, derandomize=True, phases=[Phase.generate])
"""For counterexamples: the first one is enough."""


def followers(history: Unclean) -> list[int]:
    """The replicas that do not lead."""
    return [replica for replica in range(len(history.logs)) if replica != history.leader]


def is_right(outcome: Outcome, history: Unclean, replica: int) -> bool:
    """Whether the follower kept exactly what it has in common with the leader, and then copied the rest."""
    log, leader = history.logs[replica], history.logs[history.leader]
    is_largest = outcome.truncated_to == common_end(log, leader)
    return is_largest and not outcome.is_stuck and entries(outcome.log) == entries(leader)


def ends_equal(outcome: Outcome, history: Unclean) -> bool:
    """Whether the follower's log is the leader's in the end."""
    return not outcome.is_stuck and entries(outcome.log) == entries(history.logs[history.leader])


def has_common_epoch(history: Unclean, replica: int) -> bool:
    """Whether the follower and the leader know one epoch both."""
    mine, leaders = (history.logs[each].epochs for each in (replica, history.leader))
    return any(each.epoch in leaders for each in mine.starts)


@pytest.mark.parametrize("truncation", SAFE)
@settings(max_examples=300, deadline=None)
@given(history=unclean_histories())
def test_follower_keeps_the_largest_common_prefix_after_any_leader_changes(
    truncation: Truncation, history: Unclean
) -> None:
    for replica in followers(history):
        outcome = of(history, truncation, replica)
        assert is_right(outcome, history, replica), outcome
        heads = [head for _, head in history.logs[replica].batches(0)]
        assert outcome.truncated_to in {0, *(head.last_offset + 1 for head in heads)}, "a batch was split"


@pytest.mark.parametrize("truncation", FALLS_BACK)
@settings(max_examples=200, deadline=None)
@given(history=unclean_histories())
def test_rules_that_fall_back_are_right_where_an_epoch_is_common(truncation: Truncation, history: Unclean) -> None:
    for replica in followers(history):
        if has_common_epoch(history, replica):
            assert is_right(of(history, truncation, replica), history, replica)


@pytest.mark.parametrize("truncation", [*SAFE, *FALLS_BACK, "kip-279-clean-only-1"])
@settings(max_examples=200, deadline=None)
@given(history=clean_histories())
def test_logs_are_equal_after_clean_elections(truncation: Truncation, history: Clean) -> None:
    for replica in followers(history):
        outcome = of(history, truncation, replica)
        assert ends_equal(outcome, history)
        assert outcome.truncated_to >= min(history.high_watermarks[replica], common_end_of(history, replica))


def common_end_of(history: Unclean, replica: int) -> int:
    """The end of what the follower has in common with the leader."""
    return common_end(history.logs[replica], history.logs[history.leader])


WRONG = [name for name in TRUNCATIONS if name not in SAFE]


@pytest.mark.parametrize("truncation", WRONG)
def test_every_other_rule_leaves_logs_different_after_some_unclean_elections(truncation: Truncation) -> None:
    def differs(history: Unclean) -> bool:
        return any(not ends_equal(of(history, truncation, replica), history) for replica in followers(history))

    found = find(unclean_histories(), differs, settings=SEARCH)
    assert len(found.logs) >= 2


def test_the_high_watermark_rule_truncates_more_than_it_has_to_after_clean_elections() -> None:
    def loses(history: Clean) -> bool:
        ends = ((of(history, "high-watermark", each).truncated_to, each) for each in followers(history))
        return any(end < common_end_of(history, replica) for end, replica in ends)

    assert find(clean_histories(), loses, settings=SEARCH)


def step_3(n: int) -> Unclean:
    """KIP-279's Scenario 1 at its step 3: A (0) leads epoch 3, B (1) has offsets 11 to n of epoch 2."""
    history = Unclean(2)
    history.epoch = 0
    history.lead(0)
    history.write(11)
    history.copy(1, 1)
    history.write(10)
    history.high_watermarks = [11, 11]
    history.lead(1)
    history.write(n - 10)
    history.lead(0)
    history.write(10)
    history.logs[1].truncate(n + 1)
    history.high_watermarks = [11, 11]
    return history


def failovers(count: int) -> Unclean:
    """LD-05, extended: A and B lead in turn, each alone, this many times after A's epoch 0, and write one record."""
    history = Unclean(2)
    history.logs[0].truncate_fully_and_start_at(0)
    history.logs[0].begin_epoch(0)
    history.write(1)
    for number in range(1, count + 1):
        history.lead(number % 2)
        history.write(1)
    return history


@pytest.mark.parametrize("n", [15, 20, 25])
@pytest.mark.parametrize(
    ("truncation", "rounds", "bits"),
    [
        ("kip-279", 1, 32),
        ("kip-279-letter", 1, 32),
        ("kip-279-alternative-1", 2, 64),
        ("kip-279-alternative-2", 1, 192),
        ("kip-279-clean-only-1", 1, 32),
        ("on-fetch", 1, 0),
    ],
)
def test_scenario_1_costs_each_rule_these_rounds_and_bits(
    truncation: Truncation, rounds: int, bits: int, n: int
) -> None:
    history = step_3(n)
    outcome = of(history, truncation, 1)
    assert is_right(outcome, history, 1)
    assert (outcome.rounds, outcome.bits, outcome.truncated_to) == (rounds, bits, 11)


@pytest.mark.parametrize(("n", "is_equal", "is_stuck"), [(15, False, True), (20, False, False), (25, True, False)])
def test_scenario_1_under_kip_101_depends_on_n(n: int, is_equal: bool, is_stuck: bool) -> None:
    history = step_3(n)
    outcome = of(history, "kip-101", 1)
    assert (ends_equal(outcome, history), outcome.is_stuck) == (is_equal, is_stuck)


def test_alternative_1_asks_about_epoch_2_then_1() -> None:
    assert of(step_3(15), "kip-279-alternative-1", 1).asked == [KnownEpoch(2), KnownEpoch(1)]


def test_alternative_2_sends_the_epochs_above_the_high_watermark() -> None:
    assert of(step_3(15), "kip-279-alternative-2", 1).asked == [Lineage((EpochEnd(1, 11), EpochEnd(2, 16)))]


def test_alternative_2_adds_64_bits_at_least_and_160_in_the_edge_case_of_clean_elections() -> None:
    history = Unclean(2)
    history.write(3)
    history.copy(1, 1)
    assert of(history, "kip-279-alternative-2", 1).bits - of(history, "kip-101", 1).bits == 64
    assert of(step_3(15), "kip-279-alternative-2", 1).bits - of(step_3(15), "kip-101", 1).bits == 160


def test_alternative_2_sends_earlier_epochs_until_none_is_left() -> None:
    history = failovers(5)
    outcome = of(history, "kip-279-alternative-2", 0)
    sent = [question.ends for question in outcome.asked if isinstance(question, Lineage)]
    assert sent == [(EpochEnd(4, 3),), (EpochEnd(0, 1), EpochEnd(2, 2), EpochEnd(4, 3))]
    assert not ends_equal(outcome, history), "the high watermark, 3, is beyond what is common"


@pytest.mark.parametrize(
    ("changes", "kip_279", "on_fetch", "alternative_1"),
    [(1, 1, 1, 1), (2, 1, 1, 1), (3, 2, 2, 2), (4, 2, 2, 2), (5, 3, 3, 3), (6, 3, 3, 3), (7, 4, 4, 4), (8, 4, 4, 4)],
)
def test_rounds_grow_by_one_with_every_second_unclean_leader_change(
    changes: int, kip_279: int, on_fetch: int, alternative_1: int
) -> None:
    history = failovers(changes)
    follower = 1 - history.leader
    rounds = [of(history, rule, follower).rounds for rule in ("kip-279", "on-fetch", "kip-279-alternative-1")]
    assert rounds == [kip_279, on_fetch, alternative_1]
    assert is_right(of(history, "kip-279", follower), history, follower)


@pytest.mark.parametrize("high_watermark", [0, 1, 2])
def test_the_letter_keeps_a_diverged_record_unless_the_high_watermark_is_0(high_watermark: int) -> None:
    history = failovers(3)
    history.high_watermarks[0] = high_watermark
    by_letter, safely = (of(history, rule, 0) for rule in ("kip-279-letter", "kip-279"))
    assert by_letter.asked == [LargestEpoch(2), LargestEpoch(0)]
    assert ends_equal(by_letter, history) == (high_watermark == 0)
    assert by_letter.truncated_to == min(high_watermark, 1)
    assert is_right(safely, history, 0)


def rounds_of_clean_elections(history: Clean) -> int:
    """The most rounds that a follower of the history needs now."""
    return max(of(history, "kip-279", replica).rounds for replica in followers(history))


def knows_the_epoch_before(history: Clean, replica: int) -> bool:
    """Whether the follower has a record of the largest epoch, up to its own last one, that the leader knows."""
    log, leader = history.logs[replica], history.logs[history.leader]
    return leader.epochs.end_of(log.epochs.latest, leader.end_offset).epoch in log.epochs


@settings(max_examples=300, deadline=None)
@given(history=clean_histories())
def test_clean_elections_need_one_round_if_the_follower_has_a_record_of_the_epoch_before(history: Clean) -> None:
    for replica in followers(history):
        if knows_the_epoch_before(history, replica):
            assert of(history, "kip-279", replica).rounds <= 1


def test_clean_elections_may_need_two_rounds_against_what_the_kip_says() -> None:
    """B leads epoch 0, restarts while A leads, and is in sync before A appends; then Scenario 1 follows."""
    history = Clean(2)
    history.prefer()
    history.write(6)
    history.copy(1, 1)
    history.kill(0)
    history.copy(0, 1)
    assert history.isr == {0, 1}
    history.write(5)
    history.prefer()
    history.write(3)
    history.kill(0)
    history.write(1)
    assert (history.leader, history.epoch) == (1, 3)
    assert rounds_of_clean_elections(history) == 2
    assert is_right(of(history, "kip-279", 0), history, 0)


def test_a_high_watermark_stored_before_the_last_epoch_truncates_committed_records() -> None:
    """LD-17: alternative 1 for clean elections needs a high watermark that is stored at each change of leader."""
    follower, leader = MemoryLog(), MemoryLog()
    for log in (follower, leader):
        log.append_as_leader(batch(5), 1)
        log.append_as_leader(batch(5), 2)
    leader.begin_epoch(3)
    for stored, kept in ((5, 5), (10, 10)):
        seen = FollowerLog(follower.epochs, 10, high_watermark=stored)
        assert reconcile("kip-279-clean-only-1", seen, follower, leader).truncated_to == kept


@pytest.mark.parametrize("truncation", [name for name in TRUNCATIONS if name != "on-fetch"])
def test_a_log_without_epochs_is_truncated_to_the_high_watermark(truncation: Truncation) -> None:
    """LD-10: nothing to ask about."""
    follower, leader = MemoryLog(), MemoryLog()
    for log, count in ((follower, 3), (leader, 5)):
        log.append_as_follower(batch(count))
    outcome = reconcile(truncation, FollowerLog(follower.epochs, 3, 0), follower, leader)
    assert (outcome.asked, outcome.truncated_to, outcome.is_stuck) == ([], 0, False)


@pytest.mark.parametrize("truncation", ["kip-101", "kip-279", "kip-279-letter", "kip-279-alternative-1"])
def test_a_leader_without_epochs_makes_the_follower_truncate_to_its_high_watermark(truncation: Truncation) -> None:
    """LD-10: the leader has not begun to track epochs."""
    follower, leader = MemoryLog(), MemoryLog()
    leader.append_as_follower(batch(5))
    follower.append_as_follower(batch(2))
    follower.append_as_leader(batch(3), 4)
    outcome = reconcile(truncation, FollowerLog(follower.epochs, 5, 2), follower, leader)
    assert (len(outcome.asked), outcome.truncated_to) == (1, 2)


@given(history=unclean_histories(), epoch=st.integers(-1, 30))
def test_answers_differ_from_the_letter_only_where_no_epoch_is_small_or_large_enough(
    history: Unclean, epoch: int
) -> None:
    log = history.logs[history.leader]
    is_inside = log.epochs.starts[0].epoch <= epoch <= log.epochs.latest
    question = LargestEpoch(epoch)
    same = answer(question, log.epochs, log.end_offset) == answer(question, log.epochs, log.end_offset, by_letter=True)
    assert same == (is_inside or epoch == -1)


def test_every_rule_is_in_the_table() -> None:
    assert tuple(RULES) == TRUNCATIONS


def test_no_rule_asks_for_more_rounds_than_the_follower_has_epochs() -> None:
    def asks_more(history: Unclean) -> bool:
        return any(
            of(history, rule, replica).rounds > len(history.logs[replica].epochs.starts)
            for rule in TRUNCATIONS
            for replica in followers(history)
        )

    with pytest.raises(NoSuchExample):
        find(unclean_histories(), asks_more, settings=settings(max_examples=200, derandomize=True))


def test_an_answer_without_an_epoch_is_taken_as_kip_101s() -> None:
    """LD-13: a leader that was not upgraded."""
    history = step_3(25)
    move = RULES["kip-279"].answered(history.follower_log(1), LargestEpoch(2), EpochAnswer(end_offset=21))
    assert move == Move(truncate_to=21)
