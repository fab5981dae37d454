"""Plain twins of the quorum's rules and quantities, for comparison on random observations.

They take lists of observations in the order of the record and follow the definitions in checkers/quorum.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harness.model import Observation
from harness.model.records.observation import ENDS
from harness.model.transition_rules import TransitionRules, admits

Found = tuple[str, int | None, int | None]
"""A finding's name, node and time."""


def in_time(observations: Sequence[Observation]) -> list[Observation]:
    """By time; observations of the same time keep the order of the record."""
    return sorted(observations, key=lambda seen: seen.time_ns)


def led(observations: Sequence[Observation]) -> dict[tuple[int, int], int]:
    """(epoch, leader) → the time of the first observation."""
    since: dict[tuple[int, int], int] = {}
    for seen in in_time(observations):
        itself = seen.kind == "claim" or (seen.kind == "transition" and seen.state == "Leader")
        leader = seen.node if itself else seen.leader
        if seen.epoch is not None and leader is not None and leader >= 0:
            since.setdefault((seen.epoch, leader), seen.time_ns)
    return since


def two_leaders(observations: Sequence[Observation]) -> list[Found]:
    """Epochs with several leaders, with the one observed last."""
    found: list[Found] = []
    since = led(observations)
    for epoch in {epoch for epoch, _ in since}:
        leaders = [(time_ns, leader) for (other, leader), time_ns in since.items() if other == epoch]
        if len(leaders) > 1:
            time_ns, leader = max(leaders)
            found.append(("two-leaders-in-one-epoch", leader, time_ns))
    return found


def disk_of(seen: Observation, wiped: Sequence[tuple[int, int]]) -> int:
    """How often its node's disk had been emptied by then; wiped are nodes and times."""
    return sum(node == seen.node and time_ns <= seen.time_ns for node, time_ns in wiped)


def epoch_went_back(observations: Sequence[Observation], wiped: Sequence[tuple[int, int]] = ()) -> list[Found]:
    """Rows below an earlier epoch of the same source, node and disk."""
    highest: dict[tuple[int, int, str], int] = {}
    found: list[Found] = []
    for seen in in_time(observations):
        if seen.kind in ("transition", "durable") and seen.epoch is not None:
            own = (seen.node, disk_of(seen, wiped), seen.kind)
            before = highest.get(own, seen.epoch)
            if seen.epoch < before:
                found.append(("epoch-went-back", seen.node, seen.time_ns))
            highest[own] = max(before, seen.epoch)
    return found


def vote_changed(observations: Sequence[Observation]) -> list[Found]:
    """(node, epoch) pairs with several votes, at the time of the second."""
    votes: dict[tuple[int, int | None], dict[int, int]] = {}
    for seen in in_time(observations):
        if seen.kind in ("transition", "durable") and seen.voted is not None and seen.voted >= 0:
            votes.setdefault((seen.node, seen.epoch), {}).setdefault(seen.voted, seen.time_ns)
    return [("vote-changed", node, sorted(given.values())[1]) for (node, _), given in votes.items() if len(given) > 1]


def vote_forgotten(observations: Sequence[Observation], wiped: Sequence[tuple[int, int]] = ()) -> list[Found]:
    """The first file of a node and epoch without the vote of an earlier one, for each such vote."""
    found: dict[tuple[int, int | None, int], int] = {}
    given: dict[tuple[int, int, int | None], int] = {}
    for seen in in_time(observations):
        if seen.kind != "durable":
            continue
        own = (seen.node, disk_of(seen, wiped), seen.epoch)
        if seen.voted is not None and seen.voted >= 0:
            given[own] = seen.voted
        elif own in given and seen.leader != seen.node:
            found.setdefault((seen.node, seen.epoch, given[own]), seen.time_ns)
    return [("vote-forgotten", node, time_ns) for (node, _, _), time_ns in found.items()]


def illegal_transitions(observations: Sequence[Observation], rules: TransitionRules) -> list[Found]:
    """Steps that the rules do not allow."""
    to_candidate = {step.source for step in rules.steps if step.target == "Candidate"}
    found: list[Found] = []
    for node in {seen.node for seen in observations}:
        last: Observation | None = None
        for seen in in_time([seen for seen in observations if seen.node == node]):
            if seen.kind == "transition":
                source = seen.previous or (last.state if last else None)
                before = last.epoch if last and last.state == source else None
                if not legal(rules, source, before, seen):
                    skipped = source is not None and seen.state == "Candidate" and to_candidate == {"Prospective"}
                    name = (
                        "candidate-without-prospective" if skipped and source != "Prospective" else "illegal-transition"
                    )
                    found.append((name, node, seen.time_ns))
            if seen.kind in ("transition", "started"):
                last = seen
    return found


