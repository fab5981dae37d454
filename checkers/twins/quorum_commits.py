"""Plain twins of the rules in checkers/quorum/commits.py and checkers/kafka_log/voter_sets.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from checkers.twins.quorum import Found, in_time
from harness.model import Observation
from harness.model.records.logged_batch import LoggedBatch


def claims_of(observations: Sequence[Observation]) -> dict[tuple[int, int], list[Observation]]:
    """Each leader's claims of an epoch, in time."""
    found: dict[tuple[int, int], list[Observation]] = {}
    for seen in in_time(observations):
        if seen.kind == "claim":
            found.setdefault((seen.node, seen.epoch or 0), []).append(seen)
    return found


def voters_of(claim: Observation) -> dict[str, int]:
    """How far the leader knows each voter to reach."""
    known: dict[str, int] = json.loads(claim.detail or "{}").get("voters", {})
    return known


def high_watermark_without_majority(observations: Sequence[Observation]) -> list[Found]:
    """The first claim of a tenure with constant voters that no majority ever reached; no half, if they did change."""
    all_sets = {tuple(sorted(voters_of(each))) for each in observations if each.kind == "claim" and voters_of(each)}
    found: list[Found] = []
    for (node, _), all_claims in claims_of(observations).items():
        claims = [each for each in all_claims if (each.high_watermark or 0) >= 0 and voters_of(each)]
        claims = [each for each in claims if each.high_watermark is not None]
        if len({tuple(sorted(voters_of(each))) for each in claims}) != 1:
            continue
        pairs = [(voters_of(a), voters_of(b)) for a, b in pairwise(claims)]
        went_back = {voter for before, after in pairs for voter in after if after[voter] < before[voter]}
        furthest: dict[str, int] = {}
        for claim in claims:
            for voter, reach in voters_of(claim).items():
                furthest[voter] = max(reach, furthest.get(voter, reach))
            mark = claim.high_watermark or 0
            reached = sum(reach >= mark or voter in went_back for voter, reach in furthest.items())
            if 2 * reached < len(furthest) + (len(all_sets) == 1):
                found.append(("high-watermark-without-majority", node, claim.time_ns))
                break
    return found


def voters_changed_early(observations: Sequence[Observation]) -> list[Found]:
    """The first claim of a tenure that has committed nothing and names other voters than its first one."""
    found: list[Found] = []
    for (node, _), all_claims in claims_of(observations).items():
        claims = [each for each in all_claims if voters_of(each) and (each.high_watermark or 0) < 0]
        other = [each for each in claims if voters_of(each).keys() != voters_of(claims[0]).keys()]
        found += [("voters-changed-early", node, each.time_ns) for each in other[:1]]
    return found


def committed_record_not_on_leader(observations: Sequence[Observation]) -> list[Found]:
    """The first claim of a tenure whose log ends below what an earlier epoch's claims had committed."""
    tenures = claims_of(observations)
    found: list[Found] = []
    for (node, epoch), claims in tenures.items():
        earlier = [each.high_watermark or 0 for (_, other), own in tenures.items() if other < epoch for each in own]
        short = [
            each
            for each in claims
            if 0 <= (-1 if each.log_end_offset is None else each.log_end_offset) < max(earlier, default=0)
        ]
        found += [("committed-record-not-on-leader", node, each.time_ns) for each in short[:1]]
    return found


def sets_apart(batches: Sequence[LoggedBatch]) -> list[tuple[str, int, int]]:
    """(name, node, offset) of voter sets that differ from the one before by more than one voter."""
    found = []
    for node in {batch.node for batch in batches}:
        own = [batch for batch in batches if batch.node == node and batch.voters is not None]
        for before, after in pairwise(sorted(own, key=lambda batch: batch.base_offset)):
            if len(set(json.loads(before.voters or "")) ^ set(json.loads(after.voters or ""))) > 1:
                found.append(("voter-sets-apart", node, after.base_offset))
    return found


def elections(batches: Sequence[LoggedBatch]) -> list[tuple[str, int, int]]:
    """The broken rule, epoch and offset of each improper election; every node's log has epochs of its own."""
    found: list[tuple[str, int, int]] = []
    last_set: dict[int, list[int]] = {}
    for each in sorted(batches, key=lambda each: (each.node, each.base_offset)):
        if each.election is not None:
            record = json.loads(each.election)
            counted = last_set.get(each.node, record["voters"])
            if counted != record["voters"]:
                found.append(("stale-voters", each.leader_epoch, each.base_offset))
            if 2 * len(set(record["granting"]) & set(counted)) <= len(counted):
                found.append(("elected-without-majority", each.leader_epoch, each.base_offset))
        if each.voters is not None:
            last_set[each.node] = json.loads(each.voters)
    return found
