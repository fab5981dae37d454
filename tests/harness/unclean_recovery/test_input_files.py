"""Both JSON formats: what they mean, and one line that names the place for everything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.model import BadInput
from harness.unclean_recovery.files import designations_text, read_designations, read_partitions
from harness.unclean_recovery.partitions import TopicPartition
from tests.support.bad_input import FILES, JSON_VALUES, assert_is_read_or_refused

FOO_1, FOO_2, BAR_0 = TopicPartition("foo", 1), TopicPartition("foo", 2), TopicPartition("bar", 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "in.json"


def test_partitions_are_read_in_their_order(file: Path) -> None:
    file.write_text('{"partitions": [{"topic": "foo", "partitions": [2, 1]}, {"topic": "bar", "partitions": [0]}]}')
    listing = read_partitions(file)
    assert listing.partitions == (FOO_2, FOO_1, BAR_0)
    assert listing.repeated == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        '{"partitions": [{"topic": "foo", "partitions": [1, 2, 1]}]}',
        '{"partitions": [{"topic": "foo", "partitions": [1, 2]}, {"topic": "foo", "partitions": [1]}]}',
    ],
    ids=["in one entry", "in two entries"],
)
def test_partition_that_is_listed_twice_is_known(file: Path, text: str) -> None:
    file.write_text(text)
    listing = read_partitions(file)
    assert (listing.partitions, listing.repeated) == ((FOO_1, FOO_2), frozenset({FOO_1}))


def test_the_proposal_s_example_of_designated_leaders_is_read(file: Path) -> None:
    file.write_text(
        '{"partitions": [{"topic": "foo", "partition": 1, "designatedLeader": 0},'
        ' {"topic": "foobar", "partition": 2, "designatedLeader": 1}]}'
    )
    assert read_designations(file, True).leaders == {FOO_1: 0, TopicPartition("foobar", 2): 1}


def test_leaders_are_optional_where_they_are_not_designated(file: Path) -> None:
    file.write_text('{"partitions": [{"topic": "foo", "partition": 1}]}')
    assert read_designations(file, False).partitions == (FOO_1,)
    with pytest.raises(BadInput, match=r"partitions\.0\.designatedLeader: expected a value, found nothing"):
        read_designations(file, True)


LEADERS = st.dictionaries(
    st.builds(TopicPartition, st.from_regex(r"[A-Za-z0-9._-]{1,9}", fullmatch=True), st.integers(0, 2**31 - 1)),
    st.integers(0, 2**31 - 1),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LEADERS)
def test_what_one_tool_writes_the_other_reads(file: Path, leaders: dict[TopicPartition, int]) -> None:
    file.write_text(designations_text(leaders))
    listing = read_designations(file, True)
    assert (listing.leaders, listing.partitions) == (leaders, tuple(sorted(leaders)))


BAD = {
    # case: content, the message after the file's name
    "no JSON": ("{partitions: []}", "line 1, column 2: expected a JSON file with topics and their partitions, found"),
    "an empty file": (" ", "expected a JSON file with topics and their partitions, found an empty file"),
    "no table": ("[1]", "expected a table of keys and values, found [1]"),
    "no partitions": ("{}", "partitions: expected a value, found nothing"),
    "another key": ('{"partitions": [], "version": 1}', "version: expected one of the keys partitions"),
    "no list": ('{"partitions": {}}', "partitions: expected a list, found {}"),
    "no topic": ('{"partitions": [{"partitions": [1]}]}', "partitions.0.topic: expected a value, found nothing"),
    "no name": (
        '{"partitions": [{"topic": "a/b", "partitions": [1]}]}',
        "partitions.0.topic: expected a topic's name, up to 249 letters, digits, '.', '_' or '-', found 'a/b'",
    ),
    "a lone surrogate": ('{"partitions": [{"topic": "\\ud800", "partitions": [1]}]}', "partitions.0.topic: expected"),
    "a number in quotes": (
        '{"partitions": [{"topic": "a", "partitions": ["1"]}]}',
        "partitions.0.partitions.0: expected a whole number, found '1'",
    ),
    "truth": (
        '{"partitions": [{"topic": "a", "partitions": [0, true]}]}',
        "partitions.0.partitions.1: expected a whole number, found true",
    ),
    "below 0": (
        '{"partitions": [{"topic": "a", "partitions": [-1]}]}',
        "partitions.0.partitions.0: expected 0 or more, found -1",
    ),
    "the other format": (
        '{"partitions": [{"topic": "a", "partition": 1, "designatedLeader": 2}]}',
        "partitions.0.partitions: expected a value, found nothing (and 2 more)",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_what_is_not_understood_is_refused_by_its_place(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(BadInput) as refused:
        read_partitions(file)
    assert str(refused.value).startswith(f"{file}: {message}")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES | st.builds(lambda value: json.dumps({"partitions": value}).encode(), JSON_VALUES))
def test_any_content_is_read_or_refused_in_one_line(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert_is_read_or_refused(lambda: read_partitions(file))
    assert_is_read_or_refused(lambda: read_designations(file, True))
