"""Makes the generator of a run from the plan's story and workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from harness import plugins
from harness.engine.combinators import all_ok, alongside, phases, repeat, until_ok
from harness.engine.generator import Generator, OpFunction, fixed, from_function
from harness.engine.generator import mark as marked
from harness.engine.pacing import ask_again, back_off, bursts, milliseconds, seconds, sleep, stagger, time_limit
from harness.engine.placement import clients, nemesis, reserve
from harness.engine.randomness import split
from harness.model import NEMESIS, BadInput, Op
from harness.model.conditions import CAUGHT_UP
from harness.model.nemesis_ops import AWAIT, SLEEP
from harness.model.story import FINAL_READS, LEAD, MARK, STOP_CLIENTS, STORY_BEGINS, Step, mark, wait_until
from harness.planning.plan import Plan
from workloads.workload import ClusterAccess, Workload, WorkloadSpec

FINAL_READ_SECONDS = 25.0
"""How long one final operation is retried: longer than brokers take to abort an abandoned transaction."""

FINAL_READS_SECONDS = 60.0
FINAL_READ_PAUSE_MS = 50.0
"""How long the clients wait after a final read that failed."""
CHANGING_PROCESSES = 3
"""Processes of a workload with changes: one that makes them, one that reads, one for other operations."""
CHANGE_PAUSE_MS = 500.0
"""How long the process that changes the cluster waits after each change."""
QUESTION_SECONDS = (1.0, 4.0, 12.0)
"""When clients ask about an operation of unknown outcome: before and after a leader was replaced, and long after."""
CATCH_UP_SECONDS = 25.0
"""How long final reads wait for nodes that answer from their own state."""


def workload_of(plan: Plan) -> Workload:
    """The plan's workload. Raises BadInput where the system cannot serve it, and for options that it does not have."""
    system, _ = plugins.system(plan.system)
    kind = plugins.workload(plan.workload)
    workload = kind.make(
        WorkloadSpec(
            plan.system,
            plan.layout,
            plan.nodes,
            plan.voters,
            plan.switches,
            system.clients,
            kind.completed(plan.workload_options),
        )
    )
    if plan.pinned and not workload.can_pin:
        raise BadInput(f"--pinned: workload {plan.workload} has no clients that can be pinned")
    if workload.changes and plan.concurrency < CHANGING_PROCESSES:
        place = f"--concurrency: workload {plan.workload}"
        raise BadInput(f"{place}: expected at least {CHANGING_PROCESSES}, found {plan.concurrency}")
    return workload


def access_of(plan: Plan, access: ClusterAccess, process: int) -> ClusterAccess:
    """The nodes that a process reaches: all, or one if it is pinned.

    The pinned workers are spread evenly, so that readers and others are among them, and take the nodes in turn.
    """
    worker = process % plan.concurrency
    turn, rest = divmod(worker * plan.pinned, plan.concurrency)
    return access.of_one_node(turn) if rest < plan.pinned else access


def checks_of(plan: Plan, workload: Workload) -> tuple[str, ...]:
    """The checks that judge the plan's run: those of every run, of its story, of its workload and of its system."""
    system, _ = plugins.system(plan.system)
    faults = plugins.actions()
    of_story = [name for step in plan.story if step.f in faults for name in faults[step.f].checks]
    client_checks = () if workload.idle else ("availability",)
    of_hosts = ("invariants",) if plugins.host_kind(plan.hosts).simulated else ()
    of_system = (*system.checks, *(() if plan.scenario else (*of_hosts, *system.checks_without_scenario)))
    return tuple(dict.fromkeys(("nemesis", "servers", *of_story, *workload.checks, *of_system, *client_checks)))


def generator_of(plan: Plan, workload: Workload) -> Generator:
    """The whole run: wait for the quorum and its leader, then the story beside the clients, then the final reads."""
    preparation, rest = _split([step.step() for step in plan.story], lambda step: step.f in (AWAIT, LEAD))
    begins, rest = _split(rest, lambda step: bool(workload.script) and step.f != SLEEP)
    before = nemesis(_sequence([*preparation, mark(STORY_BEGINS), *begins]))
    if workload.operation is None or workload.read is None:
        return phases(before, nemesis(_sequence(rest)))
    loaded, rest = _split(rest, lambda step: step.f != STOP_CLIENTS)
    load = clients(_in_bursts(plan, _load(plan, workload, workload.operation, workload.read)))
    final = time_limit(seconds(FINAL_READS_SECONDS), clients(_final_reads(workload)))
    catch_up = [wait_until(CAUGHT_UP, CATCH_UP_SECONDS)] if workload.final_reads_lag else []
    return phases(
        before,
        alongside(nemesis(_sequence(loaded)), load),
        nemesis(_sequence(rest)),
        nemesis(_sequence(catch_up)),
        marked(FINAL_READS),
        final,
    )


def _final_reads(workload: Workload) -> Generator:
    """The reads at the end, each again until it is ok, with a pause after those that fail."""
    pause = milliseconds(FINAL_READ_PAUSE_MS)
    if workload.final_reads_once:
        return back_off(pause, all_ok(*workload.final_operations))
    retried = (until_ok(back_off(pause, repeat(fixed(op)))) for op in workload.final_operations)
    return phases(*(time_limit(seconds(FINAL_READ_SECONDS), each) for each in retried))


def _in_bursts(plan: Plan, load: Generator) -> Generator:
    return bursts(seconds(plan.burst_seconds), load, seed=split(plan.seed, 5)) if plan.burst_seconds else load


def _load(plan: Plan, workload: Workload, operation: OpFunction, read: OpFunction) -> Generator:
    """Half the processes read, the others do the workload's operations, at the plan's rate in all.

    Where the workload changes the cluster, one process more makes the changes, at its own pace.
    Where the workload has a script, one process follows it, and all others read.
    """
    interval_ns = seconds(2 / plan.rate_per_second)
    readers = stagger(interval_ns, from_function(read, seed=split(plan.seed, 1)), seed=split(plan.seed, 2))
    if workload.script:
        return reserve((1, phases(*(fixed(op) for op in workload.script))), rest=readers)
    others = stagger(interval_ns, from_function(operation, seed=split(plan.seed, 3)), seed=split(plan.seed, 4))
    changing = [(1, _changes(workload.changes))] if workload.changes else []
    load = reserve(*changing, ((plan.concurrency - len(changing)) // 2, readers), rest=others)
    if workload.question is None:
        return load
    return ask_again([seconds(delay) for delay in QUESTION_SECONDS], workload.question, load)


def _changes(changes: Sequence[Op]) -> Generator:
    """The first operation, and then the others over and over, each until it is ok and with a pause after it."""
    pause = milliseconds(CHANGE_PAUSE_MS)
    done = [until_ok(back_off(pause, repeat(fixed(op)))) for op in changes]
    spaced = [part for each in done[1:] for part in (each, sleep(pause))]
    return phases(done[0], repeat(phases(*spaced)))


def _split(story: Sequence[Step], is_before: Callable[[Step], bool]) -> tuple[list[Step], list[Step]]:
    """The leading steps of the story for which is_before holds, and the rest."""
    before = list(takewhile(is_before, story))
    return before, list(story[len(before) :])


def _sequence(story: Sequence[Step]) -> Generator:
    return phases(*(_step(step) for step in story))


def _step(step: Step) -> Generator:
    if step.f == SLEEP:
        return sleep(seconds(step.value))
    if step.f == MARK:
        return marked(step.value)
    if step.f == STOP_CLIENTS:
        return marked("clients stop")
    return fixed(Op("invoke", step.f, NEMESIS, value=step.value))
