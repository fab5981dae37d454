"""KIP-279: a follower truncates its log to what it has in common with its leader's, after fast leader changes.

Kafka before 4.0 with ZooKeeper has both rules: inter.broker.protocol.version 1.1 uses KIP-101's, 2.0 KIP-279's. The
KIP's brokers A and B are n1 and n2. In its first scenario n3 is the controller, so that no election waits for another.
The reference system plays the first scenario on brokers of a KRaft quorum, with each rule as a switch
(kip_279_kraft.py has the story, where A and B are n3 and n4).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    all_follow,
    in_sync,
    is_not_leader,
    replication_settled,
    session_lost,
)
from harness.model.faults.membership import elect
from harness.model.faults.requests import create_partition, produce
from harness.model.faults.rpc import CLOSE, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Deployment, Scenario, Setup, Side, on
from harness.model.story import DOWN, Step, heal, kill, seconds, sleep, start, wait_until
from harness.scenarios import kip_279_kraft as kraft
from harness.scenarios.expectations import log_end, logs_equal, truncation_rounds
from harness.scenarios.one_partition import KIP_279, PARTITION, SHORT_SESSIONS, TOPIC, dies, leads

PROTOCOL_VERSION = "inter.broker.protocol.version"
HIGH_WATERMARK, KIP_101, KIP_279_PAIR = "0.10.2", "1.1", "2.0"
"""Protocol versions: a follower asks nothing, or a leader answers with an offset, or with an epoch and an offset."""


def rule(protocol_version: str, others: Mapping[str, str] | None = None) -> Mapping[str, Setup]:
    """Brokers with the rule of this protocol version, and other properties."""
    return on(kafka="3.9.1", kafka_switches={PROTOCOL_VERSION: protocol_version, **(others or {})})


# What replicas send each other to copy records and to truncate; the controller's requests pass.
REPLICATION = RpcRule(
    "replication between n1 and n2",
    RpcMatch((Api.FETCH, Api.OFFSET_FOR_LEADER_EPOCH), "response", sources=(1, 2), targets=(1, 2)),
    CLOSE,
)


def leader_changes_twice(n: int) -> tuple[Step, ...]:
    """The KIP's Scenario 1: n1 alone has [11, 20] of epoch 1, n2 alone [11, n] of epoch 2, and n1 leads in epoch 3."""
    return (
        wait_until(ALL_FOLLOW_LEADER),
        kill("n1"),
        *dies(2),
        wait_until(session_lost(1)),
        wait_until(is_not_leader(1)),
        wait_until(is_not_leader(2)),
        start(DOWN),
        wait_until(all_follow(3)),
        create_partition(TOPIC, (2, 1)),
        leads(2),
        *dies(2),
        leads(1),
        start("n2"),
        wait_until(in_sync(2, PARTITION)),
        produce("n1", PARTITION, 11, acks="all"),
        intercept(REPLICATION),
        produce("n1", PARTITION, 10),
        elect("preferred"),
        leads(2),
        produce("n2", PARTITION, n - 10),
        *dies(2),
        leads(1),
        produce("n1", PARTITION, 10),
        heal(),
        wait_until(replication_settled(2, PARTITION)),
    )


def of_reference(
    truncation: str,
    story: tuple[Step, ...],
    others: Mapping[str, str] | None = None,
    node_rules: Mapping[int, str] | None = None,
) -> Mapping[str, Setup]:
    """The reference's brokers with this rule, or each with its own, other properties, and the story for them."""
    switches = {**SHORT_SESSIONS, kraft.TRUNCATION: truncation, **(others or {})}
    of_nodes = {node: {kraft.TRUNCATION: name} for node, name in (node_rules or {}).items()}
    return {"reference": Setup(switches=switches, deployment=Deployment("combined", 4, 3, story, of_nodes))}


