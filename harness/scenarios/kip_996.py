"""KIP-996, Pre-Vote: servers that disrupt a healthy quorum, and that no longer can."""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN, is_not_leader
from harness.model.faults.rpc import HOLD, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import FOLLOWERS, cut, for_, heal, once, one, only_links, seconds
from harness.scenarios.expectations import epochs_burned, leader_changes, leader_deposed

KIP_996 = Source("KIP-996")
WITHOUT_PRE_VOTE = {"reference.pre_vote": "false"}

PV_01 = Scenario(
    id="PV-01",
    title="A follower that was cut off deposes the leader when it comes back",
    question="Does a follower that rejoins after 12 s depose a leader that served the majority all along?",
    source=KIP_996 / "Disruptive server scenarios",
    nodes=3,
    story=(
        once(ALL_FOLLOW_LEADER),
        cut(one(FOLLOWERS)),
        for_(seconds(12)),
        heal(),
        once(LEADER_KNOWN),
        for_(seconds(5)),
    ),
    bad=Side(on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(leader_deposed, epochs_burned(at_least=2))),
    good=Side(on(reference={}, kafka="newest 4"), never=(leader_deposed, epochs_burned(at_least=1))),
)

PV_02 = Scenario(
    id="PV-02",
    title="Two leaders take turns for ever where two followers each see only one of them",
    question="With links 1-2, 1-3, 2-3, 2-4 and 3-5 alone, does the leader, 3, stay?",
    source=KIP_996 / "Disruptive server scenarios",
    nodes=5,
    story=(
        once(ALL_FOLLOW_LEADER),
        only_links({(1, 2), (1, 3), (2, 3), (2, 4), (3, 5)}, leader_as=3),
        for_(seconds(40)),
        heal(),
        once(LEADER_KNOWN),
        for_(seconds(3)),
    ),
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(leader_changes(at_least=3), epochs_burned(at_least=6))
    ),
    good=Side(on(reference={}, kafka="newest 4"), never=(leader_deposed, epochs_burned(at_least=1))),
)

FETCHES_OF_A_FOLLOWER = RpcRule("fetch answers", RpcMatch((Api.FETCH,), "response", targets=(FOLLOWERS,)), HOLD)
HICCUP = (intercept(FETCHES_OF_A_FOLLOWER), for_(seconds(2.6)), heal(), once(LEADER_KNOWN), for_(seconds(4)))

PV_03 = Scenario(
    id="PV-03",
    title="Fetch requests that time out now and then force one election each",
    question="Does a follower whose fetch answers are late for once disturb the quorum?",
    source=KIP_996 / "Disruptive server scenarios",
    nodes=3,
    story=(once(ALL_FOLLOW_LEADER), *HICCUP, *HICCUP, *HICCUP),
    bad=Side(on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(epochs_burned(at_least=2),)),
    good=Side(on(reference={}, kafka="newest 4"), never=(leader_deposed, epochs_burned(at_least=1))),
)

LOW = "controller.quorum.fetch.timeout.ms"

PV_04 = Scenario(
    id="PV-04",
    title="A voter whose fetch timeout is below the leader's long poll inflates the epoch for ever",
    question="Is there peace with a fetch timeout of 100 ms on n3, where an idle leader answers after 500 ms?",
    source=KIP_996 / "Disruptive server scenarios",
    nodes=3,
    story=(once(is_not_leader(3)), for_(seconds(15))),
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"),
        shows=(epochs_burned(at_least=6),),
        node_switches={3: {LOW: "100"}},
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        never=(leader_deposed, epochs_burned(at_least=1)),
        node_switches={3: {LOW: "100"}},
    ),
)

SCENARIOS = (PV_01, PV_02, PV_03, PV_04)
