"""Defects of released Kafka whose cause is a lost election: a node's own vote counts again when it restarts.

Contains EX-04, EX-12 and EX-14. The other defects are in kafka_defects.py.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, ANY_LOST_ELECTION, all_follow
from harness.model.faults.disks import corrupt_checkpoint
from harness.model.faults.membership import await_membership, remove_voter
from harness.model.faults.requests import create_topic
from harness.model.faults.rpc import DROP, HOLD, Api, RpcMatch, RpcRule, delay, intercept
from harness.model.scenario import Deployment, Scenario, Side, Source, on
from harness.model.story import (
    DOWN,
    LOST_THE_ELECTION,
    Step,
    change_version,
    heal,
    kill,
    mark,
    pause,
    restart,
    resume,
    seconds,
    sleep,
    start,
    wait_until,
)
from harness.scenarios.kafka_defects import KIP_853, N1_LEADS
from harness.scenarios.kip_642_reference import BY_KIP_853

SPLIT_VOTE = (
    RpcRule("vote requests of n2 to n1", RpcMatch((Api.VOTE,), sources=("n2",), targets=("n1",)), delay(900)),
    RpcRule("vote requests", RpcMatch((Api.VOTE,)), delay(250)),
    RpcRule("votes", RpcMatch((Api.VOTE,), "response", sources=("n2", "n3"), targets=("n2", "n3")), delay(400)),
)
"""Both followers become candidates before either hears of the other's epoch, so both vote for themselves.