def legal(rules: TransitionRules, source: str | None, epoch_before: int | None, seen: Observation) -> bool:
    """Whether the rules have the step, or the state is a start state; an unknown epoch satisfies any rule."""
    if source is None:
        return seen.state in rules.start_states
    steps = [step for step in rules.steps if (step.source, step.target) == (source, seen.state)]
    if epoch_before is None or seen.epoch is None:
        return bool(steps)
    return any(admits(step.epoch, epoch_before, seen.epoch) for step in steps)


def high_watermark_went_back(observations: Sequence[Observation]) -> list[Found]:
    """Claims below an earlier one of the same leader, or below any of an earlier epoch."""
    claims = [(seen.node, seen.epoch or 0, seen.high_watermark, seen.time_ns)
              for seen in in_time(observations)
              if seen.kind == "claim" and seen.high_watermark is not None and seen.high_watermark >= 0]  # fmt: skip
    found: list[Found] = []
    for index, (node, epoch, mark, time_ns) in enumerate(claims):
        own = [other[2] for other in claims[:index] if other[:2] == (node, epoch)]
        inherited = [other[2] for other in claims if other[1] < epoch]
        if any(other > mark for other in own + inherited):
            found.append(("high-watermark-went-back", node, time_ns))
    return found


def findings(
    observations: Sequence[Observation], rules: TransitionRules, wiped: Sequence[tuple[int, int]] = ()
) -> list[Found]:
    """Every violated rule."""
    return [
        *two_leaders(observations),
        *epoch_went_back(observations, wiped),
        *vote_changed(observations),
        *(vote_forgotten(observations, wiped) if rules.keeps_votes else []),
        *illegal_transitions(observations, rules),
        *high_watermark_went_back(observations),
    ]


def tenures(observations: Sequence[Observation], story_ns: int, end_ns: int) -> list[tuple[int, int, int, int]]:
    """(begin, finish, node, epoch) of each leadership, from the story's mark on."""
    times: dict[tuple[int, int], list[int]] = {}
    for node in {seen.node for seen in observations}:
        own = in_time([seen for seen in observations if seen.node == node])
        states = [seen for seen in own if seen.kind in ("transition", "started", *ENDS)]
        for index, seen in enumerate(states):
            if seen.kind == "transition" and seen.state == "Leader":
                left = states[index + 1].time_ns if index + 1 < len(states) else end_ns
                times.setdefault((node, seen.epoch or 0), []).extend([seen.time_ns, left])
        for seen in own:
            if seen.kind == "claim":
                times.setdefault((node, seen.epoch or 0), []).append(seen.time_ns)
    cut = [(max(min(at), story_ns), max(at), node, epoch) for (node, epoch), at in times.items()]
    return sorted(tenure for tenure in cut if tenure[1] >= tenure[0])


def epochs_burned(observations: Sequence[Observation], story_ns: int, until_ns: int) -> int:
    """How far the highest epoch rose from the story's mark to a time."""
    seen = [(each.time_ns, each.epoch) for each in observations if each.epoch is not None]
    before = [epoch for time_ns, epoch in seen if time_ns <= story_ns]
    return max(epoch for time_ns, epoch in seen if time_ns <= until_ns) - max(
        before, default=min(epoch for _, epoch in seen)
    )


def leader_changes(observations: Sequence[Observation], story_ns: int, until_ns: int) -> int:
    """How many (epoch, leader) pairs were first observed after the mark and up to a time."""
    return sum(story_ns < since_ns <= until_ns for since_ns in led(observations).values())


def two_leaders_ns(led_when: Sequence[tuple[int, int, int, int]]) -> int:
    """The longest time that a node led while another led a higher epoch."""
    overlaps = [
        min(one[1], other[1]) - max(one[0], other[0])
        for one in led_when
        for other in led_when
        if one[2] != other[2] and one[3] < other[3]
    ]
    return max([0, *overlaps])


def no_leader_ns(led_when: Sequence[tuple[int, int, int, int]], story_ns: int, end_ns: int) -> int:
    """The time without a leader, summed between the edges of all tenures."""
    edges = sorted({story_ns, end_ns, *(edge for tenure in led_when for edge in tenure[:2])})
    return sum(
        after - before
        for before, after in pairwise(edges)
        if before >= story_ns and not any(tenure[0] <= before and after <= tenure[1] for tenure in led_when)
    )


def commit_gap_ns(observations: Sequence[Observation], story_ns: int, end_ns: int) -> int:
    """The longest time without a rise of the highest high watermark claimed."""
    highest, rises = -1, []
    for seen in in_time(observations):
        if seen.kind == "claim" and (seen.high_watermark if seen.high_watermark is not None else -1) > highest:
            highest = seen.high_watermark or 0
            rises.append(seen.time_ns)
    times = [story_ns, *(rise for rise in rises if rise > story_ns), end_ns]
    return max(after - before for before, after in pairwise(times))
