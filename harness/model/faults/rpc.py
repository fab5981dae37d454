"""What can be done to single RPCs between nodes: which message is meant, what becomes of it, and who can do it.

A rule is a match and an action, under a name by which its counters are told. For each message the first rule that
matches and acts decides; a message that no rule acts on passes untouched. Rules travel as JSON, in plans and to the
proxy (nodes/proxy) that carries them out.

    HELD_FETCHES = RpcRule("held-fetches", RpcMatch((Api.FETCH,), "response", targets=(FOLLOWERS,)), HOLD)

What may live here: values, their JSON, and the capability's protocol. What may not: bytes, sockets, waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import IntEnum
from typing import Any, Literal, Protocol, get_args

from harness.model.errors import BadInput
from harness.model.hosts import Link
from harness.model.story import Step, Who

CLIENTS = 0
"""The clients' side as a node: those who ask from the controller's own network."""

INTERCEPT = "rpc"
"""The deed of a story that puts rules in place; `heal` removes them."""


class Api(IntEnum):
    """Kafka's API keys that faults are about; a rule may name any other by its number."""

    PRODUCE = 0
    FETCH = 1
    API_VERSIONS = 18
    OFFSET_FOR_LEADER_EPOCH = 23
    END_TXN = 26
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    FETCH_SNAPSHOT = 59
    BROKER_HEARTBEAT = 63


Direction = Literal["request", "response"]
Do = Literal["drop", "hold", "delay", "duplicate", "answer", "close"]
Way = Literal["through", "around", "silent", "nowhere"]
"""Where a connection from one node to another ends up: through the proxy, around it, at a node that does not answer,
or nowhere, because it is sent to a proxy that is not there."""


@dataclass(frozen=True, slots=True)
class RpcMatch:
    """Which messages are meant. An empty tuple, and None, mean any.

    source and target are who sends this very message and who is to receive it, as in Link: a response from the leader
    has the leader as its source. Both are node numbers, or roles until the fault is injected. What a response is about
    (api key, pre_vote, topic, partition) is what its request was about. nth is the only match to act on, counted from
    1; probability is drawn for each match from the plan's seed; limit is the greatest number of actions.
    """

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
    """What becomes of a message. delay_ms is for delay, error_code (Kafka's number) for answer.

    When a rule that holds goes, what it holds travels on; with loses it is lost instead, and its connection closed.
    """

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
    """The message, and what follows it on its connection, comes so much later."""
    return RpcAction("delay", delay_ms=delay_ms)


def answer(error_code: int) -> RpcAction:
    """The request goes no further; its sender is answered with this error."""
    return RpcAction("answer", error_code=error_code)


@dataclass(frozen=True, slots=True)
class RpcRule:
    """A named match and action. Raises BadInput where the two do not go together."""

    name: str
    match: RpcMatch
    action: RpcAction

    def __post_init__(self) -> None:
        problem = next((expected for holds, expected in _sense(self.match, self.action) if not holds), None)
        if problem:
            raise BadInput(f"RPC rule {self.name!r}: expected {problem}")

    def to_json(self) -> dict[str, Any]:
        """Plain values; whatever has its default is left out."""
        return {"name": self.name, "match": _told(self.match), "action": _told(self.action)}

    @classmethod
    def from_json(cls, value: Any) -> RpcRule:
        """The rule in plain values. Raises BadInput for a name that there is not, or a value that makes no sense."""
        if not isinstance(value, Mapping) or set(value) != {"name", "match", "action"}:
            raise BadInput(f"RPC rule {value!r}: expected name, match and action")
        name = str(value["name"])
        return cls(name, _heard(RpcMatch, name, value["match"]), _heard(RpcAction, name, value["action"]))

    def settled(self, nodes_in_role: Callable[[Who], tuple[int, ...]]) -> RpcRule:
        """The rule with node numbers in the place of roles."""
        sources, targets = (_settle(nodes, nodes_in_role) for nodes in (self.match.sources, self.match.targets))
        return replace(self, match=replace(self.match, sources=sources, targets=targets))


@dataclass(frozen=True, slots=True)
class RuleCount:
    """How often a rule matched, how often it acted, and how many messages it holds just now."""

    matched: int = 0
    acted: int = 0
    holding: int = 0


