"""Moves: short sequences of faults in the order in which bugs of consensus show themselves, with times drawn around the
system's own timeouts.

    draw = Draw(random.Random(7), nodes=3, timeouts=Timeouts(fetch_seconds=2, election_seconds=1))
    MOVES["stale follower"](draw)

A move leaves its faults in place; the schedule heals them (harness.exploration). Its roles and times are drawn, so the
same move is another sequence each time. A move waits for an event for a limited time, and goes on.

Contains the moves. Does not contain which of them a run has, or in which order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

from harness.model.conditions import (
    A_NODE_IS_BEHIND,
    LEADER_KNOWN,
    Condition,
    is_candidate,
    is_follower,
    is_leader,
    is_prospective,
    is_unattached,
)
from harness.model.faults.disks import lose_unsynced, slow_disk
from harness.model.faults.membership import add_voter, remove_voter
from harness.model.faults.rpc import (
    CLIENTS,
    CLOSE,
    DROP,
    DUPLICATE,
    HOLD,
    HOLD_AND_LOSE,
    Api,
    RpcAction,
    RpcMatch,
    RpcRule,
    delay,
    intercept,
)
from harness.model.faults.rpc import Direction as RpcDirection
from harness.model.hosts import Link
from harness.model.quorum_states import State
from harness.model.story import (
    ALL,
    FOLLOWERS,
    LEADER,
    MAJORITY,
    MINORITY,
    ONE,
    Direction,
    Step,
    choose,
    configure,
    cut,
    cut_links,
    heal_links,
    kill,
    lead,
    only_links,
    partition,
    pause,
    resume,
    sleep,
    start,
    stop,
    when,
)
from nemesis.context import LEADER_SECONDS

LIVENESS_SECONDS = 17.0
"""Longer than the check `liveness` gives a majority to elect a leader, and to commit."""
DIRECTIONS: tuple[Direction, ...] = ("both", "out", "in")
EVENTS: Mapping[State, Callable[[int], Condition]] = {
    State.CANDIDATE: is_candidate,
    State.PROSPECTIVE: is_prospective,
    State.FOLLOWER: is_follower,
    State.LEADER: is_leader,
    State.UNATTACHED: is_unattached,
}
FAULTS: Mapping[str, Callable[[str], Step]] = {"kill": kill, "cut": cut, "pause": pause}
AT_EVENTS = {f"{f} of a {state.value}": (FAULTS[f], EVENTS[state]) for f in FAULTS for state in EVENTS}
"""Faults of a node that enters a state, by the names under which coverage counts them."""


ELECTION_APIS = (Api.VOTE, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH, Api.FETCH)
ACTIONS: tuple[tuple[RpcAction, tuple[RpcDirection, ...]], ...] = (
    (DROP, ("request", "response")),
    (HOLD, ("request", "response")),
    (CLOSE, ("request", "response")),
    (DUPLICATE, ("request",)),
)
MESSAGES: Mapping[str, tuple[RpcAction, Api, RpcDirection]] = {
    f"{action.do} {api.name} {direction}": (action, api, direction)
    for action, directions in ACTIONS
    for direction in directions
    for api in ELECTION_APIS
}
"""Disturbances of a message, by the names under which coverage counts them."""

LATE_CLIENTS, LOST_CLIENTS = "clients' requests are late", "clients' messages are lost"
OF_CLIENTS = (LATE_CLIENTS, LOST_CLIENTS)
"""The moves that need clients which send to brokers."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The system's own timeouts, which decide what a fault of a certain length does."""

    fetch_seconds: float
    election_seconds: float

    @property
    def replacement_seconds(self) -> float:
        """How long it takes at most until a leader that is cut off is replaced, if the first election succeeds."""
        return self.fetch_seconds + 2 * self.election_seconds


