"""Plain twins of the rules in checkers/announcements/votes.py and checkers/announcements/commits.py.

RPCs are in the order of the record. A finding is its name, node and time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from checkers.twins.quorum import Found, in_time
from harness.model import Observation
from harness.model.faults.rpc import Api, RpcRow
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.observation import ENDS

SECOND_NS = 1_000_000_000
QUORUM_LOG = ("__cluster_metadata", 0)


def vote_of(rpc: RpcRow) -> int | None:
    """The candidate for whom a message is a vote of its sender; None if it is no vote."""
    if rpc.api_key != Api.VOTE or rpc.pre_vote is not False or rpc.epoch is None:
        return None
    if rpc.direction == "request":
        return rpc.source
    return rpc.target if rpc.granted else None


def votes(rpcs: Sequence[RpcRow]) -> dict[tuple[int, int], dict[int, int]]:
    """(node, epoch) → candidate → the time of the first announcement."""
    given: dict[tuple[int, int], dict[int, int]] = {}
    for rpc in rpcs:
        candidate = vote_of(rpc)
        if candidate is not None and rpc.epoch is not None:
            own = given.setdefault((rpc.source, rpc.epoch), {})
            own[candidate] = min(rpc.time_ns, own.get(candidate, rpc.time_ns))
    return given


def two_votes(rpcs: Sequence[RpcRow]) -> Iterator[Found]:
    """Nodes with several votes of an epoch, at the time of the second."""
    for (node, _), given in votes(rpcs).items():
        if len(given) > 1:
            yield "two-votes-announced", node, sorted(given.values())[1]


def vote_not_in_file(rpcs: Sequence[RpcRow], seen: Sequence[Observation], keeps_votes: bool) -> Iterator[Found]:
    """The first file that contradicts each vote."""
    for (node, epoch), given in votes(rpcs).items():
        files = [each for each in in_time(seen) if (each.kind, each.node, each.epoch) == ("durable", node, epoch)]
        for candidate, since_ns in given.items():
            wrong = [
                each.time_ns
                for each in files
                if each.time_ns - since_ns >= SECOND_NS and contradicts(each, candidate, keeps_votes)
            ]
            if wrong:
                yield "announced-vote-not-in-file", node, wrong[0]


def contradicts(file: Observation, candidate: int, keeps_votes: bool) -> bool:
    """Whether a file of the epoch cannot be that of a node that has voted for this candidate."""
    if file.voted is None or file.voted < 0:
        return keeps_votes and file.leader != file.node
    return file.voted != candidate


def is_of_log(rpc: RpcRow) -> bool:
    """Whether a message is a request for the quorum's log."""
    return rpc.fetch_offset is not None


def announces_epoch(rpc: RpcRow) -> bool:
    """Whether a message has an epoch that its sender must have stored."""
    is_leaders = rpc.api_key in (Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH) and rpc.direction == "request"
    return (rpc.epoch or 0) > 0 and (is_leaders or is_of_log(rpc) or vote_of(rpc) is not None)


def states_epoch(rpc: RpcRow) -> bool:
    """Whether a message is a request with its sender's epoch."""
    apis = (Api.VOTE, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH)
    return rpc.epoch is not None and (is_of_log(rpc) or (rpc.direction == "request" and rpc.api_key in apis))


def epochs_forgotten(rpcs: Sequence[RpcRow], seen: Sequence[Observation]) -> Iterator[Found]:
    """The first file, and the first request of a restarted process, below each highest epoch announced before."""
    for node in {each.node for each in seen}:
        own = [rpc for rpc in rpcs if rpc.source == node]
        files = [each for each in in_time(seen) if each.node == node and each.kind == "durable"]
        pairs = [(highest_before(own, each.time_ns - SECOND_NS), each.epoch, each.time_ns) for each in files]
        yield from first_of_each(node, pairs)
        stated = sorted((rpc for rpc in own if states_epoch(rpc)), key=lambda rpc: (rpc.time_ns, rpc.epoch))
        begins = [(incarnation_of(seen, node, rpc.time_ns), rpc) for rpc in stated]
        pairs = [(highest_before(own, begin), rpc.epoch, rpc.time_ns) for begin, rpc in begins if begin is not None]
        yield from first_of_each(node, pairs)


def highest_before(rpcs: Sequence[RpcRow], until_ns: int) -> int:
    """The highest epoch announced up to a time."""
    return max((rpc.epoch or 0 for rpc in rpcs if rpc.time_ns <= until_ns and announces_epoch(rpc)), default=0)


