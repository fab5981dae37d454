"""The options of both tools: every combination, and addresses."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from harness.model import BadInput
from harness.unclean_recovery.options import (
    Address,
    ElectionOptions,
    ElectionType,
    addresses_of,
    election_options,
    recovery_options,
)

FILE = Path("listed.json")
OUTPUT = Path("leaders.json")
COMBINATIONS = list(product([False, True], repeat=5))


def is_allowed(has_file: bool, is_all: bool, shows: bool, is_manual: bool, is_automated: bool) -> bool:
    """The proposal's rules in words: one of two inputs, something to do, and not both kinds of recovery."""
    return has_file != is_all and (shows or is_manual or is_automated) and not (is_manual and is_automated)


@pytest.mark.parametrize("given", COMBINATIONS, ids=lambda given: "".join("x" if each else "-" for each in given))
def test_every_combination_is_allowed_or_refused_as_the_proposal_says(given: tuple[bool, ...]) -> None:
    has_file, is_all, shows, is_manual, is_automated = given
    arguments = (FILE if has_file else None, is_all, shows, OUTPUT if is_manual else None, is_automated)
    if not is_allowed(*given):
        with pytest.raises(BadInput, match=r"^--.*: expected .*, found (none|both|--)"):
            recovery_options(*arguments)
        return
    options = recovery_options(*arguments)
    assert (options.listed, options.output) == (arguments[0], arguments[3])
    assert (options.shows_replicas, options.elects) == (shows, is_automated)
    assert (options.duration_ms, options.retries) == (30_000, 3)


def test_ten_combinations_are_allowed() -> None:
    assert sum(is_allowed(*given) for given in COMBINATIONS) == 10


@pytest.mark.parametrize("has_topic", [False, True])
@pytest.mark.parametrize("has_partition", [False, True])
@pytest.mark.parametrize("is_all", [False, True])
@pytest.mark.parametrize("has_file", [False, True])
@pytest.mark.parametrize("kind", ElectionType)
def test_every_combination_of_elections_is_allowed_or_refused(
    kind: ElectionType, has_file: bool, is_all: bool, has_partition: bool, has_topic: bool
) -> None:
    path, topic, partition = FILE if has_file else None, "t" if has_topic else None, 0 if has_partition else None
    is_one = [has_file, has_topic, is_all].count(True) == 1 and has_topic == has_partition
    if is_one and (has_file or kind is not ElectionType.DESIGNATED):
        expected = ElectionOptions(kind, path, ("t", 0) if has_topic else None)
        assert election_options(kind, path, topic, partition, is_all) == expected
        return
    with pytest.raises(BadInput, match=r"^--"):
        election_options(kind, path, topic, partition, is_all)


@pytest.mark.parametrize("topic", ["", "a b", "é", "\udcff", "x" * 250])
def test_a_name_that_no_topic_has_is_refused(topic: str) -> None:
    with pytest.raises(BadInput, match="--topic: expected a topic's name"):
        election_options(ElectionType.UNCLEAN, None, topic, 0, False)


ADDRESSES = {
    "one": ("h:1", [Address("h", 1)]),
    "several": ("a:1, b.c-d_e:65535", [Address("a", 1), Address("b.c-d_e", 65535)]),
    "one twice": ("a:1,a:1", [Address("a", 1)]),
    "IPv6": ("[::1]:9092", [Address("::1", 9092)]),
}


@pytest.mark.parametrize(("text", "addresses"), ADDRESSES.values(), ids=ADDRESSES)
def test_servers_have_addresses(text: str, addresses: list[Address]) -> None:
    assert list(addresses_of(text)) == addresses
    assert list(addresses_of(",".join(map(str, addresses)))) == addresses


@pytest.mark.parametrize(
    "text", ["", "a", "a:", ":1", "a:0", "a:65536", "a:1,", "::1:9092", "a:\u0661", "a b:1", "\udcff:1"]
)
def test_servers_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--bootstrap-server: expected host:port"):
        addresses_of(text)
