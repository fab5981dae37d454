"""Observes the nodes of a KRaft quorum, in run time.

Beside its log and high watermarks, each node has two watchers: its quorum-state file (on change), and DescribeQuorum
polls. A claim to lead is reported at each poll, since its high watermark advances; denials and silences are reported
only when they begin. Nodes that are brokers too are also polled for their partitions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from harness.model import Observation, PeerFailure
from harness.model.conditions import CAUGHT_UP, Condition
from harness.model.quorum_states import State
from harness.model.records.observation import Kind
from harness.model.session import Connection
from harness.model.systems import NodeFiles
from nodes.observe.brokers.metadata_watch import MetadataWatch
from nodes.observe.catch_up import CatchUp
from nodes.observe.cluster_watch import FILE_SECONDS, POLL_TIMEOUT_MS, ClusterWatch
from nodes.observe.conditions import QuorumView, holds
from nodes.observe.describe_quorum import QuorumDescription, describe_quorum
from nodes.observe.log_lines import LogEvent
from nodes.observe.quorum_state import QuorumState, read_quorum_state

SILENCE = "silence"


class QuorumWatch(ClusterWatch[QuorumView]):
    """harness.model.systems.Observer of a KRaft quorum."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        wall_origin_ns: int,
        observe: Callable[[Observation], None],
        files: Mapping[int, NodeFiles],
        connections: Mapping[int, Connection],
        brokers: Mapping[int, Connection] | None = None,
    ) -> None:
        """Connections are those of the nodes' controllers, brokers those of their brokers, None if they have none."""
        brokers = brokers or {}
        super().__init__(now_ns, wall_origin_ns, observe, files, [*connections.values(), *brokers.values()])
        self._controllers = connections
        self._brokers = MetadataWatch(now_ns, observe, brokers, POLL_TIMEOUT_MS)
        self._claims: dict[int, QuorumDescription] = {}
        self._transitions: dict[int, LogEvent] = {}
        self._responding: set[int] = set()
        self._stood: dict[int, int] = {}

    def view(self) -> QuorumView:
        """The latest view of the quorum."""
        responding = frozenset(self._responding)
        brokers = self._brokers.view(self._stored, self._compacted)
        return QuorumView(self._nodes, self._claims, self._transitions, responding, self._stood, brokers)

    async def until(self, condition: Condition, timeout_seconds: float) -> bool:
        """Wait until a condition of nodes.observe.conditions holds; returns whether it did in time.

        Raises PeerFailure, which names the nodes that lag, if they have not caught up in time.
        """
        if condition != CAUGHT_UP:
            return await super().until(condition, timeout_seconds)
        catch_up = CatchUp(self.view())
        if not await self._wait(lambda: catch_up.holds(self.view()), timeout_seconds):
            raise PeerFailure(f"waiting {timeout_seconds:g} s until {condition}: {catch_up.missing(self.view())}")
        return True

    def _holds(self, condition: Condition, view: QuorumView) -> bool:
        return holds(condition, view)

    def _watchers(self) -> Iterable[Coroutine[Any, Any, None]]:
        for node, paths in self._files.items():
            yield self._watch_quorum_state(node, paths)
        for node, connection in self._controllers.items():
            yield self._poll(node, connection)
        yield from self._brokers.pollers(self._polled)

    def _log_event(self, node: int, event: LogEvent) -> None:
        if event.kind == "transition":
            self._transitions[node] = event
            if event.state == State.CANDIDATE.value and event.epoch is not None:
                self._stood[node] = event.epoch
        self._brokers.log_event(node, event)

    def _forget(self, node: int) -> None:
        self._claims.pop(node, None)
        self._transitions.pop(node, None)
        self._responding.discard(node)
        self._brokers.forget(node)

    async def _watch_quorum_state(self, node: int, paths: NodeFiles) -> None:
        last: QuorumState | None = None
        while True:
            current = _durable(paths)
            if current and current != last:
                last = current
                self._observe(
                    Observation(
                        *(self._now_ns(), node, "quorum-state", "durable"),
                        epoch=current.epoch,
                        leader=current.leader,
                        voted=current.voted,
                    )
                )
            await asyncio.sleep(FILE_SECONDS)

    async def _poll(self, node: int, connection: Connection) -> None:
        last_error: str | None = None
        while True:
            last_error = await self._poll_once(node, connection, last_error)
            await self._polled()

    async def _poll_once(self, node: int, connection: Connection, last_error: str | None) -> str | None:
        """Poll once; returns the error, or None for a claim."""
        try:
            response = await describe_quorum(connection, POLL_TIMEOUT_MS)
        except PeerFailure:
            response = QuorumDescription(SILENCE)
        now_ns = self._now_ns()
        (self._responding.discard if response.error == SILENCE else self._responding.add)(node)
        if response.error is None:
            self._claims[node] = response
            self._observe(claim(now_ns, node, response))
            return None
        self._claims.pop(node, None)
        if response.error != last_error:
            self._observe(denial(now_ns, node, response.error))
        return response.error


def _durable(paths: NodeFiles) -> QuorumState | None:
    """The node's quorum-state; None if there is no file, or a fault has made it unreadable."""
    if paths.quorum_state is None:
        return None
    try:
        return read_quorum_state(paths.quorum_state)
    except PeerFailure:
        return None


def claim(now_ns: int, node: int, response: QuorumDescription) -> Observation:
    """A node answers as the leader."""
    return Observation(
        *(now_ns, node, "describe-quorum", "claim"),
        epoch=response.epoch,
        leader=response.leader,
        high_watermark=response.high_watermark,
        log_end_offset=response.log_end_offset,
        detail=json.dumps({"voters": dict(response.voters)}) if response.voters else None,
    )


def denial(now_ns: int, node: int, error: str) -> Observation:
    """A node answers with an error, or, with SILENCE, not at all."""
    kind: Kind = "silence" if error == SILENCE else "denial"
    return Observation(now_ns, node, "describe-quorum", kind, detail=error)
