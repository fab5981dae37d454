"""The permissions that KAFKA-20098's RPCs need, on the reference, whose brokers know users and access control lists.

The story begins as in unclean_recovery.py: n3 and n4 have 100 committed records and die, n1 has 90 of them, n2 has 50.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.model.conditions import partition_offline
from harness.model.faults.probe import ask, run_tool
from harness.model.scenario import Scenario, Side, on
from harness.model.story import Step, wait_until
from harness.scenarios.expectations import committed_lost, logs_equal
from harness.scenarios.one_partition import PARTITION, TOPIC, leads
from harness.scenarios.unclean_recovery import BROKERS, LOSS, UNCLEAN_RECOVERY, all_return
from harness.scenarios.unclean_recovery_by_hand import OFFLINE
from harness.scenarios.unclean_recovery_operator import ALL, AUTOMATED, SERVERS
from harness.scenarios.unclean_recovery_tool import DURATION

CONFIG, LISTED = "user.properties", "partitions.json"
MAY_NEITHER, MAY_SEE, MAY_ELECT, MAY_BOTH = "nobody", "reader", "elector", "operator"
USERS = ",".join(f"{name}:{name}" for name in (MAY_NEITHER, MAY_SEE, MAY_ELECT, MAY_BOTH))

ON_TOPIC = {"resource_type": 2, "resource_name": TOPIC, "operation": 8}
"""DESCRIBE."""
ON_CLUSTER = {"resource_type": 4, "resource_name": "kafka-cluster", "operation": 9}
"""CLUSTER_ACTION."""


def allow(user: str, resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """An entry that allows this user an operation, from anywhere."""
    return {**resource, "resource_pattern_type": 3, "principal": f"User:{user}", "host": "*", "permission_type": 3}


CREATES_ACLS = ask(
    "n1",
    "CreateAcls",
    3,
    {
        "creations": [
            allow(MAY_SEE, ON_TOPIC),
            allow(MAY_ELECT, ON_CLUSTER),
            allow(MAY_BOTH, ON_TOPIC),
            allow(MAY_BOTH, ON_CLUSTER),
        ]
    },
    {f"results.{number}.error_code": "none" for number in range(4)},
    listener="client",
    name="access control lists",
)


def recover_as(
    user: str, *options: str, output: Sequence[str], no_output: Sequence[str] = (), exit_code: int, password: str = ""
) -> Step:
    """Run the tool as this user, for all partitions that are offline or for those in a file."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    credentials = f'username="{user}" password="{password or user}"'
    config = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={module} {credentials};\n"
    listed = f'{{"partitions": [{{"topic": "{TOPIC}", "partitions": [0]}}]}}'
    return run_tool(
        "unclean-recovery",
        [*SERVERS, "--command-config", CONFIG, *options, AUTOMATED, *DURATION],
        files={CONFIG: config, LISTED: listed},
        output=output,
        no_output=no_output,
        exit_code=exit_code,
        name=f"a recovery as {user}",
    )


FILE = ("--path-to-json-file", LISTED)
STILL_OFFLINE = wait_until(partition_offline(PARTITION), within=1)

UR_23 = Scenario(
    id="UR-23",
    title="A user without permissions recovers partitions",
    question="Is an election refused for users who lack CLUSTER_ACTION or DESCRIBE, and n1 elected for one with both?",
    source=UNCLEAN_RECOVERY / "Public Interfaces",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *OFFLINE,
        CREATES_ACLS,
        recover_as(MAY_BOTH, ALL, password="wrong", output=["Invalid username or password"], exit_code=255),
        recover_as(MAY_NEITHER, ALL, output=["no partition needs an election"], no_output=["t-0"], exit_code=0),
        recover_as(MAY_ELECT, ALL, output=["no partition needs an election"], no_output=["t-0"], exit_code=0),
        recover_as(MAY_ELECT, *FILE, output=["t-0: failed: TOPIC_AUTHORIZATION_FAILED"], exit_code=1),
        recover_as(MAY_SEE, ALL, output=["t-0: failed: .*CLUSTER_AUTHORIZATION_FAILED"], exit_code=1),
        STILL_OFFLINE,
        recover_as(MAY_BOTH, ALL, output=[r"t\s+0\s+elected\s+1", "1 elected"], exit_code=0),
        leads(1),
        *all_return(1),
    ),
    good=Side(
        on(reference={**BROKERS, "reference.users": USERS}),
        shows=(logs_equal, committed_lost(10)),
        never=(committed_lost(11),),
        breaks=LOSS,
    ),
)

SCENARIOS = (UR_23,)
