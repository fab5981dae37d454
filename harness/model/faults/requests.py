"""Single client requests to chosen nodes: the capability to send them, and the steps that request them.

A workload's clients choose their nodes themselves. A story may need a request to one node only, e.g. to a leader that
is cut off.
"""

from __future__ import annotations

from typing import Protocol

from harness.model.story import Step, Who


class Requests(Protocol):
    """Sends single requests to chosen nodes."""

    async def create_topic(self, node: int, topic: str, partitions: int, is_answered: bool) -> int:
        """Request a topic with one replica per partition from a controller, in one CreateTopics request.

        Returns how many offsets the controller appended to its log. With is_answered the request has to succeed;
        otherwise the records only have to be in the controller's log, committed or not. Raises PeerFailure if not.
        """


def create_topic(who: Who, topic: str, partitions: int, is_answered: bool = True) -> Step:
    """Request a topic from one controller. It appends a record for each partition in one atomic batch.

    If the controller is cut off from its followers, nobody answers: is_answered=False.
    """
    return Step("create_topic", {"who": who, "topic": topic, "partitions": partitions, "is_answered": is_answered})
