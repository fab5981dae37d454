"""What nodes do, observed independently of the clients.

Observations come from nodes' logs and files and from polling the nodes. All systems share one table, so that the same
checks judge them. A field that a source does not provide is None.

Sources are "log", "quorum-state" (the file), "describe-quorum", "replication-offset-checkpoint" (the file), "metadata"
(a broker's answer), "zookeeper" (its sessions), "status" (systems that are polled by a protocol of their own),
"process", and "simulation" (what a simulated run broke).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal[
    "transition",  # log: the node went from `previous` to `state` in `epoch`, with `leader` and `voted` as known then
    "durable",  # quorum-state: the content of the node's file: `epoch`, `leader`, `voted`
    "claim",  # describe-quorum, status: the node answers as the leader of `epoch`, with its `high_watermark`; `detail`
    # is JSON, {"voters": {"1": 12, …}}, the log end offset of each voter as the leader knows it
    # zookeeper: the broker is the controller of `epoch`
    "denial",  # describe-quorum: the node answers that it is not the leader (`detail` is the error's name)
    "silence",  # describe-quorum, metadata: no answer
    "partition",  # metadata: what the broker knows of a partition; `detail` is JSON, {"topic": "t", "partition": 0,
    # "leader": 1, "epoch": 3, "in_sync": [1, 2]}, where leader is null for none and epoch the partition's leader epoch
    "fetch-failed",  # log: the broker could not append what it fetched; `detail` is JSON, {"topic": "t",
    # "partition": 0, "offset": 16}, where offset is the one that it had fetched from
    "committed",  # replication-offset-checkpoint: a partition is committed up to `high_watermark`, exclusive; `detail`
    # is JSON, {"topic": "log", "partition": 0, "epoch": 3, "start": 17}, where epoch is that of the last committed
    # offset, and start the first offset of this epoch
    "started",  # process: the node's process was started
    "stopped",  # process: the node's process ended as the run requested (`detail` is how)
    "exited",  # process: the node's process ended without a request (`detail` is how and, if its log says so, why)
    "violation",  # simulation: an invariant was broken, on node 0 if on none in particular; `detail` is JSON with the
    # names `invariant`, e.g. vote-once, and `message`
    "note",  # log: any other relevant line, in `detail`
]


ENDS: Final = ("stopped", "exited")
"""The kinds of observations at which a node's process ends."""
SHOWS_STATE: Final = ("transition", "claim", "denial")
"""The kinds of observations that a node gives only once it takes part in the quorum."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of one node.

    time_ns is run time: for log lines, the line's time stamp converted to it (or the time at which the line was read,
    if a clock fault made time stamps unusable); for files and polls, the time of the answer. state and previous are
    states of the system's rules (harness.model.transition_rules); Kafka's are harness.model.quorum_states.State.
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
