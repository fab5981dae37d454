"""Small runs that differ in everything, and between them break a guarantee of every check.

All use the same keys, nodes, processes, epochs and indexes, so a query that mixes two of them up finds something else.
Contains the runs. tests/checkers/test_many_runs.py judges them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.model import NEMESIS, Observation, Op
from harness.model.faults.rpc import Api, RpcRow
from harness.model.measures import Count, sends
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.logged_record import LoggedRecord
from tests.support.checks.run_types import Tables
from tests.support.checks.small_histories import MS, history, nemesis_op, read, write
from tests.support.checks.small_logs import commit, drain, lost_send, poll, send
from tests.support.checks.small_transactions import append, together, txn
from tests.support.checks.small_transactions import read as read_list

S = 1000 * MS
QUORUM = "__cluster_metadata"


def timed(ops: Sequence[Op], step_ns: int = 500 * MS) -> list[Op]:
    """The ops as a history, one each half a second."""
    return [replace(op, time_ns=(at + 1) * step_ns) for at, op in enumerate(history(*ops))]


def seen(second: float, node: int, source: str, kind: Any, **more: Any) -> Observation:
    """An observation."""
    return Observation(round(second * S), node, source, kind, **more)


def claims(second: float, node: int, epoch: int, mark: int, end: int, voters: str = '{"1": 0, "2": 0, "3": 0}') -> Any:
    """A leader's answer."""
    more = {"high_watermark": mark, "log_end_offset": end, "detail": f'{{"voters": {voters}}}'}
    return seen(second, node, "describe-quorum", "claim", epoch=epoch, **more)


def vote(second: float, voter: int, candidate: int) -> RpcRow:
    """A granted vote in epoch 3."""
    at = round(second * S)
    return RpcRow(at, voter, candidate, int(Api.VOTE), 2, 7, "response", 60, pre_vote=False, epoch=3, granted=True)


def batch(node: int, offset: int, epoch: int, crc: int = 7, **more: Any) -> LoggedBatch:
    """A batch of one offset of the quorum's log."""
    return LoggedBatch(node, QUORUM, 0, offset, offset, epoch, crc, **more)


def started(*nodes: int) -> list[Observation]:
    """Processes that start."""
    return [seen(0.1 * node, node, "process", "started") for node in nodes]


COMPARED = [{"field": "error", "expected": "NONE", "found": "NOT_LEADER", "holds": False}]
ASKED = {"nodes": [2], "name": "describe", "compared": COMPARED}

ADDED = Op("invoke", "add_voter", 11, "n4"), Op("ok", "add_voter", 11, "n4", {"epoch": 3})
REPORTED = (
    Op("invoke", "voters", 12, "voters"),
    Op("ok", "voters", 12, "voters", {"leader": 1, "epoch": 3, "voters": [1, 2, 3], "target": None}, 1),
)
"""A voter is added, and the leader reports the voters as they were before."""

CLIENTS = Tables(
    timed(
        [
            *nemesis_op("mark", "story"), *nemesis_op("cut", {"nodes": [1]}),
            *write(0, 1), *write(0, 2), *read(1, 1),
            *(Op("invoke", "add", 3, "s0", 4), Op("ok", "add", 3, "s0", 4)), *read(4, [], "s0"),
            *send(5, 1, 0), *send(5, 2, 1), *commit(6, 5), *commit(6, 3), *ADDED, *REPORTED,
            *together(txn(7, append("x", 1), append("y", 1)), txn(8, append("x", 2), append("y", 2)),
                      txn(9, read_list("x", 1, 2), read_list("y", 2, 1))),
            Op("info", "cut", NEMESIS, error="links (1, 2) pass though cut"), *nemesis_op("ask", ASKED),
            *nemesis_op("heal"), *nemesis_op("mark", "final"), *read(1, 1), *drain(10, (1, 2)),
        ]
    )
)  # fmt: skip
"""Every check of clients finds something, and no node was observed."""

SERVERS = Tables(
    timed([*nemesis_op("mark", "story"), *nemesis_op("fill_disk", {"nodes": [3]}), *nemesis_op("heal"), *write(0, 1)]),
    [
        *started(1, 2, 3),
        seen(3, 1, "log", "transition", state="Leader", previous="Candidate", epoch=3),
        seen(4, 2, "log", "transition", state="Leader", previous="Candidate", epoch=3),
        seen(5, 2, "log", "transition", state="Follower", previous="Leader", epoch=2),
        seen(6, 3, "quorum-state", "durable", epoch=3, voted=1),
        seen(7, 3, "quorum-state", "durable", epoch=3, voted=2),
        claims(8, 1, 3, 5, 6), claims(9, 1, 3, 4, 6), claims(29, 2, 4, 5, 3),
        seen(30, 2, "process", "exited", detail="exit 1: no"), seen(31, 3, "process", "exited", detail="exit 1: full"),
        seen(32, 3, "simulation", "violation", detail='{"invariant": "vote-once", "message": "two votes"}'),
        seen(60, 1, "log", "note", detail="the end"),
    ],
    [
        batch(1, 0, 1, voters="[1, 2, 3]"), batch(1, 1, 1), batch(1, 2, 2), batch(1, 3, 1, intact=False),
        batch(2, 0, 1, voters="[1, 2, 3]"), batch(2, 1, 1, 8), batch(2, 2, 2), batch(2, 6, 2),
    ],
    [],
    [vote(5, 3, 1), vote(6, 3, 2), vote(50, 2, 1)],
    (Count(sends(Api.VOTE)),),
)  # fmt: skip
"""Every check of servers finds something."""

NOTHING = Tables([])
"""No row in any table."""

OTHERS = Tables(
    timed(
        [
            *write(0, 1), *read(1, 1), *write(0, 2, "y"), *read(0, 1, "y"),
            *send(5, 1, 0), *lost_send(5, 2), *poll(6, (0, 1)), *drain(10, (0, 1), (1, 2)),
            *together(txn(7, ["w", "x", [0, 1]]), txn(8, ["r", "x", [0, 1]])), *txn(9, ["w", "z", [0, 3]], end="info"),
        ],
        2 * S,
    ),
    [*started(1, 2, 4), claims(20, 1, 1, 1, 3, '{"1": 3, "2": 0}'), claims(21, 1, 1, 1, 3, '{"1": 3, "4": 3}'),
     seen(22, 3, "log", "transition", state="Prospective", previous="Unattached", epoch=1),
     seen(58, 1, "log", "note", detail="the end")],
    [batch(1, 0, 1, voters="[1, 2]"), batch(1, 1, 1, voters="[1, 4]"), batch(4, 0, 1, 9),
     *(LoggedBatch(node, "log", 0, 0, 1, 1, 7) for node in (1, 4))],
    [LoggedRecord(1, "log", 0, 0, 5, 1, None, "1"), LoggedRecord(1, "log", 0, 1, 5, 0, None, "2")],
    [vote(5, 3, 2)],
    (Count(sends(Api.VOTE, source=3)),),
)  # fmt: skip
"""No nemesis, other voters that change, registers instead of lists, and the brokers' own logs."""

RUNS: Mapping[str, Tables] = {
    "clients": CLIENTS,
    "nothing": NOTHING,
    "servers": SERVERS,
    "others": OTHERS,
    "clients again": CLIENTS,
}
