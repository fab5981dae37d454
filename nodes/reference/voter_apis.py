"""Conversion of the requests that change one voter: AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853).

    incoming(codec.ADD_RAFT_VOTER, request)      # AddVoterRequest(...)
    outgoing(response, addresses)                # the values of the response, for all three
    update_values(request)                       # the values of the UpdateRaftVoter that a voter sends

Contains pure functions. Which requests are refused is decided by core.roles.voter_changing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nodes.reference.core.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    UpdateVoterRequest,
    VoterNode,
    VoterRequest,
    VoterResponse,
)
from nodes.reference.translate import LISTENER, Endpoints, Values
from nodes.wire import codec

SERVED = {codec.ADD_RAFT_VOTER: range(2), codec.REMOVE_RAFT_VOTER: range(1), codec.UPDATE_RAFT_VOTER: range(1)}
"""The supported versions by API key."""

_UNKNOWN = ("", 0)


def incoming(api_key: int, request: Any) -> VoterRequest:
    """The core's message for a request."""
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if api_key == codec.REMOVE_RAFT_VOTER:
        return RemoveVoterRequest(request.cluster_id, key, _REMOVAL_MS)
    voter = VoterNode(key, *_address(request.listeners))
    if api_key == codec.UPDATE_RAFT_VOTER:
        return UpdateVoterRequest(request.cluster_id, request.current_leader_epoch, voter)
    timeout_ms = int(request.timeout.total_seconds() * 1000)
    return AddVoterRequest(request.cluster_id, voter, timeout_ms, getattr(request, "ack_when_committed", True))


_REMOVAL_MS = 2**31 - 1
"""RemoveRaftVoter has no timeout of its own; the leader's counts."""


def outgoing(response: VoterResponse, addresses: Endpoints) -> Values:
    """The values of the response to any of the three."""
    host, port = addresses.get(response.leader_id, _UNKNOWN)
    leader = {"leader_id": response.leader_id, "leader_epoch": response.epoch, "host": host, "port": port}
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "error_message": response.reason,
        "current_leader": leader,
    }


def update_values(request: UpdateVoterRequest) -> Values:
    """The values of the request that a voter sends to its leader."""
    voter = request.voter
    return {
        "cluster_id": request.cluster_id,
        "current_leader_epoch": request.epoch,
        "voter_id": voter.key.node_id,
        "voter_directory_id": voter.key.directory_id,
        "listeners": [{"name": LISTENER, "host": voter.host, "port": voter.port}],
        "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    }


def update_response(response: Any) -> VoterResponse:
    """The core's message for the leader's response."""
    leader = response.current_leader
    return VoterResponse(response.error_code, leader.leader_id, leader.leader_epoch)


def _address(listeners: Iterable[Any]) -> tuple[str, int]:
    """Where a voter listens for the quorum; unknown if it names no such listener."""
    return next(((each.host, int(each.port)) for each in listeners if each.name == LISTENER), _UNKNOWN)