def scenario_1(number: int, n: int, title: str, question: str, breaks: tuple[str, ...], mutant: str = "") -> Scenario:
    """One of the three cases of the KIP's Scenario 1, by the last offset that n2 appends in epoch 2.

    mutant: of the reference's bad side, where KIP-101's rule alone has no anomaly.
    """
    story = kraft.leader_changes_twice(n)
    mutants = {"reference.mutant": mutant} if mutant else {}
    bad, good = of_reference("kip-101", story, mutants), of_reference("kip-279", story)
    return Scenario(
        id=f"LD-{number:02}",
        title=title,
        question=question,
        source=KIP_279 / "Motivation, Scenario 1",
        nodes=4,
        layout="zookeeper",
        story=leader_changes_twice(n),
        bad=Side({**rule(KIP_101), **bad}, breaks=breaks),
        good=Side({**rule(KIP_279_PAIR), **good}, shows=(logs_equal,), never=(truncation_rounds(2),)),
    )


LD_01 = scenario_1(
    1,
    n=15,
    title="A follower never catches up, because its log ends inside a batch of its leader",
    question="Does n2, which has offsets 11 to 15 of another epoch, copy the leader's batch of offsets 11 to 20?",
    breaks=("replication-stuck",),
)
LD_02 = scenario_1(
    2,
    n=20,
    title="A follower is in sync although ten of its records differ from the leader's",
    question="Does n2, whose log is as long as the leader's was, notice that offsets 11 to 20 are of another epoch?",
    breaks=("diverged-logs",),
)
# The KIP expects that n2 truncates the whole batch [11, 25] and fetches from 11. Kafka 3.9.1 truncates it and fetches
# from 21, so offsets 11 to 20 are missing. The reference fetches from 11, unless a mutant does as Kafka 3.9.1.
LD_03 = scenario_1(
    3,
    n=25,
    title="A follower that truncates inside a batch lacks the records before it",
    question="Does n2, which truncates its batch of offsets 11 to 25 at 21, fetch offsets 11 to 20 again?",
    breaks=("diverged-logs", "log-hole"),
    mutant="fetches-from-leaders-offset",
)


# No leader stores its high watermark before it dies: what an unclean election loses is not the question.
UNCLEAN = {
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
    "replica.high.watermark.checkpoint.interval.ms": "600000",
}


def leads_while_the_other_is_down(node: int, other: int) -> list[Step]:
    """The other dies, the node starts, becomes the leader by an unclean election, and appends one record."""
    return [*dies(other), start(f"n{node}"), leads(node), produce(f"n{node}", PARTITION, 1)]


def unclean_leader_changes(leaders: int) -> tuple[Step, ...]:
    """n1 and n2 lead in turn, this many times in all, each while the other is down. Then n1 follows n2."""
    turns = [leads_while_the_other_is_down(*((2, 1) if turn % 2 else (1, 2))) for turn in range(1, leaders)]
    return (
        wait_until(ALL_FOLLOW_LEADER),
        create_partition(TOPIC, (1, 2)),
        leads(1),
        *dies(2),
        leads(1),
        produce("n1", PARTITION, 1),
        *(step for turn in turns for step in turn),
        start("n1"),
        wait_until(replication_settled(1, PARTITION)),
    )


UNCLEAN_4, UNCLEAN_6 = (kraft.unclean_leader_changes(leaders) for leaders in (4, 6))

LD_05 = Scenario(
    id="LD-05",
    title="Logs stay different at an offset after unclean elections in quick succession",
    question="Do n1 and n2 have the same record at offset 0 after each has led twice while the other was down?",
    source=KIP_279 / "Motivation, Scenario 2",
    nodes=3,
    layout="zookeeper",
    story=unclean_leader_changes(4),
    bad=Side(
        {**rule(KIP_101, UNCLEAN), **of_reference("kip-101", UNCLEAN_4, kraft.NEVER_STORED)}, breaks=("diverged-logs",)
    ),
    good=Side(
        {**rule(KIP_279_PAIR, UNCLEAN), **of_reference("kip-279", UNCLEAN_4, kraft.NEVER_STORED)},
        shows=(logs_equal, truncation_rounds(2)),
    ),
)