@dataclass(frozen=True, slots=True)
class Draw:
    """The random choices of a schedule; nodes is the number of nodes.

    reached counts what earlier runs have reached, by the names of harness.exploration.coverage. client_apis are the
    requests that clients send to brokers, where they do.
    """

    random: random.Random
    nodes: int
    timeouts: Timeouts
    reached: Mapping[str, int] = field(default_factory=dict)
    client_apis: Sequence[Api] = (Api.PRODUCE,)

    @property
    def _numbers(self) -> range:
        return range(1, self.nodes + 1)

    def moment(self) -> Step:
        """A pause that is short beside every timeout."""
        return self._sleep(0.02, 0.5)

    def around_a_timeout(self) -> Step:
        """A pause below the fetch timeout, about as long, or beyond it."""
        return sleep(_rounded(self.timeouts.fetch_seconds * self.random.choice([0.4, 0.8, 1.0, 1.2, 1.6])))

    def until_replaced(self) -> Step:
        """A pause in which a leader that is gone is replaced, and the new one works for some time."""
        return sleep(_rounded(self.timeouts.replacement_seconds * self.random.uniform(1.0, 1.6)))

    def node(self) -> int:
        """One of the nodes."""
        return self.random.choice(self._numbers)

    def rare(self, names: Sequence[str]) -> str:
        """One of these, those that earlier runs have rarely reached more often."""
        return self.random.choices(names, [1 / (1 + self.reached.get(name, 0)) for name in names])[0]

    def links_of(self, node: int) -> list[Link]:
        """The links between a node and all others."""
        return [link for link in permutations(self._numbers, 2) if node in link]

    def all_links(self) -> list[Link]:
        """Every link."""
        return list(permutations(self._numbers, 2))

    def links_without(self, hub: int) -> list[Link]:
        """The links between nodes other than this one."""
        return [link for link in permutations(self._numbers, 2) if hub not in link]

    def leader_links(self) -> list[tuple[int, int]]:
        """A star around node 1, for the leader, without one of its followers; the followers reach each other."""
        lost = self.random.choice(self._numbers[1:])
        return [pair for pair in combinations(self._numbers, 2) if pair != (1, lost)]

    def _sleep(self, least: float, most: float) -> Step:
        return sleep(_rounded(self.timeouts.fetch_seconds * self.random.uniform(least, most)))


def _rounded(seconds: float) -> float:
    return round(seconds, 2)


Move = Callable[[Draw], list[Step]]
"""Draws the steps of a move."""


def _leader_cut_off(direction: Direction) -> Move:
    return lambda draw: [cut(LEADER, direction), draw.until_replaced()]


def _follower_cut_off(draw: Draw) -> list[Step]:
    return [cut(FOLLOWERS, draw.random.choice(DIRECTIONS)), draw.around_a_timeout()]


def _shape(draw: Draw) -> list[Step]:
    """Of three nodes a ring and a bridge cut nothing that other moves do not; halves are one node and the others."""
    shapes = ("halves", "random halves", "minority", *(("majorities ring", "bridge") if draw.nodes > 3 else ()))
    direction = draw.random.choice(DIRECTIONS)
    return [partition(draw.random.choice(shapes), direction), draw.until_replaced()]


def _leader_loses_a_follower(draw: Draw) -> list[Step]:
    return [only_links(draw.leader_links(), leader_as=1), draw.until_replaced()]


def _flapping_node(draw: Draw) -> list[Step]:
    node = draw.node()
    flap = [cut(f"n{node}"), draw.around_a_timeout(), heal_links(draw.links_of(node)), draw.moment()]
    return flap * draw.random.randint(2, 3)


def _hub(draw: Draw) -> list[Step]:
    """All others reach only one node, which restarts again and again: it votes, and is asked again."""
    hub = draw.node()
    restart = [kill(f"n{hub}"), start(f"n{hub}"), draw.around_a_timeout()]
    return [cut_links(draw.links_without(hub)), draw.around_a_timeout(), *restart * draw.random.randint(2, 4)]


def _stale_follower(draw: Draw) -> list[Step]:
    """A node falls behind; the leader dies as it returns. Of three nodes, only the other one can be elected then."""
    node = draw.node()
    behind = [cut(f"n{node}"), draw.around_a_timeout()]
    is_elected = draw.random.choice([draw.until_replaced(), draw.until_replaced(), sleep(LIVENESS_SECONDS)])
    return [*behind, kill(LEADER), heal_links(draw.links_of(node)), is_elected]


def _uncommitted_tail(draw: Draw) -> list[Step]:
    """A leader appends alone, another one commits and dies, and the first returns: Raft's figure 8."""
    alone = [cut(LEADER), draw.until_replaced(), kill(LEADER), heal_links(draw.all_links())]
    return [*alone, draw.until_replaced(), start(), draw.moment()]


