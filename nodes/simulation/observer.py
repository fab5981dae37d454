"""Observes a simulated cluster as the observers of real nodes do: what nodes log, store, and answer to DescribeQuorum.

Contains harness.model.systems.Observer. The conditions and the observations are those of nodes.observe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from harness.model import Observation, PeerFailure
from harness.model.conditions import BROKERS_LIVE, CAUGHT_UP, Condition
from harness.model.quorum_states import State
from nodes.observe.catch_up import CatchUp
from nodes.observe.cluster_watch import POLL_SECONDS
from nodes.observe.conditions import QuorumView, holds
from nodes.observe.describe_quorum import QuorumDescription
from nodes.observe.log_lines import LogEvent
from nodes.observe.watch import SILENCE, claim, denial
from nodes.simulation.cluster import NodeStatus, SimulatedCluster

RECHECK_SECONDS = 0.05
"""How often a condition is looked at while nothing is reported: high watermarks advance without a report."""
REACTION_SECONDS = 0.05
"""How long after an event a story goes on, as on real hosts (docs/faults.md)."""
NOT_LEADER = "not_leader_or_follower"


class SimulatedObserver:
    """harness.model.systems.Observer; `reported` receives what the cluster reports."""

    def __init__(
        self, cluster: SimulatedCluster, nodes: Iterable[int], record: Callable[[Observation], None], polls: bool
    ) -> None:
        """polls: record each leader's answers to DescribeQuorum, again and again."""
        self._cluster, self._nodes, self._record, self._polls = cluster, tuple(nodes), record, polls
        self._transitions: dict[int, LogEvent] = {}
        self._stood: dict[int, int] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def reported(self, observation: Observation) -> None:
        """The cluster reports something."""
        self._record(observation)
        if observation.kind == "transition":
            seen = observation
            self._transitions[seen.node] = LogEvent(
                seen.time_ns, seen.kind, seen.state, seen.previous, seen.epoch, seen.leader, seen.voted
            )
            if seen.state == State.CANDIDATE.value and seen.epoch is not None:
                self._stood[seen.node] = seen.epoch
        self._changed.set()

    def start(self) -> None:
        """Start to poll."""
        if self._polls:
            self._task = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        """Stop to poll."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def forget(self, node: int) -> None:
        """Discard the last known state of a node whose process has started or ended."""
        self._transitions.pop(node, None)

    def leader(self) -> int | None:
        """The node that claims to lead in the highest epoch; None if no node does."""
        return self._view().leader()

    def nodes_where(self, condition: str) -> tuple[int, ...]:
        """The nodes for which a condition of single nodes holds now."""
        view = self._view()
        return tuple(node for node in self._nodes if holds(Condition(condition, node), view))

    async def until(self, condition: Condition, timeout_seconds: float) -> bool:
        """Wait until a condition holds; False if it does not hold in time.

        Raises PeerFailure, which names the nodes that lag, if they have not caught up in time.
        """
        if condition == BROKERS_LIVE:
            return True  # there are no brokers
        if condition != CAUGHT_UP:
            return await self._wait(lambda: holds(condition, self._view()), timeout_seconds)
        catch_up = CatchUp(self._view())
        if not await self._wait(lambda: catch_up.holds(self._view()), timeout_seconds):
            raise PeerFailure(f"waiting {timeout_seconds:g} s until {condition}: {catch_up.missing(self._view())}")
        return True

    async def _wait(self, is_met: Callable[[], bool], timeout_seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        while not is_met():
            left = deadline - loop.time()
            if left <= 0:
                return False
            self._changed.clear()
            timer = loop.call_later(min(left, RECHECK_SECONDS), self._changed.set)
            await self._changed.wait()
            timer.cancel()
        await asyncio.sleep(REACTION_SECONDS)
        return True

    def _view(self) -> QuorumView:
        statuses = {node: self._cluster.status(node) for node in self._nodes}
        claims = {node: _description(node, statuses) for node, status in statuses.items() if _leads(status)}
        responding = frozenset(node for node, status in statuses.items() if status is not None)
        return QuorumView(self._nodes, claims, self._transitions, responding, self._stood)

    async def _poll(self) -> None:
        """Record what each node answers, as nodes.observe.watch does."""
        errors: dict[int, str | None] = {}
        while True:
            now_ns = self._cluster.now_ms * 1_000_000
            statuses = {node: self._cluster.status(node) for node in self._nodes}
            for node, status in statuses.items():
                if _leads(status):
                    errors[node] = None
                    self._record(claim(now_ns, node, _description(node, statuses)))
                    continue
                error = SILENCE if status is None else NOT_LEADER
                if errors.get(node, "") != error:
                    errors[node] = error
                    self._record(denial(now_ns, node, error))
            await asyncio.sleep(POLL_SECONDS)


def _leads(status: NodeStatus | None) -> bool:
    return status is not None and status.state is State.LEADER


def _description(node: int, statuses: Mapping[int, NodeStatus | None]) -> QuorumDescription:
    """What a leader answers to DescribeQuorum; the logs of observers end where they themselves say.

    A node that does not campaign although a voter has its id is an observer in addition to that voter: it has another
    disk (KIP-853), or has not fetched the record yet that adds it.
    """
    status = statuses[node]
    assert status is not None
    ends = {
        other: each.log_end_offset
        for other, each in statuses.items()
        if each and other != node and not (other in status.voters and each.may_campaign)
    }
    voters, observers = tuple(sorted(status.voters.items())), tuple(sorted(ends.items()))
    known = (status.epoch, status.high_watermark, status.log_end_offset, voters, observers, status.target)
    return QuorumDescription(None, node, *known)
