"""What runs reached: transitions of nodes, the states in which faults met them, disturbed RPCs, elections.

    coverage = sum((coverage_of(run, rules) for run in runs), Coverage())
    for line in lines_of(coverage): ...

Contains the counts and their text. What a run draws does not depend on them.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow.compute as pc

from harness.chunks import read_table
from harness.model import NEMESIS
from harness.model.faults.rpc import Api
from harness.model.quorum_states import State
from harness.model.records.tables import HISTORY, OBSERVATIONS, RPCS
from harness.model.transition_rules import TransitionRules
from results.store import RunDirectory

ON_NODES: Final = ("kill", "stop", "pause", "cut", "lose_unsynced", "slow_disk", "configure")
"""The faults that name the nodes which they affect."""
API_NAMES: Final = {api.value: api.name for api in Api}
SHOWN_MAX: Final = 8
"""How many of what was not reached a line names."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Counts over a number of runs.

    transitions: "Follower > Prospective"; possible are those that the rules of some node allow. faults: "kill of a
    Leader", by the state that the node had entered last; rpcs: "drop VOTE response".
    """

    runs: int = 0
    elections: int = 0
    epochs: int = 0
    transitions: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    rpcs: Counter[str] = field(default_factory=Counter)
    possible: frozenset[str] = frozenset()

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.runs + other.runs,
            self.elections + other.elections,
            self.epochs + other.epochs,
            self.transitions + other.transitions,
            self.faults + other.faults,
            self.rpcs + other.rpcs,
            self.possible | other.possible,
        )

    def to_json(self) -> dict[str, Any]:
        """The counts as a JSON object."""
        counts = {"transitions": self.transitions, "faults": self.faults, "rpcs": self.rpcs}
        numbers = {"runs": self.runs, "elections": self.elections, "epochs": self.epochs}
        return {**numbers, **{name: dict(sorted(each.items())) for name, each in counts.items()}}


def coverage_of(run: RunDirectory, rules: Collection[TransitionRules]) -> Coverage:
    """What a stored run reached; rules are those that its nodes follow. Raises BadInput for a damaged table."""
    observations = read_table(run.observations, OBSERVATIONS)
    entered = observations.filter(pc.equal(observations["kind"], "transition")).sort_by("time_ns").to_pylist()
    led = [row for row in entered if row["state"] == State.LEADER.value]
    return Coverage(
        1,
        len(led),
        len({row["epoch"] for row in entered}),
        Counter(f"{row['previous']} > {row['state']}" for row in entered if row["previous"]),
        Counter(_faults(run, entered)),
        Counter(_disturbed(run)),
        frozenset(f"{step.source} > {step.target}" for each in rules for step in each.steps),
    )


def lines_of(coverage: Coverage) -> Iterator[str]:
    """What was reached and what was not, a line for each kind."""
    met = {f"{fault} of a {state.value}" for fault in ON_NODES for state in State}
    yield f"{coverage.elections} elections, {coverage.epochs} epochs"
    yield _line("transitions", coverage.possible, coverage.transitions)
    yield _line("faults by the state that they met", met, coverage.faults)
    yield f"RPCs disturbed: {', '.join(f'{name} {count}' for name, count in sorted(coverage.rpcs.items())) or 'none'}"


def _line(what: str, possible: Collection[str], reached: Mapping[str, int]) -> str:
    missing = sorted(set(possible) - reached.keys())
    more = f" and {len(missing) - SHOWN_MAX} more" if len(missing) > SHOWN_MAX else ""
    names = f"; not yet {', '.join(missing[:SHOWN_MAX])}{more}" if missing else ""
    return f"{what}: {len(possible) - len(missing)} of {len(possible)}{names}"


def _faults(run: RunDirectory, entered: list[dict[str, Any]]) -> Iterator[str]:
    """Each fault of a node, with the state that the node was in when the operation began."""
    states: dict[int, tuple[list[int], list[str]]] = defaultdict(lambda: ([], []))
    for row in entered:
        times, names = states[row["node"]]
        times.append(row["time_ns"])
        names.append(row["state"])
    history = read_table(run.history, HISTORY)
    rows = history.filter(pc.equal(history["process"], NEMESIS)).to_pylist()
    began: dict[str, int] = {}
    for row in rows:
        if row["f"] in ON_NODES and row["f"] not in began:
            began[row["f"]] = row["time_ns"]
        elif row["f"] in ON_NODES:
            time_ns = began.pop(row["f"])
            for node in _nodes_of(row["value"]) if row["error"] is None else ():
                times, names = states[node]
                if at := bisect_right(times, time_ns):
                    yield f"{row['f']} of a {names[at - 1]}"


def _nodes_of(value: str | None) -> list[int]:
    """The nodes that an operation's value names: as `nodes`, or the one that all cut links have in common."""
    content = json.loads(value) if value else None
    if not isinstance(content, dict):
        return []
    links = [set(link) for link in content.get("links", ())]
    return content.get("nodes") or (sorted(set.intersection(*links)) if links else [])


def _disturbed(run: RunDirectory) -> Iterator[str]:
    """Each message on which a rule acted."""
    rpcs = read_table(run.rpcs, RPCS)
    for row in rpcs.filter(pc.not_equal(rpcs["action"], "pass")).select(["api_key", "direction", "action"]).to_pylist():
        yield f"{row['action']} {API_NAMES.get(row['api_key'], row['api_key'])} {row['direction']}"
