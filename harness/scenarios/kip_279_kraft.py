"""KIP-279 with KRaft, whose followers truncate by the answers to their fetches instead of OffsetForLeaderEpoch.

No release with KRaft has the earlier rules, so these scenarios have good sides only: the stories of
harness/scenarios/kip_279.py, whose ids they have with a K, end with equal logs. The KIP's brokers A and B are n3 and
n4. n1 leads the quorum, whose other voters are n2 and n3; n1 and n2 are a majority while n3 is down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    BROKERS_LIVE,
    broker_live,
    in_sync,
    replication_settled,
    stored_high_watermark,
)
from harness.model.faults.membership import elect
from harness.model.faults.requests import create_partition, produce
from harness.model.faults.rpc import CLOSE, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Expectation, Scenario, Side, on
from harness.model.story import ALL, DOWN, Step, heal, kill, seconds, sleep, start, wait_until
from harness.scenarios.expectations import log_end, logs_equal, truncation_rounds
from harness.scenarios.one_partition import KIP_279, PARTITION, QUORUM_LED_BY_N1, SHORT_SESSIONS, TOPIC, dies, leads

NEVER_STORED = {"replica.high.watermark.checkpoint.interval.ms": "600000"}
"""No leader stores its high watermark before it dies: what an unclean election loses is not the question."""
TRUNCATION = "reference.truncation"
"""The rule by which followers of the reference truncate."""

SOON_STORED = {"replica.high.watermark.checkpoint.interval.ms": "200"}

# Nobody fetches the quorum's log from n3 or n4, since n1 leads.
REPLICATION = RpcRule(
    "replication between n3 and n4",
    RpcMatch((Api.FETCH, Api.OFFSET_FOR_LEADER_EPOCH), "response", sources=(3, 4), targets=(3, 4)),
    CLOSE,
)


def leader_changes_twice(n: int) -> tuple[Step, ...]:
    """The KIP's Scenario 1: n3 alone has [11, 20], n4 alone [11, n] of the next epoch, and n3 leads after that."""
    return (
        *QUORUM_LED_BY_N1,
        create_partition(TOPIC, (4, 3), {"min.insync.replicas": "1"}),
        leads(4),
        *dies(4),
        leads(3),
        start("n4"),
        wait_until(in_sync(4, PARTITION)),
        produce("n3", PARTITION, 11, acks="all"),
        intercept(REPLICATION),
        produce("n3", PARTITION, 10),
        elect("preferred", PARTITION),
        leads(4),
        produce("n4", PARTITION, n - 10),
        *dies(4),
        leads(3),
        produce("n3", PARTITION, 10),
        heal(),
        wait_until(replication_settled(4, PARTITION)),
    )


def unclean_leader_changes(leaders: int, after: Mapping[int, Step] | None = None) -> tuple[Step, ...]:
    """n3 and n4 lead in turn, this many times in all, each while the other is down. Then n3 follows n4.

    after maps the number of a turn, n3's first being 0, to a step that follows its record.
    """
    after = after or {}
    configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    story = [*QUORUM_LED_BY_N1, create_partition(TOPIC, (3, 4), configs), leads(3), *dies(4), leads(3)]
    story += [produce("n3", PARTITION, 1), *_at(0, after)]
    for turn in range(1, leaders):
        node, other = (4, 3) if turn % 2 else (3, 4)
        story += [*dies(other), start(f"n{node}"), leads(node), produce(f"n{node}", PARTITION, 1)]
        story += _at(turn, after)
    return (*story, start("n3"), wait_until(replication_settled(3, PARTITION)))


RESTARTS_CUT_OFF = (
    *QUORUM_LED_BY_N1,
    create_partition(TOPIC, (4, 3), {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}),
    leads(4),
    wait_until(in_sync(3, PARTITION)),
    produce("n4", PARTITION, 11, acks="all"),
    produce("n4", PARTITION, 10, acks="all"),
    intercept(REPLICATION),
    *dies(3),
    start("n3"),
    wait_until(broker_live(3)),
    *dies(4),
    leads(3),
    produce("n3", PARTITION, 1),
    heal(),
    wait_until(replication_settled(4, PARTITION)),
)
"""The KIP's Scenario 2: n3 starts without the high watermark that it had, cannot ask n4, and leads when that dies."""


