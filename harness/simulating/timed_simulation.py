"""Carries out the plan of a timed run on simulated nodes, with the tables that any run leaves.

    outcome = TimedSimulation(plan, observes=True).run()

Contains what is recorded of a schedule: the faults, the operations of clients and their ends. Does not contain the
schedule (timed.py), or how it is carried out (nodes.simulation.schedule).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.engine.interpreter import Tally
from harness.model import NEMESIS, Op
from harness.model.conditions import LEADER_KNOWN
from harness.model.faults.membership import ADD_VOTER, REMOVE_VOTER
from harness.model.faults.rpc import INTERCEPT
from harness.model.nemesis_ops import AWAIT, HEAL
from harness.simulating.simulation import Simulation
from harness.simulating.timed import schedule_of
from nodes.simulation import schedule
from nodes.simulation.cluster import Answer
from nodes.simulation.schedule import Player, Timed, links_of, voter_request
from nodes.wire import codec
from workloads.register import read_of, refusal_of, rejected, values_of, write_of

PROCESS_EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    schedule.START: ("started", ""),
    schedule.STOP: ("stopped", "stopped"),
    schedule.KILL: ("stopped", "killed"),
}
"""What the observations say of a process after a command, and how it came to it."""
WORDS: Final = {"start": "started", "stop": "stopped", "kill": "killed", "pause": "paused", "resume": "resumed"}
UNANSWERED: Final = "no answer"
FIRST_RELEASE: Final = "its first release"


class TimedSimulation(Simulation):
    """One timed run. Each operation is of a process of its own, so none waits for another."""

    async def _carry_out(self) -> Tally:
        plan = self._plan
        self._ends: Counter[str] = Counter()
        self._calls = itertools.count()
        self._open: dict[int, Op] = {}
        story = [each.step() for each in plan.story]
        timed = schedule_of(story, plan.nodes, plan.seed, plan.rate_per_second)
        player = Player(self._cluster, plan.nodes, self._carried, self._called)
        self._observer.start()
        try:
            unrecovered = await player.play(timed)
        finally:
            await self._observer.stop()
        abandoned = list(self._open.values())
        for op in abandoned:
            self._ended(op, op.info(UNANSWERED))
        awaited = {"condition": LEADER_KNOWN.to_json(), "within_seconds": schedule.RECOVERY_MS / 1000}
        self.record(Op("info", AWAIT, NEMESIS, value=awaited))
        error = None if unrecovered is None else f"waiting until {LEADER_KNOWN}: {unrecovered}"
        self.record(Op("info", AWAIT, NEMESIS, value=awaited, error=error))
        return Tally(**self._ends, abandoned=len(abandoned))

    def _carried(self, command: Timed, nodes: Sequence[int]) -> None:
        for node in nodes if command.name in PROCESS_EVENTS else ():
            self._process_event(node, *PROCESS_EVENTS[command.name])
        done = _as_op(command, nodes, self._plan.nodes)
        if done is not None:
            self.record(Op("info", done[0], NEMESIS, value=done[1]))
            self.record(Op("info", done[0], NEMESIS, value=done[1]))

    def _called(self, command: Timed, node: int) -> tuple[Any, Answer]:
        if command.name == schedule.REQUEST:
            api_key, voter = command.argument
            return voter_request(api_key, voter, self._cluster.directory_id(voter)), lambda _response: None
        is_read = command.name == schedule.READ
        key, value = (command.argument, None) if is_read else command.argument
        op = Op("invoke", command.name, next(self._calls), key, value, node)
        self._open[op.process] = self.record(op)
        return (read_of([key]) if is_read else write_of([key], value)), lambda response: self._answered(op, response)

    def _answered(self, op: Op, response: Any) -> None:
        if response is None:
            self._ended(op, op.info(UNANSWERED))
        elif (refused := refusal_of(response)) is not None:
            self._ended(op, rejected(op, *refused))
        else:
            self._ended(op, op.ok(values_of(response)[0]) if op.f == schedule.READ else op.ok())

    def _ended(self, op: Op, end: Op) -> None:
        del self._open[op.process]
        self._ends[end.type] += 1
        self.record(end)


def _as_op(command: Timed, nodes: Sequence[int], all_nodes: int) -> tuple[str, Mapping[str, Any]] | None:
    """The nemesis operation that a command is, and its value as the fault's own; None if it is none, or did nothing."""
    name, argument = command.name, command.argument
    names = ", ".join(f"n{node}" for node in nodes)
    if name == schedule.RESTORE and argument is None:
        return HEAL, {"label": "healed"}
    if name in (schedule.CUT, schedule.RESTORE):
        f, verb = ("cut", "cut") if name == schedule.CUT else ("heal_links", "heal")
        shown = ", ".join(f"n{a}>n{b}" for a, b in argument)
        return f, {"links": [list(link) for link in argument], "label": f"{verb} {shown}"}
    if name == schedule.INTERCEPT:
        rules = [rule["name"] for rule in argument]
        return (INTERCEPT, {"rules": argument, "label": ", ".join(rules)}) if rules else None
    if name == schedule.REQUEST:
        api_key, voter = argument
        f, verb = (ADD_VOTER, "joins") if api_key == codec.ADD_RAFT_VOTER else (REMOVE_VOTER, "leaves")
        return (f, {"nodes": [voter], "label": f"n{voter} {verb} the voters"}) if nodes else None
    if not nodes or name in schedule.CALLS or (name == schedule.START and command.at_ms == 0):
        return None
    if name == schedule.CHANGE_VERSION:
        return name, {"nodes": list(nodes), "label": f"{names} runs {argument or FIRST_RELEASE}"}
    if name == schedule.ISOLATE:
        links = [list(link) for node in nodes for link in links_of(node, argument, all_nodes)]
        return "cut", {"links": links, "label": f"{names} cut off ({argument})"}
    if name == schedule.LOSE_UNSYNCED:
        return name, {"nodes": list(nodes), "label": f"{names} lost what was not synced"}
    return name, {"nodes": list(nodes), "label": f"{names} {WORDS[name]}"}
