"""Single client requests to chosen nodes: the capability to send them, and the steps that request them.

A workload's clients choose their nodes themselves, and their libraries make the batches. A story may need a request to
one node only, e.g. to a leader that is cut off, or a batch of certain offsets on one broker alone.

    create_partition("t", replicas=(2, 1))
    produce("n1", "t-0", records=11, acks="all")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from harness.model.faults.membership import Partition
from harness.model.story import Step, Who

Acks = Literal["leader", "all"]
"""Who has to have a batch before it is acknowledged: its leader, or all in-sync replicas."""


class Requests(Protocol):
    """Sends single requests to chosen nodes."""

    async def create_topic(self, node: int, topic: str, partitions: int, is_answered: bool) -> int:
        """Request a topic with one replica per partition from a controller, in one CreateTopics request.

        Returns how many offsets the controller appended to its log. With is_answered the request has to succeed;
        otherwise the records only have to be in the controller's log, committed or not. Raises PeerFailure if not.
        """

    async def create_partition(self, topic: str, replicas: Sequence[int], configs: Mapping[str, str]) -> None:
        """Create a topic with these configs and one partition that has these replicas, the preferred one first.

        Raises PeerFailure.
        """

    async def produce(self, node: int, partition: Partition, records: int, acks: Acks, key: str | None) -> int:
        """Write one batch of this many records to this broker, which has to be the leader. All have the key, if any.

        Returns the offset of the first record. Raises PeerFailure if the batch is refused, NoAnswer if it may have been
        written.
        """


def create_topic(who: Who, topic: str, partitions: int, is_answered: bool = True) -> Step:
    """Request a topic from one controller. It appends a record for each partition in one atomic batch.

    If the controller is cut off from its followers, nobody answers: is_answered=False.
    """
    return Step("create_topic", {"who": who, "topic": topic, "partitions": partitions, "is_answered": is_answered})


def create_partition(topic: str, replicas: Sequence[int], configs: Mapping[str, str] | None = None) -> Step:
    """Create a topic with these configs and one partition that has these replicas, the preferred one first."""
    value = {"topic": topic, "replicas": list(replicas)}
    return Step("create_partition", {**value, "configs": dict(configs)} if configs else value)


def produce(who: Who, partition: str, records: int, acks: Acks = "leader", key: str | None = None) -> Step:
    """Write one batch of this many records to the broker that leads the partition.

    Their key counts if the topic is compacted, which keeps the last record of each key.
    """
    value = {"who": who, "partition": partition, "records": records, "acks": acks}
    return Step("produce", value if key is None else {**value, "key": key})
