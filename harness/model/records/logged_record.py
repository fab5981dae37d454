"""One record of a broker's log at the end of the run. Its transaction markers show how each transaction ended.

A client that lost its connection does not know whether its transaction was committed; the marker that the coordinator
wrote after the transaction's records shows it (KIP-98).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Marker = Literal["commit", "abort"]


@dataclass(frozen=True, slots=True)
class LoggedRecord:
    """A record of a node's log; the fields are the columns of harness.model.records.tables.RECORDS, in order.

    A producer's record has a value, as text. A marker has none; it is how the producer's open transaction ended.
    """

    node: int
    topic: str
    partition: int
    offset: int
    producer_id: int
    producer_epoch: int
    marker: Marker | None
    value: str | None
