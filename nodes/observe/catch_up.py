"""Whether every node has received what was committed when a wait began, as far as the leader reports it.

A read that any controller may answer from its own metadata image is compared with acknowledged writes only after the
controller has had the chance to apply them. The leader's log end offset at the first poll of the wait is the goal:
whatever was acknowledged before lies below it. A replica whose log end offset is beyond the goal, while the high
watermark is beyond it too, has fetched again since, and each Fetch response carries the high watermark. The value that
is read plays no part.

Contains the condition. Does not poll.
"""

from __future__ import annotations

from nodes.observe.conditions import QuorumView


class CatchUp:
    """One wait. `holds` is called whenever the view has changed."""

    def __init__(self, view: QuorumView) -> None:
        self._stale = dict(view.claims)
        self._leadership: tuple[int, int | None] | None = None
        self._goal = -1

    def holds(self, view: QuorumView) -> bool:
        """Whether every node that responds has caught up; a node that does not cannot be read, so it is left out."""
        leader = view.leader()
        if leader is None or view.claims[leader] is self._stale.get(leader):
            return False
        claim = view.claims[leader]
        if self._leadership != (leader, claim.epoch):
            self._leadership, self._goal = (leader, claim.epoch), claim.log_end_offset or 0
            return False
        ends = dict((*claim.voters, *claim.observers))
        others = view.responding - {leader}
        return (claim.high_watermark or 0) > self._goal and all(ends.get(node, -1) > self._goal for node in others)
