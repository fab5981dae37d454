"""What runs reached: transitions of nodes, the states in which faults met them, disturbed RPCs, elections, moves.

    coverage = sum((each.coverage for each in stored), Coverage())
    for line in lines_of(coverage): ...

Contains the counts, their form as JSON and their text. Reading them from a run is in harness.exploration.reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from harness.model import BadInput
from harness.model.plurals import counted
from harness.model.quorum_states import State
from harness.model.shown_values import shown

ON_NODES: Final = ("kill", "stop", "pause", "cut", "lose_unsynced", "slow_disk", "configure")
"""The faults that name the nodes which they affect."""
SHOWN_MAX: Final = 8
"""How many of what was not reached a line names."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Counts over a number of runs.

    transitions: "Follower > Prospective"; possible are those that the rules of some node allow. faults: "kill of a
    Leader", by the state that the node had entered last; rpcs: "drop VOTE response"; membership: "remove_voter";
    versions: runs with a node of this version; moves: by name (nemesis.moves).
    """

    runs: int = 0
    elections: int = 0
    epochs: int = 0
    transitions: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    rpcs: Counter[str] = field(default_factory=Counter)
    membership: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    possible: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def to_json(self) -> dict[str, Any]:
        """The counts as a JSON object, names in order."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: dict(sorted(each.items())) if isinstance(each, Counter) else each for name, each in values}

    @staticmethod
    def from_json(content: object, place: str) -> Coverage:
        """The counts of a JSON object. Raises BadInput that names the place."""
        known = {each.name for each in fields(Coverage)}
        if not (isinstance(content, dict) and content.keys() == known and all(map(_are_counts, content.values()))):
            raise BadInput(f"{place}: expected the counts {', '.join(sorted(known))}, found {shown(content)}")
        counts: dict[str, Any] = {name: Counter(x) if isinstance(x, dict) else x for name, x in content.items()}
        return Coverage(**counts)


def _are_counts(value: object) -> bool:
    return all(isinstance(each, int) for each in (value.values() if isinstance(value, dict) else [value]))


def lines_of(coverage: Coverage, moves: Collection[str]) -> Iterator[str]:
    """What was reached and what was not, a line for each kind; moves are all that there are."""
    met = {f"{fault} of a {state.value}" for fault in ON_NODES for state in State}
    yield f"{counted(coverage.elections, 'election')}, {counted(coverage.epochs, 'epoch')}"
    yield _line("transitions", coverage.possible, coverage.transitions)
    yield _line("faults by the state that they met", met, coverage.faults)
    yield _line("moves", moves, coverage.moves)
    yield f"RPCs disturbed: {_counts(coverage.rpcs)}"
    yield f"membership changes: {_counts(coverage.membership)}"
    yield f"versions: {_counts(coverage.versions)}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _line(what: str, possible: Collection[str], reached: Mapping[str, int]) -> str:
    missing = sorted(set(possible) - reached.keys())
    more = f" and {len(missing) - SHOWN_MAX} more" if len(missing) > SHOWN_MAX else ""
    names = f"; not yet {', '.join(missing[:SHOWN_MAX])}{more}" if missing else ""
    return f"{what}: {len(possible) - len(missing)} of {len(possible)}{names}"
