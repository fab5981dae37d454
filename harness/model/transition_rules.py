"""Which transitions the nodes of a system may make: a value that a system carries and its runs store.

    RAFT = TransitionRules(
        "Raft",
        steps=(
            AllowedStep("Follower", "Candidate", "next"),
            AllowedStep("Candidate", "Leader", "same"),
            AllowedStep("Leader", "Follower", "higher"),
        ),
        start_states=("Follower",),
    )

States are the names that the system's observations have (harness.model.records.observation). A system may name its
states as it likes, except that a node that leads is in the state `Leader`.

Contains the value and its JSON. The tables of Kafka's versions are in harness.model.quorum_states, the check is in
checkers.quorum.safety.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

EpochRule = Literal["same", "next", "higher", "same or higher"]
"""How the epoch after a transition relates to the one before."""


def admits(rule: EpochRule, epoch_before: int, epoch_after: int) -> bool:
    """Whether the two epochs satisfy the rule."""
    match rule:
        case "same":
            return epoch_after == epoch_before
        case "next":
            return epoch_after == epoch_before + 1
        case "higher":
            return epoch_after > epoch_before
        case "same or higher":
            return epoch_after >= epoch_before


@dataclass(frozen=True, slots=True)
class AllowedStep:
    """A node may go from source to target if its epoch changes by this rule."""

    source: str
    target: str
    epoch: EpochRule


@dataclass(frozen=True, slots=True)
class TransitionRules:
    """The transitions that a node may make.

    name: what findings call the rules. start_states: the states that a process may start in. observer: the rules of a
    node that does not vote; None if they are the same. keeps_votes: a node's file keeps its vote for the whole epoch.
    """

    name: str
    steps: tuple[AllowedStep, ...]
    start_states: tuple[str, ...]
    observer: TransitionRules | None = None
    keeps_votes: bool = False

    @property
    def of_observers(self) -> TransitionRules:
        """The rules of a node that does not vote."""
        return self.observer or self

    def to_json(self) -> dict[str, Any]:
        """The rules as a JSON object."""
        return asdict(self)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> TransitionRules:
        """The rules that to_json returned. Raises KeyError or TypeError if stored is not such an object."""
        observer = stored["observer"]
        return TransitionRules(
            stored["name"],
            tuple(AllowedStep(**step) for step in stored["steps"]),
            tuple(stored["start_states"]),
            None if observer is None else TransitionRules.from_json(observer),
            stored["keeps_votes"],
        )


def any_of(rules: Iterable[TransitionRules]) -> TransitionRules:
    """The rules of a node that may follow any of these, e.g. because its version changed in the run."""
    distinct = list(dict.fromkeys(rules))
    if len(distinct) == 1:
        return distinct[0]
    return TransitionRules(
        " or ".join(each.name for each in distinct),
        tuple(dict.fromkeys(step for each in distinct for step in each.steps)),
        tuple(dict.fromkeys(state for each in distinct for state in each.start_states)),
        any_of(each.of_observers for each in distinct),
        all(each.keeps_votes for each in distinct),
    )
