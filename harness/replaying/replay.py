"""Plays a stored plan again, and says where the two runs differ: faults, leaders, verdict, findings, quantities.

Two runs of one plan have the same story, seed and settings; what their faults met depends on the machine. The first
difference tells how far the second run took the same way. A simulated run can be played on real processes, where its
story takes real seconds, with the same leaders in turn (process_story): what it found there may still depend
on when messages arrive, so it may need several attempts.

Contains playing and comparing two runs. Does not contain sets of runs (harness.comparing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness import plugins
from harness.chunks import read_table
from harness.exploration.drawing import disk_for
from harness.exploration.explore import begin_run
from harness.judging.runs import judge_run
from harness.judging.spark import SparkLater
from harness.judging.stored import check_paths
from harness.model import BadInput, Op
from harness.model.progress import OnEvent, Phase
from harness.model.records.tables import HISTORY, OBSERVATIONS
from harness.model.story import MARK
from harness.planning.plan import Plan, request_of
from harness.planning.preflight import preflight
from harness.planning.story_steps import StoryStep
from harness.recovery.heal import heal_before_a_run
from harness.replaying.leaderships import leaders_in_turn
from harness.replaying.process_story import process_story
from harness.running.at_once import at_end_of_load
from harness.running.controller_process import carry_out
from harness.running.run import refuse_impossible
from results.quantities import shown_quantities
from results.reading.rows import nemesis_ops_of, observations_of
from results.reading.spans import state_spans
from results.run_verdict import RunVerdict, read_verdict
from results.store import RunDirectory

LEADER, IDLE = "Leader", "idle"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something in which two runs differ, in words; "" stands for what one of them does not have."""

    what: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A run that was played again: its verdict now, what differs, and the main quantities of both."""

    before: RunDirectory
    now: RunDirectory
    verdict: RunVerdict
    differences: tuple[Difference, ...]
    quantities: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {
            "before": str(self.before.path),
            "now": str(self.now.path),
            "verdict": self.verdict.verdict.value,
            "differences": [asdict(each) for each in self.differences],
            "quantities": [asdict(each) for each in self.quantities],
        }


def replay(path: Path, store: Path, master: str | None, on_event: OnEvent, on_processes: bool = False) -> Replay:
    """Play the plan of a run again, in this store, and compare; a simulated run on real processes if on_processes.

    Raises BadInput for what is no recorded run, or, with on_processes, no simulated one.
    """
    before = RunDirectory(path.absolute())
    if not before.status_file.exists() or before.kind != "run":
        raise BadInput(f"{path}: expected a run; of a reproduction, one of its sides, e.g. {path}/bad-1")
    plan = Plan.read(before.plan)
    if on_processes:
        plan = plan_for_processes(plan, before)
    refuse_impossible(plan)
    preflight(plan.hosts)
    for line in heal_before_a_run(store):
        on_event(Phase(line))
    later = SparkLater(master)
    run, plan = begin_run(plan, request_of(plan), store, on_event)
    carry_out(plan, run, at_end_of_load(on_event, later.start))
    on_event(Phase("checking", "checks"))
    verdict = judge_run(run, later.session())
    if not before.verdict.exists():
        list(check_paths([before.path], master, lambda text: on_event(Phase(text))))
    earlier = read_verdict(before.verdict)
    events = [("leader", leaders_in_turn)] if on_processes else [("nemesis operation", _nemesis), ("leader", _leaders)]
    differ = [each for what, of_run in events for each in _first(what, of_run(before), of_run(run))]
    differ += differences(earlier, verdict)
    return Replay(before, run, verdict, tuple(differ), tuple(_measured(earlier, verdict)))


def plan_for_processes(plan: Plan, run: RunDirectory) -> Plan:
    """A simulated run's plan on the default kind of host, with the disks that its story needs.

    The story of a timed run is that of process_story. If no finding concerns what clients read and wrote, it
    starts the nodes, and there are no clients. Raises BadInput for another kind of run.
    """
    if not plugins.host_kind(plan.hosts).simulated:
        raise BadInput(f"{run.path}: --on-processes: expected a simulated run, found one on {plan.hosts} hosts")
    processes = {"hosts": Plan.model_fields["hosts"].default, "timed": False}
    if not plan.timed:
        return plan.model_copy(update={**processes, "disk": disk_for([each.step() for each in plan.story])})
    needs_clients = run.verdict.exists() and any(each.key is not None for each in read_verdict(run.verdict).findings)
    story = process_story(run, starts_nodes=not needs_clients)
    if not needs_clients:
        processes |= {"workload": IDLE, "not_started": list(range(1, plan.nodes + 1))}
    steps = [StoryStep.of(step) for step in story]
    return plan.model_copy(update={**processes, "disk": disk_for(story), "story": steps})


def differences(earlier: RunVerdict, later: RunVerdict) -> Iterator[Difference]:
    """In what two verdicts differ, and which findings only one of them has."""
    if earlier.verdict is not later.verdict:
        yield Difference("verdict", earlier.verdict.value, later.verdict.value)
    names = [list(dict.fromkeys(each.name for each in verdict.findings)) for verdict in (earlier, later)]
    for name in dict.fromkeys([*names[0], *names[1]]):
        if (name in names[0]) != (name in names[1]):
            yield Difference("finding", name if name in names[0] else "", name if name in names[1] else "")


def _first(what: str, before: Sequence[str], now: Sequence[str]) -> Iterator[Difference]:
    """The first difference between two sequences, with its number."""
    pairs = enumerate(zip_longest(before, now, fillvalue=""), 1)
    different = next(((number, *pair) for number, pair in pairs if pair[0] != pair[1]), None)
    if different is not None:
        number, old, new = different
        yield Difference(f"{what} {number} of {max(len(before), len(now))}", old, new)


def _nemesis(run: RunDirectory) -> list[str]:
    """The operations of the nemesis as they ended, with the nodes and links that they met."""
    ops = [op for op in nemesis_ops_of(read_table(run.history, HISTORY)) if op.f != MARK]
    return [_words(op) for op in ops[1::2]]


def _words(op: Op) -> str:
    failed = f": {op.error}" if op.error else ""
    return f"{op.f} {'' if op.value is None else op.value}{failed}".strip()


def _leaders(run: RunDirectory) -> list[str]:
    """The leaders in order, each with its epoch."""
    observed = observations_of(read_table(run.observations, OBSERVATIONS))
    spans = state_spans(observed, max((each.time_ns for each in observed), default=0))
    led = sorted((span.start_ns, span.node, span.epoch) for span in spans if span.state == LEADER)
    return list(dict.fromkeys(f"n{node} in epoch {epoch}" for _, node, epoch in led))


def _measured(earlier: RunVerdict, later: RunVerdict) -> Iterator[Difference]:
    """The main quantities of both runs."""
    shown = [{each.name: each for each in shown_quantities(verdict.quantities)} for verdict in (earlier, later)]
    for name, each in shown[0].items():
        if name in shown[1] and not each.detail:
            yield Difference(each.title, each.text, shown[1][name].text)
