"""Draws the runs of an exploration: nodes and their settings, workload and load, which kinds of faults, and the story.

    request = drawn(ExplorationRequest(system="reference"), seed=7, available=plugins.actions(), reached=Coverage())

Each run has some kinds of faults only (swarm testing: Groce et al., ISSTA 2012), so that some runs are all about one.
Its story begins with one of the moves that every exploration must have, by its seed, so that as many runs with
consecutive seeds have all of them. Before it come those that disturb the clients, if these send to brokers. The others
(nemesis.moves) follow in random order, none again before every other was dealt; moves and faults that earlier runs
rarely had come more often. The same seed and coverage give the same run.

Contains the draws. Does not contain the moves, or carrying a run out.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any, Final, Literal

from harness import plugins
from harness.exploration.coverage import Coverage
from harness.exploration.request import ExplorationRequest
from harness.model import BadInput
from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN
from harness.model.faults.disks import FileSystem
from harness.model.faults.rpc import Api
from harness.model.nemesis_ops import SLEEP
from harness.model.plurals import counted
from harness.model.story import ALL, LEADER, MARK, Step, heal, kill, mark, sleep, start, wait_until
from harness.planning.plan import Plan, Request
from harness.planning.story_steps import StoryStep
from nemesis.faults.membership import VOTER_ACTIONS, VOTERS
from nemesis.moves import MOVES, OF_CLIENTS, Draw, Timeouts

KIND_SHARE: Final = 0.5
"""The share of runs that have a kind of fault."""
OFTEN: Final = ("partition", "kill")
"""The kinds that most moves need."""
OFTEN_SHARE: Final = 0.8
ESSENTIAL: Final = (
    "leader cut off",
    "leader does not send",
    "leader does not receive",
    "stale follower",
    "uncommitted tail",
    "all restart",
    "power failure of all",
    "hub",
    "votes are held",
    "majority is left",
)
"""The moves with which stories begin, in turn: cuts in each direction, double faults, restarts, lost writes, an event,
and what only shows if nothing else happens."""
REGISTER_OPTIONS: Final = {"keys": ("hot-and-cold",)}
"""Registers are read long after they were written, too."""
CLIENTS: Final = 12
"""The client processes that look for the leader: each has one operation open, so they bound the rate."""
PINNED_PER_NODE: Final = 2
"""In half of the runs each node has a client that reads and one that writes and stays with it when it is deposed."""
BURST_SECONDS: Final = (None, None, 0.5, 2.0)
"""The mean length of the load's pauses: as long as a short election, and longer."""
UPGRADE_SHARE: Final = 0.15
"""The share of runs in which some nodes are of an earlier release, where the system has one."""
BROKERS_SHARE: Final = 0.4
"""The share of runs whose clients send records to brokers."""
BROKERS_SERVE: Final = {"brokers", "transactions"}
"""What a system must offer clients for such runs (harness.model.systems.SystemKind.clients)."""
LOAD_SECONDS: Final = 1.5
"""The load before the first fault, which has something to lose."""
CALM_SECONDS: Final = (0.1, 2.0)
"""The pause after a move is healed, in which the cluster recovers, or does not quite."""
HEAL_SECONDS: Final = 0.3
"""About how long healing takes."""
ELECTION_SECONDS_MAX: Final = 20.0
"""How long a story waits for the last leader: longer than the check `liveness` gives the quorum."""
SAMPLES: Final = 30
"""How many draws of a move show all that it can do."""
SETTLE_SECONDS: Final = 4.0
"""The pause at the end of a story: followers that were left behind truncate, catch up, or do not."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """What is drawn for a system.

    fetch_ms and election_ms are the quorum's timeouts, rates are client operations per second. quorums are pairs of the
    number of nodes and the number of voters, None for all. switches maps others to the values of which one is drawn,
    the default first; switches_simulated are those of simulated nodes alone. layout is what the nodes are
    (harness.planning.plan.Load). earlier are the switches of a node of an earlier release; in some runs a few nodes
    have them. options are the values of each workload's options.
    copies are switches that have the value that was drawn for another one, where it is not the default.
    of_brokers are the workloads of BROKERS_SHARE of the runs, if the system serves them, each with the requests that
    its clients send again when no response comes in time; in such a run, client_apis are these.
    clients is the number of client processes that look for the leader, pinned that of each node beside them, in half of
    the runs; bursts are the mean lengths of the load's pauses.
    """

    fetch_ms: Sequence[int]
    election_ms: Sequence[int]
    quorums: Sequence[tuple[int, int | None]]
    rates: Sequence[int]
    workloads: Sequence[str]
    switches: Mapping[str, Sequence[str]]
    switches_simulated: Mapping[str, Sequence[str]] = field(default_factory=dict)
    layout: Literal["controllers", "combined"] = "controllers"
    copies: Mapping[str, str] = field(default_factory=dict)
    earlier: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=lambda: {"register": REGISTER_OPTIONS})
    of_brokers: Mapping[str, Sequence[Api]] = field(default_factory=dict)
    client_apis: Sequence[Api] = (Api.PRODUCE,)
    clients: int = CLIENTS
    pinned: int = PINNED_PER_NODE
    bursts: Sequence[float | None] = BURST_SECONDS


READ_MODE, LEASE = "reference.read_mode", "lease"
SNAPSHOT_BYTES: Final = "metadata.log.max.record.bytes.between.snapshots"
RETENTION_BYTES: Final = "metadata.max.retention.bytes"
SEGMENT_BYTES: Final = "metadata.log.segment.bytes"
RANGES: Final[Mapping[str, Ranges]] = {
    "reference": Ranges(
        fetch_ms=(500, 1000, 2000),
        election_ms=(300, 600, 1000),
        quorums=((3, None), (3, None), (4, 3), (5, None)),
        rates=(50, 100, 100, 200, 400, 1000),
        workloads=("set", "register"),
        switches={
            "controller.quorum.append.linger.ms": ("0", "25"),
            "controller.quorum.request.timeout.ms": ("2000", "500"),
            "metadata.max.idle.interval.ms": ("500", "0"),
            READ_MODE: ("read-index", "read-index", LEASE),
            SNAPSHOT_BYTES: ("20971520", "20000"),
            RETENTION_BYTES: ("104857600", "1"),
        },
        switches_simulated={SNAPSHOT_BYTES: ("20971520", "2000")},
        copies={SEGMENT_BYTES: SNAPSHOT_BYTES},
        earlier={"reference.pre_vote": "false"},
        options={"register": {**REGISTER_OPTIONS, "batches": ("no", "large")}},
    ),
    "kafka": Ranges(
        fetch_ms=(1000, 2000),
        election_ms=(500, 1000),
        quorums=((3, None), (4, 3)),
        rates=(50, 200),
        workloads=("set", "register"),
        switches={
            "controller.quorum.append.linger.ms": ("25", "0"),
            "controller.quorum.request.timeout.ms": ("2000", "1000"),
        },
        switches_simulated={SNAPSHOT_BYTES: ("20971520", "2000"), RETENTION_BYTES: ("104857600", "1")},
        layout="combined",
        of_brokers={
            "log": (Api.PRODUCE,),
            "transactions": (Api.PRODUCE, Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN),
        },
    ),
}
"""The ranges of each system; of another, those of Kafka."""
VOTERS_CHANGE: Final = "reference.voter_changes"
OF_CHANGES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "kip-642": {"reference.voter_addresses": ("configured", "discovered")},
    "kip-853": {},
}
"""The values of VOTERS_CHANGE with which a system's voters change, and the switches that are drawn with each, too."""
CHANGING_VOTERS: Final[Mapping[str, Any]] = {
    "quorums": ((4, 3), (5, 3), (6, 3)),
    "workloads": ("reassignment",),
    "options": {},
    "pinned": 0,
}
"""What differs where voters change: clients move them all the time, whatever else happens."""
SIMULATED: Final[Mapping[str, Any]] = {
    "layout": "controllers",
    "rates": (1, 2, 4, 10),
    "workloads": ("register",),
    "options": {},
    "of_brokers": {},
    "clients": 4,
    "pinned": 1,
    "bursts": (None,),
}
"""What differs on simulated nodes: a light load. Many short runs meet more orders of events than a few long ones, and a
rare operation suffices, because every node is looked at after every event."""