LD_07 = Scenario(
    id="LD-07",
    title="Logs stay different at several offsets after six unclean elections in quick succession",
    question="Does n1 find where its log diverges from n2's if neither knows any of the other's three epochs?",
    source=KIP_279 / "Rejected Alternatives, Alternative 2",
    nodes=3,
    layout="zookeeper",
    story=unclean_leader_changes(6),
    bad=Side(
        {**rule(KIP_101, UNCLEAN), **of_reference("kip-101", UNCLEAN_6, kraft.NEVER_STORED)}, breaks=("diverged-logs",)
    ),
    good=Side(
        {**rule(KIP_279_PAIR, UNCLEAN), **of_reference("kip-279", UNCLEAN_6, kraft.NEVER_STORED)},
        shows=(logs_equal, truncation_rounds(3)),
    ),
)


def protocol_versions(n1: str, n2: str) -> Mapping[int, Mapping[str, str]]:
    """The protocol version of each broker."""
    return {node: {PROTOCOL_VERSION: version} for node, version in ((1, n1), (2, n2))}


# The follower's version decides, because it chooses the version of its request. The leader answers either.
LD_13 = Scenario(
    id="LD-13",
    title="A follower that is not upgraded yet does not truncate to the end of the common log",
    question="Are the logs equal if one broker uses KIP-101's rule and the other KIP-279's, as during an upgrade?",
    source=KIP_279 / "Compatibility, Deprecation, and Migration Plan",
    nodes=3,
    layout="zookeeper",
    story=unclean_leader_changes(4),
    bad=Side(
        {
            **rule(KIP_279_PAIR, UNCLEAN),
            **of_reference("kip-279", UNCLEAN_4, kraft.NEVER_STORED, {3: "kip-101", 4: "kip-279"}),
        },
        breaks=("diverged-logs",),
        node_switches=protocol_versions(n1=KIP_101, n2=KIP_279_PAIR),
    ),
    good=Side(
        {
            **rule(KIP_101, UNCLEAN),
            **of_reference("kip-101", UNCLEAN_4, kraft.NEVER_STORED, {3: "kip-279", 4: "kip-101"}),
        },
        shows=(logs_equal, truncation_rounds(2)),
        node_switches=protocol_versions(n1=KIP_279_PAIR, n2=KIP_101),
    ),
)

OLD_FORMAT = {"log.message.format.version": "0.10.2"}
"""Brokers of protocol 0.10.2 write messages without leader epochs, so they truncate to the high watermark (KIP-101)."""

# n1 stores no high watermark before it dies, so it starts with 0. It cannot ask or fetch from its leader.
LD_06 = Scenario(
    id="LD-06",
    title="A follower truncates to its high watermark at startup, and acknowledged records are lost",
    question="Does n1 keep all 21 records if its leader fails after n1 was restarted?",
    source=KIP_279 / "Proposed Changes, Scenario 2",
    nodes=3,
    layout="zookeeper",
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        create_partition(TOPIC, (2, 1)),
        leads(2),
        wait_until(in_sync(1, PARTITION)),
        produce("n2", PARTITION, 11, acks="all"),
        produce("n2", PARTITION, 10, acks="all"),
        intercept(REPLICATION),
        *dies(1),
        start("n1"),
        wait_until(ALL_FOLLOW_LEADER),
        leads(2),
        sleep(seconds(3)),  # n1 truncates to its high watermark, which nothing outside shows
        *dies(2),
        leads(1),
        produce("n1", PARTITION, 1),
        heal(),
        wait_until(replication_settled(2, PARTITION)),
    ),
    bad=Side(
        {
            **rule(HIGH_WATERMARK, {**UNCLEAN, **OLD_FORMAT}),
            **of_reference("high-watermark", kraft.RESTARTS_CUT_OFF, kraft.NEVER_STORED),
        },
        never=(log_end(22),),
    ),
    good=Side(
        {
            **rule(KIP_279_PAIR, UNCLEAN),
            **of_reference("kip-279", kraft.RESTARTS_CUT_OFF, kraft.NEVER_STORED),
        },
        shows=(log_end(22), logs_equal),
    ),
)

SCENARIOS = (LD_01, LD_02, LD_03, LD_05, LD_06, LD_07, LD_13)