def _at(turn: int, after: Mapping[int, Step]) -> list[Step]:
    return [after[turn]] if turn in after else []


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario with KRaft: its text, its story, how its logs end, and other properties of its brokers.

    letter_breaks: what the same story breaks on the reference by KIP-279's letter. Without it the scenario is Kafka's
    alone: kip_279.py plays the story on the reference, with both rules.
    """

    id: str
    title: str
    question: str
    section: str
    story: tuple[Step, ...]
    shows: Sequence[Expectation] = ()
    never: Sequence[Expectation] = ()
    switches: Mapping[str, str] | None = None
    breaks: Sequence[str] = ()
    letter_breaks: Sequence[str] = ()

    def scenario(self) -> Scenario:
        """The scenario, whose logs are equal in the end."""
        switches = {**SHORT_SESSIONS, **(self.switches or {})}
        by_rule = {rule: {**switches, TRUNCATION: rule} for rule in ("kip-279-letter", "kip-279")}
        is_on_reference = bool(self.letter_breaks)
        reference = by_rule["kip-279"] if is_on_reference else None
        setups = on(reference=reference, kafka="newest 4", kafka_switches=switches)
        breaks = tuple(self.letter_breaks)
        letter = Side(on(reference=by_rule["kip-279-letter"]), breaks=breaks, may_break=tuple(self.breaks))
        bad = letter if is_on_reference else None
        return Scenario(
            id=self.id,
            title=self.title,
            question=self.question,
            source=KIP_279 / self.section,
            nodes=4,
            voters=3,
            layout="combined",
            story=self.story,
            bad=bad,
            good=Side(setups, shows=(logs_equal, *self.shows), never=tuple(self.never), breaks=tuple(self.breaks)),
        )


def of_scenario_1(number: int, n: int) -> Case:
    """A case of the KIP's Scenario 1, by the last offset that n4 appends in its epoch."""
    return Case(
        id=f"LD-{number:02}K",
        title=f"With KRaft a follower truncates offsets 11 to {n} of another epoch, and copies the leader's",
        question=f"Does n4, which has offsets 11 to {n} of another epoch, truncate to 11 in one round?",
        section="Motivation, Scenario 1",
        story=leader_changes_twice(n),
        shows=(log_end(31), truncation_rounds(1)),
        never=(log_end(32), truncation_rounds(2)),
    )


def of_scenario_2(number: int, leaders: int) -> Case:
    """Unclean elections in quick succession, which no high watermark has seen."""
    return Case(
        id=f"LD-{number:02}K",
        title=f"With KRaft logs become equal after {leaders} unclean elections in quick succession",
        question="Does n3 find the end of what it has in common with n4, which knows none of its epochs?",
        section="Motivation, Scenario 2" if leaders == 4 else "Rejected Alternatives, Alternative 2",
        story=unclean_leader_changes(leaders),
        shows=(log_end(leaders // 2), truncation_rounds(leaders // 2)),
        never=(log_end(leaders // 2 + 1), truncation_rounds(leaders // 2 + 1)),
        switches=NEVER_STORED,
    )


LD_21 = Case(
    id="LD-21",
    title="A follower truncates below its high watermark where its leader's log differs",
    question="Does n3, which stored a high watermark above 0, truncate to 0 or keep a record that n4 does not have?",
    section="Proposed Changes, Scenario 3",
    story=unclean_leader_changes(4, after={0: wait_until(stored_high_watermark(3, PARTITION))}),
    shows=(log_end(2), truncation_rounds(2)),
    never=(log_end(3), truncation_rounds(3)),
    switches=SOON_STORED,
    breaks=("truncated-below-high-watermark",),
    letter_breaks=("diverged-logs",),
)

KILLED = ("n1", "n2", "n3", "n1", "n3", "n2", ALL)


def kills(nodes: Sequence[str]) -> tuple[Step, ...]:
    """These nodes are killed and started, one after another, under load."""
    steps = [(sleep(seconds(3)), kill(who), sleep(seconds(4)), start(DOWN), wait_until(BROKERS_LIVE)) for who in nodes]
    story = [step for each in steps for step in each]
    return (wait_until(ALL_FOLLOW_LEADER), wait_until(BROKERS_LIVE), *story, sleep(seconds(5)))


ONE_IN_SYNC = {**SHORT_SESSIONS, "min.insync.replicas": "1"}

LD_19 = Scenario(
    id="LD-19",
    title="Logs match after leaders are killed at random under load with acks=1",
    question="Do the logs of all replicas agree after every leader lost records that only it had?",
    source=KIP_279 / "Proposed Changes",
    nodes=3,
    layout="combined",
    workload="log",
    story=kills(KILLED),
    full=kills(KILLED * 20),  # half an hour
    good=Side(
        on(reference=ONE_IN_SYNC, kafka="newest 4", kafka_switches=ONE_IN_SYNC),
        may_break=("lost-write",),
        workload_options={"acks": "1", "idempotence": "false"},
    ),
)

SCENARIOS = (
    *(of_scenario_1(number, n).scenario() for number, n in ((1, 15), (2, 20), (3, 25))),
    *(of_scenario_2(number, leaders).scenario() for number, leaders in ((5, 4), (7, 6))),
    LD_19,
    LD_21.scenario(),
)