def drawn(request: ExplorationRequest, seed: int, available: Collection[str], reached: Coverage) -> Request:
    """The run of this seed. available are the actions that the hosts allow; a move that needs others is not drawn, nor
    one that the system does not support. reached is what earlier runs have reached."""
    choice = random.Random(f"exploration {seed}")
    system, _ = plugins.system(request.system)
    ranges = _with_brokers(seed, ranges_of(request), system.clients)
    fetch_ms, election_ms = choice.choice(ranges.fetch_ms), choice.choice(ranges.election_ms)
    nodes, voters = choice.choice(ranges.quorums)
    pinned = choice.choice((0, ranges.pinned * nodes))
    timeouts = Timeouts(fetch_ms / 1000, election_ms / 1000)
    draw = Draw(choice, nodes, timeouts, reached.faults + reached.rpcs, ranges.client_apis)
    switches = {
        "controller.quorum.fetch.timeout.ms": str(fetch_ms),
        "controller.quorum.election.timeout.ms": str(election_ms),
        **{name: value for name, values in ranges.switches.items() if (value := choice.choice(values)) != values[0]},
    }
    switches |= {name: switches[other] for name, other in ranges.copies.items() if other in switches}
    refused = system.reasons(ranges.layout, voters, {**switches, **request.switches})
    possible = _possible(nodes, available, refused, set(ranges.workloads) <= ranges.of_brokers.keys())
    first = _first(seed, possible)
    moves = _moves(choice, possible, first, nodes)
    last = _end(plugins.host_kind(request.hosts).simulated, "all restart" in moves)
    of_clients = [name for name in OF_CLIENTS if name in possible]
    firsts = [*choice.sample(of_clients, len(of_clients)), first]
    story = _story(draw, _dealt(choice, firsts, moves, reached.moves), request.run_seconds, last)
    workload = choice.choice(ranges.workloads)
    return Request(
        name="explore",
        system=request.system,
        switch={**switches, **request.switches},
        feature=request.features,
        hosts=request.hosts,
        inventory=request.inventory,
        disk=disk_for(story),
        layout=ranges.layout,
        nodes=nodes,
        voters=voters,
        workload=workload,
        option={name: choice.choice(values) for name, values in ranges.options.get(workload, {}).items()},
        concurrency=ranges.clients + pinned,
        pinned=pinned,
        bursts=choice.choice(ranges.bursts),
        rate=float(choice.choice(ranges.rates)),
        node_switches=_node_switches(choice, nodes, ranges.earlier, {**switches, **request.switches}),
        seed=seed,
        story=[StoryStep.of(step) for step in story],
        record_rpcs=choice.choice((False, True)),
    )


