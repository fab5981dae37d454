"""DeleteRecords (KIP-107): deletes the first records of partitions, and waits until in-sync replicas have done so, too.

A leader's log starts later at once; a follower learns of it by the response to a fetch, and its next fetch says that
its log starts there as well.

Contains the requests that wait. What one partition does is in leading.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions.events import RequestId
from nodes.reference.core.partitions.leading import Leading
from nodes.reference.core.partitions.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
    Response,
    TopicPartition,
)
from nodes.reference.core.partitions.replica import NEVER_MS


@dataclass(slots=True)
class _Deletion:
    """One request: what is known, and by partition the term and the offset of what is still open."""

    request_id: RequestId
    deadline_ms: int
    results: dict[TopicPartition, DeleteRecordsResult] = field(default_factory=dict)
    open: dict[TopicPartition, tuple[Leading, int]] = field(default_factory=dict)


class Deletions:
    """The deletions of one broker."""

    def __init__(
        self,
        leading_of: Callable[[TopicPartition], Leading | ErrorCode],
        reply: Callable[[RequestId, Response], None],
    ) -> None:
        self._leading_of, self._reply = leading_of, reply
        self._waiting: list[_Deletion] = []

    @property
    def deadline_ms(self) -> int:
        """When the time of a request is over."""
        return min((each.deadline_ms for each in self._waiting), default=NEVER_MS)

    def begin(self, request_id: RequestId, request: DeleteRecordsRequest, now_ms: int) -> None:
        """Delete; `advance` replies."""
        deletion = _Deletion(request_id, now_ms + request.timeout_ms)
        for partition, offset in request.offsets.items():
            leading = self._leading_of(partition)
            deleted = leading if isinstance(leading, ErrorCode) else leading.delete_before(offset)
            if isinstance(leading, ErrorCode) or isinstance(deleted, ErrorCode):
                assert isinstance(deleted, ErrorCode)
                deletion.results[partition] = DeleteRecordsResult(deleted)
            else:
                deletion.open[partition] = leading, deleted
        self._waiting.append(deletion)

    def advance(self, now_ms: int) -> None:
        """Reply to the requests of which nothing is open, or whose time is over."""
        still_waiting = []
        for deletion in self._waiting:
            for partition, (leading, offset) in list(deletion.open.items()):
                result = self._result(partition, leading, offset, deletion.deadline_ms <= now_ms)
                if result is not None:
                    deletion.results[partition] = result
                    del deletion.open[partition]
            if deletion.open:
                still_waiting.append(deletion)
            else:
                self._reply(deletion.request_id, DeleteRecordsResponse(deletion.results))
        self._waiting = still_waiting

    def _result(
        self, partition: TopicPartition, leading: Leading, offset: int, is_late: bool
    ) -> DeleteRecordsResult | None:
        """The result of one partition; None while it is open."""
        if self._leading_of(partition) is not leading:
            return DeleteRecordsResult(ErrorCode.not_leader_or_follower)
        if leading.low_watermark >= offset:
            return DeleteRecordsResult(low_watermark=leading.low_watermark)
        return DeleteRecordsResult(ErrorCode.request_timed_out) if is_late else None
