"""Access control lists: who may do what with which resource, and what follows from several of them.

    acl = Acl(ResourceKind.TOPIC, "t", Pattern.LITERAL, "User:alice", "*", Operation.DESCRIBE, Permission.ALLOW)
    is_allowed([acl], "User:alice", "10.0.0.1", Operation.DESCRIBE, ResourceKind.TOPIC, "t")      # True
    AclFilter(principal="User:alice").matches(acl)                                                # True

Nothing is allowed that no ACL allows, and nothing that one denies. Whoever may read, write, delete or alter a resource
may describe it. Sources: Kafka's StandardAuthorizer, KIP-290 (prefixes).

Contains values and pure functions. Who is asked is decided where requests arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

ANY: Final = 1
"""In filters: every resource type, pattern, operation, permission."""

WILDCARD: Final = "*"
ANY_USER: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceKind(IntEnum):
    """Kafka's types of resources."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Pattern(IntEnum):
    """How a resource is named. MATCH, in filters only: every ACL that concerns the name."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """Kafka's operations."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(IntEnum):
    """What an ACL says."""

    DENY = 2
    ALLOW = 3


IMPLY_DESCRIBE: Final = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)


@dataclass(frozen=True, slots=True)
class Acl:
    """One entry, with Kafka's numbers."""

    kind: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    @property
    def is_valid(self) -> bool:
        """Whether it names kinds that exist, and a principal as Kafka writes it."""
        known = (ResourceKind, self.kind), (Operation, self.operation), (Permission, self.permission)
        has_names = bool(self.name) and ":" in self.principal and bool(self.host)
        is_pattern = self.pattern in (Pattern.LITERAL, Pattern.PREFIXED)
        return has_names and is_pattern and all(number in set(kinds) for kinds, number in known)

    def concerns(self, kind: int, name: str) -> bool:
        """Whether a resource is one of those that it names."""
        if self.kind != kind:
            return False
        if self.pattern == Pattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def says(self, permission: Permission, principal: str, host: str, operation: Operation) -> bool:
        """Whether it gives this permission. Only what allows implies that somebody may describe."""
        if self.permission != permission or self.host not in (host, WILDCARD):
            return False
        if self.principal not in (principal, ANY_USER):
            return False
        implies = permission is Permission.ALLOW and operation is Operation.DESCRIBE
        return self.operation in (Operation.ALL, operation) or (implies and self.operation in IMPLY_DESCRIBE)


def is_allowed(acls: Iterable[Acl], principal: str, host: str, operation: Operation, kind: int, name: str) -> bool:
    """Whether somebody may do this with a resource."""
    concerned = [acl for acl in acls if acl.concerns(kind, name)]
    about = principal, host, operation
    is_denied = any(acl.says(Permission.DENY, *about) for acl in concerned)
    return not is_denied and any(acl.says(Permission.ALLOW, *about) for acl in concerned)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which ACLs are meant: those that agree in everything that is not ANY or None."""

    kind: int = ANY
    name: str | None = None
    pattern: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def matches(self, acl: Acl) -> bool:
        """Whether this ACL is one of them."""
        numbers = (self.kind, acl.kind), (self.operation, acl.operation), (self.permission, acl.permission)
        texts = (self.principal, acl.principal), (self.host, acl.host)
        return (
            all(wanted in (ANY, number) for wanted, number in numbers)
            and all(wanted in (None, text) for wanted, text in texts)
            and self._names(acl)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern == Pattern.MATCH:
            return self.name is None or acl.concerns(acl.kind, self.name)
        return self.pattern in (ANY, acl.pattern) and self.name in (None, acl.name)
