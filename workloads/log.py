"""The log workload: clients send to and poll a topic of a few partitions.

    send   key log-2, value 7            → ok {"offset": 41, "value": 7}, with acks=1 also "acks": 1
    poll   no key                        → ok {"log-0": [[12, 3], …], …}: the records that are new to this process
    assign no key                        → ok: this process reads all partitions from their beginning again
    subscribe                            → ok: this process joins the consumer group, which assigns its partitions
    commit no key                        → ok {"log-0": 13, …}: the offsets committed for the group
    committed  no key, finally key log-2 → ok {"log-0": 13, …}: the group's committed offsets, null for none
    drain  key log-2, after the healing  → ok [[0, 1], …]: the whole partition, up to its end

Values are unique, so every record identifies its send. Half of the processes send, the others poll. Options: `acks`
(all, 1), `idempotence` (true, false), `isolation` (read_uncommitted, read_committed), `assignment` (assign, subscribe).
With subscribe, processes sometimes commit what they have polled (log_group.py), and a partition's next owner continues
from there; without a committed offset it starts at the beginning.

librdkafka resends a record after NOT_LEADER_OR_FOLLOWER, whatever its limit of retries, although that record may have
been appended (KAFKA-13574). Brokers deduplicate records of idempotent producers (KIP-98), so idempotence is the
default; without it a `duplicate` is the client's fault.

Contains the operations. log_session.py and log_topic.py execute them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.model import BadInput, Op
from workloads.log_group import SESSION_TIMEOUT_MS
from workloads.log_session import LogSession
from workloads.log_topic import PARTITIONS, create, key_of
from workloads.workload import BROKERS, GROUPS, Workload, needs_brokers

POLLS_PER_ASSIGNMENT: Mapping[str, int] = {"assign": 500, "subscribe": 40}
"""Polls per `assign` or `subscribe`. `subscribe` is frequent because a process must subscribe before its first poll;
without a group, the first poll assigns all partitions."""

GROUP_OPERATIONS = ("commit", "commit", "committed", "poll", "poll", "poll", "poll", "poll")
"""The operations of a group's member, each with the same probability."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "acks": ("all", "1"),
    "idempotence": ("true", "false"),
    "isolation": ("read_uncommitted", "read_committed"),
    "assignment": ("assign", "subscribe"),
}
"""The values of each option, the default first."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The workload's options, with values from CHOICES. Raises BadInput for an invalid combination."""

    acks: str
    idempotence: str
    isolation: str
    assignment: str

    def __post_init__(self) -> None:
        if self.idempotence == "true" and self.acks != "all":
            raise BadInput(
                f"workload log: option acks: expected all, or idempotence=false (KIP-98), found {self.acks!r}"
            )

    @property
    def producer(self) -> dict[str, str | int]:
        """librdkafka's settings; retries are enabled only if the broker deduplicates them."""
        idempotent = self.idempotence == "true"
        retries = {} if idempotent else {"message.send.max.retries": 0}
        return {"acks": self.acks, "enable.idempotence": idempotent, **retries}

    @property
    def consumer(self) -> dict[str, str | int]:
        """librdkafka's settings; a member starts at the beginning if the group has no committed offset."""
        settings: dict[str, str | int] = {"isolation.level": self.isolation}
        if self.is_group:
            settings |= {"auto.offset.reset": "earliest", "session.timeout.ms": SESSION_TIMEOUT_MS}
        return settings

    @property
    def is_group(self) -> bool:
        """Whether processes form a consumer group, and commit."""
        return self.assignment == "subscribe"

    @property
    def poll(self) -> Callable[[int, int], Op]:
        """A poll, or sometimes a new assignment, or in a group a `commit` or `committed`; random selects which."""
        polls = POLLS_PER_ASSIGNMENT[self.assignment]
        names = GROUP_OPERATIONS if self.is_group else ("poll",)
        return lambda _number, random: Op(
            "invoke", names[random // polls % len(names)] if random % polls else self.assignment
        )

    @property
    def final_operations(self) -> tuple[Op, ...]:
        """The operations on each partition after the healing."""
        keys = [key_of(number) for number in range(PARTITIONS)]
        committed = [Op("invoke", "committed", key=key) for key in keys] if self.is_group else []
        return (*(Op("invoke", "drain", key=key) for key in keys), *committed)


def send(number: int, random: int) -> Op:
    """The number-th send, to a random partition; number is the value."""
    return Op("invoke", "send", key=key_of(random % PARTITIONS), value=number)


def log(option_values: Mapping[str, str]) -> Workload:
    """The workload with these options. Raises BadInput for invalid ones."""
    options = LogOptions(**option_values)
    return Workload(
        name="log",
        summary=f"a log of {PARTITIONS} partitions, acks={options.acks}, {options.isolation}",
        checks=("log",),
        operation=send,
        read=options.poll,
        final_operations=options.final_operations,
        make_session=lambda cluster, _process: LogSession(
            cluster.addresses, options.producer, options.consumer, not options.is_group
        ),
        prepare=lambda cluster: create(cluster.addresses),
    )


LOG = needs_brokers(
    "log",
    f"a log of {PARTITIONS} partitions: sends and polls",
    log,
    CHOICES,
    lambda options: GROUPS if LogOptions(**options).is_group else BROKERS,
)
