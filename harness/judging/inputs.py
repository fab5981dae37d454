"""What judging a run needs to know of its system and its workload; stored with the run as system.json.

A run is judged by the transition rules, and shown by the label, that its system had when it ran. If the system's plugin
is no longer installed, its stored checks apply as well, so a stored run can be checked without the plugin. A run of
an earlier release has no system.json; its plan's system gives everything.

Contains the values, their storage and the choice between stored and present ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.model import BadInput
from harness.model.transition_rules import TransitionRules
from harness.planning.plan import Plan
from harness.planning.workloads import checks_of, workload_of
from harness.systems.cluster import label_of, rules_of
from results.files import read_json, write_json
from results.store import RunDirectory


@dataclass(frozen=True, slots=True)
class JudgingInputs:
    """label: what reports call the cluster. checks: their names. idle: the workload does nothing. rules: by node."""

    label: str
    checks: tuple[str, ...]
    idle: bool
    rules: Mapping[int, TransitionRules]


def inputs_of(plan: Plan) -> JudgingInputs:
    """The inputs by the installed system and workload. Raises BadInput if the system is not installed."""
    workload = workload_of(plan)
    return JudgingInputs(label_of(plan), checks_of(plan, workload), workload.idle, rules_of(plan))


def record_inputs(run: RunDirectory, plan: Plan) -> None:
    """Store the plan's inputs with its run."""
    inputs = inputs_of(plan)
    rules = [
        {"nodes": [node for node, each in inputs.rules.items() if each == one], **one.to_json()}
        for one in dict.fromkeys(inputs.rules.values())
    ]
    write_json(run.system, {"label": inputs.label, "checks": inputs.checks, "idle": inputs.idle, "rules": rules})


def inputs_of_run(run: RunDirectory, plan: Plan) -> JudgingInputs:
    """The inputs of a stored run. Raises BadInput if system.json is not valid, or has to exist and does not."""
    stored = _stored(run.system) if run.system.exists() else None
    try:
        present = inputs_of(plan)
    except BadInput:
        if stored is None:
            raise
        return stored
    return present if stored is None else replace(present, label=stored.label, rules=stored.rules)


def _stored(path: Path) -> JudgingInputs:
    document = read_json(path)
    try:
        rules = {node: TransitionRules.from_json(each) for each in document["rules"] for node in each["nodes"]}
        return JudgingInputs(document["label"], tuple(document["checks"]), document["idle"], rules)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{path}: expected a label, checks, idle and rules of nodes") from error
