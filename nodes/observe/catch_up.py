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
        return not self.missing(view)

    def missing(self, view: QuorumView) -> str:
        """Which node is at which offset, and which it must pass; empty if every node has caught up."""
        leader = view.leader()
        if leader is None:
            return "no node leads"
        claim = view.claims[leader]
        if claim is self._stale.get(leader) or claim.log_end_offset is None:
            return f"leader n{leader} has not reported where its log ends since the wait began"
        if self._leadership != (leader, claim.epoch):
            self._leadership, self._goal = (leader, claim.epoch), claim.log_end_offset
        ends = dict((*claim.voters, *claim.observers))
        offsets = [("the high watermark", claim.high_watermark or 0)]
        offsets += [(f"n{node}", ends.get(node, -1)) for node in sorted(view.responding - {leader})]
        behind = [f"{name} is at offset {offset}" for name, offset in offsets if offset <= self._goal]
        return f"{', '.join(behind)}; expected above {self._goal} (leader n{leader})" if behind else ""
