"""Watches ZooKeeper and all brokers of a run, and reports observations in run time.

Every broker has three watchers: its log (elections of the controller, truncations and failures of its fetchers), its
high-watermark checkpoint, and Metadata requests. One watcher asks ZooKeeper for its sessions. A claim to be the
controller is reported at each answer of ZooKeeper; a partition, a broker that is silent, only on change.

The controller's epoch is in its log alone. ZooKeeper may have a new controller before that line is read, so a claim is
reported only with the highest epoch that any broker has logged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from harness.model import Observation, PeerFailure
from harness.model.conditions import Condition
from harness.model.session import Connection
from harness.model.systems import NodeFiles
from nodes.observe.brokers.conditions import BrokerView, holds
from nodes.observe.brokers.metadata import BrokerMetadata, PartitionState, request_metadata
from nodes.observe.brokers.sessions import Sessions, request_sessions
from nodes.observe.log_lines import FETCH_FAILED, LogEvent
from nodes.observe.log_tail import LogTail
from nodes.observe.watch import event_observation, watch_high_watermarks

POLL_SECONDS = 0.2
POLL_TIMEOUT_MS = 1000


class BrokerWatch:
    """The watchers of one run, from start() to stop(), and the latest view of the cluster."""

    def __init__(self, now_ns: Callable[[], int], wall_origin_ns: int, observe: Callable[[Observation], None]) -> None:
        """now_ns returns run time; wall_origin_ns is the wall clock at the start of the run, in Unix nanoseconds."""
        self._now_ns = now_ns
        self._wall_origin_ns = wall_origin_ns
        self._observe = observe
        self._tasks: list[asyncio.Task[None]] = []
        self._tails: dict[int, LogTail] = {}
        self._brokers: tuple[int, ...] = ()
        self._sessions: Sessions | None = None
        self._metadata: dict[int, BrokerMetadata] = {}
        self._failed: dict[int, frozenset[str]] = {}
        self._controller_epochs: dict[int, int] = {}
        self._changed = asyncio.Condition()

    def start(
        self, files: Mapping[int, NodeFiles], connections: Mapping[int, Connection], zookeeper: tuple[str, int]
    ) -> None:
        """Start to watch these brokers, and ZooKeeper at this address and port."""
        self._brokers = tuple(files)
        for node, paths in files.items():
            tail = self._tails[node] = LogTail(paths.log, partial(self._report_event, node))
            self._tasks.append(asyncio.create_task(tail.follow()))
            marks = watch_high_watermarks(node, paths.data, self._now_ns, self._observe)
            self._tasks.append(asyncio.create_task(marks))
        for node, connection in connections.items():
            self._tasks.append(asyncio.create_task(self._poll_broker(node, connection)))
        self._tasks.append(asyncio.create_task(self._poll_zookeeper(*zookeeper)))

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
            self._metadata.pop(node, None)
            self._failed.pop(node, None)
        else:
            self._sessions = None

    def view(self) -> BrokerView:
        """The latest view of the cluster."""
        return BrokerView(self._brokers, self._sessions, self._metadata, self._failed)

    async def until(self, condition: Condition, timeout_seconds: float) -> bool:
        """Wait until a condition of nodes.observe.brokers.conditions holds; returns whether it did in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._changed:
                await self._changed.wait_for(lambda: holds(condition, self.view()))
                return True
        return False

    def _report_event(self, node: int, event: LogEvent) -> None:
        if event.epoch is not None and event.leader == node:
            self._controller_epochs[node] = event.epoch
        if event.kind == FETCH_FAILED:
            where = json.loads(event.detail or "{}")
            failed = self._failed.get(node, frozenset())
            self._failed[node] = failed | {f"{where['topic']}-{where['partition']}"}
        self._observe(event_observation(node, event, self._wall_origin_ns))

    async def _poll_zookeeper(self, address: str, port: int) -> None:
        while True:
            self._sessions = await request_sessions(address, port, POLL_TIMEOUT_MS / 1000)
            self._report_claim(self.view().controller())
            await self._notify()

    def _report_claim(self, controller: int | None) -> None:
        epochs = self._controller_epochs
        if controller in epochs and epochs[controller] == max(epochs.values()):
            epoch = epochs[controller]
            self._observe(Observation(self._now_ns(), controller, "zookeeper", "claim", epoch=epoch, leader=controller))

    async def _poll_broker(self, node: int, connection: Connection) -> None:
        reported: dict[str, PartitionState] = {}
        is_silent = False
        while True:
            try:
                seen = self._metadata[node] = await request_metadata(connection, POLL_TIMEOUT_MS)
                is_silent = False
                for name, state in seen.partitions.items():
                    if reported.get(name) != state:
                        reported[name] = state
                        self._observe(_partition(self._now_ns(), node, name, state))
            except PeerFailure:
                self._metadata.pop(node, None)
                if not is_silent:
                    self._observe(Observation(self._now_ns(), node, "metadata", "silence"))
                is_silent = True
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
        await asyncio.sleep(POLL_SECONDS)


def _partition(now_ns: int, node: int, name: str, state: PartitionState) -> Observation:
    topic, _, number = name.rpartition("-")
    detail = {
        "topic": topic,
        "partition": int(number),
        "leader": state.leader,
        "epoch": state.epoch,
        "in_sync": list(state.in_sync),
    }
    return Observation(now_ns, node, "metadata", "partition", detail=json.dumps(detail))
