"""KIP-279 with KRaft: what a leader answers about the ends of its epochs, and how many rounds clean elections need."""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, BROKERS_LIVE, all_follow, in_sync, leads_partition, session_lost
from harness.model.faults.disks import corrupt_checkpoint
from harness.model.faults.membership import elect
from harness.model.faults.probe import ask
from harness.model.faults.requests import create_partition, produce
from harness.model.faults.rpc import Api
from harness.model.scenario import Scenario, Side, on
from harness.model.story import Step, heal, kill, lead, mark, start, wait_until
from harness.scenarios.expectations import logs_equal, truncation_rounds
from harness.scenarios.kip_279_kraft import TRUNCATION, leader_changes_twice
from harness.scenarios.one_partition import KIP_279, PARTITION, QUORUM_LED_BY_N1, SHORT_SESSIONS, TOPIC, dies, leads


def end_of_epoch(who: str, epoch: int, known: int, end: int, name: str) -> Step:
    """OffsetForLeaderEpoch: the largest epoch up to this one that the leader knows, and the end of its records."""
    topic = {"topic": TOPIC, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}]}
    fields = {"error_code": "none", "leader_epoch": known, "end_offset": end}
    expected = {f"topics.0.partitions.0.{field}": value for field, value in fields.items()}
    values = {"replica_id": -1, "topics": [topic]}
    return ask(who, Api.OFFSET_FOR_LEADER_EPOCH, 4, values, expected, listener="client", name=name)


LD_04 = Scenario(
    id="LD-04",
    title="A follower needs two round trips to find where its log diverges",
    question="Does the leader respond with the largest epoch that it knows if it does not know the requested one?",
    source=KIP_279 / "Proposed Changes, Scenario 1",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *leader_changes_twice(15),
        end_of_epoch("n3", 2, known=1, end=21, name="an epoch that n3 does not know"),
        end_of_epoch("n3", 1, known=1, end=21, name="the epoch before"),
        end_of_epoch("n3", 3, known=3, end=31, name="its own epoch"),
    ),
    bad=Side(
        on(reference={**SHORT_SESSIONS, TRUNCATION: "kip-279-alternative-1"}),
        shows=(logs_equal, truncation_rounds(2)),
        story=leader_changes_twice(15),
    ),
    good=Side(
        on(reference=SHORT_SESSIONS, kafka="newest 4", kafka_switches=SHORT_SESSIONS),
        shows=(logs_equal, truncation_rounds(1)),
        never=(truncation_rounds(2),),
    ),
)


def fails_over(old: int, new: int) -> tuple[Step, ...]:
    """The leader dies, an in-sync replica leads and appends; then the old leader is in sync and preferred again."""
    return (
        *dies(old),
        leads(new),
        produce(f"n{new}", PARTITION, 5),
        start(f"n{old}"),
        wait_until(in_sync(old, PARTITION)),
        elect("preferred", PARTITION),
        leads(3),
        produce("n3", PARTITION, 5, acks="all"),
        wait_until(in_sync(4, PARTITION)),
    )


PREFERRED_N3 = (
    *QUORUM_LED_BY_N1,
    create_partition(TOPIC, (3, 4), {"min.insync.replicas": "1"}),
    leads(3),
    wait_until(in_sync(4, PARTITION)),
    produce("n3", PARTITION, 10, acks="all"),
)
FAILS_OVER = fails_over(3, 4)

# In a clean election with KRaft nobody truncates: the new leader has all that the old one had committed.
LD_09 = Scenario(
    id="LD-09",
    title="A clean election needs more than one round trip",
    question="Are all logs equal after four clean elections in quick succession, two of the preferred leader?",
    source=KIP_279 / "Proposed Changes",
    nodes=4,
    voters=3,
    layout="combined",
    story=(*PREFERRED_N3, *FAILS_OVER * 2),
    full=(*PREFERRED_N3, *FAILS_OVER * 120),  # an hour
    good=Side(on(reference=SHORT_SESSIONS, kafka="newest 4", kafka_switches=SHORT_SESSIONS), shows=(logs_equal,)),
)

LD_10 = Scenario(
    id="LD-10",
    title="A leader without an epoch file cannot answer its follower",
    question="Does n3 rebuild its lost epoch file from its log, and respond with the end of each epoch?",
    source=KIP_279 / "Proposed Changes",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *QUORUM_LED_BY_N1,
        create_partition(TOPIC, (3, 4), {"min.insync.replicas": "1"}),
        leads(3),
        wait_until(in_sync(4, PARTITION)),
        produce("n3", PARTITION, 10, acks="all"),
        mark("n3 loses its file of leader epochs"),
        corrupt_checkpoint("n3", "leader-epoch-checkpoint", "missing", log=PARTITION),
        wait_until(session_lost(3)),
        leads(4),
        produce("n4", PARTITION, 5),
        start("n3"),
        wait_until(in_sync(3, PARTITION)),
        *dies(4),
        leads(3),
        produce("n3", PARTITION, 5),
        end_of_epoch("n3", 0, known=0, end=10, name="the epoch of the lost file"),
        start("n4"),
        wait_until(in_sync(4, PARTITION)),
    ),
    good=Side(on(reference=SHORT_SESSIONS, kafka="newest 4", kafka_switches=SHORT_SESSIONS), shows=(logs_equal,)),
)

LD_20 = Scenario(
    id="LD-20",
    title="OffsetForLeaderEpoch returns wrong offsets to a consumer after a failover",
    question="Which end offsets are returned for epoch 0, for epoch 1, and for an epoch that does not exist?",
    source=KIP_279 / "Proposed Changes",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        wait_until(BROKERS_LIVE),
        lead("n3"),
        wait_until(all_follow(3)),
        wait_until(BROKERS_LIVE),
        create_partition(TOPIC, (2, 1)),
        wait_until(leads_partition(2, PARTITION)),
        produce("n2", PARTITION, 10, acks="all"),
        kill("n2"),
        wait_until(leads_partition(1, PARTITION)),
        produce("n1", PARTITION, 5),
        end_of_epoch("n1", 0, known=0, end=10, name="the epoch before the failover"),
        end_of_epoch("n1", 1, known=1, end=15, name="the current epoch"),
        end_of_epoch("n1", 7, known=-1, end=-1, name="an epoch that does not exist"),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    good=Side(on(reference={}, kafka="newest 4")),
)

SCENARIOS = (LD_04, LD_09, LD_10, LD_20)
