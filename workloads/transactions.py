"""Transactions on Kafka's log: what is sent together is there together, or not at all (KIP-98, KIP-890).

    txn    [["send", "log-2", 7], ["poll", {}], …]   → ok, with offsets and records: [["send", "log-2", [41, 7]], …]
           with ["abort"] at its end                 → fail, for it is to leave nothing
           with ["fence"] in its midst               → fail, as a newer producer has its producer's place
    drain  key log-2, once everything is healed      → ok [[0, 1], …]: what is committed, up to the partition's end

Values are unique. Half the processes poll, as a transaction without sends; each of the others has a producer with a
transactional.id of its own. The topic is that of the log (log_topic.py). Where the option `zombies` is true, one
transaction in ZOMBIES_ONE_IN is fenced: behind its first send a second producer with its transactional.id begins, and
the first goes on with what it was to do, which it must be refused.

`late_end` is not a load but KAFKA-17754 step by step, by one process: its first transaction's EndTxn meets a network
that keeps it back, and is sent again; the second sends a record, waits whether it shows before it is committed, sends
another, and aborts. Which client does so is its option: librdkafka, whose EndTxn names no transaction, or one of ours
with the epoch of each transaction (EndTxn v5, KIP-890).

`leaderless_end` is KAFKA-20734 likewise: a transaction sends to every partition of a topic without copies, stays open
for PATIENCE_SECONDS, in which a broker dies, and is committed.

What may live here: what is asked, by name and value. What may not: how it is asked (transactions_session.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from harness.model import BadInput, Op, PeerFailure
from workloads.log_session import LogSession
from workloads.log_topic import COPIES_MAX, PARTITIONS, create, name_of
from workloads.transactions_bumping import BumpingProducer
from workloads.transactions_drain import until_stable
from workloads.transactions_producer import RdkafkaProducer, make_ready
from workloads.transactions_session import Producing, Succeed, TransactionSession
from workloads.workload import ClusterAccess, MakeSession, Workload, needs_brokers

CHECKS = ("transactions",)
MICRO_OPS_MAX = 4
ABORTS_ONE_IN = 8
ZOMBIES_ONE_IN = 12
ZOMBIES = ("true", "false")
"""What the option may be, the default first."""

COMMITTED = {"isolation.level": "read_committed"}
PATIENCE_SECONDS = 12.0
"""For how long a transaction of these waits for its records to show, which they must not before it is committed."""

OPEN_SECONDS = 10.0
"""When brokers abort a transaction that nobody ends; it keeps all readers back until then."""

CLIENTS = ("librdkafka", "epoch-bumping")


def transaction(number: int, drawn: int) -> Op:
    """The number-th transaction: up to MICRO_OPS_MAX sends and polls by the draw, the first a send; values count up."""
    size, drawn = 1 + drawn % MICRO_OPS_MAX, drawn // MICRO_OPS_MAX
    micro_ops: list[list] = []
    for place in range(size):
        partition, is_poll, drawn = drawn % PARTITIONS, place > 0 and drawn // PARTITIONS % 3 == 0, drawn // 12
        micro_ops.append(["poll", {}] if is_poll else ["send", name_of(partition), number * MICRO_OPS_MAX + place])
    aborted = [["abort"]] if drawn % ABORTS_ONE_IN == 0 else []
    return Op("invoke", "txn", value=[*micro_ops, *aborted])


def with_zombies(number: int, drawn: int) -> Op:
    """As transaction, and by the draw some of them fenced behind their first send."""
    op = transaction(number, drawn)
    # The upper half of a draw, of which transaction takes the lower.
    if (drawn >> 32) % ZOMBIES_ONE_IN:
        return op
    return replace(op, value=[op.value[0], ["fence"], *op.value[1:]])


def poll(_number: int, _drawn: int) -> Op:
    """A transaction that only polls."""
    return Op("invoke", "txn", value=[["poll", {}]])


DRAINS = tuple(Op("invoke", "drain", key=name_of(number)) for number in range(PARTITIONS))


def transactions(given: Mapping[str, str]) -> Workload:
    """The workload on any number of brokers. Raises BadInput for an option but `zombies`."""
    zombies = given.get("zombies", ZOMBIES[0])
    if set(given) - {"zombies"} or zombies not in ZOMBIES:
        raise BadInput(f"workload transactions with {dict(given)}: expected zombies={' or '.join(ZOMBIES)}")

    def make_session(reach: ClusterAccess, process: int) -> TransactionSession:
        def producer() -> RdkafkaProducer:
            return RdkafkaProducer(reach.addresses, f"splitbrain-{process}", OPEN_SECONDS)

        return _session(reach, producer(), 0, partial(_begun, producer))

    summary = f"transactions of up to {MICRO_OPS_MAX} sends and polls on {PARTITIONS} partitions, read_committed"
    operation = with_zombies if zombies == "true" else transaction
    return _workload("transactions", summary, make_session, operation=operation)


async def _begun(make: Callable[[], RdkafkaProducer]) -> RdkafkaProducer:
    """A producer that the brokers know, so that none before it is any more."""
    producer = make()
    try:
        await producer.begin()
    except PeerFailure:
        await producer.close()
        raise
    return producer


LATE_END = (
    Op("invoke", "txn", value=[["send", name_of(0), 1]]),
    Op("invoke", "txn", value=[["send", name_of(0), 2], ["poll", {}], ["send", name_of(1), 3], ["abort"]]),
)


def late_end(given: Mapping[str, str]) -> Workload:
    """KAFKA-17754 step by step. Raises BadInput for an option but `client`, and an unknown client."""
    client = given.get("client", CLIENTS[0])
    if set(given) - {"client"} or client not in CLIENTS:
        raise BadInput(f"workload kafka-17754 with {dict(given)}: expected client={' or '.join(CLIENTS)}")

    def make_session(reach: ClusterAccess, process: int) -> TransactionSession:
        name = f"splitbrain-{process}"
        if client == CLIENTS[0]:
            return _session(reach, RdkafkaProducer(reach.addresses, name, 2 * PATIENCE_SECONDS), PATIENCE_SECONDS)
        return _session(reach, BumpingProducer(reach.connect_client, reach.nodes[0], name), PATIENCE_SECONDS)

    return _workload("kafka-17754", f"an EndTxn of {client} that comes late, step by step", make_session, LATE_END)


SENT_TO_ALL = [["send", name_of(number), 1 + number] for number in range(PARTITIONS)]
LEADERLESS_END = (
    Op("invoke", "txn", value=[*SENT_TO_ALL, ["poll", {}]]),
    Op("invoke", "txn", value=[["send", name_of(number), 11 + number] for number in range(PARTITIONS)]),
)


def leaderless_end(given: Mapping[str, str]) -> Workload:
    """KAFKA-20734 step by step. Raises BadInput for options, as it has none."""
    if given:
        raise BadInput(f"workload kafka-20734: expected no options, came {', '.join(given)}")

    def make_session(reach: ClusterAccess, process: int) -> TransactionSession:
        producer = RdkafkaProducer(reach.addresses, f"splitbrain-{process}", 2 * PATIENCE_SECONDS)
        return _session(reach, producer, PATIENCE_SECONDS)

    summary = "a transaction that is committed while a partition of its has no leader, step by step"
    return _workload("kafka-20734", summary, make_session, LEADERLESS_END, copies_max=1)


def _workload(
    name: str,
    summary: str,
    make_session: MakeSession,
    script: tuple[Op, ...] = (),
    copies_max: int = COPIES_MAX,
    operation: Callable[[int, int], Op] = transaction,
) -> Workload:
    """What these workloads have in common."""

    async def prepare(reach: ClusterAccess) -> None:
        """The topic, and a coordinator of transactions that answers."""
        await create(reach.addresses, copies_max)
        await make_ready(reach.addresses)

    return Workload(
        name=name,
        summary=summary,
        checks=CHECKS,
        operation=operation,
        read=poll,
        script=script,
        final_operations=DRAINS,
        make_session=make_session,
        prepare=prepare,
    )


def _session(
    reach: ClusterAccess, producer: Producing, patience_seconds: float, succeed: Succeed | None = None
) -> TransactionSession:
    reader = LogSession(reach.addresses, {}, COMMITTED)
    return TransactionSession(producer, reader, partial(until_stable, reach.addresses), patience_seconds, succeed)


TRANSACTIONS = needs_brokers("transactions", "transactions of sends and polls on several partitions", transactions)
KAFKA_17754 = needs_brokers("kafka-17754", "KAFKA-17754 step by step: an EndTxn that arrives late", late_end)
KAFKA_20734 = needs_brokers("kafka-20734", "KAFKA-20734 step by step: commit to a leaderless partition", leaderless_end)
