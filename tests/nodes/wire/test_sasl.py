"""SASL/PLAIN on a connection: requests are sent only after the peer has accepted the credentials."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.session import NotSent
from nodes.wire import codec
from nodes.wire.connection import WireConnection
from nodes.wire.sasl import NotAuthenticated, Plain
from tests.support.nodes.scripted_brokers import Script, ScriptedCluster, close, garbage


def metadata(password: str, *scripts: Script) -> tuple[Any, list[int]]:
    """Ask a broker that wants alice's password for its metadata; returns the response and the APIs that were asked."""

    async def scenario() -> tuple[Any, list[int]]:
        async with ScriptedCluster({}, brokers=[1], credentials=("alice", "sécret")) as cluster:
            cluster.script(codec.SASL_AUTHENTICATE, *scripts)
            address = cluster.address(1)
            connection = WireConnection(address.host, address.port, "test", Plain("alice", password))
            try:
                values = {
                    "topics": [],
                    "allow_auto_topic_creation": False,
                    "include_topic_authorized_operations": False,
                }
                return await connection.call_latest(codec.METADATA, values, 5_000), apis(cluster)
            except NotSent as failure:
                return failure, apis(cluster)
            finally:
                await connection.close()

    return asyncio.run(scenario())


def apis(cluster: ScriptedCluster) -> list[int]:
    return [frame.api_key for _, frame in cluster.requests]


def test_credentials_come_before_the_first_request() -> None:
    response, asked = metadata("sécret")
    assert response.brokers[0].node_id == 1
    assert asked == [codec.API_VERSIONS, codec.SASL_HANDSHAKE, codec.SASL_AUTHENTICATE, codec.METADATA]


def test_wrong_password_is_not_authenticated_and_nothing_else_is_sent() -> None:
    failure, asked = metadata("guess")
    assert isinstance(failure, NotAuthenticated)
    assert str(failure).endswith("authenticating as alice by PLAIN: wrong password")
    assert codec.METADATA not in asked


@pytest.mark.parametrize("script", [close, garbage], ids=["a closed connection", "garbage"])
def test_peer_that_fails_meanwhile_was_sent_no_request(script: Script) -> None:
    failure, asked = metadata("sécret", script)
    assert isinstance(failure, NotSent)
    assert not isinstance(failure, NotAuthenticated)
    assert codec.METADATA not in asked
