"""Voters: tell the leader where they listen now, if the log says otherwise (KIP-853, UpdateRaftVoter).

Contains when to send the request in place of a fetch. Leaders write the new address in roles.voter_changing.
"""

from __future__ import annotations

from nodes.reference.core.context import Context
from nodes.reference.core.messages import UpdateVoterRequest, VoterNode

_REPEAT_MS = 500


class Updating:
    """The updates of one node."""

    def __init__(self, context: Context) -> None:
        self._context, self._settings = context, context.settings
        self._next_ms = 0

    def request(self, epoch: int) -> UpdateVoterRequest | None:
        """What to send to the leader of this epoch, if it is due; the leader may refuse it, so it is repeated."""
        settings, nodes = self._settings, self._context.voters.last.assignment.nodes
        if settings.advertised is None or self._context.now_ms < self._next_ms:
            return None
        own = VoterNode(settings.key, *settings.advertised)
        if own in nodes or own.key not in (node.key for node in nodes):
            return None
        self._next_ms = self._context.now_ms + _REPEAT_MS
        return UpdateVoterRequest(settings.cluster_id, epoch, own)
