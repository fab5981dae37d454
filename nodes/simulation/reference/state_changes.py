"""What the log line of a state change says, without the line: a simulation has thousands of them a second.

    state_change(events.StateChange(…))     # what parse_text makes of its note

A test compares both. Contains this function. Does not contain log lines (nodes.reference.core.roles.log_format), or how
they are parsed (nodes.observe.log_lines).
"""

from __future__ import annotations

from nodes.observe.log_lines import LogEvent
from nodes.reference.core.events import StateChange
from nodes.reference.core.roles.states import Candidate, Leader, Resigned


def state_change(change: StateChange) -> LogEvent:
    """The event in the log line of a completed state change; its wall_ns is 0."""
    state, own = change.entered, change.settings.node_id
    leader, voted = state.leader_id, state.voted_id
    high_watermark = None if change.high_watermark < 0 else change.high_watermark
    if isinstance(state, Leader):
        leader, voted = own, None  # the line names no vote
    elif isinstance(state, Resigned):
        leader, voted, high_watermark = own, None, None
    elif isinstance(state, Candidate):
        leader, voted = None, own
    previous = None if change.left is None else change.left.kind.value
    return LogEvent(0, "transition", state.kind.value, previous, state.epoch, leader, voted, high_watermark)
