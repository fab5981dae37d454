"""What came of the voter changes of a simulated run: appended or not, committed or not, and fetched by whom.

    VoterOutcomes(plan, observed, batches).of(op, leadership)      # VoterOutcome(is_committed=False, fetched={2})

A stored run has no answers to these requests. The voters that leaders named say what came of them, and so do the
records in the logs at the end.

Contains what is derived. Does not contain the steps that are made of it (process_story).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from harness.model import Observation, Op
from harness.model.faults.membership import ADD_VOTER
from harness.planning.plan import Plan
from harness.replaying.leaderships import Leadership

APPENDED_NS, COMMITTED_NS = 1_000_000_000, 2_000_000_000
"""A voter change is in the log of the leader so long after its request, or is not appended; and committed."""


class VoterOutcome(NamedTuple):
    """A change that a leader appended: whether it was committed soon, and which nodes had fetched its record."""

    is_committed: bool
    fetched: frozenset[int]


class VoterOutcomes:
    """What came of the voter changes that were requested, by what leaders answered and by the logs at the end."""

    def __init__(self, plan: Plan, observed: Iterable[Observation], batches: Iterable[Mapping[str, Any]]) -> None:
        self._initial = frozenset(range(1, (plan.voters or plan.nodes) + 1))
        self._claims = sorted((each for each in observed if each.kind == "claim"), key=lambda each: each.time_ns)
        self._records = [
            (each["leader_epoch"], each["base_offset"], frozenset(json.loads(each["voters"])))
            for each in batches
            if each["voters"]
        ]

    def of(self, op: Op, led: Leadership) -> VoterOutcome | None:
        """What became of a request to a leader; None if it was not appended."""
        (node,), joins = op.value["nodes"], op.f == ADD_VOTER
        before = next((each for each in reversed(self._claims) if each.time_ns <= op.time_ns), None)
        known, log_end = (
            (self._initial, 0) if before is None else (frozenset(_ends(before)), before.log_end_offset or 0)
        )
        if (node in known) is joins:
            return None
        voters = known ^ {node}
        later = [each for each in self._claims if each.time_ns > op.time_ns and frozenset(_ends(each)) == voters]
        ends = [each.log_end_offset or 0 for each in later if each.time_ns < op.time_ns + APPENDED_NS]
        ends += [
            offset + 1
            for epoch, offset, named in self._records
            if (epoch, named) == (led.epoch, voters) and offset >= log_end
        ]
        if not ends:
            return None
        soon = [each for each in later if each.time_ns < op.time_ns + COMMITTED_NS]
        ends_soon = (
            led.ends_itself and led.end_ms * 1e6 < op.time_ns + APPENDED_NS
        )  # by this change, and before a claim
        is_committed = ends_soon or any((each.high_watermark or 0) >= min(ends) for each in soon)
        same_leader = [each for each in later if (each.node, each.epoch) == (led.node, led.epoch)]
        fetched = {voter for each in same_leader for voter, end in _ends(each).items() if end >= min(ends)}
        return VoterOutcome(is_committed, frozenset({*fetched, led.node}))


def _ends(claim: Observation) -> Mapping[int, int]:
    """The voters that a leader names, and the ends of their logs as it knows them."""
    return {int(voter): end for voter, end in json.loads(claim.detail or "{}").get("voters", {}).items()}
