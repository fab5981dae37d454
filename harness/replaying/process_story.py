"""The story of a simulated run for real processes: its faults on the nodes that they met, and its leaders in turn.

    story = process_story(run, starts_nodes=True)       # [Step("start", {"who": "n1"}), …]

The story of a timed run names roles, and what it does depends on who wins an election and on what is appended in
between. On processes another node might win, and a start takes seconds. So the story of the processes

- names the nodes that a fault met in simulation, and leaves out what met none;
- lets no node receive votes, by an RPC rule, but the next leader at its time, and makes that the leader if it fails;
- waits for nodes that start, and for followers that had begun to follow;
- lets a node that exits soon after its start, because of an answer to its fetch, ask nobody but who gave that answer;
- requests the voter changes that the leader appended in simulation, and keeps the record of a change that was not
  committed from the nodes that had not fetched it while that leader led.

Contains the story. Does not contain how it is played (harness.replaying.replay).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from harness.chunks import read_table
from harness.model import Observation, Op
from harness.model.conditions import LEADER_KNOWN, is_follower, is_leader, is_unattached, responds
from harness.model.faults.membership import ADD_VOTER, REMOVE_VOTER, add_voter, await_membership, remove_voter
from harness.model.faults.rpc import DROP, INTERCEPT, Api, RpcMatch, RpcRule
from harness.model.hosts import Link
from harness.model.nemesis_ops import AWAIT, HEAL, SLEEP
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS
from harness.model.story import (
    CHANGE_VERSION,
    Step,
    change_version,
    cut_links,
    heal,
    heal_links,
    lead,
    sleep,
    when,
)
from harness.planning.plan import Plan
from harness.replaying.leaderships import Leadership, leaderships
from harness.replaying.voter_outcomes import VoterOutcomes
from harness.simulating.timed_simulation import FIRST_RELEASE
from results.reading.rows import nemesis_ops_of, observations_of
from results.store import RunDirectory

CUT, HEAL_LINKS, START = "cut", "heal_links", "start"
ENDS: Final = ("kill", "stop", "lose_unsynced")
ON_NODES: Final = (*ENDS, "pause", "resume")
ANSWERED: Final = re.compile(r"after a Fetch response from node (\d+)")
SOON_NS: Final = 2_000_000_000
"""An exit that follows a start so soon is one of the first fetches."""
PAUSE_MS: Final = 20
"""Shorter pauses between two faults are left out: each takes longer on processes."""
RECOVERY_SECONDS: Final = 20.0
"""How long a leader is waited for in the end, as in simulation."""
START_SECONDS, ELECTION_SECONDS, FOLLOW_SECONDS, LAST_SECONDS = 15.0, 5.0, 2.0, 3.0
"""How long a start, an election and its followers are waited for; and how long the faults of a run last on that a
broken invariant has ended in simulation."""
NO_RULE = RpcRule("none", RpcMatch((Api.NOMINATE_VOTER,)), DROP, may_be_idle=True)
"""Takes the place of rules that end: no node sends what it matches."""


Rules = Sequence[Mapping[str, Any]]
"""RPC rules as JSON."""


class FatalAnswer(NamedTuple):
    """A node that exited soon after this start because of the answer to its fetch, and the node that answered."""

    start_ns: int
    node: int
    answering: int


class Deposed(NamedTuple):
    """A node that leads no longer."""

    node: int


def process_story(run: RunDirectory, starts_nodes: bool) -> list[Step]:
    """The story of a stored timed run for real processes.

    starts_nodes: no node has started when the story begins. Otherwise there is a leader, and all follow it.
    """
    plan = Plan.read(run.plan)
    faults = list(nemesis_ops_of(read_table(run.history, HISTORY)))[1::2]
    observed = observations_of(read_table(run.observations, OBSERVATIONS))
    batches = read_table(run.batches, BATCHES).to_pylist() if run.batches.exists() else []
    outcomes = VoterOutcomes(plan, observed, batches)
    builder = _Builder(plan, list(leaderships(observed)), outcomes, list(_fatal_answers(observed)))
    return list(_merged(_story(builder, [op for op in faults if op.f != AWAIT], starts_nodes)))


def _story(builder: _Builder, faults: Sequence[Op], starts_nodes: bool) -> Iterator[Step]:
    """The faults and the elections, in the order of their times."""
    moments: list[tuple[float, Op | Leadership | Deposed]] = [(op.time_ns / 1e6, op) for op in faults]
    moments += [(led.time_ms, led) for led in builder.leaders]
    moments += [(led.end_ms, Deposed(led.node)) for led in builder.leaders]
    moments.sort(key=_order)
    times = [time_ms for time_ms, _ in moments]
    yield from builder.begin(starts_nodes)
    for (time_ms, moment), next_ms in zip(moments, [*times[1:], *times[-1:]], strict=True):
        if isinstance(moment, Leadership):
            yield from builder.elected(moment, next_ms)
        elif isinstance(moment, Deposed):
            yield from builder.deposed(moment.node)
        elif not _is_part_of_power_failure(moment, faults):
            yield from builder.fault(moment)
        if next_ms - time_ms > PAUSE_MS:
            yield sleep(round((next_ms - time_ms) / 1000, 3))
    if not faults or faults[-1].f != HEAL:
        yield sleep(LAST_SECONDS)
    if any(op.f in (ADD_VOTER, REMOVE_VOTER) for op in faults):
        yield await_membership(1.0, is_required=False)  # healing would wait longer
    yield heal()
    yield when(LEADER_KNOWN, RECOVERY_SECONDS)


def _merged(story: Iterable[Step]) -> Iterator[Step]:
    """The story with one sleep for several in a row."""
    for is_sleep, grouped in groupby(story, lambda step: step.f == SLEEP):
        steps = list(grouped)
        yield from [sleep(round(sum(step.value for step in steps), 3))] if is_sleep else steps


def _order(moment: tuple[float, Op | Leadership | Deposed]) -> tuple[float, int]:
    """By time; links are healed before nodes start, which takes time on processes."""
    time_ms, what = moment
    return time_ms, (0 if what.f == HEAL else 1) if isinstance(what, Op) else 2


def _is_part_of_power_failure(kill: Op, faults: Iterable[Op]) -> bool:
    """Whether the same nodes lose what they had not synced at the same time: that step kills them, too."""
    failures = (op for op in faults if (op.f, op.time_ns) == ("lose_unsynced", kill.time_ns))
    return kill.f == "kill" and any(set(kill.value["nodes"]) <= set(op.value["nodes"]) for op in failures)


def _fatal_answers(observed: Iterable[Observation]) -> Iterator[FatalAnswer]:
    """The nodes that exited because of an answer, by the last start of each."""
    starts: dict[int, int] = {}
    for each in observed:
        if each.kind == "started":
            starts[each.node] = each.time_ns
        found = ANSWERED.search(each.detail or "") if each.kind == "exited" else None
        if found and each.node in starts and each.time_ns - starts[each.node] < SOON_NS:
            yield FatalAnswer(starts[each.node], each.node, int(found[1]))


class _Builder:
    """The steps of faults and elections, by what is in effect so far."""

    def __init__(
        self, plan: Plan, leaders: Sequence[Leadership], outcomes: VoterOutcomes, answers: Sequence[FatalAnswer]
    ) -> None:
        self.leaders = leaders
        self._plan, self._outcomes, self._answers = plan, outcomes, answers
        self._all = frozenset(range(1, plan.nodes + 1))
        self._up = set(self._all)
        self._cut: set[Link] = set()
        # the rules in place: those that were drawn, and those that decide elections, voter changes and first fetches
        self._drawn: Rules = ()
        self._votes: Rules = ()
        self._fetches: Rules = ()
        self._first_fetches: Rules = ()

    def begin(self, starts_nodes: bool) -> Iterator[Step]:
        """What comes before the first moment: all nodes start, or there is a leader."""
        if starts_nodes:
            yield from self._no_votes(until=self.leaders[:1])
            yield from self._first_fetches_of(0)
            yield from self._started([Step(START, {"who": f"n{node}"}) for node in sorted(self._all)])
        else:
            yield from (lead(f"n{led.node}") for led in self.leaders[:1])

    def fault(self, op: Op) -> Iterator[Step]:
        """The steps of a fault, or of its end."""
        value = op.value
        if op.f == HEAL:  # the step of this name would wait for voter changes
            yield from self._healed(self._cut)
            yield from self._intercepted(())
        elif op.f == CUT:
            added = {(a, b) for a, b in value["links"]} - self._cut
            self._cut |= added
            yield from [cut_links(added)] if added else []
        elif op.f == HEAL_LINKS:
            yield from self._healed({(a, b) for a, b in value["links"]} & self._cut)
        elif op.f == INTERCEPT:
            yield from self._intercepted(value["rules"])
        elif op.f == CHANGE_VERSION:
            yield from self._changed(value["nodes"], value["label"])
        elif op.f in (ADD_VOTER, REMOVE_VOTER):
            yield from self._voter_change(op)
        elif op.f == START:
            yield from self._first_fetches_of(op.time_ns)
            yield from self._started(
                [Step(START, {"who": f"n{node}"}) for node in value["nodes"] if node not in self._up]
            )
        else:
            assert op.f in ON_NODES, op.f
            self._up -= set(value["nodes"]) if op.f in ENDS else set()
            f = "kill" if op.f == "stop" and len(value["nodes"]) > 1 else op.f  # a broker's stop needs a controller
            yield from (Step(f, {"who": f"n{node}"}) for node in value["nodes"])

    def _voter_change(self, op: Op) -> Iterator[Step]:
        """The request, unless no leader appended it; before it, what keeps its record from the others."""
        led = next((led for led in reversed(self.leaders) if led.time_ms * 1e6 <= op.time_ns), None)
        outcome = None if led is None else self._outcomes.of(op, led)
        if outcome is None:
            return
        (node,) = op.value["nodes"]
        if not outcome.is_committed and (others := self._all - outcome.fetched):
            self._fetches = [_dropped("fetches of the others", Api.FETCH, others)]
            yield self._rules_step()
        yield (add_voter if op.f == ADD_VOTER else remove_voter)(f"n{node}", is_answered="any")

    def elected(self, led: Leadership, until_ms: float) -> Iterator[Step]:
        """Let this node be elected, wait for those that follow it by then, and end votes until the next election."""
        later = [each for each in self.leaders if each.time_ms > led.time_ms]
        self._fetches = []
        self._votes = [_dropped(f"votes for others than n{led.node}", Api.VOTE, self._all - {led.node})]
        yield self._rules_step()
        yield when(is_leader(led.node), ELECTION_SECONDS)
        yield lead(f"n{led.node}", is_required=False)
        yield from self._no_votes(until=later)
        for node in sorted({node for at_ms, node in led.followers if at_ms < until_ms} & self._up):
            yield when(is_follower(node), FOLLOW_SECONDS)

    def _no_votes(self, until: Sequence[Leadership]) -> Iterator[Step]:
        """No node gets votes until the next election, if there is one."""
        self._votes = [_dropped("all votes", Api.VOTE, ())] if until else []
        yield self._rules_step()

    def deposed(self, node: int) -> Iterator[Step]:
        """Wait until this node leads no longer, if something keeps the others from what it appended, and end that."""
        if self._fetches:
            yield from [when(is_unattached(node), ELECTION_SECONDS)] if node in self._up else []
            self._fetches = []
            yield self._rules_step()

    def _intercepted(self, rules: Rules) -> Iterator[Step]:
        before, self._drawn = self._drawn, rules
        if before or rules:
            yield self._rules_step()

    def _first_fetches_of(self, start_ns: int) -> Iterator[Step]:
        """Nodes that start now and exit because of an answer ask no other node."""
        asked = [each for each in self._answers if each.start_ns == start_ns]
        self._first_fetches = [
            _dropped(f"fetches of n{each.node}", Api.FETCH, {each.node}, self._all - {each.node, each.answering})
            for each in asked
        ]
        yield from [self._rules_step()] if asked else []

    def _rules_step(self) -> Step:
        rules = [*self._votes, *self._fetches, *self._first_fetches, *self._drawn]
        return Step(INTERCEPT, {"rules": rules or [NO_RULE.to_json()]})

    def _healed(self, links: Iterable[Link]) -> Iterator[Step]:
        healed = sorted(links)
        self._cut -= set(healed)
        yield from [heal_links(healed)] if healed else []

    def _changed(self, nodes: Sequence[int], label: str) -> Iterator[Step]:
        """label: `n1 runs 4.3.1`, or `n1 runs its first release` (harness.simulating.timed_simulation)."""
        kind, version = self._plan.system.partition(":")[0], label.rpartition(" runs ")[2]
        for node in nodes:
            first = self._plan.node_systems.get(node, self._plan.system)
            system = first if version == FIRST_RELEASE else f"{kind}:{version}"
            yield from self._started([change_version(f"n{node}", system)])

    def _started(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Start nodes, and wait until they respond."""
        nodes = [int(step.value["who"].removeprefix("n")) for step in steps]
        yield from steps
        yield from (when(responds(node), START_SECONDS) for node in nodes)
        self._up |= set(nodes)


def _dropped(name: str, api: Api, sources: Iterable[int], targets: Iterable[int] = ()) -> Mapping[str, Any]:
    """A rule that drops these nodes' requests, as JSON."""
    match = RpcMatch((api,), "request", tuple(sorted(sources)), tuple(sorted(targets)))
    return RpcRule(name, match, DROP, may_be_idle=True).to_json()
