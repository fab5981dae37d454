"""Expectations of scenarios, each a bound on a quantity that the checks measure.

Quantities are measured from the beginning of the story, so the first election of a new quorum does not count.
"""

from __future__ import annotations

from harness.model.measures import After, Between, Count, EpochGrowth, Event, Largest
from harness.model.nemesis_ops import HEAL
from harness.model.scenario import Expectation
from harness.model.story import STORY_BEGINS

leader_deposed = Expectation("the leader is deposed", "leader_deposed", 1)


def epochs_burned(at_least: int) -> Expectation:
    """The epoch grows by at_least."""
    return Expectation(f"the epoch grows by {at_least} or more", "epochs_burned", at_least)


def epochs_burned_until_heal(at_least: int) -> Expectation:
    """The epoch grows by at_least while faults are active."""
    return Expectation(f"the epoch grows by {at_least} or more before the heal", "epochs_burned_until_heal", at_least)


def leader_changes_until_heal(at_least: int) -> Expectation:
    """At_least leaders are elected while faults are active."""
    return Expectation(f"{at_least} or more leaders are elected before the heal", "leader_changes_until_heal", at_least)


def leader_changes(at_least: int) -> Expectation:
    """Leadership moves from one node to another at_least times."""
    return Expectation(f"leadership changes {at_least} or more times", "leader_changes", at_least)


def two_leaders(at_least_ms: int) -> Expectation:
    """A node answers as leader while another leads a later epoch, for at_least_ms."""
    return Expectation(
        f"a deposed leader still responds as leader for {at_least_ms / 1000:g} s or longer",
        "two_leaders_ms",
        at_least_ms,
    )


def no_leader(at_least_ms: int) -> Expectation:
    """No node leads for at_least_ms in total."""
    return Expectation(f"no node leads for {at_least_ms / 1000:g} s or longer", "no_leader_ms", at_least_ms)


def commit_gap(at_least_ms: int) -> Expectation:
    """No high watermark advances for at_least_ms."""
    return Expectation(f"nothing is committed for {at_least_ms / 1000:g} s or longer", "commit_gap_ms", at_least_ms)


def unavailable(at_least_ms: int) -> Expectation:
    """No operation of any client succeeds for at_least_ms."""
    text = f"no operation succeeds for {at_least_ms / 1000:g} s or longer"
    return Expectation(text, "unavailable_ms_max", at_least_ms)


def happens(event: Event, at_least: int = 1, since: str = STORY_BEGINS, until: str | None = None) -> Expectation:
    """The event happens at_least times."""
    count = Count(event, since, until)
    times = "once" if at_least == 1 else f"{at_least} times"
    return Expectation(f"{count.name}: {times} or more", count.name, at_least, count)


def grows(node: int, at_least: int, since: str = STORY_BEGINS, until: str | None = HEAL) -> Expectation:
    """The epoch that this node knows grows by at_least, by default until the last heal."""
    growth = EpochGrowth(node, since, until)
    return Expectation(f"{growth.name}: {at_least} or more", growth.name, at_least, growth)


def later_than(at_least_ms: int, since: str, event: Event) -> Expectation:
    """The first such event after a mark comes at_least_ms after it."""
    delay = After(since, event)
    return Expectation(f"{delay.name}: {at_least_ms} ms or longer", delay.name, at_least_ms, delay)


def longest(at_least_ms: int, first: Event, then: Event) -> Expectation:
    """The longest time from one event to the next of another kind on the same node is at_least_ms."""
    between = Between(first, then)
    return Expectation(f"{between.name}: {at_least_ms} ms or longer", between.name, at_least_ms, between)


def shortest(at_least_ms: int, first: Event, then: Event) -> Expectation:
    """The shortest time from one event to the next of another kind on the same node is at_least_ms."""
    between = Between(first, then, "shortest")
    return Expectation(f"{between.name}: {at_least_ms} ms or longer", between.name, at_least_ms, between)


def largest(at_least_bytes: int, event: Event) -> Expectation:
    """The largest RPC of this kind has at_least_bytes on the wire."""
    size = Largest(event)
    return Expectation(f"{size.name}: {at_least_bytes} bytes or more", size.name, at_least_bytes, size)


logs_equal = Expectation("the replicas of a partition have equal logs", "partitions_with_equal_logs", 1)


def log_end(at_least: int) -> Expectation:
    """A user's partition has at least this many offsets."""
    return Expectation(f"a replica has {at_least} records or more", "log_end_max", at_least)


def truncation_rounds(at_least: int) -> Expectation:
    """A follower needs this many answers of its leader until it knows where to truncate."""
    text = f"a follower needs {at_least} or more responses until it knows where to truncate"
    return Expectation(text, "truncation_rounds_max", at_least)


def committed_lost(at_least: int) -> Expectation:
    """Committed offsets of a user's partition are not in its latest log."""
    return Expectation(f"{at_least} or more committed records are lost", "committed_offsets_lost", at_least)


def offline(at_least_ms: int) -> Expectation:
    """A user's partition has no leader for at_least_ms in all."""
    text = f"a partition has no leader for {at_least_ms / 1000:g} s or longer"
    return Expectation(text, "partition_offline_ms", at_least_ms)
