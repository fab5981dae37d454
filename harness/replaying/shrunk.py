"""The result of shrinking: a value, and its texts: a plan file, a scenario for the catalogue, and a summary.

Contains what a user gets. Does not contain how it is found (harness.replaying.shrink).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tomli_w

from harness import plugins
from harness.model.plurals import counted
from harness.planning.plan import Plan, request_of
from harness.planning.story_steps import StoryStep
from results.store import RunDirectory

CONFIRMATIONS: Final = 5
CONFIRMED_MIN: Final = 4
"""The result must fail in so many of so many runs."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest plan that was found, and how often it failed of so many plays at the end.

    original is the plan before, failing a run of the smallest one, tried the number of candidates, seconds the time
    that they took. is_complete: nothing more was left to try when the time was over.
    """

    original: Plan
    plan: Plan
    finding: str
    failed: int
    played: int
    tried: int
    seconds: float
    is_complete: bool
    failing: RunDirectory
    folder: Path

    @property
    def is_confirmed(self) -> bool:
        """Whether it fails in four runs of five."""
        return self.failed >= CONFIRMED_MIN

    @property
    def text(self) -> str:
        """How often the smallest story fails, in a sentence."""
        if not self.played:
            return "The smallest story was not confirmed: shrinking was interrupted."
        return f"The smallest story fails in {self.failed} of {counted(self.played, 'run')}."

    def to_json(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "finding": self.finding,
            "plan": str(self.folder / "plan.toml"),
            "before": size_of(self.original),
            "after": size_of(self.plan),
            "failed": self.failed,
            "played": self.played,
            "tried": self.tried,
            "seconds": round(self.seconds, 1),
            "complete": self.is_complete,
            "report": str(self.failing.report),
        }


def size_of(plan: Plan) -> dict[str, float]:
    """How large a plan is: its steps, its faults, its seconds, nodes, clients, and operations a second."""
    return {
        "steps": len(plan.story),
        "faults": sum(map(_is_fault, plan.story)),
        "seconds": round(plan.story_seconds, 1),
        "nodes": plan.nodes,
        "clients": plan.concurrency,
        "rate": plan.rate_per_second,
    }


def _is_fault(step: StoryStep) -> bool:
    """Whether a step injects a fault; one that only waits, or ends another, such as a start, does not."""
    fault = plugins.actions().get(step.f)
    return fault is not None and not (fault.actions[step.f].ends or fault.actions[step.f].waits)


def toml_of(plan: Plan) -> str:
    """The plan as a file for `splitbrain run --plan`, without what is as by default."""
    request = request_of(plan)
    values = request.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    return tomli_w.dumps({**values, "seed": plan.seed})


def scenario_of(result: Shrunk) -> str:
    """The story as a value for the catalogue, with the settings of the system that are not as by default."""
    plan = result.plan
    steps = "\n".join(f"        Step({step.f!r}, {step.value!r})," for step in plan.story)
    family, _, version = plan.system.partition(":")
    setup = f"reference={plan.switches!r}" if family == "reference" else f"kafka={version!r}"
    if family != "reference" and plan.switches:
        setup += f", kafka_switches={plan.switches!r}"
    options = f", workload_options={plan.workload_options!r}" if plan.workload_options else ""
    return f"""from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import Step

SCENARIO = Scenario(
    id="NEW-01",
    title={f"A run shows {result.finding}"!r},
    question={f"Does a run with these faults show {result.finding}?"!r},
    source=Source("found by exploration"),
    nodes={plan.nodes},
    voters={plan.voters!r},
    layout={plan.layout!r},
    workload={plan.workload!r},
    story=(
{steps}
    ),
    bad=Side(on({setup}), breaks=({result.finding!r},){options}),
)
"""


def outcome_text(failed: int, played: int) -> str:
    """How often a candidate failed, in words."""
    return f"failed in {failed} of {counted(played, 'run')}" if played else "not played, since it is not possible"


def summary_of(result: Shrunk, tried: Iterable[Mapping[str, Any]]) -> str:
    """What was removed, what was tried, and how often the result fails, as Markdown."""
    before, after = size_of(result.original), size_of(result.plan)
    ended = "" if result.is_complete else " The time was over before everything was tried."
    minutes = f"{counted(result.tried, 'candidate')} took {result.seconds / 60:.0f} minutes."
    attempts = [
        f"- {each['text']}: {outcome_text(each['failed'], each['played'])} ({each['seconds']:g} s)" for each in tried
    ]
    lines = [
        *(f"# {result.finding}", "", f"{result.text} {minutes}{ended}", ""),
        *("| | before | after |", "|---|---|---|"),
        *(f"| {name} | {before[name]:g} | {after[name]:g} |" for name in before),
        *("", "Play it: `splitbrain run --plan plan.toml`", ""),
        *attempts,
    ]
    return "\n".join(lines) + "\n"
