"""One record as it stands in a broker's log when the run is over: what settles how a transaction ended.

A client that lost its connection cannot tell whether its transaction was committed; the marker that the coordinator
wrote behind the transaction's records can (KIP-98).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Marker = Literal["commit", "abort"]


@dataclass(frozen=True, slots=True)
class LoggedRecord:
    """A record of a node's log; the fields are the columns of harness.model.records.tables.RECORDS, in order.

    A record of a producer has a value, as text; a marker says instead how the producer's open transaction ended.
    """

    node: int
    topic: str
    partition: int
    offset: int
    producer_id: int
    producer_epoch: int
    marker: Marker | None
    value: str | None
