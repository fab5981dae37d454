"""Draws timed runs: faults, and a few operations of clients, at fixed times. Thousands of them take a minute.

    run = timed_run(request, seed=7)
    schedule_of(run.story, run.nodes, run.seed, run.rate)       # the same at fixed times (nodes.simulation.schedule)

The story is one of ordinary steps, whose roles are looked up at their times; no step waits for a condition. So it is
also a story for real processes. Operations are registers' writes and reads, most of them at the leader.

Contains the draws, and a story as a schedule. Does not contain how it is carried out.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from harness import plugins
from harness.exploration.drawing import VOTERS_CHANGE, Ranges, ranges_of
from harness.exploration.request import ExplorationRequest
from harness.model import BadInput
from harness.model.faults.disks import lose_unsynced
from harness.model.faults.membership import ADD_VOTER, REMOVE_VOTER, add_voter, remove_voter
from harness.model.faults.rpc import DROP, DUPLICATE, HOLD, INTERCEPT, Api, RpcAction, RpcMatch, RpcRule, delay
from harness.model.nemesis_ops import HEAL, SLEEP
from harness.model.story import (
    ALL,
    CHANGE_VERSION,
    DOWN,
    LEADER,
    PAUSED,
    Step,
    cut,
    cut_links,
    heal,
    heal_links,
    kill,
    pause,
    resume,
    sleep,
    start,
    stop,
)
from harness.planning.plan import Plan, Request
from harness.planning.story_steps import StoryStep
from harness.simulating.releases import later_versions, other_systems, system_to_draw_for, with_upgrade
from harness.simulating.request import HOSTS, SimulationRequest
from harness.systems.kraft import cluster_id
from nodes.simulation import schedule
from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.schedule import Schedule, ScheduledRun, Timed
from nodes.wire import codec

WORKLOAD: Final = "register"
KIP_853: Final = "kip-853"
RATE: Final = 1.2
"""Operations of clients in a second: about ten in a run."""
KEYS: Final = 4
READ_SHARE, LEADER_SHARE = 0.3, 0.6
BEGIN_MS: Final = 300
"""The first operation is sent after this time."""
CHANGE_MS: Final = 200
"""How long a node is down that gets another release."""
PAUSES: Final = (0.02, 0.1, 0.3, 0.6, 1.2)
"""The pauses between faults in seconds: shorter and longer than elections and the fetch timeout."""
PROBABILITIES: Final = (None, 0.3)
RULE_APIS: Final = (Api.VOTE, Api.FETCH, Api.FETCH, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH)
RULE_ACTIONS: Final = (DROP, HOLD, DUPLICATE, delay(50), delay(700))
ON_NODES: Final = frozenset({"kill", "start", "stop", "pause", "resume"})
ROLES: Final = (ALL, DOWN, LEADER, PAUSED)


@dataclass(frozen=True, slots=True)
class TimedRun:
    """What was drawn: the quorum, its settings, and the story. rate is operations in a second."""

    system: str
    seed: int
    nodes: int
    voters: int | None
    switches: Mapping[str, str]
    story: Sequence[Step]
    node_systems: Mapping[int, str]
    rate: float = RATE

    def scheduled(self) -> ScheduledRun:
        """The run as a driver carries it out."""
        switches = dict.fromkeys(range(1, self.nodes + 1), self.switches)
        versions = {node: plugins.system(name)[1] for node, name in self.node_systems.items()}
        spec = SimulationSpec(
            *(self.seed, self.nodes, self.voters, cluster_id(self.seed), switches),
            versions=versions,
            later_versions=later_versions(self.system, self.story),
        )
        return ScheduledRun(spec, schedule_of(self.story, self.nodes, self.seed, self.rate))


def timed_run(request: SimulationRequest, seed: int) -> TimedRun:
    """The run of a seed."""
    choice = random.Random(f"timed {seed}")
    ranges = _ranges(system_to_draw_for(request), tuple(request.switches.items()))
    nodes, voters = choice.choice(ranges.quorums)
    switches = {
        "controller.quorum.fetch.timeout.ms": str(choice.choice(ranges.fetch_ms)),
        "controller.quorum.election.timeout.ms": str(choice.choice(ranges.election_ms)),
        **{name: value for name, values in ranges.switches.items() if (value := choice.choice(values)) != values[0]},
    }
    switches |= {name: switches[other] for name, other in ranges.copies.items() if other in switches}
    has_changes = request.system.startswith("kafka") or request.switches.get(VOTERS_CHANGE) == KIP_853
    changes_voters = voters is not None and has_changes
    story = with_upgrade(tuple(_story(choice, nodes, request.run_seconds, changes_voters)), request, seed, nodes)
    switches |= request.switches
    return TimedRun(request.system, seed, nodes, voters, switches, story, other_systems(request, seed, nodes))


def timed_request(request: SimulationRequest, seed: int) -> Request:
    """The run of a seed as a request, whose plan can be stored and played again."""
    run = timed_run(request, seed)
    return Request(
        name="simulate",
        system=request.system,
        switch=dict(run.switches),
        hosts=HOSTS,
        layout="controllers" if run.voters is None else "combined",  # members that change are those of such a cluster
        nodes=run.nodes,
        node_systems=dict(run.node_systems),
        voters=run.voters,
        workload=WORKLOAD,
        rate=run.rate,
        seed=seed,
        story=[StoryStep.of(step) for step in run.story],
        timed=True,
    )


@functools.cache
def _ranges(system: str, switches: tuple[tuple[str, str], ...]) -> Ranges:
    return ranges_of(ExplorationRequest(system=system, switch=dict(switches), hosts=HOSTS))


# -------------------------------------------------------------------- the story


def _story(choice: random.Random, nodes: int, seconds: float, changes_voters: bool) -> Iterator[Step]:
    """Faults and their ends for this long; all end with the last step."""
    faults = [*FAULTS, *(_voter_change,) * 3] if changes_voters else FAULTS
    chosen = choice.sample(faults, choice.randint(2, len(faults)))  # swarm testing: not all kinds in each run
    left_ms = round(seconds * 1000)
    yield sleep(pause_ms := choice.choice((0.3, 1.0)))
    left_ms -= round(pause_ms * 1000)
    while left_ms > 0:
        yield from choice.choice(chosen)(choice, nodes)
        ms = min(left_ms, max(1, round(choice.choice(PAUSES) * choice.uniform(0.5, 1.5) * 1000)))
        left_ms -= ms
        yield sleep(ms / 1000)
    yield heal()


def _who(choice: random.Random, nodes: int) -> str:
    return LEADER if choice.random() < 0.5 else f"n{choice.randint(1, nodes)}"


def _cut(choice: random.Random, nodes: int) -> list[Step]:
    return [cut(_who(choice, nodes), choice.choice(("both", "both", "out", "in")))]


def _cut_link(choice: random.Random, nodes: int) -> list[Step]:
    a, b = choice.sample(range(1, nodes + 1), 2)
    links = choice.choice(([(a, b)], [(a, b), (b, a)]))
    return [choice.choice((cut_links, cut_links, heal_links))(links)]


def _heal(_choice: random.Random, _nodes: int) -> list[Step]:
    return [heal()]


def _kill(choice: random.Random, nodes: int) -> list[Step]:
    who = choice.choice((_who(choice, nodes), _who(choice, nodes), _who(choice, nodes), ALL))
    down = [kill(who), sleep(choice.choice((0.05, 0.3, 1.5))), start(DOWN)]
    return choice.choice((down, down[:1], [start(DOWN)], [stop(who)]))


def _power_failure(choice: random.Random, nodes: int) -> list[Step]:
    who = choice.choice((f"n{choice.randint(1, nodes)}", f"n{choice.randint(1, nodes)}", ALL))
    return [lose_unsynced(who), sleep(choice.choice((0.05, 0.5))), start(DOWN)]


def _pause(choice: random.Random, nodes: int) -> list[Step]:
    return choice.choice(([pause(_who(choice, nodes))], [resume(PAUSED)]))


def _rule(choice: random.Random, nodes: int) -> list[Step]:
    ends = [(), (choice.randint(1, nodes),)]
    source, target, action = choice.choice(ends), choice.choice(ends), choice.choice(RULE_ACTIONS)
    direction = "request" if action is DUPLICATE else choice.choice(("request", "response"))
    api, probability = choice.choice(RULE_APIS), choice.choice(PROBABILITIES)
    return [Step(INTERCEPT, {"rules": [_rule_json(api, direction, source, target, action, probability)]})]


@functools.cache
def _rule_json(
    api: int,
    direction: Literal["request", "response"],
    sources: tuple[int, ...],
    targets: tuple[int, ...],
    action: RpcAction,
    probability: float | None,
) -> dict[str, Any]:
    match = RpcMatch((int(api),), direction, sources, targets, probability=probability)
    return RpcRule("drawn", match, action, may_be_idle=True).to_json()


def _voter_change(choice: random.Random, nodes: int) -> list[Step]:
    return [choice.choice((add_voter, remove_voter))(f"n{choice.randint(1, nodes)}")]


Fault = Callable[[random.Random, int], list[Step]]
FAULTS: Final[Sequence[Fault]] = (_cut, _cut, _cut_link, _heal, _heal, _kill, _kill, _power_failure, _pause, _rule)


# -------------------------------------------------------------------- the schedule


def require_timed(plan: Plan) -> None:
    """Raise BadInput for a timed plan that is not for simulated nodes, or cannot be carried out at fixed times."""
    if not plan.timed:
        return
    if plan.hosts != HOSTS:
        raise BadInput(f"--timed: expected --hosts {HOSTS}, found {plan.hosts}")
    if plan.workload != WORKLOAD:
        raise BadInput(f"--timed: expected --workload {WORKLOAD}, found {plan.workload}")
    if plan.not_started:
        raise BadInput(f"--timed: expected nodes that start with the run, found not_started = {plan.not_started}")
    schedule_of([each.step() for each in plan.story], plan.nodes, plan.seed, plan.rate_per_second)


def schedule_of(story: Iterable[Step], nodes: int, seed: int, rate: float) -> Schedule:
    """The story, and the operations of clients, at fixed times. Raises BadInput for a step that has none."""
    at_ms, commands = 0, [Timed(0, schedule.START, ALL)]
    changed: dict[str, None] = {}
    for number, step in enumerate(story):
        if step.f == SLEEP:
            at_ms += round(step.value * 1000)
        else:
            commands += [Timed(at_ms, *each) for each in _commands(number, step, changed)]
        if step.f == CHANGE_VERSION:
            who = step.value["who"]
            commands.append(Timed(at_ms + CHANGE_MS, schedule.START, who))
            changed[who] = None
        elif step.f == HEAL:
            changed.clear()
    operations = _operations(seed, nodes, rate, at_ms)
    return Schedule(sorted([*commands, *operations], key=lambda each: each.at_ms), at_ms)


def _commands(number: int, step: Step, changed: Iterable[str]) -> list[tuple[Any, ...]]:
    """The commands of a step, without their time. changed: the nodes that have another release than at first."""
    value = step.value or {}
    if step.f == HEAL:
        releases = [each for node in changed for each in _change(node, "")]
        processes = [(schedule.RESUME, PAUSED), *releases, (schedule.START, DOWN)]
        return [(schedule.INTERCEPT, "", ()), *processes, (schedule.RESTORE, "", None)]
    if step.f == INTERCEPT:
        return [(schedule.INTERCEPT, "", value["rules"])]
    if step.f in ("cut", "heal_links") and "links" in value:
        return [(schedule.CUT if step.f == "cut" else schedule.RESTORE, "", [tuple(link) for link in value["links"]])]
    who = value.get("who", "")
    is_number = who.startswith("n") and who[1:].isdigit()
    if step.f == "cut" and (is_number or who in ROLES):
        return [(schedule.ISOLATE, who, value["direction"])]
    if step.f in ON_NODES and (is_number or who in ROLES):
        return [(step.f, who)]
    if step.f == "lose_unsynced" and (is_number or who == ALL):
        return [(schedule.KILL, who), (schedule.LOSE_UNSYNCED, who)]
    if step.f == CHANGE_VERSION and is_number:
        return _change(who, plugins.system(value["system"])[1])
    if step.f in (ADD_VOTER, REMOVE_VOTER) and is_number:
        api_key = codec.ADD_RAFT_VOTER if step.f == ADD_VOTER else codec.REMOVE_RAFT_VOTER
        return [(schedule.REQUEST, LEADER, (api_key, int(who[1:])))]
    raise BadInput(f"story: {number}: {step.f}: a timed run has no such step, or not on these nodes")


def _change(node: str, version: str) -> list[tuple[Any, ...]]:
    return [(schedule.KILL, node), (schedule.CHANGE_VERSION, node, version)]


def _operations(seed: int, nodes: int, rate: float, end_ms: int) -> Iterator[Timed]:
    """Reads and writes of registers; a written value is the operation's number."""
    choice = random.Random(f"operations {seed}")
    times = sorted(choice.randrange(BEGIN_MS, max(BEGIN_MS + 1, end_ms)) for _ in range(round(rate * end_ms / 1000)))
    for number, at_ms in enumerate(times):
        who = LEADER if choice.random() < LEADER_SHARE else f"n{choice.randint(1, nodes)}"
        key = f"r{choice.randrange(KEYS)}"
        if choice.random() < READ_SHARE:
            yield Timed(at_ms, schedule.READ, who, key)
        else:
            yield Timed(at_ms, schedule.WRITE, who, (key, number))
