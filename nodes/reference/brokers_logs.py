"""The active controller's questions to brokers: which logs do they have (GetReplicaLogInfo).

    logs = BrokersLogs(node_id, lambda: image, timeout_ms, deliver)
    logs.ask(question)                 # delivers LogsReported, whatever comes of it

Contains connections from the controller to brokers, at the listener that brokers use for each other, or at their first
one. What is asked, and what follows, is in core/controller/recovery.py.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from nodes.reference.brokers.properties import REPLICATION
from nodes.reference.core.controller.messages import LogEnd, LogQuestion
from nodes.reference.core.events import Event, LogsReported
from nodes.reference.core.records.image import Broker, Image
from nodes.wire import codec
from nodes.wire.connection import WireConnection

Ends = Mapping[tuple[uuid.UUID, int], LogEnd]


class BrokersLogs:
    """The questions that are under way, each on a connection of its own."""

    def __init__(
        self, node_id: int, image: Callable[[], Image], timeout_ms: int, deliver: Callable[[Event], None]
    ) -> None:
        self._id, self._image, self._timeout_ms, self._deliver = node_id, image, timeout_ms, deliver
        self._asking: set[asyncio.Task[None]] = set()

    def ask(self, question: LogQuestion) -> None:
        """Ask a broker."""
        task = asyncio.create_task(self._ask(question))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def close(self) -> None:
        """Abandon all questions."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def _ask(self, question: LogQuestion) -> None:
        broker = self._image().brokers.get(question.broker_id)
        ends = await self._ends(broker, question) if broker is not None and broker.endpoints else {}
        self._deliver(LogsReported(question, ends))

    async def _ends(self, broker: Broker, question: LogQuestion) -> Ends:
        endpoint = next((each for each in broker.endpoints if each.name == REPLICATION), broker.endpoints[0])
        connection = WireConnection(endpoint.host, endpoint.port, f"controller-{self._id}")
        try:
            response = await connection.call_latest(codec.GET_REPLICA_LOG_INFO, _values(question), self._timeout_ms)
        except PeerFailure:
            return {}
        finally:
            await connection.close()
        return {
            (topic.topic_id, each.partition): LogEnd(_last_epoch(each), each.log_end_offset)
            for topic in response.topic_partition_log_info_list
            for each in topic.partition_log_info
            if each.error_code is ErrorCode.none
        }


def _values(question: LogQuestion) -> Mapping[str, Any]:
    by_topic = groupby(sorted(question.partitions), key=itemgetter(0))
    topics = [{"topic_id": topic, "partitions": [index for _, index in each_of]} for topic, each_of in by_topic]
    return {"topic_partitions": topics}


def _last_epoch(info: Any) -> int:
    """The epoch of a log's last record; in version 0, the epoch that the broker knows."""
    return int(getattr(info, "last_written_leader_epoch", info.partition_leader_epoch))
