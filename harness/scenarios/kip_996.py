"""KIP-996, Pre-Vote: disruptive servers, which Pre-Vote must keep from deposing a healthy leader."""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN, is_not_leader
from harness.model.faults.rpc import HOLD, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import FOLLOWERS, cut, heal, one, only_links, seconds, sleep, wait_until
from harness.scenarios.expectations import epochs_burned, leader_changes, leader_deposed

KIP_996 = Source("KIP-996")
WITHOUT_PRE_VOTE = {"reference.pre_vote": "false"}

PV_01 = Scenario(
    id="PV-01",
    title="A partitioned follower deposes the leader when it rejoins",
    question="Does a follower that rejoins after 12 s depose a leader that kept its majority?",
    source=KIP_996 / "Disruptive server scenarios",
    nodes=3,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        cut(one(FOLLOWERS)),
        sleep(seconds(12)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(5)),
    ),
    bad=Side(on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(leader_deposed, epochs_burned(at_least=2))),
    good=Side(on(reference={}, kafka="newest 4"), never=(leader_deposed, epochs_burned(at_least=1))),
)

PV_02 = Scenario(
    id="PV-02",
    title="Leadership alternates between two nodes that each reach a voter the other cannot",
    question="Does leader n3 stay leader if only the links 1-2, 1-3, 2-3, 2-4 and 3-5 are up?",
    source=KIP_996 / "Disruptive server scenarios",
    nodes=5,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        only_links({(1, 2), (1, 3), (2, 3), (2, 4), (3, 5)}, leader_as=3),
        sleep(seconds(40)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
    ),
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(leader_changes(at_least=3), epochs_burned(at_least=6))
    ),
    good=Side(on(reference={}, kafka="newest 4"), never=(leader_deposed, epochs_burned(at_least=1))),
)

HELD_FETCH_RESPONSES = RpcRule("fetch responses", RpcMatch((Api.FETCH,), "response", targets=(FOLLOWERS,)), HOLD)
LATE_FETCH_RESPONSES = (
    intercept(HELD_FETCH_RESPONSES),
    sleep(seconds(2.6)),
    heal(),
    wait_until(LEADER_KNOWN),
    sleep(seconds(4)),
)

PV_03 = Scenario(
    id="PV-03",
    title="Each fetch timeout of a follower forces an election",
    question="Does a follower whose fetch responses are delayed three times depose the leader?",
    source=KIP_996 / "Disruptive server scenarios",
    nodes=3,
    story=(wait_until(ALL_FOLLOW_LEADER), *LATE_FETCH_RESPONSES * 3),
    bad=Side(on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(epochs_burned(at_least=3),)),
    good=Side(on(reference={}, kafka="newest 4"), never=(leader_deposed, epochs_burned(at_least=1))),
)

FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"

PV_04 = Scenario(
    id="PV-04",
    title="A voter with a fetch timeout below the leader's maximum fetch wait inflates the epoch indefinitely",
    question="Is the quorum stable if n3 has a fetch timeout of 100 ms and an idle leader responds after 500 ms?",
    source=KIP_996 / "Disruptive server scenarios",
    nodes=3,
    story=(wait_until(is_not_leader(3)), sleep(seconds(15))),
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"),
        shows=(epochs_burned(at_least=6),),
        node_switches={3: {FETCH_TIMEOUT: "100"}},
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        never=(leader_deposed, epochs_burned(at_least=1)),
        node_switches={3: {FETCH_TIMEOUT: "100"}},
    ),
)

SCENARIOS = (PV_01, PV_02, PV_03, PV_04)
