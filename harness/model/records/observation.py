"""What a node did, seen from outside the clients.

Observations come from nodes' logs and files and from polling the nodes. One table holds them for every system, so that
the same checks judge them all. A field that a source does not know is None.

Sources are "log", "quorum-state" (the file), "describe-quorum", "replication-offset-checkpoint" (the file), "status"
(systems that are polled by a protocol of their own) and "process".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "transition",  # log: the node went from `previous` to `state` in `epoch`, with `leader` and `voted` as known then
    "durable",  # quorum-state: what the node's file says: `epoch`, `leader`, `voted`
    "claim",  # describe-quorum: the node answers as the leader of `epoch`, with its `high_watermark`; `detail` is JSON,
    # {"voters": {"1": 12, …}}, the log end offset that it knows of each voter
    "denial",  # describe-quorum: the node answers that it does not lead (`detail` is the error's name)
    "silence",  # describe-quorum: no answer
    "committed",  # replication-offset-checkpoint: all of a partition below `high_watermark` is committed; `detail` is
    # JSON, {"topic": "log", "partition": 0, "epoch": 3}, with the leader epoch of the last offset below
    "started",  # process: the node's process was started
    "stopped",  # process: the node's process ended (`detail` says how)
    "note",  # log: any other line of interest, in `detail`
]


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing seen of one node.

    time_ns counts from the run's beginning on the run's clock: for log lines, the line's own time stamp moved there
    (or the moment it was read, where a clock fault made the stamp worthless); for files and polls, the moment of the
    answer. state and previous are members of harness.model.quorum_states.State, by value.
    """

    time_ns: int
    node: int
    source: str
    kind: Kind
    state: str | None = None
    previous: str | None = None
    epoch: int | None = None
    leader: int | None = None
    voted: int | None = None
    high_watermark: int | None = None
    log_end_offset: int | None = None
    detail: str | None = None
