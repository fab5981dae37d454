"""Carries out the plan of a timed run on simulated nodes, with the tables that any run leaves.

    outcome = TimedSimulation(plan, observes=True).run()

Contains what is recorded of faults. Does not contain the calls of clients (timed_calls.py), the schedule (timed.py), or
how it is carried out (nodes.simulation.schedule).
"""

from __future__ import annotations

import asyncio
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
from harness.simulating.timed_calls import TimedCalls
from nodes.simulation import schedule
from nodes.simulation.schedule import Player, Timed, links_of
from nodes.wire import codec

PROCESS_EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    schedule.START: ("started", ""),
    schedule.STOP: ("stopped", "stopped"),
    schedule.KILL: ("stopped", "killed"),
}
"""What the observations say of a process after a command, and how it came to it."""
WORDS: Final = {"start": "started", "stop": "stopped", "kill": "killed", "pause": "paused", "resume": "resumed"}
FIRST_RELEASE: Final = "its first release"


class TimedSimulation(Simulation):
    """One timed run."""

    async def _carry_out(self) -> Tally:
        plan, cluster = self._plan, self._cluster
        story = [each.step() for each in plan.story]
        timed = schedule_of(story, plan.nodes, plan.seed, plan.rate_per_second)
        calls = TimedCalls(cluster, self.record)
        player = Player(cluster, plan.nodes, self._carried, calls.of)
        self._observer.start()
        try:
            for at_ms in player.play(timed):
                while cluster.now_ms < at_ms:
                    await asyncio.sleep((at_ms - cluster.now_ms) / 1000)
        finally:
            await self._observer.stop()
        tally = calls.abandon()
        awaited = {"condition": LEADER_KNOWN.to_json(), "within_seconds": schedule.RECOVERY_MS / 1000}
        self.record(Op("info", AWAIT, NEMESIS, value=awaited))
        error = None if player.unrecovered is None else f"waiting until {LEADER_KNOWN}: {player.unrecovered}"
        self.record(Op("info", AWAIT, NEMESIS, value=awaited, error=error))
        return tally

    def _carried(self, command: Timed, nodes: Sequence[int]) -> None:
        for node in nodes if command.name in PROCESS_EVENTS else ():
            self._process_event(node, *PROCESS_EVENTS[command.name])
        done = _as_op(command, nodes, self._plan.nodes)
        if done is not None:
            self.record(Op("info", done[0], NEMESIS, value=done[1]))
            self.record(Op("info", done[0], NEMESIS, value=done[1]))


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
