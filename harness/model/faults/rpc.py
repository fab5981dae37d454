"""Faults of single RPCs: rules that match messages and act on them, and the capability to apply them.

A rule is a match and an action under a name; its counters are reported under this name. The first rule that matches a
message and acts on it applies; other messages pass unchanged. Rules are JSON in plans and on the way to the proxy
(nodes/proxy), which applies them.

    HELD_FETCHES = RpcRule("held-fetches", RpcMatch((Api.FETCH,), "response", targets=(FOLLOWERS,)), HOLD)

Contains values, their JSON and the protocol of the capability. Does not contain bytes, sockets or waiting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar, Literal, Protocol, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from harness.model.errors import BadInput
from harness.model.hosts import Link
from harness.model.shown_values import shown
from harness.model.story import Step, Who
from harness.model.validation import dotted, first_problem

CLIENTS = 0
"""Node number of the clients: every sender on the controller's own network."""

INTERCEPT = "rpc"
"""The operation that installs rules; `heal` removes them."""


class Api(IntEnum):
    """Kafka's API keys that faults use by name; a rule may have any other by number."""

    PRODUCE = 0
    FETCH = 1
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    FETCH_SNAPSHOT = 59
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    GET_REPLICA_LOG_INFO = 93  # KAFKA-20098
    DISCOVER_BROKERS = 642  # KIP-642, which gives no key; no release of Kafka has this one or the next
    NOMINATE_VOTER = 643


Direction = Literal["request", "response"]
Do = Literal["drop", "hold", "delay", "duplicate", "answer", "close"]
Route = Literal["proxied", "direct", "no answer", "no proxy"]
"""How a connection between two nodes is routed: through the proxy, past it, to a node that does not answer, or to a
proxy that is gone."""


