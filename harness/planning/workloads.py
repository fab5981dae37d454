"""From a workload's name to the workload, and from a workload and a story to what the engine runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from harness.engine.combinators import alongside, phases, repeat, until_ok
from harness.engine.generator import Generator, OpFunction, fixed, from_function
from harness.engine.generator import mark as marked
from harness.engine.pacing import seconds, sleep, stagger, time_limit
from harness.engine.placement import clients, nemesis, reserve
from harness.engine.randomness import split
from harness.model import NEMESIS, BadInput, Op
from harness.model.story import FINAL_READS, MARK, STORY_BEGINS, Step, mark
from harness.planning.plan import Plan
from harness.planning.systems import is_kafka
from workloads.idle import IDLE
from workloads.log import log
from workloads.register import register
from workloads.transactions import late_end, leaderless_end, transactions
from workloads.workload import Workload

FINAL_READ_SECONDS = 25.0
"""How long one final operation is tried: longer than brokers take to abort what nobody ends."""

FINAL_READS_SECONDS = 60.0

OF_BROKERS: Mapping[str, Callable[[Mapping[str, str]], Workload]] = {
    "log": log,
    "transactions": transactions,
    "kafka-17754": late_end,
    "kafka-20734": leaderless_end,
}
"""The workloads that ask brokers, each made from its options."""


def workload_of(plan: Plan) -> Workload:
    """The plan's workload; on real Kafka registers are read at any node, at the leader elsewhere.

    Raises BadInput where the system cannot serve it, and for options that it does not know.
    """
    if plan.workload in OF_BROKERS:
        if not is_kafka(plan.system) or plan.layout != "combined":
            raise BadInput(
                f"workload {plan.workload}: expected --system kafka --layout combined, came --system {plan.system} "
                f"--layout {plan.layout}, whose nodes are no brokers"
            )
        return OF_BROKERS[plan.workload](plan.workload_options)
    if plan.workload_options:
        raise BadInput(f"workload {plan.workload}: expected no options, came {', '.join(plan.workload_options)}")
    if plan.workload == "idle":
        return IDLE
    return register("any node" if is_kafka(plan.system) else "leader")


def generator_of(plan: Plan, workload: Workload) -> Generator:
    """The whole run: wait for the quorum, the story with the clients beside it, then the final reads."""
    waits, rest = _split([step.step() for step in plan.story], lambda step: step.f == "await")
    begins, rest = _split(rest, lambda step: bool(workload.script) and step.f != "hold")
    before = nemesis(_sequence([*waits, mark(STORY_BEGINS), *begins]))
    if workload.operation is None or workload.read is None:
        return phases(before, nemesis(_sequence(rest)))
    load = clients(_load(plan, workload, workload.operation, workload.read))
    tried = (until_ok(repeat(fixed(op))) for op in workload.final_operations)
    reads = phases(*(time_limit(seconds(FINAL_READ_SECONDS), each) for each in tried))
    final = time_limit(seconds(FINAL_READS_SECONDS), clients(reads))
    return phases(before, alongside(nemesis(_sequence(rest)), load), marked(FINAL_READS), final)


def _load(plan: Plan, workload: Workload, operation: OpFunction, read: OpFunction) -> Generator:
    """Half the processes read, the others do whatever the workload does, at the plan's rate in all.

    Where the workload has a script, one process follows it, and all others read.
    """
    interval_ns = seconds(2 / plan.rate_per_second)
    readers = stagger(interval_ns, from_function(read, seed=split(plan.seed, 1)), seed=split(plan.seed, 2))
    if workload.script:
        return reserve((1, phases(*(fixed(op) for op in workload.script))), rest=readers)
    others = stagger(interval_ns, from_function(operation, seed=split(plan.seed, 3)), seed=split(plan.seed, 4))
    return reserve((plan.concurrency // 2, readers), rest=others)


def _split(story: Sequence[Step], is_before: Callable[[Step], bool]) -> tuple[list[Step], list[Step]]:
    """The steps at the story's beginning that are so, and the rest."""
    before = list(takewhile(is_before, story))
    return before, list(story[len(before) :])


def _sequence(story: Sequence[Step]) -> Generator:
    return phases(*(_step(step) for step in story))


def _step(step: Step) -> Generator:
    if step.f == "sleep":
        return sleep(seconds(step.value))
    if step.f == MARK:
        return marked(step.value)
    return fixed(Op("invoke", step.f, NEMESIS, value=step.value))
