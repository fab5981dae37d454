"""Users and access control lists on brokers as processes, by librdkafka and by requests of our own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from nodes.wire import codec
from nodes.wire.connection import WireConnection
from nodes.wire.sasl import NotAuthenticated, Plain
from tests.nodes.reference.brokers.conftest import Brokers

with_users = pytest.mark.parametrize("brokers", [{"reference.users": "alice:wonder,bob:builder"}], indirect=True)
ALICE = Plain("alice", "wonder")
EVERY = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def allow(resource: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """An entry for alice."""
    pattern, permission = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(resource, name, pattern, "User:alice", "*", operation, permission)


DESCRIBES = allow(ResourceType.TOPIC, "t", AclOperation.DESCRIBE)
ACTS = allow(ResourceType.BROKER, "kafka-cluster", AclOperation.CLUSTER_ACTION)


def with_topics(brokers: Brokers) -> None:
    brokers.all_live()
    for created in brokers.admin.create_topics([NewTopic(name, 1, 3) for name in ("t", "u")]).values():
        created.result()
    brokers.seen(lambda seen: {"t", "u"} <= seen.topics.keys())


def ask(brokers: Brokers, user: Plain | None, api_key: int, values: dict[str, Any]) -> Any:
    """Broker 1's response to a user."""

    async def asking() -> Any:
        connection = WireConnection("127.0.0.1", brokers.client_ports[1], "test", user)
        try:
            return await connection.call_latest(api_key, values, 10_000)
        finally:
            await connection.close()

    return asyncio.run(asking())


def metadata(brokers: Brokers, user: Plain | None, *names: str) -> Any:
    """The topics of Metadata's response to a user, all or those of these names."""
    asked = [{"name": name, "topic_id": None} for name in names] if names else None
    no = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    return ask(brokers, user, codec.METADATA, {"topics": asked, **no}).topics


def topics_of(brokers: Brokers, user: Plain | None, *names: str) -> dict[str, ErrorCode]:
    """The topics that Metadata shows to a user, with their errors."""
    return {each.name: each.error_code for each in metadata(brokers, user, *names)}


def all_acls(brokers: Brokers) -> set[str]:
    """All entries. Any broker is asked, and those that do not lead the quorum hear of changes a little later."""
    return {str(each) for each in brokers.admin.describe_acls(EVERY).result()}


@with_users
def test_acls_are_created_described_and_deleted(brokers: Brokers) -> None:
    brokers.all_live()
    for created in brokers.admin.create_acls([DESCRIBES, ACTS]).values():
        created.result()
    brokers.seen(lambda _: all_acls(brokers) == {str(DESCRIBES), str(ACTS)})
    of_topics = AclBindingFilter(
        ResourceType.TOPIC, "t", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    [deleted] = brokers.admin.delete_acls([of_topics]).values()
    assert [str(each) for each in deleted.result()] == [str(DESCRIBES)]
    brokers.seen(lambda _: all_acls(brokers) == {str(ACTS)})


@with_users
def test_a_user_sees_the_topics_that_it_may_describe(brokers: Brokers) -> None:
    with_topics(brokers)
    assert topics_of(brokers, ALICE) == {}
    hidden = ErrorCode.topic_authorization_failed
    assert topics_of(brokers, ALICE, "t", "u") == {"t": hidden, "u": hidden}
    brokers.admin.create_acls([DESCRIBES])[DESCRIBES].result()
    brokers.seen(lambda _: topics_of(brokers, ALICE) == {"t": ErrorCode.none})
    assert topics_of(brokers, ALICE, "t", "u") == {"t": ErrorCode.none, "u": hidden}
    assert topics_of(brokers, Plain("bob", "builder")) == {}
    assert topics_of(brokers, None).keys() >= {"t", "u"}


@with_users
def test_elections_and_logs_need_an_action_on_the_cluster(brokers: Brokers) -> None:
    with_topics(brokers)
    [topic] = metadata(brokers, None, "t")
    logs = {"topic_partitions": [{"topic_id": topic.topic_id, "partitions": [0]}]}
    election = {"election_type": 1, "topic_partitions": None, "timeout": 1000}

    def log_error() -> ErrorCode:
        [answer] = ask(brokers, ALICE, codec.GET_REPLICA_LOG_INFO, logs).topic_partition_log_info_list
        return ErrorCode(answer.partition_log_info[0].error_code)

    refused = ErrorCode.cluster_authorization_failed
    assert ask(brokers, ALICE, codec.ELECT_LEADERS, election).error_code is refused
    assert log_error() is refused
    brokers.admin.create_acls([ACTS])[ACTS].result()
    brokers.seen(lambda _: log_error() is ErrorCode.topic_authorization_failed)
    assert ask(brokers, ALICE, codec.ELECT_LEADERS, election).error_code is ErrorCode.none
    brokers.admin.create_acls([DESCRIBES])[DESCRIBES].result()
    brokers.seen(lambda _: log_error() is ErrorCode.none)


@with_users
def test_a_user_needs_its_password_and_may_not_do_anything_else(brokers: Brokers) -> None:
    with_topics(brokers)
    for wrong in (Plain("alice", "builder"), Plain("carol", "wonder")):
        with pytest.raises(NotAuthenticated, match="Invalid username or password"):
            topics_of(brokers, wrong)
    acl = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 2,
        "permission_type": 3,
    }
    [created] = ask(brokers, ALICE, codec.CREATE_ACLS, {"creations": [acl]}).results
    assert created.error_code is ErrorCode.cluster_authorization_failed
    with pytest.raises(PeerFailure, match="the connection broke"):
        ask(brokers, ALICE, codec.LIST_GROUPS, {"states_filter": [], "types_filter": []})


@with_users
def test_librdkafka_authenticates(brokers: Brokers) -> None:
    with_topics(brokers)
    brokers.admin.create_acls([DESCRIBES])[DESCRIBES].result()
    settings = {
        "bootstrap.servers": brokers.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "wonder",
        "log_level": 0,
    }
    alice = AdminClient(settings)
    brokers.seen(lambda _: alice.list_topics(timeout=10).topics.keys() == {"t"})
    with pytest.raises(KafkaException):
        AdminClient(settings | {"sasl.password": "wrong"}).list_topics(timeout=2)
