"""States in the format of Kafka's log lines, so that one log parser serves both systems.

Contains pure functions from values to text. Source: the toString methods of Kafka 4.x's raft states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodes.reference.core.roles.states import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    QuorumState,
    Resigned,
    Unattached,
    VoteSeeker,
)
from nodes.reference.core.settings import NodeSettings


def describe(state: QuorumState, settings: NodeSettings, voters: Sequence[int], high_watermark: int) -> str:
    """The state as Kafka logs it."""
    watermark = _watermark(high_watermark)
    match state:
        case Unattached():
            return (
                f"UnattachedState(epoch={state.epoch}, leaderId={_optional_int(state.leader_id)}, "
                f"votedKey={_key(state.voted_id)}, voters={_ids(voters)}, "
                f"electionTimeoutMs={state.timeout_ms}, highWatermark={watermark})"
            )
        case Follower():
            return (
                f"FollowerState(fetchTimeoutMs={settings.fetch_timeout_ms}, epoch={state.epoch}, "
                f"leader={state.leader_id}, leaderEndpoints={_endpoints(settings, state.leader_id)}, "
                f"votedKey={_key(state.voted_id)}, voters={_ids(voters)}, "
                f"highWatermark={watermark}, fetchingSnapshot=Optional.empty)"
            )
        case Prospective():
            return (
                f"ProspectiveState(epoch={state.epoch}, leaderId={_optional_int(state.leader_id)}, "
                f"votedKey={_key(state.voted_id)}, epochElection={epoch_election(state, voters)}, "
                f"electionTimeoutMs={state.timeout_ms}, highWatermark={watermark})"
            )
        case Candidate():
            return (
                f"CandidateState(localId={settings.node_id}, localDirectoryId=<undefined>, epoch={state.epoch}, "
                f"epochElection={epoch_election(state, voters)}, highWatermark={watermark}, "
                f"electionTimeoutMs={state.timeout_ms})"
            )
        case Leader():
            return (
                f"Leader(localVoterNode={_replica(settings.node_id)}, epoch={state.epoch}, "
                f"epochStartOffset={state.start_offset}, highWatermark={watermark}, voterStates={{}})"
            )
        case Resigned():
            return (
                f"ResignedState(localId={settings.node_id}, epoch={state.epoch}, voters={_ids(voters)}, "
                f"electionTimeoutMs={state.timeout_ms}, unackedVoters={_ids(sorted(state.unacknowledged))}, "
                f"preferredSuccessors=[{', '.join(map(_replica, state.successors))}])"
            )


def epoch_election(state: VoteSeeker, voters: Sequence[int]) -> str:
    """The votes so far, as Kafka's EpochElection."""
    votes = (f"{voter}=VoterState(replicaKey={_replica(voter)}, state={_vote(state, voter)})" for voter in voters)
    return f"EpochElection(voterStates={{{', '.join(votes)}}})"


def _vote(state: VoteSeeker, voter: int) -> str:
    if voter in state.granted:
        return "GRANTED"
    return "REJECTED" if voter in state.rejected else "UNRECORDED"


def _replica(node_id: int) -> str:
    return f"ReplicaKey(id={node_id}, directoryId=<undefined>)"


def _key(node_id: int | None) -> str:
    return "Optional.empty" if node_id is None else f"Optional[{_replica(node_id)}]"


def _optional_int(number: int | None) -> str:
    return "OptionalInt.empty" if number is None else f"OptionalInt[{number}]"


def _ids(ids: Iterable[int]) -> str:
    return f"[{', '.join(map(str, ids))}]"


def _endpoints(settings: NodeSettings, node_id: int) -> str:
    return f"Endpoints(endpoints={{ListenerName(CONTROLLER)={settings.endpoints.get(node_id, 'unknown')}}})"


def _watermark(offset: int) -> str:
    return "Optional.empty" if offset < 0 else f"Optional[LogOffsetMetadata(offset={offset}, metadata=Optional.empty)]"
