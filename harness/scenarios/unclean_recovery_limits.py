"""The recovery tool of KAFKA-20098 at its limits, on the reference: late answers, many partitions, no quorum.

The stories of UR-13 and UR-26 begin as in unclean_recovery.py: n3 and n4 have 100 committed records and die, n1 has 90
of them, n2 has 50. In both, n3 is also one of the three voters.
"""

from __future__ import annotations

from harness.model.conditions import partition_offline, session_lost
from harness.model.faults.probe import run_tool
from harness.model.faults.rpc import CLIENTS, Api, RpcMatch, RpcRule, delay, intercept
from harness.model.measures import sends
from harness.model.scenario import Scenario, Side, on
from harness.model.story import heal, kill, mark, start, wait_until
from harness.scenarios.expectations import happens
from harness.scenarios.one_partition import PARTITION, QUORUM_LED_BY_N1, leads
from harness.scenarios.unclean_recovery import BROKERS, UNCLEAN_RECOVERY, all_return
from harness.scenarios.unclean_recovery_by_hand import OFFLINE
from harness.scenarios.unclean_recovery_operator import ALL, AUTOMATED, SERVERS, SHOW
from harness.scenarios.unclean_recovery_rpcs import many_offline
from harness.scenarios.unclean_recovery_tool import loses, recover, scenario

DEFAULT_MS = 30_000
"""What the tool's --recovery-duration-ms is if it is not given."""


def n1_answers_late(by_ms: int) -> RpcRule:
    """The first answer of n1 that this rule matches comes later than it was sent."""
    match = RpcMatch((Api.GET_REPLICA_LOG_INFO,), "response", sources=(1,), targets=(CLIENTS,), limit=1)
    return RpcRule(f"log of n1 after {by_ms:,} ms", match, delay(by_ms))


UR_13 = scenario(
    13,
    "Public Interfaces",
    "The tool waits for a slow broker indefinitely, or not at all",
    "With the default duration of 30 s, does a response after 29 s count, and one after 31 s not?",
    (
        *OFFLINE,
        intercept(n1_answers_late(DEFAULT_MS + 1000), n1_answers_late(DEFAULT_MS - 1000)),
        run_tool(
            "unclean-recovery",
            [*SERVERS, ALL, SHOW],
            output=[r"t\s+0\s+1\s+-\s+-\s.*timed out", r"t\s+0\s+2\s+\d+.*\s50\s+yes"],
            within=DEFAULT_MS / 1000 + 20,
            name="a table without the log of n1",
        ),
        run_tool(
            "unclean-recovery",
            [*SERVERS, ALL, AUTOMATED],
            output=[r"t\s+0\s+elected\s+1", "1 elected"],
            within=DEFAULT_MS / 1000 + 20,
            name="a recovery with the log of n1",
        ),
        leads(1),
        *all_return(1),
    ),
    None,
    loses(10),
)

UR_26 = scenario(
    26,
    "Motivation",
    "A recovery without a controller quorum never ends, or is left half done",
    "Does the tool report in time that it elected no leader, and elect n1 once the quorum is back?",
    (
        *OFFLINE,
        mark("n1 is the only voter that is left"),
        kill("n2"),
        wait_until(partition_offline(PARTITION)),
        recover(
            AUTOMATED,
            exit_code=1,
            output=["t-0: (failed|not done|unknown)"],
            name="a recovery without a quorum",
        ),
        start("n2"),
        wait_until(session_lost(3)),
        recover(
            AUTOMATED,
            output=["1 elected|no partition needs an election"],
            name="a recovery with a quorum",
        ),
        leads(1),
        *all_return(1),
    ),
    None,
    loses(10),
)

PARTITIONS = 1001
REQUESTS = 2
"""For so many partitions, of up to 1,000 each."""

ANSWERS_TO_TOOL = RpcRule(
    "answers to the tool", RpcMatch((Api.GET_REPLICA_LOG_INFO,), "response", targets=(CLIENTS,)), delay(1)
)
"""What the tool sends and receives passes through the proxy, which counts it."""

UR_31 = Scenario(
    id="UR-31",
    title="A broker receives a separate request for each partition's log",
    question="Are the logs of 1,001 partitions requested with two requests to each broker?",
    source=UNCLEAN_RECOVERY / "Rejected Alternatives",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *QUORUM_LED_BY_N1,
        *many_offline(PARTITIONS, (1, 2), ANSWERS_TO_TOOL),
        recover(SHOW, output=["1,001 chosen"], name="the logs of 1,001 partitions"),
        heal(),
    ),
    good=Side(
        on(reference=BROKERS),
        shows=tuple(happens(sends(Api.GET_REPLICA_LOG_INFO, target=node), REQUESTS) for node in (1, 2)),
        never=tuple(happens(sends(Api.GET_REPLICA_LOG_INFO, target=node), REQUESTS + 1) for node in (1, 2)),
    ),
)

SCENARIOS = (UR_13, UR_26, UR_31)
