"""KIP-595, the tool that describes a quorum: kafka-metadata-quorum, as an operator runs it.

On the reference system, the tool is that of the newest Kafka that is installed.
"""

from __future__ import annotations

from typing import Any

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN, all_follow
from harness.model.faults.probe import run_tool
from harness.model.faults.rpc import intercept
from harness.model.scenario import Scenario, Side, on
from harness.model.story import Step, heal, kill, seconds, sleep, wait_until
from harness.scenarios.kip_595 import KIP_595
from harness.scenarios.kip_996 import FETCH_TIMEOUT
from harness.scenarios.kip_996_elections import CATCH_UP, N2_FIRST, drop_votes, merged

TOOL = "kafka-metadata-quorum"
QUORUM = ("--bootstrap-controller", "$controllers")
GOOD = on(reference={}, kafka="newest 4")
SETTLED = (wait_until(ALL_FOLLOW_LEADER), CATCH_UP)


def describe(*options: str, name: str, **expected: Any) -> Step:
    """Run `describe` with these options, by way of the controllers; expected are arguments of run_tool."""
    return run_tool(TOOL, [*QUORUM, "describe", *options], name=name, **expected)


STATUS = (
    r"LeaderId:\s+$leader$",
    r"LeaderEpoch:\s+$epoch$",
    r"HighWatermark:\s+\d+$",
    r"MaxFollowerLag:\s+\d+$",
    r"MaxFollowerLagTimeMs:\s+-?\d+$",
    r"CurrentVoters:\s+\[.*1.*2.*3.*\]",
    r"CurrentObservers:\s+\[\]",
)

# n3 does not campaign, so that n1 wins at once: while no leader is known, Kafka 4.3.1's tool hangs (EX-05). The tool
# needs a second or two to start, so the election comes later: it asks while the voters still believe in n2.
DQ_03 = Scenario(
    id="DQ-03",
    title="A client that sends a request during an election hangs or fails permanently",
    question="Does the tool wait for the new leader if the old leader has just been killed?",
    source=KIP_595 / "DescribeQuorum Response Handling",
    nodes=3,
    alone=True,  # an election that other runs slow down leaves the tool more time to meet it
    story=(
        wait_until(all_follow(2)),
        CATCH_UP,
        intercept(drop_votes("campaign of n3", sources=(3,))),
        kill("n2"),
        describe("--status", output=[r"LeaderId:\s+[13]$", r"HighWatermark:\s+-?\d+$"], name="during an election"),
        heal(),
    ),
    good=Side(GOOD, node_switches=merged(N2_FIRST, {node: {FETCH_TIMEOUT: "6000"} for node in (1, 3)})),
)

DQ_04 = Scenario(
    id="DQ-04",
    title="A client of a quorum without a majority hangs",
    question="Does the tool fail with an error after its timeout if two of three voters are down?",
    source=KIP_595 / "DescribeQuorum Response Handling",
    nodes=3,
    story=(
        wait_until(all_follow(2)),
        CATCH_UP,
        kill("n2"),
        kill("n3"),
        sleep(seconds(4)),
        describe("--status", exit_code=1, output=["Timeout|timed out"], name="without a majority", within=120),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    good=Side(GOOD, node_switches=N2_FIRST),
)

DQ_05 = Scenario(
    id="DQ-05",
    title="The status that the tool prints contradicts itself",
    question="Does the status name the leader, its epoch, the high watermark and the voters?",
    source=KIP_595 / "Tooling Support",
    nodes=3,
    story=(*SETTLED, describe("--status", output=STATUS, no_output=["Exception"], name="the status")),
    good=Side(GOOD),
)

OFFSETS = r"\s+\S+\s+\d+\s+"

DQ_06 = Scenario(
    id="DQ-06",
    title="The replication lag that the tool prints contradicts itself",
    question="Is the leader's lag 0 and that of a stopped voter larger, and do observers have their own status?",
    source=KIP_595 / "Tooling Support",
    nodes=5,
    voters=3,
    story=(
        wait_until(all_follow(2)),
        CATCH_UP,
        kill("n3"),
        sleep(seconds(3)),  # an idle leader appends a record every half second
        describe(
            "--replication",
            output=[
                r"^NodeId\s+DirectoryId\s+LogEndOffset\s+Lag\s+LastFetchTimestamp\s+LastCaughtUpTimestamp\s+Status",
                rf"^2{OFFSETS}0\s+.*Leader",
                rf"^1{OFFSETS}[0-2]\s+.*Follower",
                rf"^3{OFFSETS}([3-9]|\d\d+)\s+.*Follower",
                *(rf"^{observer}{OFFSETS}[0-2]\s+.*Observer" for observer in (4, 5)),
            ],
            name="the replication",
        ),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    good=Side(GOOD, node_switches=N2_FIRST),
)

DQ_07 = Scenario(
    id="DQ-07",
    title="The tool accepts mutually exclusive options",
    question="Does the tool reject invalid combinations of options with exit code 1 and a message?",
    source=KIP_595 / "Tooling Support",
    nodes=3,
    story=(
        *SETTLED,
        describe(
            "--status", "--replication", exit_code=1, output=["Only one of --status or --replication"], name="both"
        ),
        describe("--status", "--human-readable", exit_code=1, output=["--human-readable"], name="a readable status"),
        describe(exit_code=1, output=["--status|--replication"], name="neither"),
        run_tool(
            TOOL,
            [*QUORUM, "--bootstrap-server", "$controllers", "describe", "--status"],
            exit_code=1,
            output=[r"not\s+allowed\s+with|Only\s+one\s+of"],
            name="two ways to bootstrap",
        ),
        run_tool(TOOL, [*QUORUM, "add-controller"], exit_code=1, output=["configuration"], name="no configuration"),
    ),
    good=Side(GOOD),
)

SCENARIOS = (DQ_03, DQ_04, DQ_05, DQ_06, DQ_07)