n1 hears of n3 first and votes for it, so n2 follows n3 before its own request reaches n1.
"""

CALM = {"metadata.max.idle.interval.ms": "0", "controller.quorum.election.timeout.ms": "3000"}
"""The leader appends nothing while it resumes, so its log is not longer than the candidates', and it grants a vote. The
candidates wait for votes longer than these are delayed."""

TWO_CANDIDATES = (
    *N1_LEADS,
    sleep(seconds(3)),  # all logs are equal: nothing is written
    mark("all nodes pause, and both followers stand for election"),
    intercept(*SPLIT_VOTE),
    pause("n1"),
    pause("n2"),
    pause("n3"),
    sleep(seconds(4)),
    resume("n2"),
    resume("n3"),
    sleep(seconds(0.8)),
    resume("n1"),
    wait_until(ANY_LOST_ELECTION),
    heal(),
    wait_until(ALL_FOLLOW_LEADER),
    sleep(seconds(2)),  # no BeginQuorumEpoch is open, or its late response could end the leader (EX-03)
)

EX_04 = Scenario(
    id="EX-04",
    title="A voter that lost an election and was removed can never start again",
    question="Does a node that was a candidate start again after its removal from the voters?",
    source=KIP_853 / "Voter changes",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        *TWO_CANDIDATES,
        mark("a follower that lost is removed and restarted"),
        remove_voter(LOST_THE_ELECTION),
        await_membership(),
        *restart(LOST_THE_ELECTION),
        sleep(seconds(6)),
        start(DOWN),
        sleep(seconds(6)),
        mark("without its quorum-state it starts"),
        corrupt_checkpoint(DOWN, "quorum-state", "missing"),
        start(DOWN),
        sleep(seconds(6)),
    ),
    bad=Side(
        on(
            kafka="4.3.1",
            kafka_switches=CALM,
            reference={**BY_KIP_853, **CALM, "reference.mutant": "own-vote-restored-before-leader"},
        ),
        breaks=("server-cannot-start",),
    ),
    good=Side(on(kafka="3.9.1", kafka_switches=CALM, reference={**BY_KIP_853, **CALM})),
)


FETCHES = RpcMatch((Api.FETCH,), sources=("n2",), targets=("n3",))
DIVERGENCE = "diverged-logs|log-hole|server-exited|illegal-transition"
"""What follows: the logs of n1 and n3 keep what n3 wrote, or lack a record; n2 exits when it hears of n3."""


def _restarts_as_second_leader(*then: Step) -> tuple[Step, ...]:
    """n1 and n3 leave the voters; n2 restarts when it has the last record of both, and n3 does not know that it has."""
    return (
        *TWO_CANDIDATES,
        mark("n1 is removed, and then n3 removes itself"),
        remove_voter("n1"),
        await_membership(),
        intercept(RpcRule("fetches wait", FETCHES, HOLD)),
        sleep(seconds(1)),
        remove_voter("n3", is_answered=False),
        mark("n2 gets the record, and restarts before n3 hears of it"),
        intercept(RpcRule("later fetches are lost", FETCHES, DROP)),
        create_topic("n3", "unconfirmed", partitions=1, is_answered=False),
        kill("n2"),
        start("n2"),
        sleep(seconds(2)),
        *then,
        sleep(seconds(6)),
        heal(),
        sleep(seconds(5)),
    )


SECOND_WRITES = Deployment("combined", 3, 3, _restarts_as_second_leader(create_topic("n2", "confirmed", partitions=3)))

# n2 has lost the election of n3's epoch. By its log it is the only voter, and n3, whom its quorum-state names as the
# leader, is none; so it is Candidate of that epoch again, with its own vote, which is a majority. Simulation found it.
# The reference's log is truncated between batches, so there n2 writes more than n3, and nothing is truncated.
EX_12 = Scenario(
    id="EX-12",
    title="A voter that lost an election becomes a second leader of the same epoch when it restarts",
    question="Does n2, the last voter, lead n3's epoch after a restart while n3 leads it?",
    source=KIP_853 / "Voter changes",
    nodes=3,
    voters=3,
    layout="combined",
    story=_restarts_as_second_leader(),
    bad=Side(
        on(
            kafka="4.3.1",
            kafka_switches=CALM,
            reference={**BY_KIP_853, **CALM, "reference.mutant": "own-vote-restored-before-leader"},
            reference_deployment=SECOND_WRITES,
        ),
        breaks=("two-leaders-in-one-epoch", DIVERGENCE),
    ),
    good=Side(on(kafka="3.9.1", kafka_switches=CALM, reference={**BY_KIP_853, **CALM})),
)

NO_LEADER_IS_KNOWN = (
    RpcRule("fetches of n1", RpcMatch((Api.FETCH,), sources=("n1",)), DROP),
    RpcRule(
        "requests of the leader",
        RpcMatch((Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH), targets=("n1", "n2")),
        DROP,
        may_be_idle=True,
    ),
    RpcRule("votes of the leader", RpcMatch((Api.VOTE,), "response", sources=("n3",)), DROP, may_be_idle=True),
)
"""n2 asks n1 for its vote while neither has heard of the leader."""

FORMER_RELEASE = "kafka:3.9.1"

# A follower's file has its vote beside the leader since 4.0, and 3.9 asks for the vote first. So n1 forgets the leader,
# and n2, which has lost the election, is Candidate of the leader's epoch. n4 runs 3.9.1 from the beginning, so that the
# quorum is formatted for it. Simulated upgrades found it.
EX_14 = Scenario(
    id="EX-14",
    title="A voter that lost an election on 4.x exits when it is downgraded to 3.9",
    question="Can two voters start on 3.9 after they followed the winner of an election on 4.x?",
    source=Source("KIP-996") / "FollowerState changes",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *TWO_CANDIDATES,
        mark("n1 and n2 are downgraded at once"),
        intercept(*NO_LEADER_IS_KNOWN),
        change_version("n1", FORMER_RELEASE),
        change_version("n2", FORMER_RELEASE),
        sleep(seconds(6)),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    bad=Side(on(kafka="4.3.1", kafka_nodes={4: "3.9.1"}, kafka_switches=CALM), breaks=("server-exited",)),
    good=Side(
        on(kafka="4.3.1", kafka_nodes={4: "3.9.1"}, kafka_switches=CALM),
        story=(
            *TWO_CANDIDATES,
            mark("n1 and n2 are downgraded one after the other"),
            change_version("n1", FORMER_RELEASE),
            wait_until(all_follow(3)),
            change_version("n2", FORMER_RELEASE),
            wait_until(all_follow(3)),
            sleep(seconds(3)),
        ),
    ),
)

SCENARIOS = (EX_04, EX_12, EX_14)
