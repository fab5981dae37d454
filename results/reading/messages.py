"""The messages between nodes that a report shows, and their descriptions.

A report shows the messages of elections and those on which a proxy rule acted; all others, mostly fetches, are only
counted. A run has messages if there was a proxy between its nodes (harness.model.records.tables.RPCS).
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from harness.model.faults.rpc import Api
from results.data import Message, MessageCount

SHOWN_MAX: Final = 60
ELECTION: Final = (Api.VOTE, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH)
NAMES: Final = {api.value: api.name.replace("_", " ").title().replace(" ", "") for api in Api}


def relevant_rows(rows: pa.Table, since_ns: int) -> pa.Table:
    """The rows of elections, and those on which a rule acted, from a time on, in order of time."""
    relevant = pc.or_(pc.is_in(rows["api_key"], pa.array(ELECTION, pa.int32())), pc.not_equal(rows["action"], "pass"))
    return rows.filter(pc.and_(relevant, pc.greater_equal(rows["time_ns"], since_ns))).sort_by("time_ns")


def shown_messages(relevant: pa.Table) -> tuple[Message, ...]:
    """The first SHOWN_MAX of these rows, as values."""
    return tuple(_message(row) for row in relevant.slice(0, SHOWN_MAX).to_pylist())


def counted_messages(rows: pa.Table) -> tuple[MessageCount, ...]:
    """The number of requests by API and action, the most frequent first."""
    requests = rows.filter(pc.equal(rows["direction"], "request"))
    grouped = requests.group_by(["api_key", "action"]).aggregate([("size_bytes", "count"), ("size_bytes", "sum")])
    counts = [
        MessageCount(_name(row["api_key"]), row["action"], row["size_bytes_count"], row["size_bytes_sum"])
        for row in grouped.to_pylist()
    ]
    return tuple(sorted(counts, key=lambda count: (-count.count, count.name, count.action)))


def _message(row: dict[str, Any]) -> Message:
    return Message(row["time_ns"], row["source"], row["target"], row["direction"], row["action"], text_of(row))


def text_of(row: dict[str, Any]) -> str:
    """E.g. 'pre-vote, epoch 3', 'Vote: granted', 'Fetch response (hold)'."""
    name = "pre-vote" if row["pre_vote"] else _name(row["api_key"])
    if row["granted"] is not None:
        text = f"{name}: {'granted' if row['granted'] else 'rejected'}"
    else:
        text = f"{name} response" if row["direction"] == "response" else name
    if row["epoch"] is not None:
        text += f", epoch {row['epoch']}"
    return text if row["action"] == "pass" else f"{text} ({row['action']})"


def _name(api_key: int) -> str:
    return NAMES.get(api_key, f"API {api_key}")
