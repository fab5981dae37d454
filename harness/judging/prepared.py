"""A stored run as it goes to the checks: its plan, its inputs and its tables, read and found to be whole.

    prepared = prepare(run)             # raises BadInput for a damaged run
    prepared.to_judge                   # what the checks get

Contains what precedes the checks. The verdict that follows is in harness.judging.runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness import plugins
from harness.judging.inputs import JudgingInputs, inputs_of_run
from harness.model.scenario import Side
from harness.planning.plan import Plan
from results.store import RunDirectory
from results.tables import merge_tables

if TYPE_CHECKING:
    from checkers.framework.contract import Check
    from checkers.framework.tables import Chunks
    from checkers.run_checks import RunInput
    from harness.model.measures import Measure


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can be judged. measures: what its side of its scenario measures itself."""

    run: RunDirectory
    plan: Plan
    inputs: JudgingInputs
    chunks: Chunks
    measures: tuple[Measure, ...] = ()

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks that judge it, by name."""
        return {name: plugins.check(name) for name in self.inputs.checks}

    @property
    def to_judge(self) -> RunInput:
        """What the checks get: its tables, and what they assume."""
        from checkers.framework.contract import JudgeSettings
        from checkers.run_checks import RunInput

        rules = set(self.inputs.rules.values())
        settings = JudgeSettings(idle=self.inputs.idle, ops=plugins.ops(), measures=self.measures)
        own = {"rules": rules.pop()} if len(rules) == 1 else {"node_rules": self.inputs.rules}
        return RunInput(self.chunks, self.checks, replace(settings, **own))


def prepare(run: RunDirectory) -> PreparedRun:
    """Read a recorded run's plan and inputs, and store each table as one file. Raises BadInput if one is damaged."""
    from checkers.framework.tables import chunks_of

    plan = Plan.read(run.plan)
    inputs = inputs_of_run(run, plan)
    merge_tables(run)
    side = side_of_plan(plan)
    return PreparedRun(run, plan, inputs, chunks_of(run.path), side.measures if side else ())


def side_of_plan(plan: Plan) -> Side | None:
    """The side of a scenario that the plan runs; None for a plan without a scenario."""
    return plugins.scenario(plan.scenario).side(plan.side or "") if plan.scenario else None
