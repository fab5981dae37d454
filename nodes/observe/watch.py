"""Watches all nodes of a run and tells what they do as observations on the run's clock.

Four watchers a node: its log (transitions, with the line's own time), its quorum-state file (what is durable, on
change), its file of high watermarks (what is committed of users' partitions, on change) and DescribeQuorum polls (what
it claims). A claim is told at each poll, since its high watermark moves; denials and silences only when they begin.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from harness.model import Observation, PeerFailure
from harness.model.conditions import Condition
from harness.model.records.observation import Kind
from harness.model.session import Connection
from harness.model.systems import NodeFiles
from nodes.observe.conditions import QuorumView, holds
from nodes.observe.describe_quorum import Answer, describe_quorum
from nodes.observe.high_watermarks import HIGH_WATERMARKS, Place, epoch_below, read_high_watermarks
from nodes.observe.log_lines import LogEvent
from nodes.observe.log_tail import LogTail
from nodes.observe.quorum_state import QuorumState, read_quorum_state

FILE_SECONDS = 0.1
POLL_SECONDS = 0.2
POLL_TIMEOUT_MS = 1000
SILENCE = "silence"


class QuorumWatch:
    """The watchers of one run, from start() to stop(); who leads is kept for whoever asks."""

    def __init__(self, now_ns: Callable[[], int], wall_origin_ns: int, observe: Callable[[Observation], None]) -> None:
        """now_ns gives run time; wall_origin_ns is the wall clock at the run's beginning, in Unix nanoseconds."""
        self._now_ns = now_ns
        self._wall_origin_ns = wall_origin_ns
        self._observe = observe
        self._tasks: list[asyncio.Task[None]] = []
        self._tails: dict[int, LogTail] = {}
        self._nodes: tuple[int, ...] = ()
        self._claims: dict[int, Answer] = {}
        self._transitions: dict[int, LogEvent] = {}
        self._changed = asyncio.Condition()

    def start(self, files: Mapping[int, NodeFiles], connections: Mapping[int, Connection]) -> None:
        """Begin to watch these nodes."""
        self._nodes = tuple(files)
        for node, paths in files.items():
            tail = LogTail(paths.log, partial(self._tell_event, node))
            self._tails[node] = tail
            self._tasks.append(asyncio.create_task(tail.follow()))
            self._tasks.append(asyncio.create_task(self._watch_file(node, paths)))
            self._tasks.append(asyncio.create_task(self._watch_high_watermarks(node, paths.data)))
        for node, connection in connections.items():
            self._tasks.append(asyncio.create_task(self._poll(node, connection)))

    async def stop(self) -> None:
        """End the watchers and read the logs' rest; raises what a watcher failed with."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for tail in self._tails.values():
            tail.read_rest()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def forget(self, node: int) -> None:
        """A life of the node has ended, or one begins: what was seen of it is no longer so, its last words neither."""
        if node in self._tails:
            self._tails[node].read_rest()
        self._claims.pop(node, None)
        self._transitions.pop(node, None)

    def view(self) -> QuorumView:
        """The nodes as last seen."""
        return QuorumView(self._nodes, self._claims, self._transitions)

    async def until(self, condition: Condition, timeout_seconds: float) -> bool:
        """Wait until a condition of nodes.observe.conditions holds; False where it does not in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._changed:
                await self._changed.wait_for(lambda: holds(condition, self.view()))
                return True
        return False

    def _tell_event(self, node: int, event: LogEvent) -> None:
        if event.kind == "transition":
            self._transitions[node] = event
        time_ns = event.wall_ns - self._wall_origin_ns
        self._observe(
            Observation(
                *(time_ns, node, "log", event.kind, event.state, event.previous),
                *(event.epoch, event.leader, event.voted, event.high_watermark, None, event.detail),
            )
        )

    async def _watch_file(self, node: int, paths: NodeFiles) -> None:
        last: QuorumState | None = None
        while True:
            now = _durable(paths)
            if now and now != last:
                last = now
                self._observe(
                    Observation(
                        *(self._now_ns(), node, "quorum-state", "durable"),
                        epoch=now.epoch,
                        leader=now.leader,
                        voted=now.voted,
                    )
                )
            await asyncio.sleep(FILE_SECONDS)

    async def _watch_high_watermarks(self, node: int, data: Path) -> None:
        last: dict[Place, int] = {}
        while True:
            now = read_high_watermarks(data)
            for place, mark in now.items() - last.items():
                epoch = epoch_below(data, place, mark)
                if epoch is not None:
                    self._observe(_committed(self._now_ns(), node, place, mark, epoch))
            last |= now
            await asyncio.sleep(FILE_SECONDS)

    async def _poll(self, node: int, connection: Connection) -> None:
        last_words: str | None = None
        while True:
            words = await self._ask(node, connection, last_words)
            last_words = words
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(POLL_SECONDS)

    async def _ask(self, node: int, connection: Connection, last_words: str | None) -> str | None:
        """Poll once; the words of a denial or silence, None for a claim."""
        try:
            answer = await describe_quorum(connection, POLL_TIMEOUT_MS)
        except PeerFailure:
            answer = Answer(SILENCE)
        now_ns = self._now_ns()
        if answer.error is None:
            self._claims[node] = answer
            self._observe(_claim(now_ns, node, answer))
            return None
        self._claims.pop(node, None)
        if answer.error != last_words:
            self._observe(_denial(now_ns, node, answer.error))
        return answer.error


def _durable(paths: NodeFiles) -> QuorumState | None:
    """What the node keeps; None where it keeps nothing, or a fault has made it unreadable."""
    if paths.quorum_state is None:
        return None
    try:
        return read_quorum_state(paths.quorum_state)
    except PeerFailure:
        return None


def _committed(now_ns: int, node: int, place: Place, high_watermark: int, epoch: int) -> Observation:
    topic, partition = place
    detail = json.dumps({"topic": topic, "partition": partition, "epoch": epoch})
    return Observation(now_ns, node, HIGH_WATERMARKS, "committed", high_watermark=high_watermark, detail=detail)


def _claim(now_ns: int, node: int, answer: Answer) -> Observation:
    return Observation(
        *(now_ns, node, "describe-quorum", "claim"),
        epoch=answer.epoch,
        leader=answer.leader,
        high_watermark=answer.high_watermark,
        log_end_offset=answer.log_end_offset,
        detail=json.dumps({"voters": dict(answer.voters)}) if answer.voters else None,
    )


def _denial(now_ns: int, node: int, error: str) -> Observation:
    kind: Kind = "silence" if error == SILENCE else "denial"
    return Observation(now_ns, node, "describe-quorum", kind, detail=error)
