"""Kafka's log as its clients see it: a topic of a few partitions, sent to and polled while brokers come and go.

    send   key log-2, value 7                    → ok {"offset": 41, "value": 7}
    poll   no key                                → ok {"log-0": [[12, 3], …], …}: what is new to this process
    assign no key                                → ok: this process reads every partition from its beginning again
    subscribe                                    → ok: this process leaves it to its group which partitions it reads
    commit no key                                → ok {"log-0": 13, …}: its group is to go on there
    committed  no key, or at last key log-2      → ok {"log-0": 13, …}: where its group is to go on, null for nowhere
    drain  key log-2, once everything is healed  → ok [[0, 1], …]: the whole partition, up to its end

Values are unique, so that every record names its send; half the processes send, the others poll. Options, by name:
`acks` (all, 1), `idempotence` (true, false), `isolation` (read_uncommitted, read_committed), `assignment` (assign,
subscribe). Where processes subscribe, they commit now and then what they have polled (log_group.py), and whoever gets a
partition goes on from there; without a committed offset it begins at the beginning.

librdkafka sends a record again when a broker answers NOT_LEADER_OR_FOLLOWER, whatever number of retries it is allowed,
though such a record may have been appended (KAFKA-13574). An idempotent producer's broker knows it again (KIP-98), so
that is the default; without it a `duplicate` is the client's own deed.

What may live here: what is asked, by name and value. What may not: how it is asked (log_session.py, log_topic.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.model import BadInput, Op
from workloads.log_group import SESSION_TIMEOUT_MS
from workloads.log_session import LogSession
from workloads.log_topic import PARTITIONS, create, name_of
from workloads.workload import Workload, needs_brokers

POLLS_AN_ASSIGNMENT: Mapping[str, int] = {"assign": 500, "subscribe": 40}
"""How many polls there are for each assignment. What the first assignment is must be told by a `subscribe` of its own,
so that these come often; where no process subscribes, its first poll assigns all partitions to it."""

OF_A_GROUP = ("commit", "commit", "committed", "poll", "poll", "poll", "poll", "poll")
"""What a group's member does, each as often."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "acks": ("all", "1"),
    "idempotence": ("true", "false"),
    "isolation": ("read_uncommitted", "read_committed"),
    "assignment": ("assign", "subscribe"),
}
"""What each option may be, the default first."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The workload's options; each is one of CHOICES."""

    acks: str = "all"
    idempotence: str = "true"
    isolation: str = "read_uncommitted"
    assignment: str = "assign"

    @staticmethod
    def of(given: Mapping[str, str]) -> LogOptions:
        """Raises BadInput for an option that there is not, and for a value or a pair of values that cannot be."""
        for name, value in given.items():
            if name not in CHOICES:
                raise BadInput(f"workload option {name!r}: expected one of {', '.join(CHOICES)}")
            if value not in CHOICES[name]:
                raise BadInput(f"workload option {name}={value}: expected {' or '.join(CHOICES[name])}")
        options = LogOptions(**given)
        if options.idempotence == "true" and options.acks != "all":
            raise BadInput(
                f"workload option acks={options.acks}: expected all, or idempotence=false beside it (KIP-98)"
            )
        return options

    @property
    def producer(self) -> dict[str, str | int]:
        """librdkafka's settings: retries are allowed where the broker knows them from new sends."""
        idempotent = self.idempotence == "true"
        retries = {} if idempotent else {"message.send.max.retries": 0}
        return {"acks": self.acks, "enable.idempotence": idempotent, **retries}

    @property
    def consumer(self) -> dict[str, str | int]:
        """librdkafka's settings: where its group has committed nothing, a member begins at the beginning."""
        own: dict[str, str | int] = {"isolation.level": self.isolation}
        if self.is_group:
            own |= {"auto.offset.reset": "earliest", "session.timeout.ms": SESSION_TIMEOUT_MS}
        return own

    @property
    def is_group(self) -> bool:
        """Whether processes leave it to their group what they read, and commit."""
        return self.assignment == "subscribe"

    @property
    def poll(self) -> Callable[[int, int], Op]:
        """A poll; now and then, by the draw, a new assignment, and in a group a commit or a look at what it has."""
        polls = POLLS_AN_ASSIGNMENT[self.assignment]
        others = OF_A_GROUP if self.is_group else ("poll",)
        return lambda _number, drawn: Op(
            "invoke", others[drawn // polls % len(others)] if drawn % polls else self.assignment
        )

    @property
    def final_operations(self) -> tuple[Op, ...]:
        """What is asked of each partition once everything is healed."""
        names = [name_of(number) for number in range(PARTITIONS)]
        seen = [Op("invoke", "committed", key=name) for name in names] if self.is_group else []
        return (*(Op("invoke", "drain", key=name) for name in names), *seen)


def send(number: int, drawn: int) -> Op:
    """The number-th send, to the partition that is drawn; number is the value."""
    return Op("invoke", "send", key=name_of(drawn % PARTITIONS), value=number)


def log(given: Mapping[str, str]) -> Workload:
    """The workload with these options. Raises BadInput for those that there are not."""
    options = LogOptions.of(given)
    return Workload(
        name="log",
        summary=f"a log of {PARTITIONS} partitions, acks={options.acks}, {options.isolation}",
        checks=("log",),
        operation=send,
        read=options.poll,
        final_operations=options.final_operations,
        make_session=lambda reach, _process: LogSession(
            reach.addresses, options.producer, options.consumer, not options.is_group
        ),
        prepare=lambda reach: create(reach.addresses),
    )


LOG = needs_brokers("log", f"a log of {PARTITIONS} partitions: sends and polls", log)
