"""The transactions workload: the sends of a transaction become visible together or not at all (KIP-98, KIP-890).

    txn    [["send", "log-2", 7], ["poll", {}], …]   → ok, with offsets and records: [["send", "log-2", [41, 7]], …]
           with ["abort"] at its end                 → fail, since it must have no effect
           with ["fence"] after its first send       → fail, since a newer producer fences its producer
    drain  key log-2, after the healing              → ok [[0, 1], …]: the committed records, up to the partition's end

Values are unique. Half of the processes poll, as transactions without sends; each of the others has a producer with its
own transactional.id. The topic is that of the log workload (log_topic.py). With the option zombies=true, one
transaction in ZOMBIES_ONE_IN is fenced: after its first send a second producer with the same transactional.id starts,
and the first continues its transaction, which the brokers must reject.

`late_end` reproduces KAFKA-17754 with one process. The EndTxn of its first transaction is delayed in the network and
sent again. The second transaction sends a record, polls for it before the commit, sends another one, and aborts. The
option `client` selects librdkafka, whose EndTxn does not identify the transaction, or a client that uses the epoch of
each transaction (EndTxn v5, KIP-890).

`leaderless_end` reproduces KAFKA-20734: a transaction sends to every partition of a topic with one replica, stays open
for PATIENCE_SECONDS while a broker is killed, and is committed.

Contains the operations. transactions_session.py executes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from harness.model import Op, PeerFailure
from workloads.log_session import LogSession
from workloads.log_topic import PARTITIONS, REPLICAS_MAX, create, key_of
from workloads.transactions_bumping import BumpingProducer
from workloads.transactions_drain import until_stable
from workloads.transactions_producer import RdkafkaProducer, until_coordinator_ready
from workloads.transactions_session import StartNewer, TransactionalProducer, TransactionSession
from workloads.workload import TRANSACTIONS as NEEDED
from workloads.workload import ClusterAccess, MakeSession, Workload, needs_brokers

CHECKS = ("transactions",)
MICRO_OPS_MAX = 4
ABORTS_ONE_IN = 8
ZOMBIES_ONE_IN = 12
ZOMBIES = ("true", "false")
"""The values of the option, the default first."""

READ_COMMITTED = {"isolation.level": "read_committed"}
PATIENCE_SECONDS = 12.0
"""How long the reproductions' transactions poll for their own records, which must not be visible before the commit."""

TRANSACTION_TIMEOUT_SECONDS = 10.0
"""After this time brokers abort an open transaction, which blocks all readers until then."""

CLIENTS = ("librdkafka", "epoch-bumping")


def transaction(number: int, random: int) -> Op:
    """The number-th transaction: up to MICRO_OPS_MAX sends and polls selected by random, the first a send."""
    size, random = 1 + random % MICRO_OPS_MAX, random // MICRO_OPS_MAX
    micro_ops: list[list] = []
    for position in range(size):
        partition, is_poll, random = random % PARTITIONS, position > 0 and random // PARTITIONS % 3 == 0, random // 12
        micro_ops.append(["poll", {}] if is_poll else ["send", key_of(partition), number * MICRO_OPS_MAX + position])
    end = [["abort"]] if random % ABORTS_ONE_IN == 0 else []
    return Op("invoke", "txn", value=[*micro_ops, *end])


def with_zombies(number: int, random: int) -> Op:
    """As transaction, but some are fenced after their first send."""
    op = transaction(number, random)
    # transaction uses the lower 32 bits of random.
    if (random >> 32) % ZOMBIES_ONE_IN:
        return op
    return replace(op, value=[op.value[0], ["fence"], *op.value[1:]])


def poll(_number: int, _random: int) -> Op:
    """A transaction that only polls."""
    return Op("invoke", "txn", value=[["poll", {}]])


DRAINS = tuple(Op("invoke", "drain", key=key_of(number)) for number in range(PARTITIONS))