def ranges_of(request: ExplorationRequest) -> Ranges:
    """What is drawn for the request's system on its hosts."""
    ranges = RANGES.get(request.system.partition(":")[0], RANGES["kafka"])
    if plugins.host_kind(request.hosts).simulated:
        ranges = replace(ranges, **SIMULATED, switches={**ranges.switches, **ranges.switches_simulated})
    if not has_dynamic_voters(request.system):
        ranges = replace(ranges, quorums=[each for each in ranges.quorums if each[1] is None])
    more = OF_CHANGES.get(request.switches.get(VOTERS_CHANGE, ""))
    return ranges if more is None else replace(ranges, switches={**ranges.switches, **more}, **CHANGING_VOTERS)


def possible_moves(request: ExplorationRequest) -> list[str]:
    """The moves that the request's runs may have on hosts that allow every fault."""
    system, _ = plugins.system(request.system)
    ranges = ranges_of(request)
    kinds = {False, _has_brokers(ranges, system.clients)}
    found = {
        name
        for (nodes, voters), sends_records in product(set(ranges.quorums), kinds)
        for name in _possible(
            nodes, plugins.actions(), system.reasons(ranges.layout, voters, request.switches), sends_records
        )
    }
    return [name for name in MOVES if name in found]


def has_dynamic_voters(name: str) -> bool:
    """Whether a system's quorum can begin with some of the nodes as voters."""
    system, version = plugins.system(name)
    return system.has_dynamic_voters(version)