@dataclass(frozen=True, slots=True)
class RpcMatch:
    """Which messages a rule matches. An empty tuple and None match everything.

    sources and targets are the sender and the receiver of the message itself, as in Link: the source of a leader's
    response is the leader. They are node numbers, or roles, which are resolved when the fault is injected. The api key,
    pre_vote, topic and partition of a response are those of its request. If nth is set, the rule acts on that match
    only, counted from 1. probability is sampled for each match from the plan's seed. limit is the maximum number of
    actions.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    api_keys: tuple[int, ...] = ()
    direction: Direction = "request"
    sources: tuple[int | Who, ...] = ()
    targets: tuple[int | Who, ...] = ()
    pre_vote: bool | None = None
    topic: str | None = None
    partition: int | None = None
    nth: int | None = None
    probability: float | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class RpcAction:
    """What a rule does to a message. delay_ms belongs to delay, error_code (Kafka's number) to answer.

    When a hold rule is removed, the held messages are delivered; with loses they are dropped and their connections
    closed.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    do: Do
    delay_ms: int = 0
    error_code: int = 0
    loses: bool = False


DROP = RpcAction("drop")
HOLD = RpcAction("hold")
HOLD_AND_LOSE = RpcAction("hold", loses=True)
DUPLICATE = RpcAction("duplicate")
CLOSE = RpcAction("close")


def delay(delay_ms: int) -> RpcAction:
    """Delay the message and everything after it on its connection."""
    return RpcAction("delay", delay_ms=delay_ms)


def answer(error_code: int) -> RpcAction:
    """Answer the request with this error instead of forwarding it."""
    return RpcAction("answer", error_code=error_code)


@dataclass(frozen=True, slots=True)
class RpcRule:
    """A named match and action. Raises BadInput if the combination is invalid.

    may_be_idle: the rule may end without having acted; of another rule that is a fault without effect.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    match: RpcMatch
    action: RpcAction
    may_be_idle: bool = False

    def __post_init__(self) -> None:
        problem = next((expected for holds, expected in _requirements(self.match, self.action) if not holds), None)
        if problem:
            raise BadInput(f"RPC rule {self.name!r}: expected {problem}")

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON values, without defaults."""
        rule: dict[str, Any] = _adapter().dump_python(self, mode="json", exclude_defaults=True)
        return {"match": {}, **rule}

    @staticmethod
    def from_json(value: Any) -> RpcRule:
        """The rule from JSON values. Raises BadInput for an unknown key or an invalid value."""
        try:
            return _adapter().validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            name = value.get("name", "") if isinstance(value, Mapping) else ""
            problem = first_problem(error, RpcRule)
            raise BadInput(f"RPC rule {shown(name)}: {dotted(problem.path) or 'rule'}: {problem}") from error

    def resolved(self, nodes_in_role: Callable[[Who], tuple[int, ...]]) -> RpcRule:
        """The rule with node numbers instead of roles."""
        sources, targets = (_resolved(nodes, nodes_in_role) for nodes in (self.match.sources, self.match.targets))
        return replace(self, match=replace(self.match, sources=sources, targets=targets))


@dataclass(frozen=True, slots=True)
class RuleCount:
    """How often a rule matched, how often it acted, and how many messages it holds at present."""

    matched: int = 0
    acted: int = 0
    holding: int = 0


@dataclass(frozen=True, slots=True)
class RpcRow:
    """One message that the proxy saw. time_ns is run time; epoch and granted are set for the Raft RPCs that have them.

    fetch_offset and high_watermark are set for Fetch of the quorum's own log only. fetch_offset is a request's: where
    the sender's log ends. high_watermark is what the sender knows, -1 for none; a request has it from version 18 on
    (KIP-1166). action is what a rule did, or `pass`. `lost` is a message that followed a dropped one on its connection,
    `swallow` the second response to a duplicated request.
    """

    time_ns: int
    source: int
    target: int
    api_key: int
    api_version: int
    correlation_id: int
    direction: Direction
    size_bytes: int
    pre_vote: bool | None = None
    epoch: int | None = None
    granted: bool | None = None
    action: str = "pass"
    fetch_offset: int | None = None
    high_watermark: int | None = None


class Rpcs(Protocol):
    """A network with rules for single RPCs."""

    async def replace(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Replace all rules atomically and route every RPC through the proxy.

        Returns the counters that the rules before had when they were replaced, by name, without those that are lost. An
        unchanged rule keeps its counters and the messages that it holds. Raises BadInput for a rule that the proxy
        cannot apply.
        """

    async def clear(self) -> Mapping[str, RuleCount]:
        """Remove all rules; returns their final counters, as replace does. Safe if there are none."""

    async def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the current rules, by name. Raises EnvironmentFailure if they are lost."""

    async def routes(self, links: Iterable[Link]) -> Mapping[Link, Route]:
        """Open a connection on each link as a node would, and return how it is routed."""


def intercept(*rules: RpcRule) -> Step:
    """Install these rules until they are healed."""
    return Step(INTERCEPT, {"rules": [rule.to_json() for rule in rules]})


def _requirements(match: RpcMatch, action: RpcAction) -> Iterable[tuple[bool, str]]:
    """Requirements on a match and its action: whether each holds, and its text."""
    ends = (*match.sources, *match.targets)
    return (
        (all(isinstance(key, int) for key in match.api_keys), f"api_keys as numbers, found {list(match.api_keys)}"),
        (all(isinstance(node, int | str) for node in ends), f"nodes by number or role, found {list(ends)}"),
        (match.direction in get_args(Direction), f"direction request or response, found {match.direction!r}"),
        (action.do in get_args(Do), f"one of {', '.join(get_args(Do))}, found {action.do!r}"),
        (action.do not in ("duplicate", "answer") or match.direction == "request", f"{action.do} on requests only"),
        (action.do != "answer" or bool(match.api_keys), "api_keys where the action is to answer"),
        (action.do != "answer" or action.error_code != 0, "an error_code where the action is to answer"),
        (action.do == "hold" or not action.loses, f"loses on hold only, found it on {action.do}"),
        (action.do != "delay" or action.delay_ms > 0, f"delay_ms above 0, found {action.delay_ms}"),
        (match.nth is None or match.nth > 0, f"nth above 0, found {match.nth}"),
        (match.limit is None or match.limit > 0, f"limit above 0, found {match.limit}"),
        (
            match.probability is None or 0 < match.probability <= 1,
            f"probability in (0, 1], found {match.probability}",
        ),
    )


@cache
def _adapter() -> TypeAdapter[RpcRule]:
    return TypeAdapter(RpcRule)


def _resolved(nodes: tuple[int | Who, ...], nodes_in_role: Callable[[Who], tuple[int, ...]]) -> tuple[int | Who, ...]:
    return tuple(number for node in nodes for number in ((node,) if isinstance(node, int) else nodes_in_role(node)))
