"""The coverage of stored runs: read from a run's tables once, then kept in its directory as coverage.json.

    coverage = coverage_of(run)              # of one run
    coverage = coverage_of_store(store, "kafka:4.3.1")

Contains the reading. The counts and their text are in harness.exploration.coverage.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

from harness.chunks import read_table
from harness.exploration.coverage import ON_NODES, Coverage
from harness.judging.inputs import inputs_of_run
from harness.model import NEMESIS, BadInput, SplitbrainError
from harness.model.faults.rpc import Api
from harness.model.quorum_states import State
from harness.model.records.tables import HISTORY, OBSERVATIONS, RPCS
from harness.model.story import MARK
from harness.planning.plan import Plan
from nemesis.faults.membership import VOTER_ACTIONS
from nemesis.moves import MOVES
from results.files import read_json, write_json
from results.store import RunDirectory, runs

API_NAMES: Final = {api.value: api.name for api in Api}


def coverage_of(run: RunDirectory) -> Coverage:
    """What a run reached. Raises BadInput for one that is damaged, and OSError if it cannot be written."""
    with suppress(BadInput):  # not stored yet, or by a release that counted something else
        return Coverage.from_json(read_json(run.coverage), str(run.coverage))
    coverage = _measured(run, Plan.read(run.plan))
    write_json(run.coverage, coverage.to_json())
    return coverage


def coverage_of_store(store: Path, system: str | None = None) -> Coverage:
    """What the checked runs of a store reached together, of one system if given; damaged runs are left out."""
    return sum(_stored(store, system), Coverage())


def _stored(store: Path, system: str | None) -> Iterator[Coverage]:
    for run in (each for parent in runs(store) for each in (parent, *parent.sides())):
        try:
            coverage = coverage_of(run) if run.kind == "run" and run.status == "judged" else Coverage()
        except SplitbrainError:
            continue
        if system is None or system in coverage.versions:
            yield coverage


def _measured(run: RunDirectory, plan: Plan) -> Coverage:
    observations = read_table(run.observations, OBSERVATIONS)
    entered = observations.filter(pc.equal(observations["kind"], "transition")).sort_by("time_ns").to_pylist()
    history = read_table(run.history, HISTORY)
    nemesis = history.filter(pc.equal(history["process"], NEMESIS)).to_pylist()
    marks = [json.loads(row["value"]) for row in nemesis if row["f"] == MARK]
    ended = list(_ended(nemesis))
    rules = inputs_of_run(run, plan).rules.values()
    return Coverage(
        runs=1,
        elections=sum(row["state"] == State.LEADER.value for row in entered),
        epochs=len({row["epoch"] for row in entered}),
        transitions=Counter(f"{row['previous']} > {row['state']}" for row in entered if row["previous"]),
        faults=Counter(_faults(ended, entered)),
        rpcs=Counter(_disturbed(run)),
        membership=Counter(row["f"] for _, row in ended if row["f"] in VOTER_ACTIONS),
        versions=Counter({_version(plan, node) for node in range(1, plan.nodes + 1)}),
        moves=Counter(name for name in marks if name in MOVES),
        possible=Counter({f"{step.source} > {step.target}" for each in rules for step in each.steps}),
    )


def _version(plan: Plan, node: int) -> str:
    """A node's system, with the switches that it alone has."""
    switches = ", ".join(f"{name}={value}" for name, value in plan.node_switches.get(node, {}).items())
    system = plan.node_systems.get(node, plan.system)
    return f"{system} ({switches})" if switches else system


def _ended(nemesis: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The operations that succeeded: the time at which each began, and the row with its outcome."""
    began: dict[str, int] = {}
    for row in nemesis:
        if row["f"] == MARK:
            continue
        if row["f"] not in began:
            began[row["f"]] = row["time_ns"]
        else:
            time_ns = began.pop(row["f"])
            if row["error"] is None:
                yield time_ns, row


def _faults(ended: list[tuple[int, dict[str, Any]]], entered: list[dict[str, Any]]) -> Iterator[str]:
    """Each fault of a node, with the state that the node was in when the operation began."""
    states: dict[int, tuple[list[int], list[str]]] = defaultdict(lambda: ([], []))
    for row in entered:
        times, names = states[row["node"]]
        times.append(row["time_ns"])
        names.append(row["state"])
    for time_ns, row in ended:
        for node in _nodes_of(row["value"]) if row["f"] in ON_NODES else ():
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