def described(plan: Plan) -> str:
    """What was drawn for a run, in one line."""
    moves = [str(step.value) for step in plan.story if step.f == MARK]
    drawn = ", ".join(moves) or counted(len(plan.story), "step")
    settings = ", ".join(f"{name}={value}" for name, value in plan.switches.items())
    older = f", n{', n'.join(map(str, plan.node_switches))} of an earlier release" if plan.node_switches else ""
    voters = f" ({plan.voters} voters)" if plan.voters else ""
    nodes = f"{counted(plan.nodes, 'node')}{voters}{older}"
    options = " and".join(f" {value} {name}" for name, value in plan.workload_options.items())
    pinned = f", {counted(plan.pinned, 'client')} pinned" if plan.pinned else ""
    bursts = f" in bursts of {plan.burst_seconds:g} s" if plan.burst_seconds else ""
    load = f"{plan.workload}{' with' if options else ''}{options} at {plan.rate_per_second:g}/s{bursts}{pinned}"
    reached = Coverage.from_json(plan.drawn_from, "plan") if plan.drawn_from else Coverage()
    new = ", ".join(name for name in dict.fromkeys(moves) if reached.runs and name not in reached.moves)
    first_time = f" (no earlier run had {new})" if new else ""
    return f"seed {plan.seed}, {nodes}, {load}, {settings}: {drawn}{first_time}"


def _node_switches(
    choice: random.Random, nodes: int, earlier: Mapping[str, str], switches: Mapping[str, str]
) -> dict[int, dict[str, str]]:
    """The switches of single nodes: in a rolling upgrade, some are of an earlier release.

    Not where the leader answers reads by its lease, which is sound only if every node has Pre-Vote.
    """
    is_upgrade = bool(earlier) and choice.random() < UPGRADE_SHARE
    older = choice.sample(range(1, nodes + 1), choice.randint(1, nodes - 1)) if is_upgrade else []
    return {} if switches.get(READ_MODE) == LEASE else {node: dict(earlier) for node in sorted(older)}


def _possible(nodes: int, available: Collection[str], refused: Collection[str], sends_records: bool) -> list[str]:
    """The moves that the hosts and the system allow. sends_records: the clients send records to brokers.

    Brokers do not sync a record before they acknowledge it, so a power failure may lose it.
    """
    return [
        name
        for name in MOVES
        if (actions := actions_of(name, nodes)) <= set(available)
        and _needs_of(name, nodes).isdisjoint(refused)
        and ("lose_unsynced" not in actions if sends_records else name not in OF_CLIENTS)
    ]


def _has_brokers(ranges: Ranges, served: Collection[str]) -> bool:
    """Whether clients send to brokers in some runs; served is what the system offers clients."""
    return bool(ranges.of_brokers) and set(served) >= BROKERS_SERVE


def _with_brokers(seed: int, ranges: Ranges, served: Collection[str]) -> Ranges:
    """The ranges of a run whose clients send to brokers, in BROKERS_SHARE of the runs where the system serves them.

    The rate is the highest one: at a low rate hardly any transaction is open when a late request arrives.
    """
    choice = random.Random(f"brokers {seed}")  # the other runs are drawn as on a system without brokers
    if not _has_brokers(ranges, served) or choice.random() >= BROKERS_SHARE:
        return ranges
    workload, apis = choice.choice(list(ranges.of_brokers.items()))
    return replace(ranges, workloads=(workload,), client_apis=apis, pinned=0, rates=(max(ranges.rates),))


def _first(seed: int, possible: Collection[str]) -> str:
    """The move with which the run of this seed begins. Raises BadInput if no move is possible."""
    essential = [name for name in ESSENTIAL if name in possible] or sorted(possible)
    if not essential:
        raise BadInput("explore: none of its faults is available here; see splitbrain faults")
    return essential[seed % len(essential)]


