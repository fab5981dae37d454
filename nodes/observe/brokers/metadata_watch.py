"""Polls brokers for metadata and records each partition's changes, in run time.

A partition is reported when a broker's view of it changes, a broker that is silent when its silence begins.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any

from harness.model import Observation, PeerFailure
from harness.model.session import Connection
from nodes.observe.brokers.metadata import BrokerMetadata, PartitionState, request_metadata
from nodes.observe.brokers.partitions import PartitionsView
from nodes.observe.log_lines import FETCH_FAILED, LogEvent


class MetadataWatch:
    """Part of an observer (nodes.observe.cluster_watch) that has brokers."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        observe: Callable[[Observation], None],
        connections: Mapping[int, Connection],
        timeout_ms: int,
    ) -> None:
        """connections are those of the brokers; timeout_ms is how long a broker may take to respond."""
        self._now_ns = now_ns
        self._observe = observe
        self._connections = connections
        self._timeout_ms = timeout_ms
        self._metadata: dict[int, BrokerMetadata] = {}
        self._failed: dict[int, frozenset[str]] = {}

    def view(self, stored: Mapping[int, Mapping[str, int]], compacted: Mapping[int, Collection[str]]) -> PartitionsView:
        """The brokers' partitions as last seen; stored and compacted are what the files of each broker show."""
        return PartitionsView(self._metadata, tuple(self._connections), self._failed, stored, compacted)

    def pollers(self, polled: Callable[[], Awaitable[None]]) -> Iterable[Coroutine[Any, Any, None]]:
        """One for each broker; polled() returns when the next poll is due."""
        for node, connection in self._connections.items():
            yield self._poll(node, connection, polled)

    def log_event(self, node: int, event: LogEvent) -> None:
        """Enter an event of a broker's log into the view."""
        if event.kind == FETCH_FAILED:
            where = json.loads(event.detail or "{}")
            failed = self._failed.get(node, frozenset())
            self._failed[node] = failed | {f"{where['topic']}-{where['partition']}"}

    def forget(self, node: int) -> None:
        """Remove a broker from the view."""
        self._metadata.pop(node, None)
        self._failed.pop(node, None)

    async def _poll(self, node: int, connection: Connection, polled: Callable[[], Awaitable[None]]) -> None:
        reported: dict[str, PartitionState] = {}
        is_silent = False
        while True:
            try:
                seen = self._metadata[node] = await request_metadata(connection, self._timeout_ms)
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
            await polled()


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