def incarnation_of(seen: Sequence[Observation], node: int, time_ns: int) -> int | None:
    """When the process that runs at this time was started; None if it is the first or may not be the sender."""
    before = [each for each in seen if each.node == node and each.time_ns < time_ns]
    started = max((each.time_ns for each in before if each.kind == "started"), default=None)
    ended = max((each.time_ns for each in before if each.kind in ENDS), default=None)
    if started is None or ended is None or ended > started or time_ns - ended < SECOND_NS:
        return None
    return started


def first_of_each(node: int, pairs: Sequence[tuple[int, int | None, int]]) -> Iterator[Found]:
    """A finding for each highest epoch with a lower one after it; pairs are in order of time."""
    found = set()
    for highest, epoch, time_ns in pairs:
        if epoch is not None and epoch < highest and highest not in found:
            found.add(highest)
            yield "announced-epoch-forgotten", node, time_ns


def without_majority(rpcs: Sequence[RpcRow], voters: Collection[int]) -> Iterator[Found]:
    """The first announcement of each leader and epoch that no majority had reached."""
    fetches = [rpc for rpc in rpcs if rpc.api_key == Api.FETCH and rpc.epoch is not None]
    leader_of = [rpc.source if rpc.direction == "response" else rpc.target for rpc in fetches]
    for leader, epoch in {(leader, rpc.epoch) for leader, rpc in zip(leader_of, fetches, strict=True)}:
        furthest, knew_none = {leader: 1 << 62}, False
        for rpc in (rpc for each, rpc in zip(leader_of, fetches, strict=True) if (each, rpc.epoch) == (leader, epoch)):
            if rpc.direction == "request":
                furthest[rpc.source] = max(furthest.get(rpc.source, 0), rpc.fetch_offset or 0)
                continue
            mark = rpc.high_watermark or 0
            knew_none = knew_none or mark < 0
            reached = [voter for voter in voters if furthest.get(voter, 0) >= mark]
            if knew_none and mark > 0 and len(reached) <= len(voters) / 2:
                yield "announced-commit-without-majority", leader, rpc.time_ns
                break


def beyond_log(rpcs: Sequence[RpcRow]) -> Iterator[Found]:
    """The first request of each node and epoch whose high watermark is above its offset."""
    found = set()
    for rpc in rpcs:
        is_above = None not in (rpc.fetch_offset, rpc.high_watermark) and rpc.high_watermark > rpc.fetch_offset  # type: ignore[operator]
        if is_above and (rpc.source, rpc.epoch) not in found:
            found.add((rpc.source, rpc.epoch))
            yield "announced-commit-beyond-log", rpc.source, rpc.time_ns


def commits_overwritten(rpcs: Sequence[RpcRow], batches: Sequence[LoggedBatch]) -> Iterator[Found]:
    """The first announcement of each epoch's highest high watermark, if a log has a later epoch below it."""
    announced = [rpc for rpc in rpcs if (rpc.high_watermark or 0) > 0 and rpc.epoch is not None]
    for epoch in {rpc.epoch or 0 for rpc in announced}:
        own = [rpc for rpc in announced if rpc.epoch == epoch]
        highest = min(own, key=lambda rpc: (-(rpc.high_watermark or 0), rpc.time_ns, -rpc.source))
        later = [
            batch
            for batch in batches
            if (batch.topic, batch.partition) == QUORUM_LOG and batch.leader_epoch > epoch
        ]  # fmt: skip
        if any(batch.base_offset < (highest.high_watermark or 0) for batch in later):
            yield "announced-commit-overwritten", highest.source, highest.time_ns


def commits_missing(rpcs: Sequence[RpcRow], batches: Sequence[LoggedBatch], claimed: int,
                    voters: Collection[int]) -> Iterator[int]:  # fmt: skip
    """The offsets from claimed on, below what was announced, that no majority holds in one version."""
    announced = max((rpc.high_watermark or 0 for rpc in rpcs if rpc.epoch is not None), default=0)
    for offset in range(claimed, announced):
        versions: dict[tuple[int, ...], set[int]] = {}
        for each in batches:
            if each.base_offset <= offset <= each.last_offset and each.node in voters:
                version = (each.base_offset, each.last_offset, each.leader_epoch, each.crc)
                versions.setdefault(version, set()).add(each.node)
        if not any(2 * len(nodes) > len(voters) for nodes in versions.values()):
            yield offset
