"""A log's epochs: assignment, truncation, the leader's answers at their edges (LD-20), and the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions.epochs import UNDEFINED, EpochSequence, EpochStart
from tests.nodes.reference.partitions.lineages import Unclean, entries, unclean_histories


def sequence(*starts: tuple[int, int]) -> EpochSequence:
    """A sequence of (epoch, first offset)."""
    return EpochSequence(tuple(EpochStart(*each) for each in starts))


THREE = sequence((2, 10), (5, 20), (6, 30))


@pytest.mark.parametrize(
    ("epoch", "kip_101", "kip_279", "letter"),
    [
        pytest.param(6, 40, EpochEnd(6, 40), EpochEnd(6, 40), id="the latest ends with the log"),
        pytest.param(5, 30, EpochEnd(5, 30), EpochEnd(5, 30), id="a known one ends where the next begins"),
        pytest.param(4, 20, EpochEnd(2, 20), EpochEnd(2, 20), id="between two"),
        pytest.param(2, 20, EpochEnd(2, 20), EpochEnd(2, 20), id="the first"),
        pytest.param(1, -1, EpochEnd(1, 10), UNDEFINED, id="too old"),
        pytest.param(7, -1, UNDEFINED, EpochEnd(6, 40), id="larger than all"),
        pytest.param(-1, -1, UNDEFINED, UNDEFINED, id="undefined"),
    ],
)
def test_answers_at_their_edges(epoch: int, kip_101: int, kip_279: EpochEnd, letter: EpochEnd) -> None:
    assert THREE.offset_by_kip_101(epoch, 40) == kip_101
    assert THREE.end_of(epoch, 40) == kip_279
    assert THREE.end_of_by_letter(epoch, 40) == letter


@pytest.mark.parametrize("epoch", [-1, 0, 3])
def test_a_log_without_epochs_knows_no_answer(epoch: int) -> None:
    empty = EpochSequence()
    assert empty.offset_by_kip_101(epoch, 7) == -1
    assert empty.end_of(epoch, 7) == empty.end_of_by_letter(epoch, 7) == UNDEFINED
    assert list(empty.ends(7)) == []


@pytest.mark.parametrize(
    ("epoch", "offset", "expected"),
    [
        pytest.param(7, 40, sequence((2, 10), (5, 20), (6, 30), (7, 40)), id="a later epoch"),
        pytest.param(6, 35, THREE, id="more of the latest"),
        pytest.param(-1, 40, THREE, id="a batch without an epoch"),
        pytest.param(7, 30, sequence((2, 10), (5, 20), (7, 30)), id="instead of one that begins there"),
        pytest.param(6, 25, sequence((2, 10), (5, 20), (6, 25)), id="the latest begins earlier"),
        pytest.param(4, 40, sequence((2, 10), (4, 40)), id="an earlier epoch removes later ones"),
    ],
)
def test_an_epoch_is_assigned_and_what_contradicts_it_goes(epoch: int, offset: int, expected: EpochSequence) -> None:
    assert THREE.assigned(epoch, offset) == expected


@pytest.mark.parametrize(
    ("end", "expected"),
    [(31, THREE), (30, sequence((2, 10), (5, 20))), (11, sequence((2, 10))), (10, EpochSequence())],
)
def test_truncation_from_the_end_removes_epochs_that_begin_there(end: int, expected: EpochSequence) -> None:
    assert THREE.truncated_from_end(end) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (5, THREE),
        (10, THREE),
        (15, sequence((2, 15), (5, 20), (6, 30))),
        (20, sequence((5, 20), (6, 30))),
        (50, sequence((6, 50))),
    ],
)
def test_truncation_from_the_start_keeps_the_epoch_that_contains_it(start: int, expected: EpochSequence) -> None:
    assert THREE.truncated_from_start(start) == expected


@given(unclean_histories())
def test_the_epoch_at_an_offset_is_that_of_its_record(history: Unclean) -> None:
    for log in history.logs:
        assert all(log.epochs.at(each.offset) == each.epoch for each in entries(log))


@given(unclean_histories())
def test_the_file_says_the_same(history: Unclean) -> None:
    for log in history.logs:
        assert EpochSequence.parsed(log.epochs.text()) == log.epochs


def test_the_file_is_kafkas() -> None:
    assert sequence((0, 0), (3, 12)).text() == "0\n2\n0 0\n3 12\n"


@pytest.mark.parametrize("text", ["", "0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\nx 0\n", "0\n2\n3 0\n1 5\n"])
def test_a_damaged_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"epochs|invalid literal"):
        EpochSequence.parsed(text)


@given(st.lists(st.tuples(st.integers(-1, 20), st.integers(0, 50))))
def test_epochs_and_offsets_increase_whatever_is_assigned(assigned: list[tuple[int, int]]) -> None:
    epochs = EpochSequence()
    for epoch, offset in assigned:
        epochs = epochs.assigned(epoch, offset)
        assert epoch < 0 or epoch == epochs.latest