@dataclass(frozen=True, slots=True)
class RpcRow:
    """One message that came by. time_ns is run time; epoch and granted are told for the Raft RPCs that carry them.

    action is what a rule did, or `pass`; `lost` came after a dropped message on its connection; `swallow` is the second
    response to a duplicated request.
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


class Rpcs(Protocol):
    """A network whose RPCs can be disturbed one by one."""

    async def replace(self, rules: Sequence[RpcRule]) -> None:
        """Put these rules in the place of all others, at once, and see to it that every RPC passes by them.

        A rule that stays as it is keeps its counters and what it holds. Raises BadInput for a rule that cannot be
        carried out.
        """

    async def clear(self) -> None:
        """No rule is in place any more, whatever it takes; harmless when none is."""

    async def counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules in place, by name. Raises EnvironmentFailure where they are lost."""

    async def ways(self, links: Iterable[Link]) -> Mapping[Link, Way]:
        """Try each link with a connection of a node's own kind, and tell where it ends up."""


def intercept(*rules: RpcRule) -> Step:
    """Treat RPCs by these rules until healed."""
    return Step(INTERCEPT, {"rules": [rule.to_json() for rule in rules]})


def _sense(match: RpcMatch, action: RpcAction) -> Iterable[tuple[bool, str]]:
    """What must hold of a match and its action, each with the words that say so."""
    ends = (*match.sources, *match.targets)
    return (
        (all(isinstance(key, int) for key in match.api_keys), f"api_keys as numbers, got {list(match.api_keys)}"),
        (all(isinstance(node, int | str) for node in ends), f"nodes by number or role, got {list(ends)}"),
        (match.direction in get_args(Direction), f"direction request or response, got {match.direction!r}"),
        (action.do in get_args(Do), f"one of {', '.join(get_args(Do))}, got {action.do!r}"),
        (action.do not in ("duplicate", "answer") or match.direction == "request", f"{action.do} on requests only"),
        (action.do != "answer" or bool(match.api_keys), "api_keys where the action is to answer"),
        (action.do != "answer" or action.error_code != 0, "an error_code where the action is to answer"),
        (action.do == "hold" or not action.loses, f"loses on hold only, got it on {action.do}"),
        (action.do != "delay" or action.delay_ms > 0, f"delay_ms above 0, got {action.delay_ms}"),
        (match.nth is None or match.nth > 0, f"nth above 0, got {match.nth}"),
        (match.limit is None or match.limit > 0, f"limit above 0, got {match.limit}"),
        (
            match.probability is None or 0 < match.probability <= 1,
            f"probability in (0, 1], got {match.probability}",
        ),
    )


def _told(value: RpcMatch | RpcAction) -> dict[str, Any]:
    pairs = {field.name: getattr(value, field.name) for field in fields(value)}
    defaults = {field.name: field.default for field in fields(value) if field.default is not MISSING}
    return {
        name: list(each) if isinstance(each, tuple) else each
        for name, each in pairs.items()
        if name not in defaults or each != defaults[name]
    }


def _heard(kind: Any, name: str, value: Any) -> Any:
    known = {field.name: field.type for field in fields(kind)}
    if not isinstance(value, Mapping) or not set(value) <= set(known):
        raise BadInput(f"RPC rule {name!r}: expected {', '.join(known)}, got {value!r}")
    if kind is RpcAction and "do" not in value:
        raise BadInput(f"RPC rule {name!r}: expected an action's do, got {value!r}")
    wrong = next((each for each in value if not isinstance(value[each], _JSON_TYPES[known[each].split("[")[0]])), None)
    if wrong:
        raise BadInput(f"RPC rule {name!r}: expected {wrong} as {known[wrong]}, got {value[wrong]!r}")
    return kind(**{each: tuple(item) if isinstance(item, list) else item for each, item in value.items()})


_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "tuple": (list, tuple),
    "Direction": (str,),
    "Do": (str,),
    "bool | None": (bool, type(None)),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "float | None": (float, int, type(None)),
    "int": (int,),
    "bool": (bool,),
}
"""What a field's annotation, as it is written, takes from JSON."""


def _settle(nodes: tuple[int | Who, ...], nodes_in_role: Callable[[Who], tuple[int, ...]]) -> tuple[int | Who, ...]:
    return tuple(number for node in nodes for number in ((node,) if isinstance(node, int) else nodes_in_role(node)))
