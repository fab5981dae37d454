"""Plain-Python twins of what checkers/quorum/voters.py and divergence.py derive about voters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from harness.model import Observation
from harness.model.records.logged_batch import LoggedBatch

Standing = Literal["voter", "observer", "either"]
Named = tuple[str, int, int, frozenset[int]]
"""Source, epoch, offset or time, and the voters."""


def sets_named(batches: Sequence[LoggedBatch], observations: Sequence[Observation]) -> list[Named]:
    """Every voter set that a record or a claim names."""
    logged = [
        ("log", each.leader_epoch, each.base_offset, frozenset(json.loads(each.voters)))
        for each in batches
        if each.voters is not None and (each.topic, each.partition) == ("__cluster_metadata", 0)
    ]
    reported = [
        ("claim", each.epoch, each.time_ns, voters)
        for each in observations
        if each.epoch is not None and (voters := reported_by(each)) is not None
    ]
    return [*logged, *reported]


def reported_by(seen: Observation) -> frozenset[int] | None:
    """The voters that a claim reports."""
    voters = json.loads(seen.detail).get("voters") if seen.kind == "claim" and seen.detail else None
    return None if voters is None else frozenset(map(int, voters))


def standing(node: int, epoch: int | None, sets: Sequence[Named]) -> Standing:
    """What a node may be in an epoch."""
    if not sets or all(node in voters for *_, voters in sets):
        return "voter"
    having = [each for each in sets if node in each[3]]
    if not having:
        return "observer"
    earliest = min(each[1] for each in sets)
    for source in ("log", "claim"):
        own = sorted((each for each in sets if each[0] == source), key=lambda each: each[1:3])
        if own and own[0][1] == earliest and any(node in each[3] for each in own if each[1:3] == own[0][1:3]):
            return "either"
    return "observer" if epoch is not None and epoch < min(each[1] for each in having) else "either"


def committed_voters(
    batches: Sequence[LoggedBatch], observations: Sequence[Observation], high_watermark: int
) -> frozenset[int] | None:
    """The last voter set committed below the high watermark; None where it is not known."""
    quorum = [each for each in batches if (each.topic, each.partition) == ("__cluster_metadata", 0)]
    nodes = {each.node for each in batches}
    last = high_watermark - 1
    at_last = {
        node: max(
            (
                each.leader_epoch
                for each in quorum
                if each.node == node and each.base_offset <= last <= each.last_offset
            ),
            default=-1,
        )
        for node in nodes
    }
    committed = [node for node in nodes if at_last[node] == max(at_last.values())]
    sets = [
        (each.base_offset, sorted(json.loads(each.voters)))
        for each in quorum
        if each.node in committed and each.voters is not None and each.base_offset <= last
    ]
    if sets:
        return frozenset(max(sets)[1])
    reported = {voters for seen in observations if (voters := reported_by(seen)) is not None}
    if reported:
        return reported.pop() if len(reported) == 1 else None
    return frozenset(nodes | {seen.node for seen in observations})
