"""What access control lists allow, and which a filter means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.reference.core.records.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    ResourceKind,
    is_allowed,
)

ALICE, HOST = "User:alice", "10.0.0.1"
READS = Acl(ResourceKind.TOPIC, "orders", Pattern.LITERAL, ALICE, "*", Operation.READ, Permission.ALLOW)
DENIED = replace(READS, permission=Permission.DENY)


def may(operation: Operation, *acls: Acl, name: str = "orders", principal: str = ALICE, host: str = HOST) -> bool:
    return is_allowed(acls, principal, host, operation, ResourceKind.TOPIC, name)


@pytest.mark.parametrize(
    ("operation", "acls", "expected"),
    [
        (Operation.READ, (), False),
        (Operation.READ, (READS,), True),
        (Operation.DESCRIBE, (READS,), True),
        (Operation.DESCRIBE, (replace(READS, operation=Operation.CREATE),), False),
        (Operation.WRITE, (READS,), False),
        (Operation.WRITE, (replace(READS, operation=Operation.ALL),), True),
        (Operation.READ, (READS, DENIED), False),
        (Operation.DESCRIBE, (READS, DENIED), True),  # only what allows implies DESCRIBE
        (Operation.READ, (replace(READS, name="*"),), True),
        (Operation.READ, (replace(READS, name="ord"),), False),
        (Operation.READ, (replace(READS, name="ord", pattern=Pattern.PREFIXED),), True),
        (Operation.READ, (replace(READS, principal="User:bob"),), False),
        (Operation.READ, (replace(READS, principal="User:*"),), True),
        (Operation.READ, (replace(READS, host="10.0.0.2"),), False),
        (Operation.READ, (replace(READS, host=HOST),), True),
        (Operation.READ, (replace(READS, kind=ResourceKind.GROUP),), False),
    ],
)
def test_what_is_allowed(operation: Operation, acls: tuple[Acl, ...], expected: bool) -> None:
    assert may(operation, *acls) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), True),
        (AclFilter(ResourceKind.TOPIC, "orders", Pattern.LITERAL, ALICE, "*", Operation.READ, Permission.ALLOW), True),
        (AclFilter(name="other"), False),
        (AclFilter(principal="User:bob"), False),
        (AclFilter(operation=Operation.WRITE), False),
        (AclFilter(permission=Permission.DENY), False),
        (AclFilter(ResourceKind.TOPIC, "ordinary", Pattern.MATCH), False),
    ],
)
def test_which_entries_a_filter_means(wanted: AclFilter, expected: bool) -> None:
    assert wanted.matches(READS) is expected


def test_a_filter_of_what_concerns_a_name_means_prefixes_and_wildcards() -> None:
    wanted = AclFilter(ResourceKind.TOPIC, "orders", Pattern.MATCH)
    prefix, every = replace(READS, name="or", pattern=Pattern.PREFIXED), replace(READS, name="*")
    assert [wanted.matches(acl) for acl in (prefix, every, replace(READS, name="o"))] == [True, True, False]


@pytest.mark.parametrize(
    ("change", "is_valid"),
    [
        ({}, True),
        ({"kind": 99}, False),
        ({"operation": 1}, False),
        ({"pattern": Pattern.MATCH}, False),
        ({"permission": 1}, False),
        ({"principal": "alice"}, False),
        ({"name": ""}, False),
        ({"kind": ResourceKind.CLUSTER, "name": CLUSTER_NAME, "operation": Operation.CLUSTER_ACTION}, True),
    ],
)
def test_which_entries_are_valid(change: dict[str, int | str], is_valid: bool) -> None:
    assert replace(READS, **change).is_valid is is_valid  # type: ignore[arg-type]
