"""Unclean recovery with the tool of KAFKA-20098, on the reference system: no release of Kafka has its RPCs.

Most stories begin as in unclean_recovery.py: n3 and n4 have 100 committed records and die; n1 has 90 of them, n2 50.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.conditions import ALL_FOLLOW_LEADER, BROKERS_LIVE, in_sync, leads_partition, partition_offline
from harness.model.faults.probe import ask, run_tool
from harness.model.faults.requests import create_partition
from harness.model.scenario import Deployment, Scenario, Side, on
from harness.model.story import LEADER, Step, heal, wait_until
from harness.scenarios.expectations import committed_lost, logs_equal
from harness.scenarios.one_partition import PARTITION, QUORUM_LED_BY_N1, TOPIC, leads
from harness.scenarios.unclean_recovery import BROKERS, LOSS, UNCLEAN_RECOVERY, all_return, elected
from harness.scenarios.unclean_recovery import loses as loses_on_all
from harness.scenarios.unclean_recovery_by_hand import OFFLINE

DESIGNATED = 2
"""The election type of ElectLeaders version 3."""

DURATION = ("--recovery-duration-ms", "3000")
"""n3 and n4 are down, so the tool waits for them to the end."""


def recover(*options: str, output: Sequence[str] = (), exit_code: int = 0, name: str) -> Step:
    """Run the tool for all partitions that are offline."""
    arguments = ["--bootstrap-server", "$n1_broker,$n2_broker", "--all-offline-partitions", *DURATION, *options]
    return run_tool("unclean-recovery", arguments, output=output, exit_code=exit_code, name=name)


ELECTS_N1 = recover("--automated-recovery", output=[r"t\s+0\s+elected\s+1", "1 elected"], name="a recovery")


def designate(leaders: Sequence[int] | None, error: str, name: str, election_type: int = DESIGNATED) -> Step:
    """Ask the controller for a designated election of t-0; error is of the partition."""
    topic = {"topic": TOPIC, "partitions": [0], "designated_leaders": leaders}
    return ask(
        LEADER,
        43,
        3,
        {"election_type": election_type, "topic_partitions": [topic], "timeout": 10_000},
        {"replica_election_results.0.partition_result.0.error_code": error},
        name=name,
    )


def malformed(leaders: Sequence[int] | None, name: str, election_type: int = DESIGNATED) -> Step:
    """Ask for an election with a list that does not fit; the request as a whole is refused."""
    topic = {"topic": TOPIC, "partitions": [0], "designated_leaders": leaders}
    values = {"election_type": election_type, "topic_partitions": [topic], "timeout": 10_000}
    return ask(LEADER, 43, 3, values, {"error_code": "invalid_request"}, name=name)


FENCED = designate([3], "eligible_leaders_not_available", "a broker that is fenced")
SECOND = designate([2], "election_not_needed", "a second operator")


def loses(exactly: int, mutant: str | None = None, story: Sequence[Step] = ()) -> Side:
    """All replicas are equal in the end, and this many committed records are lost."""
    switches = BROKERS if mutant is None else {**BROKERS, "reference.mutant": mutant}
    is_lost = (committed_lost(exactly),) if exactly else ()
    never, breaks = (committed_lost(exactly + 1),), LOSS if exactly else ()
    return Side(on(reference=switches), shows=(logs_equal, *is_lost), never=never, breaks=breaks, story=tuple(story))


def of_mutant(mutant: str, story: Sequence[Step], breaks: str = "unexpected-response") -> Side:
    """The controller accepts what it should refuse."""
    switches = {**BROKERS, "reference.mutant": mutant}
    return Side(on(reference=switches), breaks=(breaks,), story=tuple(story))


N2_LEADS = (
    wait_until(ALL_FOLLOW_LEADER),
    wait_until(BROKERS_LIVE),
    create_partition(TOPIC, (2, 1)),
    leads(2),
)
STILL_LEADS = wait_until(leads_partition(2, PARTITION), within=1)
UNCLEAN_ELECTION = ask(
    LEADER,
    43,
    2,
    {"election_type": 1, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout": 10_000},
    {"replica_election_results.0.partition_result.0.error_code": "election_not_needed"},
    listener="client",
    name="an unclean election of an online partition",
)
DESIGNATES_N1 = designate([1], "election_not_needed", "a designated election of an online partition")

UR_16 = Scenario(
    id="UR-16",
    title="A designated election replaces a leader that is online",
    question="Is an election refused for a partition that has a leader, and does that leader stay?",
    source=UNCLEAN_RECOVERY,
    nodes=3,
    voters=3,
    layout="combined",
    story=(*N2_LEADS, UNCLEAN_ELECTION, STILL_LEADS),
    bad=of_mutant("designates-online-partitions", (*N2_LEADS, DESIGNATES_N1, leads(1))),
    good=Side(
        on(
            reference={},
            kafka="newest 4",
            reference_deployment=Deployment(
                "combined", 3, 3, (*N2_LEADS, UNCLEAN_ELECTION, STILL_LEADS, DESIGNATES_N1, STILL_LEADS)
            ),
        )
    ),
)


def scenario(
    number: int, section: str, title: str, question: str, story: Sequence[Step], bad: Side | None, good: Side
) -> Scenario:
    """A row that only the reference can play."""
    return Scenario(
        id=f"UR-{number:02}",
        title=title,
        question=question,
        source=UNCLEAN_RECOVERY / section,
        nodes=4,
        voters=3,
        layout="combined",
        story=tuple(story),
        bad=bad,
        good=good,
    )


UR_10 = scenario(
    10,
    "Public Interfaces",
    "Showing the replicas changes the cluster",
    "Does the tool show the log ends 90 and 50, and leave the partition offline?",
    (
        *OFFLINE,
        recover(
            "--show-replica-info",
            output=[r"t\s+0\s+1\s+\d+.*\s90\s+yes", r"t\s+0\s+2\s+\d+.*\s50\b", "1 chosen"],
            name="the replicas' logs",
        ),
        wait_until(partition_offline(PARTITION), within=1),
        *all_return(4),
    ),
    None,
    loses(0),
)

UR_17 = scenario(
    17,
    "Proposed Changes",
    "A node that is not a live replica is designated",
    "Are a broker without a replica, a fenced one, and one that does not exist refused as leaders?",
    (
        *OFFLINE,
        designate([9], "invalid_request", "a broker that does not exist"),
        FENCED,
        wait_until(partition_offline(PARTITION), within=1),
        *all_return(4),
    ),
    of_mutant("designates-fenced-brokers", (*OFFLINE, FENCED, heal())),
    loses(0),
)

UR_18 = scenario(
    18,
    "Proposed Changes",
    "A second run of the tool changes the leader again",
    "Does a second operator who designates another replica find the partition online, and a second run too?",
    (
        *OFFLINE,
        ELECTS_N1,
        leads(1),
        SECOND,
        recover("--automated-recovery", name="a second run"),
        wait_until(leads_partition(1, PARTITION), within=1),
        *all_return(1),
    ),
    of_mutant("designates-online-partitions", (*OFFLINE, ELECTS_N1, leads(1), SECOND, heal())),
    loses(10),
)

UR_19 = scenario(
    19,
    "Proposed Changes",
    "A partition that cannot be recovered is not reported",
    "Does the tool recover the partition with live replicas, name the other one, and exit with an error?",
    (
        *QUORUM_LED_BY_N1,
        create_partition("u", (4, 3), {"min.insync.replicas": "1"}),
        *OFFLINE,
        recover(
            "--automated-recovery",
            exit_code=1,
            output=[r"t\s+0\s+elected\s+1", r"splitbrain: u-0: failed: no replica reported its log"],
            name="a recovery of two partitions",
        ),
        leads(1),
        *all_return(1),
        wait_until(in_sync(3, "u-0")),
    ),
    None,
    loses(10),
)

RECOVERED = (*OFFLINE, ELECTS_N1, leads(1), *all_return(1))

UR_24 = Scenario(
    id="UR-24",
    title="The KIP's test plan: an unclean election instead of the tool loses more records",
    question="Is the partition offline, then led by the longest live log, and is the loss what that log lacks?",
    source=UNCLEAN_RECOVERY / "Test Plan",
    nodes=5,
    voters=3,
    layout="combined",
    story=RECOVERED,
    bad=loses_on_all(50, story=(*OFFLINE, *elected(2), *all_return(2))),
    good=loses(10),
)

UR_28 = scenario(
    28,
    "Designated Leader Elections",
    "A malformed list of designated leaders elects a wrong one",
    "Is a request rejected whose list is missing, too long, or of another election?",
    (
        *OFFLINE,
        malformed(None, "no list"),
        malformed([1, 2], "two leaders for one partition"),
        malformed([1], "a list for an unclean election", election_type=1),
        wait_until(partition_offline(PARTITION), within=1),
        *all_return(4),
    ),
    None,
    loses(0),
)

SCENARIOS = (UR_10, UR_16, UR_17, UR_18, UR_19, UR_24, UR_28)
