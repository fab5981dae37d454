"""The two RPCs of KAFKA-20098 on the reference system: their limit of 1,000 partitions, and their fields."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.conditions import not_in_sync, partition_offline
from harness.model.faults.probe import ask
from harness.model.faults.rpc import CLOSE, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Scenario, Side, on
from harness.model.story import LEADER, Step, heal, wait_until
from harness.scenarios.one_partition import QUORUM_LED_BY_N1, dies
from harness.scenarios.unclean_recovery import BROKERS, UNCLEAN_RECOVERY
from harness.scenarios.unclean_recovery_tool import DESIGNATED, recover

MANY, LIMIT = "many", 1_000
LAST = f"{MANY}-{LIMIT}"


def many_offline(partitions: int, followers: Sequence[int], *others: RpcRule) -> tuple[Step, ...]:
    """A topic of so many empty partitions that n4 leads; the followers leave the ISR, and n4 dies.

    A fetch that arrived would show that a follower has all of an empty log. others are rules for other messages.
    """
    match, last = RpcMatch((Api.FETCH,), sources=tuple(followers), targets=(4,)), f"{MANY}-{partitions - 1}"
    assignments = [{"partition_index": index, "broker_ids": [4, *followers]} for index in range(partitions)]
    topic = {
        "name": MANY,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": assignments,
        "configs": [{"name": "min.insync.replicas", "value": "1"}],
    }
    return (
        intercept(RpcRule("fetches from n4", match, CLOSE), *others),
        ask(
            LEADER,
            "CreateTopics",
            7,
            {"topics": [topic], "timeout": 10_000, "validate_only": False},
            {"topics.0.error_code": "none"},
            name=f"a topic of {partitions:,} partitions",
        ),
        *(wait_until(not_in_sync(node, last)) for node in followers),
        *dies(4),
        wait_until(partition_offline(last)),
    )


def metadata_of_last(leader: int) -> Step:
    """n1 says who leads the last partition."""
    return ask(
        "n1",
        "Metadata",
        12,
        {
            "topics": [{"topic_id": None, "name": MANY}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
        {"topics.0.partitions.length": LIMIT + 1, f"topics.0.partitions.{LIMIT}.leader_id": leader},
        listener="client",
        until_expected=True,
        within=5,
        name=f"the leader of {LAST}",
    )


REQUESTS_TOO_MANY = ask(
    LEADER,
    43,
    3,
    {
        "election_type": DESIGNATED,
        "topic_partitions": [
            {"topic": MANY, "partitions": list(range(LIMIT + 1)), "designated_leaders": [1] * (LIMIT + 1)}
        ],
        "timeout": 10_000,
    },
    {"replica_election_results.0.partition_result.length": LIMIT},
    name="a request for 1,001 elections",
)

UR_15 = Scenario(
    id="UR-15",
    title="Partitions beyond the first 1,000 are ignored",
    question="Are all of 1,001 offline partitions recovered, and does one request for all of them serve 1,000?",
    source=UNCLEAN_RECOVERY / "Public Interfaces",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *QUORUM_LED_BY_N1,
        *many_offline(LIMIT + 1, (1,)),
        recover("--automated-recovery", output=["1,001 elected"], name="a recovery of 1,001 partitions"),
        metadata_of_last(1),
        REQUESTS_TOO_MANY,
        heal(),
    ),
    bad=Side(
        on(reference={**BROKERS, "reference.mutant": "elections-beyond-limit-dropped"}),
        breaks=("unexpected-response",),
    ),
    good=Side(on(reference=BROKERS)),
)

UNKNOWN_ID = "00000000-0000-0000-0000-000000000001"
OF_TOPIC = "topic_partition_log_info_list.0"
OF_FIRST = f"{OF_TOPIC}.partition_log_info.0"


def replica_logs(version: int, partitions: int, expect: dict[str, object], name: str) -> Step:
    """Ask n1 for the logs of this many partitions of a topic that does not exist."""
    asked = {"topic_id": UNKNOWN_ID, "partitions": list(range(partitions))}
    return ask(
        "n1",
        "GetReplicaLogInfo",
        version,
        {"topic_partitions": [asked]},
        {"broker_epoch": {"at_least": 0}, f"{OF_TOPIC}.topic_id": UNKNOWN_ID, **expect},
        listener="client",
        name=name,
    )


FIELDS = {
    "has_more_data": False,
    f"{OF_TOPIC}.partition_log_info.length": 2,
    f"{OF_FIRST}.partition": 0,
    f"{OF_FIRST}.error_code": "unknown_topic_id",
    f"{OF_FIRST}.partition_leader_epoch": -1,
    f"{OF_FIRST}.log_end_offset": -1,
}

UR_29 = Scenario(
    id="UR-29",
    title="The schemas of the RPCs differ from KIP-966",
    question="Does a broker respond with KAFKA-20098's fields in version 0, and with KIP-966's epoch in version 1?",
    source=UNCLEAN_RECOVERY / "GetReplicaLogInfo RPC",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        *QUORUM_LED_BY_N1,
        replica_logs(0, 2, FIELDS, "KAFKA-20098's form"),
        replica_logs(1, 2, {**FIELDS, f"{OF_FIRST}.last_written_leader_epoch": -1}, "KIP-966's form"),
        replica_logs(
            0,
            LIMIT + 1,
            {"has_more_data": True, f"{OF_TOPIC}.partition_log_info.length": LIMIT},
            "a request beyond the limit",
        ),
    ),
    good=Side(on(reference=BROKERS)),
)

SCENARIOS = (UR_15, UR_29)
