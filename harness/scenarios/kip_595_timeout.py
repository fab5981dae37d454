"""KIP-595, leader progress timeout: what an old leader does from the loss of its majority until it follows again.

Contains the scenarios about that node. What the others see of it is in kip_595.py.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, BROKERS_LIVE, LEADER_KNOWN, all_follow, is_not_leader
from harness.model.faults.requests import create_partition
from harness.model.measures import Event, enters
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, on
from harness.model.story import cut, cut_links, heal, heal_links, lead, mark, seconds, sleep, wait_until
from harness.scenarios.expectations import grows, happens, later_than
from harness.scenarios.kip_595 import KIP_595
from harness.scenarios.kip_996 import WITHOUT_PRE_VOTE
from harness.scenarios.kip_996_elections import CATCH_UP, N2_FIRST

N2_RESIGNS = enters(State.RESIGNED, node=2)
N2_IS_CANDIDATE = enters(State.CANDIDATE, node=2)
CUT = mark("n2 is cut off")
LEADER_IS_CUT_OFF = (wait_until(all_follow(2)), CATCH_UP, CUT, cut("n2"))
PROGRESS_TIMEOUT = KIP_595 / "Leader Progress Timeout"

# Kafka resigns after one and a half fetch timeouts, 3 s. It checks when a fetch could have arrived, a little later.
LP_02 = Scenario(
    id="LP-02",
    title="A leader does not notice that a majority no longer fetches from it",
    question="Does n2 resign 3 s (one and a half fetch timeouts) after it was cut off?",
    source=PROGRESS_TIMEOUT,
    nodes=3,
    alone=True,
    story=(*LEADER_IS_CUT_OFF, sleep(seconds(8)), heal(), wait_until(LEADER_KNOWN), sleep(seconds(2))),
    bad=Side(
        on(reference={"reference.check_quorum": "false"}, kafka="3.6.2"),
        never=(happens(N2_RESIGNS, until="heal"),),
        node_switches=N2_FIRST,
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(later_than(2500, CUT.value, N2_RESIGNS),),
        never=(later_than(4000, CUT.value, N2_RESIGNS),),
        node_switches=N2_FIRST,
    ),
)

LP_03 = Scenario(
    id="LP-03",
    title="An old leader that reaches no voter increments its epoch without bound",
    question="By how much does n2's epoch increase while n2 is cut off for 30 s?",
    source=PROGRESS_TIMEOUT,
    nodes=3,
    story=(*LEADER_IS_CUT_OFF, sleep(seconds(30)), heal(), wait_until(LEADER_KNOWN), sleep(seconds(2))),
    bad=Side(on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(grows(2, at_least=6),), node_switches=N2_FIRST),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(grows(2, at_least=1),),
        never=(grows(2, at_least=2),),
        node_switches=N2_FIRST,
    ),
)

LP_04 = Scenario(
    id="LP-04",
    title="An old leader does not step down when a response names a leader of a newer epoch",
    question="How long after the link to the new leader's quorum heals does n2 follow the new leader?",
    source=PROGRESS_TIMEOUT,
    nodes=3,
    story=(
        *LEADER_IS_CUT_OFF,
        wait_until(is_not_leader(2)),
        sleep(seconds(4)),
        mark("n2 reaches n1 and n3"),
        heal_links([(1, 2), (2, 1), (3, 2), (2, 3)]),
        sleep(seconds(4)),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(happens(enters(State.FOLLOWER, node=2), since="n2 reaches n1 and n3"),),
        never=(later_than(3000, "n2 reaches n1 and n3", enters(State.FOLLOWER, node=2)),),
        node_switches=N2_FIRST,
    ),
)

LP_06 = Scenario(
    id="LP-06",
    title="An old leader that cannot win an election gives up or never rejoins",
    question="Does n2 keep trying to win an election while it is cut off, and follow the new leader afterwards?",
    source=PROGRESS_TIMEOUT,
    nodes=3,
    story=(
        *LEADER_IS_CUT_OFF,
        sleep(seconds(20)),
        mark("n2 is reachable"),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(5)),
    ),
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"),
        shows=(happens(N2_IS_CANDIDATE, at_least=4, until="heal"),),
        node_switches=N2_FIRST,
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(
            happens(enters(State.PROSPECTIVE, node=2), at_least=4, until="heal"),
            happens(enters(State.FOLLOWER, node=2), since="n2 is reachable"),
        ),
        never=(happens(N2_IS_CANDIDATE, until="heal"),),
        node_switches=N2_FIRST,
    ),
)

TOPIC_IS_CREATED = "a topic is created"
N4_KNOWS = Event("observations", "partitions that n4 reports", (("kind", "partition"), ("node", 4)))

N4_IS_A_BROKER = {4: {"process.roles": "broker"}}

# n4 fetches from n1 until that resigns, although it could reach the other voters. Kafka 3.6 leaders never resign.
LP_09 = Scenario(
    id="LP-09",
    title="A broker serves metadata of a partitioned leader for an unbounded time",
    question="How long after its creation does n4, which fetched from the old leader n1 until then, know a topic?",
    source=PROGRESS_TIMEOUT,
    nodes=4,
    layout="combined",
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        lead("n1"),
        wait_until(all_follow(1)),
        wait_until(BROKERS_LIVE),
        cut_links([(1, 2), (2, 1), (1, 3), (3, 1)]),
        wait_until(is_not_leader(1)),
        mark(TOPIC_IS_CREATED),
        create_partition("t", (2, 3)),
        sleep(seconds(8)),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    bad=Side(
        on(kafka="3.6.2"),
        never=(happens(N4_KNOWS, since=TOPIC_IS_CREATED, until="heal"),),
        node_switches=N4_IS_A_BROKER,
    ),
    good=Side(
        on(kafka="newest 4"),
        shows=(happens(N4_KNOWS, since=TOPIC_IS_CREATED, until="heal"),),
        never=(later_than(6000, TOPIC_IS_CREATED, N4_KNOWS),),
        node_switches=N4_IS_A_BROKER,
    ),
)

SCENARIOS = (LP_02, LP_03, LP_04, LP_06, LP_09)