def transactions(options: Mapping[str, str]) -> Workload:
    """The workload on any number of brokers. Option zombies: some producers are fenced."""

    def make_session(cluster: ClusterAccess, process: int) -> TransactionSession:
        def producer() -> RdkafkaProducer:
            return RdkafkaProducer(cluster.addresses, f"splitbrain-{process}", TRANSACTION_TIMEOUT_SECONDS)

        return _session(cluster, producer(), 0, partial(_initialized, producer))

    summary = f"transactions of up to {MICRO_OPS_MAX} sends and polls on {PARTITIONS} partitions, read_committed"
    operation = with_zombies if options["zombies"] == "true" else transaction
    return _workload("transactions", summary, make_session, operation=operation)


async def _initialized(make: Callable[[], RdkafkaProducer]) -> RdkafkaProducer:
    """A producer that is initialized at the brokers, which fences all earlier ones."""
    producer = make()
    try:
        await producer.begin()
    except PeerFailure:
        await producer.close()
        raise
    return producer


LATE_END = (
    Op("invoke", "txn", value=[["send", key_of(0), 1]]),
    Op("invoke", "txn", value=[["send", key_of(0), 2], ["poll", {}], ["send", key_of(1), 3], ["abort"]]),
)


def late_end(options: Mapping[str, str]) -> Workload:
    """The reproduction of KAFKA-17754, with one of CLIENTS as its option client."""
    client = options["client"]

    def make_session(cluster: ClusterAccess, process: int) -> TransactionSession:
        name = f"splitbrain-{process}"
        if client == CLIENTS[0]:
            return _session(cluster, RdkafkaProducer(cluster.addresses, name, 2 * PATIENCE_SECONDS), PATIENCE_SECONDS)
        return _session(cluster, BumpingProducer(cluster.connect_client, cluster.nodes[0], name), PATIENCE_SECONDS)

    return _workload("kafka-17754", f"a delayed EndTxn of {client}", make_session, LATE_END)


SENDS_TO_ALL = [["send", key_of(number), 1 + number] for number in range(PARTITIONS)]
LEADERLESS_END = (
    Op("invoke", "txn", value=[*SENDS_TO_ALL, ["poll", {}]]),
    Op("invoke", "txn", value=[["send", key_of(number), 11 + number] for number in range(PARTITIONS)]),
)


def leaderless_end(_options: Mapping[str, str]) -> Workload:
    """The reproduction of KAFKA-20734."""

    def make_session(cluster: ClusterAccess, process: int) -> TransactionSession:
        producer = RdkafkaProducer(cluster.addresses, f"splitbrain-{process}", 2 * PATIENCE_SECONDS)
        return _session(cluster, producer, PATIENCE_SECONDS)

    summary = "a transaction that is committed while one of its partitions has no leader"
    return _workload("kafka-20734", summary, make_session, LEADERLESS_END, replicas_max=1)


def _workload(
    name: str,
    summary: str,
    make_session: MakeSession,
    script: tuple[Op, ...] = (),
    replicas_max: int = REPLICAS_MAX,
    operation: Callable[[int, int], Op] = transaction,
) -> Workload:
    """A workload of transactions with the common checks and drains."""

    async def prepare(cluster: ClusterAccess) -> None:
        """Create the topic and wait for a transaction coordinator."""
        await create(cluster.addresses, replicas_max)
        await until_coordinator_ready(cluster.addresses)

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
    cluster: ClusterAccess,
    producer: TransactionalProducer,
    patience_seconds: float,
    start_newer: StartNewer | None = None,
) -> TransactionSession:
    reader = LogSession(cluster.addresses, {}, READ_COMMITTED)
    return TransactionSession(producer, reader, partial(until_stable, cluster.addresses), patience_seconds, start_newer)


def _needed(_options: Mapping[str, str]) -> str:
    return NEEDED


TRANSACTIONS = needs_brokers(
    "transactions",
    "transactions of sends and polls on several partitions",
    transactions,
    {"zombies": ZOMBIES},
    _needed,
)
KAFKA_17754 = needs_brokers(
    "kafka-17754", "KAFKA-17754 step by step: an EndTxn that arrives late", late_end, {"client": CLIENTS}, _needed
)
KAFKA_20734 = needs_brokers(
    "kafka-20734", "KAFKA-20734 step by step: commit to a leaderless partition", leaderless_end, needs=_needed
)