def _short_reign(draw: Draw) -> list[Step]:
    """A leader appends alone, its successor dies when it has committed little, and the first returns with more."""
    replaced = [cut(LEADER), when(A_NODE_IS_BEHIND, 2 * draw.timeouts.replacement_seconds), draw.moment()]
    return [*replaced, kill(LEADER), heal_links(draw.all_links()), draw.until_replaced(), start(), draw.moment()]


def _restart(who: str) -> Move:
    return lambda draw: [kill(who), draw.random.choice([draw.moment, draw.around_a_timeout])(), start(), draw.moment()]


def _all_restart(draw: Draw) -> list[Step]:
    return [kill(ALL), draw.moment(), start(), draw.moment()]


def _leaders_die(draw: Draw) -> list[Step]:
    """Each new leader dies soon after its election, while a majority is left."""
    deaths = [kill(LEADER), draw.until_replaced(), start(), when(LEADER_KNOWN, 2), draw.moment()]
    return deaths * draw.random.randint(2, 3)


def _majority_is_left(draw: Draw) -> list[Step]:
    """A minority is down for long enough that the others must have a leader that commits."""
    return [draw.random.choice([kill(LEADER), pause(LEADER), kill(MINORITY)]), sleep(LIVENESS_SECONDS)]


def _leader_in_a_minority(draw: Draw) -> list[Step]:
    """The leader keeps a minority of the nodes for long enough that it must resign."""
    kept = range(1, (draw.nodes - 1) // 2 + 1)
    others = range(len(kept) + 1, draw.nodes + 1)
    links = [*combinations(kept, 2), *combinations(others, 2)]
    return [only_links(links, leader_as=1), sleep(LIVENESS_SECONDS)]


def _leader_stops(draw: Draw) -> list[Step]:
    """A leader ends in good order and returns."""
    return [stop(LEADER), draw.moment(), start(), draw.moment()]


def _pause(who: str) -> Move:
    return lambda draw: [pause(who), draw.random.choice([draw.around_a_timeout, draw.until_replaced])(), resume()]


def _paused_leader_returns(draw: Draw) -> list[Step]:
    """A paused leader returns when its successor has died."""
    return [pause(LEADER), draw.until_replaced(), kill(LEADER), resume(), draw.moment(), start(), draw.moment()]


def _power_failure(who: str) -> Move:
    return lambda draw: [lose_unsynced(who), draw.moment(), start(), draw.moment()]


def _power_failure_of_a_voter(draw: Draw) -> list[Step]:
    """A node votes and loses what it did not sync: when it follows the winner, or while no vote arrives."""
    node, event = draw.node(), draw.random.choice([is_candidate, is_unattached, is_follower])
    votes = _rule("votes", RpcMatch((Api.VOTE,), "response", pre_vote=False), DROP)
    undecided = [] if event is is_follower else [intercept(votes)]
    fails = [when(event(node), draw.timeouts.replacement_seconds), lose_unsynced(f"n{node}"), start(f"n{node}")]
    return [*undecided, kill(LEADER), *fails, draw.until_replaced(), start()]


def _slow_disk(draw: Draw) -> list[Step]:
    slow = slow_disk(draw.random.choice([LEADER, FOLLOWERS]), draw.random.choice([20.0, 100.0, 400.0]))
    return [slow, draw.around_a_timeout(), kill(LEADER), draw.moment()]


def _rule(name: str, match: RpcMatch, action: RpcAction) -> RpcRule:
    """A rule that may find nothing to act on: whether there is an election is up to the cluster."""
    return RpcRule(name, match, action, may_be_idle=True)


def _votes_are_held(draw: Draw) -> list[Step]:
    """Votes are on their way for as long as an election takes: the candidate dies, or a voter does."""
    node = draw.node()
    hold = draw.random.choice([HOLD, HOLD_AND_LOSE])
    held = _rule("votes", RpcMatch((Api.VOTE,), "response", pre_vote=False), hold)
    event = draw.random.choice([is_candidate, is_prospective, is_follower])(node)
    fault = draw.random.choice([[kill(f"n{node}"), start(f"n{node}")], [pause(f"n{node}"), draw.moment(), resume()]])
    return [intercept(held), cut(LEADER), when(event, draw.timeouts.replacement_seconds), *fault, draw.moment()]


def _votes_are_lost(draw: Draw) -> list[Step]:
    pre_vote = draw.random.choice([None, False])
    share = draw.random.choice([0.5, 1.0])
    rule = _rule("votes", RpcMatch((Api.VOTE,), "response", pre_vote=pre_vote, probability=share), DROP)
    return [intercept(rule), kill(LEADER), draw.until_replaced()]


def _new_leader_is_not_announced(draw: Draw) -> list[Step]:
    rule = _rule("announcements", RpcMatch((Api.BEGIN_QUORUM_EPOCH,), "request"), DROP)
    return [intercept(rule), kill(LEADER), draw.until_replaced(), start(), draw.moment()]


def _fetches_are_disturbed(draw: Draw) -> list[Step]:
    direction: RpcDirection = draw.random.choice(["request", "response"])
    late = delay(int(1000 * draw.timeouts.fetch_seconds * draw.random.choice([0.1, 0.6, 1.2])))
    action = draw.random.choice([DROP, CLOSE, late])
    share = draw.random.choice([0.1, 0.5, 1.0])
    rule = _rule("fetches", RpcMatch((Api.FETCH,), direction, probability=share), action)
    return [intercept(rule), draw.until_replaced()]


def _one_message(draw: Draw) -> list[Step]:
    """One of the first messages of a kind during an election is lost, late or doubled, or ends its connection."""
    action, api, direction = MESSAGES[draw.rare(list(MESSAGES))]
    rule = _rule("one message", RpcMatch((api,), direction, nth=draw.random.randint(1, 4)), action)
    gone = draw.random.choice([kill, cut, stop])
    return [intercept(rule), gone(LEADER), draw.until_replaced(), start(), draw.moment()]


def _requests_are_duplicated(draw: Draw) -> list[Step]:
    twice = _rule("duplicates", RpcMatch((Api.FETCH, Api.VOTE, Api.BEGIN_QUORUM_EPOCH), "request"), DUPLICATE)
    return [intercept(twice), kill(LEADER), draw.until_replaced(), start(), draw.moment()]


def _appended_and_not_committed(draw: Draw) -> list[Step]:
    """The followers have the leader's records, and cannot say so before it dies."""
    held = _rule("fetches", RpcMatch((Api.FETCH,), "request"), draw.random.choice([HOLD, HOLD_AND_LOSE]))
    return [intercept(held), draw.moment(), draw.random.choice([kill, pause])(LEADER), draw.until_replaced()]


def _fault_at_an_event(draw: Draw) -> list[Step]:
    """The leader is gone, and a node is cut off, killed or paused as soon as it enters a state."""
    node, patience = draw.node(), draw.timeouts.replacement_seconds
    fault, event = AT_EVENTS[draw.rare(list(AT_EVENTS))]
    gone = cut if fault is pause else draw.random.choice([kill, cut])  # the node may be the leader
    steps = [gone(LEADER), when(event(node), patience), fault(f"n{node}")]
    return [*steps, draw.until_replaced(), start(), draw.moment()]


def _some_of_clients(draw: Draw) -> tuple[tuple[Api, ...], float]:
    """A few messages of every kind that clients send, or more of those that write records or end a transaction."""
    if draw.random.random() < 0.5:
        return tuple(draw.client_apis), draw.random.choice([0.02, 0.1])
    write_or_end = [api for api in draw.client_apis if api in (Api.PRODUCE, Api.END_TXN)]
    return (draw.random.choice(write_or_end),), draw.random.choice([0.1, 0.3])


def _clients_requests_are_late(draw: Draw) -> list[Step]:
    """Some requests of clients arrive after the client has sent them again, or has gone on to something else."""
    apis, share = _some_of_clients(draw)
    late = delay(int(1000 * draw.timeouts.fetch_seconds * draw.random.choice([1.2, 2.0, 3.0])))
    match = RpcMatch(apis, "request", (CLIENTS,), probability=share)
    rule = _rule("clients", match, draw.random.choice([HOLD, late, late]))
    return [intercept(rule), draw.until_replaced(), draw.until_replaced()]


def _clients_messages_are_lost(draw: Draw) -> list[Step]:
    """Clients do not learn what became of some of their requests: these have not arrived, or the responses have not."""
    apis, share = _some_of_clients(draw)
    request = RpcMatch(apis, "request", sources=(CLIENTS,), probability=share)
    response = RpcMatch(apis, "response", targets=(CLIENTS,), probability=share)
    rule = _rule("clients", draw.random.choice([request, response]), draw.random.choice([DROP, CLOSE, HOLD_AND_LOSE]))
    return [intercept(rule), draw.until_replaced()]


def _another_leader(draw: Draw) -> list[Step]:
    return [lead(ONE, is_required=False), draw.moment()]


def _other_timeouts(draw: Draw) -> list[Step]:
    """A node whose timeouts differ from those of the others."""
    factor = draw.random.choice([0.3, 3])
    timeout = draw.random.choice(["fetch", "election"])
    seconds = draw.timeouts.fetch_seconds if timeout == "fetch" else draw.timeouts.election_seconds
    name = f"controller.quorum.{timeout}.timeout.ms"
    node = draw.random.choice([LEADER, FOLLOWERS])
    return [configure(node, {name: str(int(1000 * factor * seconds))}), draw.moment()]


def _voter_leaves_and_returns(draw: Draw) -> list[Step]:
    return [remove_voter(draw.random.choice([FOLLOWERS, LEADER])), draw.around_a_timeout(), add_voter(ALL)]


def _paused_voter_is_removed(draw: Draw) -> list[Step]:
    away = [choose("voter", FOLLOWERS), pause("$voter"), draw.around_a_timeout()]
    return [*away, remove_voter("$voter"), resume(), draw.until_replaced(), add_voter(ALL)]


def _voter_is_replaced_after_a_truncation(draw: Draw) -> list[Step]:
    """A leader appends alone and truncates when it returns; then another voter leaves."""
    truncates = [cut(LEADER), draw.until_replaced(), heal_links(draw.all_links()), draw.moment()]
    replaced = [remove_voter(FOLLOWERS), draw.moment(), add_voter(ALL), draw.moment()]
    return [*truncates, *replaced, cut(LEADER), draw.until_replaced()]


def _with_leader(move: Move) -> Move:
    """The move, once there is a leader: its rules may prevent that one is elected, and its faults need one."""
    return lambda draw: [when(LEADER_KNOWN, LEADER_SECONDS), *move(draw)]


MOVES: Mapping[str, Move] = {
    "leader cut off": _leader_cut_off("both"),
    "leader does not send": _leader_cut_off("out"),
    "leader does not receive": _leader_cut_off("in"),
    "follower cut off": _follower_cut_off,
    "shape": _shape,
    "leader loses a follower": _leader_loses_a_follower,
    "flapping node": _flapping_node,
    "hub": _hub,
    "stale follower": _stale_follower,
    "uncommitted tail": _uncommitted_tail,
    "short reign": _short_reign,
    "leader restarts": _restart(LEADER),
    "follower restarts": _restart(FOLLOWERS),
    "majority restarts": _restart(MAJORITY),
    "all restart": _all_restart,
    "leaders die": _leaders_die,
    "majority is left": _majority_is_left,
    "leader in a minority": _leader_in_a_minority,
    "leader stops": _leader_stops,
    "leader paused": _pause(LEADER),
    "follower paused": _pause(FOLLOWERS),
    "paused leader returns": _paused_leader_returns,
    "power failure of the leader": _power_failure(LEADER),
    "power failure of all": _power_failure(ALL),
    "power failure of a voter": _with_leader(_power_failure_of_a_voter),
    "slow disk": _slow_disk,
    "votes are held": _with_leader(_votes_are_held),
    "votes are lost": _with_leader(_votes_are_lost),
    "new leader is not announced": _with_leader(_new_leader_is_not_announced),
    "fetches are disturbed": _fetches_are_disturbed,
    "one message": _with_leader(_one_message),
    "requests are duplicated": _with_leader(_requests_are_duplicated),
    "appended and not committed": _with_leader(_appended_and_not_committed),
    "fault at an event": _fault_at_an_event,
    LATE_CLIENTS: _clients_requests_are_late,
    LOST_CLIENTS: _clients_messages_are_lost,
    "another leader": _another_leader,
    "other timeouts": _other_timeouts,
    "voter leaves and returns": _voter_leaves_and_returns,
    "paused voter is removed": _paused_voter_is_removed,
    "voter is replaced after a truncation": _voter_is_replaced_after_a_truncation,
}
