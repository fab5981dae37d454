"""Watches all nodes of a run and reports observations in run time.

There are four watchers per node: its log (transitions, with the time in the line), its quorum-state file (on change),
its high-watermark checkpoint (of users' partitions, on change), and DescribeQuorum polls. A claim to lead is reported
at each poll, since its high watermark advances; denials and silences are reported only when they begin.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from harness.model import Observation, PeerFailure
from harness.model.conditions import CAUGHT_UP, Condition
from harness.model.quorum_states import State
from harness.model.records.observation import Kind
from harness.model.session import Connection
from harness.model.systems import NodeFiles
from nodes.observe.catch_up import CatchUp
from nodes.observe.conditions import QuorumView, holds
from nodes.observe.describe_quorum import QuorumDescription, describe_quorum
from nodes.observe.high_watermarks import HIGH_WATERMARKS, TopicPartition, epoch_below, read_high_watermarks
from nodes.observe.log_lines import LogEvent
from nodes.observe.log_tail import LogTail
from nodes.observe.quorum_state import QuorumState, read_quorum_state

FILE_SECONDS = 0.1
POLL_SECONDS = 0.2
POLL_TIMEOUT_MS = 1000
SILENCE = "silence"


class QuorumWatch:
    """The watchers of one run, from start() to stop(), and the latest view of the quorum."""

    def __init__(self, now_ns: Callable[[], int], wall_origin_ns: int, observe: Callable[[Observation], None]) -> None:
        """now_ns returns run time; wall_origin_ns is the wall clock at the start of the run, in Unix nanoseconds."""
        self._now_ns = now_ns
        self._wall_origin_ns = wall_origin_ns
        self._observe = observe
        self._tasks: list[asyncio.Task[None]] = []
        self._tails: dict[int, LogTail] = {}
        self._nodes: tuple[int, ...] = ()
        self._claims: dict[int, QuorumDescription] = {}
        self._transitions: dict[int, LogEvent] = {}
        self._responding: set[int] = set()
        self._stood: dict[int, int] = {}
        self._changed = asyncio.Condition()

    def start(self, files: Mapping[int, NodeFiles], connections: Mapping[int, Connection]) -> None:
        """Start to watch these nodes."""
        self._nodes = tuple(files)
        for node, paths in files.items():
            tail = LogTail(paths.log, partial(self._report_event, node))
            self._tails[node] = tail
            self._tasks.append(asyncio.create_task(tail.follow()))
            self._tasks.append(asyncio.create_task(self._watch_quorum_state(node, paths)))
            marks = watch_high_watermarks(node, paths.data, self._now_ns, self._observe)
            self._tasks.append(asyncio.create_task(marks))
        for node, connection in connections.items():
            self._tasks.append(asyncio.create_task(self._poll(node, connection)))

    async def stop(self) -> None:
        """Stop the watchers and read the rest of the logs; raises the error of a watcher that failed."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for tail in self._tails.values():
            tail.read_new()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def forget(self, node: int) -> None:
        """Discard the view of a node, when an incarnation of it begins or ends."""
        if node in self._tails:
            self._tails[node].read_new()  # before the view is discarded, so that old lines do not reappear in it
        self._claims.pop(node, None)
        self._transitions.pop(node, None)
        self._responding.discard(node)

    def view(self) -> QuorumView:
        """The latest view of the quorum."""
        return QuorumView(self._nodes, self._claims, self._transitions, frozenset(self._responding), self._stood)

    async def until(self, condition: Condition, timeout_seconds: float) -> bool:
        """Wait until a condition of nodes.observe.conditions holds; returns whether it did in time.

        Raises PeerFailure, which names the nodes that lag, if they have not caught up in time.
        """
        catch_up = CatchUp(self.view()) if condition == CAUGHT_UP else None
        is_met = catch_up.holds if catch_up else partial(holds, condition)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._changed:
                await self._changed.wait_for(lambda: is_met(self.view()))
                return True
        if catch_up:
            raise PeerFailure(f"waiting {timeout_seconds:g} s until {condition}: {catch_up.missing(self.view())}")
        return False

    def _report_event(self, node: int, event: LogEvent) -> None:
        if event.kind == "transition":
            self._transitions[node] = event
            if event.state == State.CANDIDATE.value and event.epoch is not None:
                self._stood[node] = event.epoch
        self._observe(event_observation(node, event, self._wall_origin_ns))

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
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(POLL_SECONDS)

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
            self._observe(_claim(now_ns, node, response))
            return None
        self._claims.pop(node, None)
        if response.error != last_error:
            self._observe(_denial(now_ns, node, response.error))
        return response.error


def event_observation(node: int, event: LogEvent, wall_origin_ns: int) -> Observation:
    """The observation of an event in a node's log, at the run time of its line."""
    return Observation(
        *(event.wall_ns - wall_origin_ns, node, "log", event.kind, event.state, event.previous),
        *(event.epoch, event.leader, event.voted, event.high_watermark, None, event.detail),
    )


async def watch_high_watermarks(
    node: int, data: Path, now_ns: Callable[[], int], observe: Callable[[Observation], None]
) -> None:
    """Report every change of a node's high-watermark checkpoint, until cancelled."""
    last: dict[TopicPartition, int] = {}
    while True:
        current = read_high_watermarks(data)
        for topic_partition, high_watermark in current.items() - last.items():
            epoch = epoch_below(data, topic_partition, high_watermark)
            if epoch is not None:
                observe(_committed(now_ns(), node, topic_partition, high_watermark, epoch))
        last |= current
        await asyncio.sleep(FILE_SECONDS)


def _durable(paths: NodeFiles) -> QuorumState | None:
    """The node's quorum-state; None if there is no file, or a fault has made it unreadable."""
    if paths.quorum_state is None:
        return None
    try:
        return read_quorum_state(paths.quorum_state)
    except PeerFailure:
        return None


def _committed(now_ns: int, node: int, topic_partition: TopicPartition, high_watermark: int, epoch: int) -> Observation:
    topic, partition = topic_partition
    detail = json.dumps({"topic": topic, "partition": partition, "epoch": epoch})
    return Observation(now_ns, node, HIGH_WATERMARKS, "committed", high_watermark=high_watermark, detail=detail)


def _claim(now_ns: int, node: int, response: QuorumDescription) -> Observation:
    return Observation(
        *(now_ns, node, "describe-quorum", "claim"),
        epoch=response.epoch,
        leader=response.leader,
        high_watermark=response.high_watermark,
        log_end_offset=response.log_end_offset,
        detail=json.dumps({"voters": dict(response.voters)}) if response.voters else None,
    )


def _denial(now_ns: int, node: int, error: str) -> Observation:
    kind: Kind = "silence" if error == SILENCE else "denial"
    return Observation(now_ns, node, "describe-quorum", kind, detail=error)
