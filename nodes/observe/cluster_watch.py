"""What the observers of all kinds of clusters share: tasks from start() to stop(), each node's log and its
high-watermark checkpoint, and the wait for a condition.

A kind of cluster is a subclass: it says what else is watched, and evaluates conditions on the latest view.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from harness.model import Observation
from harness.model.conditions import Condition
from harness.model.session import Connection
from harness.model.systems import NodeFiles
from nodes.observe.high_watermarks import (
    HIGH_WATERMARKS,
    TopicPartition,
    compacted_in,
    epoch_below,
    read_high_watermarks,
)
from nodes.observe.log_lines import LogEvent
from nodes.observe.log_tail import LogTail

FILE_SECONDS = 0.1
POLL_SECONDS = 0.2
POLL_TIMEOUT_MS = 1000


class View(Protocol):
    """A cluster as last seen."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that are watched."""

    def leader(self) -> int | None:
        """The node that leads, None if unknown."""


V = TypeVar("V", bound=View)


class ClusterWatch(ABC, Generic[V]):
    """harness.model.systems.Observer of a cluster whose latest view is a V."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        wall_origin_ns: int,
        observe: Callable[[Observation], None],
        files: Mapping[int, NodeFiles],
        connections: Iterable[Connection],
    ) -> None:
        """files are those of the nodes to watch; stop() closes the connections.

        now_ns returns run time; wall_origin_ns is the wall clock at the start of the run, in Unix nanoseconds.
        """
        self._now_ns = now_ns
        self._wall_origin_ns = wall_origin_ns
        self._observe = observe
        self._files = files
        self._connections = tuple(connections)
        self._nodes = tuple(files)
        self._tails = {node: LogTail(paths.log, partial(self._report_event, node)) for node, paths in files.items()}
        self._stored: dict[int, dict[str, int]] = {}
        """Of each node, the high watermarks that it has stored, by partition."""
        self._compacted: dict[int, frozenset[str]] = {}
        """Of each node, the partitions that it has compacted."""
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    @abstractmethod
    def view(self) -> V:
        """The latest view of the cluster."""

    @abstractmethod
    def _holds(self, condition: Condition, view: V) -> bool:
        """Whether a condition holds in a view."""

    @abstractmethod
    def _watchers(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What watches the cluster, apart from its logs and high watermarks."""

    @abstractmethod
    def _log_event(self, node: int, event: LogEvent) -> None:
        """Enter an event of a node's log into the view."""

    @abstractmethod
    def _forget(self, node: int) -> None:
        """Remove a node from the view."""

    def start(self) -> None:
        """Start to watch."""
        watchers = [*(tail.follow() for tail in self._tails.values()), *self._watchers()]
        watchers += [self._watch_high_watermarks(node, paths.data) for node, paths in self._files.items()]
        self._tasks = [asyncio.create_task(watcher) for watcher in watchers]

    async def stop(self) -> None:
        """Stop the watchers and read the rest of the logs; raises the error of a watcher that failed."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._connections:
            await connection.close()
        for tail in self._tails.values():
            tail.read_new()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def forget(self, node: int) -> None:
        """Discard the view of a node, when an incarnation of it begins or ends."""
        if node in self._tails:
            self._tails[node].read_new()  # before the view is discarded, so that old lines do not reappear in it
        self._forget(node)

    def leader(self) -> int | None:
        """The node that leads, None if unknown."""
        return self.view().leader()

    def nodes_where(self, condition: str) -> tuple[int, ...]:
        """The nodes for which a condition of single nodes holds now."""
        view = self.view()
        return tuple(node for node in view.nodes if self._holds(Condition(condition, node), view))

    async def until(self, condition: Condition, timeout_seconds: float) -> bool:
        """Wait until a condition holds; returns whether it did in time."""
        return await self._wait(lambda: self._holds(condition, self.view()), timeout_seconds)

    async def _wait(self, is_met: Callable[[], bool], timeout_seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while not is_met():
                    self._changed.clear()
                    await self._changed.wait()
                return True
        return False

    async def _polled(self) -> None:
        """Wake up those that wait for a condition, and wait until the next poll."""
        self._changed.set()
        await asyncio.sleep(POLL_SECONDS)

    def _report_event(self, node: int, event: LogEvent) -> None:
        self._log_event(node, event)
        self._changed.set()
        time_ns = event.wall_ns - self._wall_origin_ns
        self._observe(
            Observation(
                *(time_ns, node, "log", event.kind, event.state, event.previous),
                *(event.epoch, event.leader, event.voted, event.high_watermark, None, event.detail),
            )
        )

    async def _watch_high_watermarks(self, node: int, data: Path) -> None:
        """Report every change of a node's high-watermark checkpoint, and note what it has compacted."""
        last: dict[TopicPartition, int] = {}
        while True:
            current = read_high_watermarks(data)
            self._stored[node] = {_name(each): high_watermark for each, high_watermark in current.items()}
            self._compacted[node] = frozenset(_name(each) for each in compacted_in(data))
            for topic_partition, high_watermark in current.items() - last.items():
                below = epoch_below(data, topic_partition, high_watermark)
                if below is not None:
                    self._observe(_committed(self._now_ns(), node, topic_partition, high_watermark, *below))
            last |= current
            await asyncio.sleep(FILE_SECONDS)


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _committed(
    now_ns: int, node: int, topic_partition: TopicPartition, high_watermark: int, epoch: int, start: int
) -> Observation:
    topic, partition = topic_partition
    detail = json.dumps({"topic": topic, "partition": partition, "epoch": epoch, "start": start})
    return Observation(now_ns, node, HIGH_WATERMARKS, "committed", high_watermark=high_watermark, detail=detail)
