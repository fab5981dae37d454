"""What an operator may do with the recovery tool of KAFKA-20098, and what may happen meanwhile, on the reference.

The stories begin as in unclean_recovery.py: n3 and n4 have 100 committed records and die, n1 has 90 of them, n2 has 50.
What the tool decides by itself is in unclean_recovery_tool.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from harness.model.conditions import leads_partition, partition_offline, session_lost
from harness.model.faults.probe import ask, run_tool
from harness.model.faults.requests import create_topic
from harness.model.faults.rpc import RpcMatch, RpcRule, answer, intercept
from harness.model.story import LEADER, Step, cut, heal, mark, start, wait_until
from harness.scenarios.one_partition import PARTITION, TOPIC, dies, leads
from harness.scenarios.unclean_recovery import all_return, lags, written
from harness.scenarios.unclean_recovery_by_hand import OFFLINE
from harness.scenarios.unclean_recovery_tool import DURATION, ELECTS_N1, loses, of_mutant, recover, scenario

ELECT_LEADERS, REQUEST_TIMED_OUT = 43, 7

PLAN, LISTED = "plan.json", "partitions.json"
SERVERS = ("--bootstrap-server", "$n1_broker,$n2_broker")
IS_OFFLINE = wait_until(partition_offline(PARTITION), within=1)


def elect_leaders(*, output: Sequence[str], files: Mapping[str, str] | None = None, name: str) -> Step:
    """Run elect-leaders with the leaders that the plan designates."""
    arguments = [*SERVERS, "--election-type", "DESIGNATED", "--path-to-json-file", PLAN]
    return run_tool("elect-leaders", arguments, output=output, files=files, name=name)


def elect_by_hand(leader: int, *, output: Sequence[str], name: str) -> Step:
    """Run elect-leaders with a plan that an operator wrote."""
    plan = {"partitions": [{"topic": TOPIC, "partition": 0, "designatedLeader": leader}]}
    return elect_leaders(files={PLAN: json.dumps(plan)}, output=output, name=name)


def refused(*options: str, because: str, name: str) -> Step:
    """Run the tool with options that exclude each other."""
    return run_tool("unclean-recovery", [*SERVERS, *options], exit_code=254, output=[because], name=name)


PLANNED = recover("--manual-recovery-output-file", PLAN, output=[r"t\s+0\s+chosen\s+1"], name="a plan")
ELECTED = [r"t\s+0\s+elected\s+1", "1 elected"]

UR_09 = scenario(
    9,
    "Public Interfaces",
    "The plan for a manual recovery overwrites a file",
    "Does the tool write a plan and change nothing, refuse to overwrite it, and does elect-leaders run it?",
    (
        *OFFLINE,
        PLANNED,
        IS_OFFLINE,
        recover(
            *("--manual-recovery-output-file", PLAN),
            exit_code=254,
            output=["expected a new file"],
            name="a plan of the same name",
        ),
        elect_leaders(output=ELECTED, name="an election of the plan"),
        leads(1),
        *all_return(1),
    ),
    None,
    loses(10),
)

ALL = "--all-offline-partitions"
SHOW, AUTOMATED, MANUAL = "--show-replica-info", "--automated-recovery", ("--manual-recovery-output-file", PLAN)
FILE = ("--path-to-json-file", LISTED)

UR_11 = scenario(
    11,
    "Public Interfaces",
    "The tool accepts mutually exclusive options",
    "Are options rejected that name no action, two actions, no partitions, or partitions twice?",
    (
        *OFFLINE,
        refused(ALL, because="expected at least one of them, found none", name="no action"),
        refused(ALL, AUTOMATED, *MANUAL, because="expected one of both at most, found both", name="two actions"),
        refused(ALL, SHOW, AUTOMATED, *MANUAL, because="expected one of both at most", name="two actions, and a table"),
        refused(AUTOMATED, because="expected one of", name="no partitions"),
        refused(ALL, *FILE, SHOW, because="expected one of", name="partitions twice"),
        IS_OFFLINE,
        *all_return(4),
    ),
    None,
    loses(0),
)


def recover_listed(content: object, *, output: Sequence[str], exit_code: int, name: str) -> Step:
    """Run the tool for the partitions of a file."""
    arguments = [*SERVERS, *FILE, AUTOMATED, *DURATION]
    text = content if isinstance(content, str) else json.dumps({"partitions": content})
    return run_tool("unclean-recovery", arguments, files={LISTED: text}, output=output, exit_code=exit_code, name=name)


UR_12 = scenario(
    12,
    "Public Interfaces",
    "One malformed partition in the input prevents the recovery of the others",
    "Is a file that is not a list rejected, and does each partition of a list have its own outcome?",
    (
        *OFFLINE,
        create_topic(LEADER, "online", 1),
        recover_listed('{"partitions": [', exit_code=254, output=[LISTED], name="a file that ends early"),
        recover_listed(
            [{"topic": TOPIC, "partition": 0}], exit_code=254, output=["partitions"], name="a file of another form"
        ),
        IS_OFFLINE,
        recover_listed(
            [
                {"topic": "unknown", "partitions": [0]},
                {"topic": "online", "partitions": [0, 0]},
                {"topic": TOPIC, "partitions": [0, 7]},
            ],
            exit_code=1,
            output=[r"t\s+0\s+elected\s+1", r"unknown-0: failed: ", r"online-0: failed: ", r"t-7: failed: "],
            name="a list",
        ),
        leads(1),
        *all_return(1),
    ),
    None,
    loses(10),
)

UR_20 = scenario(
    20,
    "Proposed Changes",
    "The tool is stopped halfway, and a second run cannot finish",
    "Does the tool change nothing on SIGTERM and say so, and does a second run recover the partition?",
    (
        *OFFLINE,
        run_tool(
            "unclean-recovery",
            [*SERVERS, ALL, AUTOMATED],
            stop_at="asking 4 brokers",
            exit_code=1,
            output=["t-0: not done: interrupted"],
            name="a recovery that gets SIGTERM",
        ),
        IS_OFFLINE,
        ELECTS_N1,
        leads(1),
        *all_return(1),
    ),
    None,
    loses(10),
)

N4_RETURNS = (
    *OFFLINE,
    PLANNED,
    mark("an in-sync replica returns before the election"),
    start("n4"),
    leads(4),
)

UR_22 = scenario(
    22,
    "Proposed Changes, caveats",
    "An in-sync replica returns while the tool elects another replica",
    "Is the chosen replica refused if n4 returns between the query and the election, and is nothing lost?",
    (
        *N4_RETURNS,
        elect_leaders(output=[r"t\s+0\s+already online"], name="an election that comes too late"),
        wait_until(leads_partition(4, PARTITION), within=1),
        *all_return(4),
    ),
    loses(
        10,
        mutant="designates-online-partitions",
        story=(
            *N4_RETURNS,
            elect_leaders(output=ELECTED, name="an election that comes too late"),
            leads(1),
            *all_return(1),
        ),
    ),
    loses(0),
)

UR_25 = scenario(
    25,
    "Rejected Alternatives",
    "A tool that fails slows the controller",
    "Does the controller keep working after a tool was killed, and after requests that no tool would send?",
    (
        *OFFLINE,
        run_tool(
            "unclean-recovery",
            [*SERVERS, ALL, AUTOMATED],
            exit_code="timed out",
            within=2,
            name="a recovery that is killed while it waits for n3 and n4",
        ),
        ask(
            LEADER,
            43,
            3,
            {
                "election_type": 2,
                "topic_partitions": [{"topic": TOPIC, "partitions": [0], "designated_leaders": [1, 2, 3]}],
                "timeout": 10_000,
            },
            {"error_code": "invalid_request"},
            name="a request with two leaders too many",
        ),
        create_topic(LEADER, "after", 1),
        IS_OFFLINE,
        ELECTS_N1,
        leads(1),
        *all_return(1),
    ),
    None,
    loses(10),
)


ONE_FAILS = intercept(
    RpcRule(
        "an election that n2 forwards", RpcMatch((ELECT_LEADERS,), sources=(2,), limit=1), answer(REQUEST_TIMED_OUT)
    )
)
"""The next request goes to n1, which leads the quorum itself."""


def recover_by_n2(*options: str, output: Sequence[str], exit_code: int = 0, name: str) -> Step:
    """Run the tool with n2 as the first server."""
    arguments = ["--bootstrap-server", "$n2_broker,$n1_broker", ALL, AUTOMATED, *DURATION, *options]
    return run_tool("unclean-recovery", arguments, output=output, exit_code=exit_code, name=name)


UR_14 = scenario(
    14,
    "Public Interfaces",
    "The tool gives up at the first controller change",
    "Is a failed election retried, unless retries are disabled?",
    (
        *OFFLINE,
        ONE_FAILS,
        recover_by_n2(
            *("--recovery-election-attempts", "0"),
            exit_code=1,
            output=["t-0: unknown, leader 1: REQUEST_TIMED_OUT"],
            name="a recovery without retries",
        ),
        IS_OFFLINE,
        ONE_FAILS,
        recover_by_n2(output=ELECTED, name="a recovery with three retries"),
        leads(1),
        *all_return(1),
    ),
    None,
    loses(10),
)

N4_IS_FENCED = (
    *written((4, 3, 2, 1), {}),
    *lags(2, behind=40),
    *lags(2, 1, behind=10),
    *dies(3),
    mark("the controllers do not reach n4, the operator does"),
    cut("n4"),
    wait_until(session_lost(4)),
    wait_until(partition_offline(PARTITION)),
)
TAKES_N4 = recover(
    AUTOMATED,
    exit_code=1,
    output=["t-0: failed, leader 4: ELIGIBLE_LEADERS_NOT_AVAILABLE"],
    name="a recovery that takes the longest log",
)

UR_21 = scenario(
    21,
    "Proposed Changes, caveats",
    "A broker that the controller has fenced is elected",
    "Is n4, which has the longest log but is fenced, refused, and the next best replica elected by hand?",
    (
        *N4_IS_FENCED,
        TAKES_N4,
        IS_OFFLINE,
        elect_by_hand(1, output=ELECTED, name="an election of the next best"),
        leads(1),
        *all_return(1),
    ),
    of_mutant("designates-fenced-brokers", (*N4_IS_FENCED, TAKES_N4, heal()), breaks="unexpected-output"),
    loses(10),
)

SCENARIOS = (UR_09, UR_11, UR_12, UR_14, UR_20, UR_21, UR_22, UR_25)
