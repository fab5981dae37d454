"""Schedules: commands for a simulated cluster at fixed times, and what came of them.

    schedule = Schedule((Timed(0, "start", "all"), Timed(900, "kill", "leader"), Timed(950, "start", "down")), 9_000)
    player = Player(cluster, 3, carried, on_call)
    for at_ms in player.play(schedule):     # virtual time has to pass until then
        while cluster.now_ms < at_ms:
            cluster.advance(at_ms)
    player.unrecovered                      # why no leader has committed in the end, or None

Only the roles in a schedule depend on what happens. So another process can carry it out alone, many runs in one
exchange: kafka/driver/Player.java does the same as Player here, to the digest.

Contains the values and how they are carried out. Does not contain what is drawn, or which rows are recorded of it
(harness.simulating).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.model.faults.rpc import RpcRule
from harness.model.hosts import Link
from harness.model.quorum_states import State
from nodes.simulation.cluster import Answer, NodeStatus, SimulatedCluster, SimulationSpec, electable
from nodes.wire import codec

RECOVERY_MS: Final = 20_000
"""How long a run goes on, at most, until a leader has committed."""
RECOVERY_STEP_MS: Final = 100
NOT_COMMITTED, NOT_ELECTABLE = "none has committed", "no node can be elected"
NOT_ELECTABLE_OF_SAME = f"{NOT_ELECTABLE}, and all voters know the same voters"
WHY_UNRECOVERED: Final = (NOT_COMMITTED, NOT_ELECTABLE, NOT_ELECTABLE_OF_SAME)
"""Why a run has not recovered: by their logs, a node gets a majority's votes, and still none has led; or none gets
them, because a voter change has not reached all voters, or although they know the same voters."""
CONTROLLER_PORT, VOTER_TIMEOUT_MS = 9093, 5_000
NO_SPIN: Final = "no-spin"
"""The invariant whose violation does not end a run: a node that polls without a wait does what it has to."""
START, STOP, KILL, PAUSE, RESUME = "start", "stop", "kill", "pause", "resume"
LOSE_UNSYNCED, ISOLATE, CUT, RESTORE, INTERCEPT = "lose_unsynced", "isolate", "cut", "restore", "intercept"
WRITE, READ, REQUEST, CHANGE_VERSION = "write", "read", "request", "change_version"
NODE_COMMANDS: Final = (START, STOP, KILL, PAUSE, RESUME, LOSE_UNSYNCED)
PAUSES, STOPS = (PAUSE, RESUME, KILL, START), (STOP, START)
"""The commands that begin or end a pause, and a shutdown."""
CALLS: Final = (WRITE, READ, REQUEST)


class Timed(NamedTuple):
    """A command. who are its nodes: n1, n2, …, leader, all, down, paused; "" for a command on links or messages.

    argument is the direction in which ISOLATE cuts a node off (both, in, out), the links of CUT and RESTORE (None for
    all), the rules of INTERCEPT as JSON (RpcRule.to_json), the key and the value of WRITE, the key of READ, the API key
    and the voter of REQUEST, which adds or removes one, or the release that CHANGE_VERSION gives to a node that is down
    ("" for the one that it began with).
    """

    at_ms: int
    name: str
    who: str = ""
    argument: Any = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Commands in the order of their times, and when the last fault has ended."""

    commands: Sequence[Timed]
    end_ms: int


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A cluster and the schedule that is carried out on it."""

    spec: SimulationSpec
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a schedule.

    broken are the invariants that were broken, each with its first message; exits counts processes that an exception
    has ended; unrecovered says why no leader committed in the end, None if one did; answers counts those to the calls.
    """

    broken: Sequence[tuple[str, str]]
    exits: int
    unrecovered: str | None
    calls: int
    answers: int
    now_ms: int
    digest: str


def why_unrecovered(statuses: Mapping[int, NodeStatus]) -> str:
    """Why no leader has committed, by the nodes that run."""
    if electable(statuses):
        return NOT_COMMITTED
    voters = {voter for each in statuses.values() for voter in each.voters}
    known = {frozenset(statuses[voter].voters) for voter in voters if voter in statuses}
    return NOT_ELECTABLE if len(known) > 1 else NOT_ELECTABLE_OF_SAME


Carried = Callable[[Timed, Sequence[int]], None]
"""Receives a command that is carried out, and the nodes that it affects."""

OnCall = Callable[[Timed, int], tuple[Any, Answer]]
"""Receives a call and its node; returns the request, a kio entity, and what receives the response."""


def voter_request(api_key: int, voter: int, directory_id: uuid.UUID) -> Any:
    """The AddRaftVoter or RemoveRaftVoter request for a voter on this disk (KIP-853)."""
    values: dict[str, Any] = {"cluster_id": None, "voter_id": voter, "voter_directory_id": directory_id}
    if api_key == codec.ADD_RAFT_VOTER:
        listener = {"name": "CONTROLLER", "host": f"n{voter}", "port": CONTROLLER_PORT}
        values |= {"timeout": VOTER_TIMEOUT_MS, "listeners": [listener]}
    return codec.build(api_key, 0, "request", values)


