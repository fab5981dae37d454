"""KIP-279 with KRaft: what compaction does to the epochs of a log, whose ends leaders have to know."""

from __future__ import annotations

from harness.model.conditions import compacted, in_sync, session_lost
from harness.model.faults.disks import corrupt_checkpoint
from harness.model.faults.probe import run_tool
from harness.model.faults.requests import create_partition, produce
from harness.model.faults.rpc import intercept
from harness.model.scenario import Scenario, Side, on
from harness.model.story import Step, heal, kill, seconds, sleep, start, wait_until
from harness.scenarios.kip_279_kraft import REPLICATION
from harness.scenarios.one_partition import KIP_279, PARTITION, QUORUM_LED_BY_N1, SHORT_SESSIONS, TOPIC, dies, leads

COMPACTED = {
    "min.insync.replicas": "1",
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",  # a record that is appended later begins a new segment
}
SWITCHES = {**SHORT_SESSIONS, "log.cleaner.backoff.ms": "500"}
SETUPS = on(reference=SWITCHES, kafka="newest 4", kafka_switches=SWITCHES)
READ_FROM_N3 = ("--bootstrap-server", "$n3_broker", "--topic", TOPIC, "--partition", "0", "--offset", "earliest")


def compacted_epoch(n4_dies: Step) -> tuple[Step, ...]:
    """n3 alone has offsets 6 to 11 of epoch 0, with key b. n4 compacts away all records of epoch 1, and dies."""
    return (
        *QUORUM_LED_BY_N1,
        create_partition(TOPIC, (3, 4), COMPACTED),
        leads(3),
        wait_until(in_sync(4, PARTITION)),
        produce("n3", PARTITION, 5, acks="all", key="a"),
        produce("n3", PARTITION, 1, acks="all", key="z"),
        intercept(REPLICATION),
        *[produce("n3", PARTITION, 1, key="b")] * 6,
        *dies(3),
        leads(4),
        produce("n4", PARTITION, 3, key="a"),
        *dies(4),
        start("n4"),
        leads(4),
        produce("n4", PARTITION, 10, key="a"),
        sleep(seconds(1.5)),
        produce("n4", PARTITION, 1, key="c"),
        sleep(seconds(0.5)),  # the observer, which looks every 0.1 s, sees the new segment
        wait_until(compacted(4, PARTITION)),
        n4_dies,
        wait_until(session_lost(4)),
        start("n4"),
        leads(4),
        heal(),
        wait_until(in_sync(3, PARTITION)),
        *dies(4),
        leads(3),
        run_tool(
            "kafka-console-consumer",
            [*READ_FROM_N3, "--timeout-ms", "8000", "--property", "print.key=true"],
            output=[r"^z\t", r"^c\t"],
            no_output=[r"^b\t"],
            name="what n3 has as the leader",
        ),
        start("n4"),
        wait_until(in_sync(4, PARTITION)),
    )


# Without its file n4 finds epochs 0 and 2 in its log, so that epoch 0 seems to end where epoch 2 begins.
LD_12 = Scenario(
    id="LD-12",
    title="Compaction removes all records of an epoch, and logs diverge",
    question="Does n3 truncate its own records if n4 has neither a record of the next epoch nor its epoch file?",
    source=KIP_279 / "Impact of topic compaction",
    nodes=4,
    voters=3,
    layout="combined",
    story=compacted_epoch(kill("n4")),
    bad=Side(
        SETUPS,
        breaks=("unexpected-output",),
        story=compacted_epoch(corrupt_checkpoint("n4", "leader-epoch-checkpoint", "missing", log=PARTITION)),
    ),
    good=Side(SETUPS),
)

SCENARIOS = (LD_12,)
