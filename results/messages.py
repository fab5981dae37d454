"""Which of the messages between nodes a report shows, and in which words.

Those of elections, and those that a rule acted on; the fetches that make up nearly all the rest are counted. A run has
them where a proxy stood between its nodes (harness.model.records.tables.RPCS).

What may live here: pure functions on rows. What may not: reading files, drawing.
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


def telling_rows(rows: pa.Table, since_ns: int) -> pa.Table:
    """The rows of elections, and those acted on, from a time on, in order of time."""
    telling = pc.or_(pc.is_in(rows["api_key"], pa.array(ELECTION, pa.int32())), pc.not_equal(rows["action"], "pass"))
    return rows.filter(pc.and_(telling, pc.greater_equal(rows["time_ns"], since_ns))).sort_by("time_ns")


def shown_messages(telling: pa.Table) -> tuple[Message, ...]:
    """The first of them, as values."""
    return tuple(_message(row) for row in telling.slice(0, SHOWN_MAX).to_pylist())


def counted_messages(rows: pa.Table) -> tuple[MessageCount, ...]:
    """How many requests of each kind came by, and what became of them, the most frequent first."""
    requests = rows.filter(pc.equal(rows["direction"], "request"))
    grouped = requests.group_by(["api_key", "action"]).aggregate([("size_bytes", "count"), ("size_bytes", "sum")])
    counts = [
        MessageCount(_name(row["api_key"]), row["action"], row["size_bytes_count"], row["size_bytes_sum"])
        for row in grouped.to_pylist()
    ]
    return tuple(sorted(counts, key=lambda count: (-count.count, count.name, count.action)))


def _message(row: dict[str, Any]) -> Message:
    return Message(row["time_ns"], row["source"], row["target"], row["direction"], row["action"], words_of(row))


def words_of(row: dict[str, Any]) -> str:
    """E.g. 'pre-vote, epoch 3', 'Vote: granted', 'Fetch answer (hold)'."""
    name = "pre-vote" if row["pre_vote"] else _name(row["api_key"])
    if row["granted"] is not None:
        text = f"{name}: {'granted' if row['granted'] else 'rejected'}"
    else:
        text = f"{name} answer" if row["direction"] == "response" else name
    if row["epoch"] is not None:
        text += f", epoch {row['epoch']}"
    return text if row["action"] == "pass" else f"{text} ({row['action']})"


def _name(api_key: int) -> str:
    return NAMES.get(api_key, f"API {api_key}")