def links_of(node: int, direction: str, nodes: int) -> list[Link]:
    """The directed links that isolate a node."""
    peers = [peer for peer in range(1, nodes + 1) if peer != node]
    ways: Iterable[list[Link]] = ([(node, peer), (peer, node)] for peer in peers)
    return [link for pair in ways for link in pair if direction == "both" or (link[0] == node) == (direction == "out")]


class Player:
    """Carries a schedule out on a cluster; the caller lets time pass between the commands.

    unrecovered says why no leader has committed RECOVERY_MS after the end, None if one has.
    """

    def __init__(self, cluster: SimulatedCluster, nodes: int, carried: Carried, on_call: OnCall) -> None:
        self._cluster, self._nodes = cluster, range(1, nodes + 1)
        self._carried, self._on_call = carried, on_call
        self._paused: set[int] = set()
        self._stopping: set[int] = set()
        self.unrecovered: str | None = None

    def play(self, schedule: Schedule) -> Iterator[int]:
        """Carry it out; yields each time, in milliseconds, that must have come before it goes on."""
        for command in schedule.commands:
            yield command.at_ms
            if self._is_broken():
                return
            self._act(command)
        if self._is_broken():
            return
        yield schedule.end_ms
        for at_ms in range(schedule.end_ms, schedule.end_ms + RECOVERY_MS, RECOVERY_STEP_MS):
            if self._is_broken():
                return
            yield at_ms + RECOVERY_STEP_MS
            if self._has_recovered():
                return
        if not self._is_broken():
            statuses = ((node, self._cluster.status(node)) for node in self._nodes)
            self.unrecovered = why_unrecovered({node: status for node, status in statuses if status is not None})

    def _is_broken(self) -> bool:
        return any(each.invariant != NO_SPIN for each in self._cluster.violations)

    def _has_recovered(self) -> bool:
        leader = self.leader()
        status = None if leader is None else self._cluster.status(leader)
        return status is not None and status.has_committed

    def leader(self) -> int | None:
        """The node that executes and leads in the highest epoch; None if there is none."""
        epochs = {
            status.epoch: node
            for node in reversed(self._nodes)
            if (status := self._cluster.status(node)) is not None and status.state is State.LEADER
        }
        return epochs[max(epochs)] if epochs else None

    def _act(self, command: Timed) -> None:
        cluster, argument = self._cluster, command.argument
        if command.name in NODE_COMMANDS:
            nodes = [node for node in self._of(command.who) if self._is_affected(command.name, node)]
            for node in nodes:
                self._act_on_node(command.name, node)
        elif command.name == CHANGE_VERSION:
            nodes = [node for node in self._of(command.who) if not self._is_up(node)]
            for node in nodes:
                cluster.configure(node, {}, argument)
        elif command.name in CALLS:
            nodes = [node for node in self._of(command.who) if self._is_up(node)][:1]
            for node in nodes:
                cluster.call(node, *self._on_call(command, node))
        else:
            nodes = self._of(command.who) if command.who else []
            self._act_on_network(command.name, nodes, argument)
        self._carried(command, nodes)

    def _act_on_node(self, name: str, node: int) -> None:
        if name == START and self._is_up(node):
            self._cluster.kill(node)
        getattr(self._cluster, name)(node)
        for names, begins, nodes in ((PAUSES, PAUSE, self._paused), (STOPS, STOP, self._stopping)):
            if name in names:
                (nodes.add if name == begins else nodes.discard)(node)

    def _act_on_network(self, name: str, nodes: Sequence[int], argument: Any) -> None:
        if name == ISOLATE:
            for node in nodes:
                self._cluster.cut(links_of(node, argument, len(self._nodes)))
        elif name == INTERCEPT:
            self._cluster.intercept([RpcRule.from_json(rule) for rule in argument])
        elif name == CUT:
            self._cluster.cut(argument)
        else:
            assert name == RESTORE, name
            self._cluster.restore(argument)

    def _of(self, who: str) -> list[int]:
        if who == "all":
            return list(self._nodes)
        if who == "down":
            return [node for node in self._nodes if self._is_down(node)]
        if who == "paused":
            return sorted(self._paused)
        if who == "leader":
            return [] if (leader := self.leader()) is None else [leader]
        return [int(who.removeprefix("n"))]

    def _is_up(self, node: int) -> bool:
        return node in self._paused or self._cluster.status(node) is not None

    def _is_down(self, node: int) -> bool:
        """Whether the node does not run, or was told to stop: its shutdown may take seconds."""
        return not self._is_up(node) or node in self._stopping

    def _is_affected(self, name: str, node: int) -> bool:
        if name == START:
            return self._is_down(node)
        if name == LOSE_UNSYNCED:
            return not self._is_up(node)
        if name == KILL:
            return self._is_up(node)
        return (node in self._paused) == (name == RESUME) and self._is_up(node)