def _moves(choice: random.Random, possible: Collection[str], first: str, nodes: int) -> list[str]:
    """The moves of a run: those whose kinds of faults were all drawn. The kinds of the first one are."""
    kinds_of = {name: kinds_of_move(name, nodes) for name in possible}
    kinds = sorted(frozenset().union(*kinds_of.values()) - kinds_of[first])
    left_out = {kind for kind in kinds if choice.random() > (OFTEN_SHARE if kind in OFTEN else KIND_SHARE)}
    return [name for name, kinds in kinds_of.items() if not kinds & left_out]


@cache
def actions_of(move: str, nodes: int) -> frozenset[str]:
    """The faults' actions that a move may have, as SAMPLES draws of it show."""
    draw = Draw(random.Random(0), nodes, Timeouts(1, 1))
    return frozenset(step.f for _ in range(SAMPLES) for step in MOVES[move](draw)) & set(plugins.actions())


def kinds_of_move(move: str, nodes: int) -> frozenset[str]:
    """The kinds of faults that a move injects; an action that ends another, such as a start, is none."""
    faults = plugins.actions()
    actions = actions_of(move, nodes)
    return frozenset(faults[name].name for name in actions if not faults[name].actions[name].ends)


def _needs_of(move: str, nodes: int) -> frozenset[str]:
    """What a system must support for a move: its actions, their kinds, and voters that change."""
    actions = actions_of(move, nodes)
    return actions | kinds_of_move(move, nodes) | ({VOTERS} if not actions.isdisjoint(VOTER_ACTIONS) else set())


def _story(draw: Draw, dealt: Iterator[str], seconds: float, last: Sequence[Step]) -> list[Step]:
    """Moves, each healed, for about this many seconds; and an end in which the cluster can settle."""
    story: list[Step] = [wait_until(ALL_FOLLOW_LEADER), sleep(LOAD_SECONDS)]
    elapsed = 0.0
    while elapsed < seconds:
        name = next(dealt)
        calm = sleep(round(draw.random.uniform(*CALM_SECONDS), 2))
        steps = [mark(name), *MOVES[name](draw), heal(), calm]
        story += steps
        elapsed += HEAL_SECONDS + sum(step.value for step in steps if step.f == SLEEP)
    return [*story, *last]


def _end(is_simulated: bool, restarts: bool) -> list[Step]:
    """The end of a story: perhaps all nodes restart, a leader is elected, and followers catch up.

    On simulated nodes, where waiting costs little, one more node fails, the others elect a leader, and in the end all
    follow one: a quorum that does not recover within the time that the check `liveness` gives it has a bug.
    """
    restart = [kill(ALL), start()] if restarts else []
    elected = wait_until(LEADER_KNOWN, ELECTION_SECONDS_MAX)
    if not is_simulated:
        return [*restart, elected, sleep(SETTLE_SECONDS)]
    all_follow = wait_until(ALL_FOLLOW_LEADER, ELECTION_SECONDS_MAX)
    return [*restart, elected, kill(LEADER), sleep(SETTLE_SECONDS), elected, heal(), all_follow, sleep(CALM_SECONDS[0])]


def _dealt(
    choice: random.Random, firsts: Sequence[str], names: Sequence[str], reached: Mapping[str, int]
) -> Iterator[str]:
    """The first names and then the others in random order, then all of them, again and again.

    Names that were rarely reached tend to come earlier: a weighted order (Efraimidis and Spirakis, 2006).
    """
    yield from firsts
    left = [name for name in names if name not in firsts]
    while True:
        yield from sorted(left, key=lambda name: choice.expovariate(1 / (1 + reached.get(name, 0))))
        left = list(names)


def disk_for(story: Sequence[Step]) -> FileSystem:
    """What the story needs: only a disk of its own can lose what was not synced."""
    return "ext4" if any(step.f == "lose_unsynced" for step in story) else "directory"
