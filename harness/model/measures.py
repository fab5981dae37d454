"""Quantities that a scenario measures itself: how often something happened, when, and by how much an epoch grew.

    Count(enters(State.PROSPECTIVE, node=1))                       transitions of n1 to Prospective
    Count(sends(Api.VOTE, source=1, pre_vote=True), until=HEAL)    Vote requests of n1 for a pre-vote, until heal
    After("n1 is cut off", enters(State.RESIGNED, node=1))         from the mark to the transition
    Between(enters(State.RESIGNED), enters(State.PROSPECTIVE))     from each to the next on the same node, the longest
    Largest(sends(Api.FETCH))                                      the size of the largest such RPC
    EpochGrowth(node=1)                                            of the epochs in n1's log and quorum-state file

A measure counts from a mark of the story on (harness.model.story.mark), by default from the first fault on, until
another mark, the last heal, or the end. What needs RPCs is measured only if they were recorded (Plan.record_rpcs).

Contains values and their text. checkers.runs.measures evaluates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from harness.model.faults.rpc import Api
from harness.model.nemesis_ops import HEAL
from harness.model.quorum_states import State
from harness.model.story import STORY_BEGINS

Field = tuple[str, str | int | bool | None]
"""A column and its value; None is null."""

Pick = Literal["longest", "shortest"]

TIMES: Final = "times"
EPOCHS: Final = "epochs"
MS: Final = "ms"
BYTES: Final = "bytes"


@dataclass(frozen=True, slots=True)
class Event:
    """The rows of a table whose columns have these values, and what they are called in reports."""

    table: Literal["observations", "rpcs"]
    text: str
    fields: tuple[Field, ...]


def enters(state: State, node: int | None = None, previous: State | None = None, voted: int | None = None) -> Event:
    """Transitions to a state, as logged by any node or by this one, from any state or from this one."""
    fields = {"node": node, "state": state.value, "previous": previous.value if previous else None, "voted": voted}
    origin = f" from {previous.value}" if previous else ""
    vote = f" with a vote for n{voted}" if voted is not None else ""
    text = f"transitions{_of(node)}{origin} to {state.value}{vote}"
    return Event("observations", text, (("kind", "transition"), *_given(fields)))


def starts_as(state: State, node: int) -> Event:
    """Starts of this node in a state; the first transition that an incarnation logs has no previous state."""
    fields = (("kind", "transition"), ("node", node), ("state", state.value), ("previous", None))
    return Event("observations", f"starts of n{node} as {state.value}", fields)


def exits(node: int | None = None) -> Event:
    """Ends of a server that were not requested."""
    return Event("observations", f"exits{_of(node)}", (("kind", "exited"), *_given({"node": node})))


def sends(
    api: Api,
    source: int | None = None,
    target: int | None = None,
    pre_vote: bool | None = None,
    epoch: int | None = None,
) -> Event:
    """Requests that a proxy saw. pre_vote and epoch are those of Vote requests (KIP-996)."""
    kind = {None: "", True: " for a pre-vote", False: " for a vote"}[pre_vote]
    text = f"{_title(api)} requests{_of(source)}{_to(target)}{kind}{'' if epoch is None else f' in epoch {epoch}'}"
    fields = {"source": source, "target": target, "pre_vote": pre_vote, "epoch": epoch}
    return Event("rpcs", text, (("api_key", int(api)), ("direction", "request"), *_given(fields)))


def grants(source: int | None = None, target: int | None = None, pre_vote: bool = True) -> Event:
    """Votes, or pre-votes, that a proxy saw being granted by the source to the target."""
    fields = {"source": source, "target": target, "pre_vote": pre_vote, "granted": True}
    text = f"{'pre-votes' if pre_vote else 'votes'} granted{_by(source)}{_to(target)}"
    return Event("rpcs", text, (("api_key", int(Api.VOTE)), ("direction", "response"), *_given(fields)))


@dataclass(frozen=True, slots=True)
class Count:
    """How often an event happened."""

    event: Event
    since: str = STORY_BEGINS
    until: str | None = None

    unit = TIMES

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.event.text + _window(self.since, self.until)


@dataclass(frozen=True, slots=True)
class Largest:
    """The size of the largest RPC among these, as frames have it on the wire."""

    event: Event
    since: str = STORY_BEGINS
    until: str | None = None

    unit = BYTES

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"the largest of {self.event.text}{_window(self.since, self.until)}"


@dataclass(frozen=True, slots=True)
class After:
    """The time from a mark to the first event after it."""

    since: str
    event: Event

    unit = MS

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"time to the first of {self.event.text}{_window(self.since, None)}"


@dataclass(frozen=True, slots=True)
class Between:
    """The time from each event to the next event of another kind on the same node: the longest, or the shortest.

    An event that no other follows is left out. The node of an RPC is its source.
    """

    first: Event
    then: Event
    pick: Pick = "longest"
    since: str = STORY_BEGINS
    until: str | None = None

    unit = MS

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.pick} time from {self.first.text} to {self.then.text}{_window(self.since, self.until)}"


@dataclass(frozen=True, slots=True)
class EpochGrowth:
    """By how much the highest epoch grew that a node, or any node, logged, stored or claimed."""

    node: int | None = None
    since: str = STORY_BEGINS
    until: str | None = None

    unit = EPOCHS

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"growth of the epoch{_of(self.node)}{_window(self.since, self.until)}"


Measure = Count | Largest | After | Between | EpochGrowth


def needs_rpcs(measure: Measure) -> bool:
    """Whether a measure reads the record of RPCs."""
    events = [getattr(measure, name, None) for name in ("event", "first", "then")]
    return any(event is not None and event.table == "rpcs" for event in events)


def _given(fields: Mapping[str, str | int | bool | None]) -> tuple[Field, ...]:
    return tuple((name, value) for name, value in fields.items() if value is not None)


def _title(api: Api) -> str:
    return "".join(word.capitalize() for word in api.name.split("_"))


def _of(node: int | None) -> str:
    return "" if node is None else f" of n{node}"


def _to(node: int | None) -> str:
    return "" if node is None else f" to n{node}"


def _by(node: int | None) -> str:
    return "" if node is None else f" by n{node}"


def _window(since: str, until: str | None) -> str:
    start = "" if since == STORY_BEGINS else f' after "{since}"'
    if until is None:
        return start
    return f"{start} until the heal" if until == HEAL else f'{start} until "{until}"'
