"""Which cluster a tool works with: its APIs, its servers, its credentials."""

from __future__ import annotations

import asyncio

import pytest

from harness.model import EnvironmentFailure
from harness.unclean_recovery.access import AccessSettings, MissingApi
from harness.unclean_recovery.options import Address, RecoveryOptions
from harness.unclean_recovery.outcomes import Outcome, Result
from harness.unclean_recovery.recover import Report, recover
from nodes.wire import codec
from nodes.wire.sasl import Plain
from tests.support.nodes.recoveries import ALL, SHOW, T_0, error_of, offline, recovered
from tests.support.nodes.scripted_brokers import (
    FAST,
    SERVED,
    ScriptedCluster,
    Silent,
)

RELEASED = {**SERVED, codec.ELECT_LEADERS: range(3)}
LACKING = {
    # case: the APIs that the brokers have, the message after the broker
    "a release with another API 93": (
        RELEASED,
        "expected ElectLeaders (API 43) version 3 and GetReplicaLogInfo (API 93) versions 0 to 1, "
        "found ElectLeaders 0 to 2 and no GetReplicaLogInfo",
    ),
    "designated leaders only": (
        {key: each for key, each in SERVED.items() if key != codec.GET_REPLICA_LOG_INFO},
        "expected GetReplicaLogInfo (API 93) versions 0 to 1, found no GetReplicaLogInfo",
    ),
    "a later version of it only": (
        {**SERVED, codec.GET_REPLICA_LOG_INFO: range(5, 7)},
        "expected GetReplicaLogInfo (API 93) versions 0 to 1, found GetReplicaLogInfo 5 to 6",
    ),
    "no ids of topics": (
        {**SERVED, codec.METADATA: range(9)},
        "expected Metadata (API 3) versions 10 to 13, found Metadata 0 to 8",
    ),
}


@pytest.mark.parametrize(("served", "message"), LACKING.values(), ids=LACKING)
@pytest.mark.parametrize("options", [ALL, SHOW], ids=["elect", "show"])
def test_a_cluster_that_lacks_an_api_is_told_so_and_asked_nothing(
    served: dict[int, range], message: str, options: RecoveryOptions
) -> None:
    made: list[ScriptedCluster] = []

    def cluster() -> ScriptedCluster:
        made.append(ScriptedCluster(offline(n1=(1, 5)), served=dict.fromkeys((1, 2, 3), served)))
        return made[0]

    with pytest.raises(MissingApi) as missing:
        recovered(cluster, options)
    assert str(missing.value).endswith(message)
    assert "127.0.0.1:" in str(missing.value)
    assert made[0].asked(codec.GET_REPLICA_LOG_INFO) == made[0].asked(codec.ELECT_LEADERS) == []


def test_one_broker_that_lacks_an_api_is_not_a_candidate() -> None:
    report, cluster = recovered(lambda: ScriptedCluster(offline(n1=(1, 5), n2=(1, 90)), served={2: RELEASED}))
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 1)}
    assert error_of(report, 2).startswith("broker 2 at 127.0.0.1:")
    assert cluster.asked(codec.GET_REPLICA_LOG_INFO, 2) == []


def test_no_server_at_all_is_one_line_with_each_reason() -> None:
    async def scenario() -> None:
        async with ScriptedCluster({}, dead=[1, 2, 3]) as cluster:
            servers = [cluster.address(1), cluster.address(2)]
            await recover(ALL, None, servers, FAST, Silent())

    with pytest.raises(EnvironmentFailure, match=r"--bootstrap-server describes the cluster: .*127.*; .*127"):
        asyncio.run(scenario())


def test_a_server_that_is_down_is_passed_over() -> None:
    async def scenario() -> Report:
        async with ScriptedCluster(offline(n1=(1, 5)), dead=[3]) as cluster:
            return await recover(ALL, None, [cluster.address(3), cluster.address(2)], FAST, Silent())

    assert asyncio.run(scenario()).outcomes == {T_0: Outcome(Result.ELECTED, 1)}


def test_a_name_that_has_no_address_is_one_line() -> None:
    with pytest.raises(EnvironmentFailure, match=r"no\.such\.invalid"):
        asyncio.run(recover(ALL, None, [Address("no.such.invalid", 1)], FAST, Silent()))


def secured(password: str) -> tuple[Report, ScriptedCluster]:
    access = AccessSettings(credentials=Plain("alice", password), backoff_ms=1)
    return recovered(lambda: ScriptedCluster(offline(n1=(1, 5)), credentials=("alice", "secret")), access=access)


def test_connections_are_authenticated() -> None:
    report, _ = secured("secret")
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 1)}


def test_a_wrong_password_is_one_line_without_the_password() -> None:
    with pytest.raises(EnvironmentFailure, match="authenticating as alice by PLAIN: wrong password") as refused:
        secured("guess")
    assert "guess" not in str(refused.value)


def test_credentials_for_a_server_that_wants_none_are_refused() -> None:
    access = AccessSettings(credentials=Plain("alice", "secret"), backoff_ms=1)
    with pytest.raises(EnvironmentFailure, match="authenticating by PLAIN: expected it to be enabled, found none"):
        recovered(lambda: ScriptedCluster(offline(n1=(1, 5))), access=access)
