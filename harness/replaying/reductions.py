"""Reduces a failing plan: its moves, steps, pauses, nodes, clients and settings, as long as it still fails.

    smallest = reduced(plan, fails)     # fails("without move 3", candidate) plays the candidate

The story is reduced by delta debugging (Zeller and Hildebrandt, 2002): large parts first, then smaller ones, until no
single step can be left out. What saves most time comes first, since every later attempt is then shorter.

Contains the order of attempts, as pure functions of a plan and an oracle. Does not play anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from harness import plugins
from harness.model.conditions import ALL_FOLLOW_LEADER, all_follow
from harness.model.nemesis_ops import AWAIT, HEAL, SLEEP
from harness.model.plurals import counted
from harness.model.story import MARK
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep

Fails = Callable[[str, Plan], bool]
"""Whether a candidate still shows the finding; the text says what was changed."""
Item = TypeVar("Item")

PAUSE_SECONDS_MIN: Final = 0.2
NODES_MIN: Final = 3
CLIENTS_MIN: Final = 2
RATE_MIN: Final = 10.0
_LOAD: Final = ("pinned", "burst_seconds", "concurrency", "rate_per_second")
_NODE: Final = re.compile(r"n(\d+)")
_NODE_KEYS: Final = frozenset({"node", "nodes", "leader_as", "sources", "targets", "links", "only", "groups"})


def reduced(plan: Plan, fails: Fails) -> Plan:
    """The smallest plan that fails, beginning with one that does. fails is asked about valid plans only.

    In simulation, load and pauses come last: real hosts, on which times vary more, may need them.
    """
    if plugins.host_kind(plan.hosts).simulated:
        order = (_nodes, _waits, _moves, _nodes, _actions, _settings, _nodes, _actions, _load, _steps, _pauses)
    else:
        order = (_nodes, _waits, _moves, _nodes, _steps, _pauses, _load, _settings, _nodes, _steps, _pauses)
    for reduction in order:
        plan = reduction(plan, fails)
    return plan


def minimized(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """The items without those that can be left out: of the result, no single one can be, if fails is deterministic."""
    left = list(items)
    size = max(1, len(left) // 2)
    while left:
        at, is_smaller = 0, False
        while at < len(left):
            rest = left[:at] + left[at + size :]
            if fails(rest):
                left, is_smaller = rest, True
            else:
                at += size
        if size == 1 and not is_smaller:
            break
        size = max(1, size // 2)
    return left


def with_story(plan: Plan, steps: Sequence[StoryStep]) -> Plan | None:
    """The plan with this story; None if the story is none, e.g. since a step names nodes that no step has chosen."""
    return changed(plan, story=[step.model_dump() for step in steps])


def with_waits_of(larger: Plan, plan: Plan) -> Plan:
    """A reduced plan with all waits, pauses and marks of the plan that it comes from, and with its load.

    Of equal steps of the larger plan, the first are those that are left. Node names have to be the same in both.
    """
    left = [step for step in plan.story if not _is_passive(step)]
    steps = []
    for step in larger.story:
        if _is_passive(step):
            steps.append(step)
        elif left and step == left[0]:
            steps.append(left.pop(0))
    load = {name: getattr(larger, name) for name in _LOAD}
    return plan.model_copy(update={**load, "story": steps})


def _is_passive(step: StoryStep) -> bool:
    """Whether a step only waits or marks."""
    fault = plugins.actions().get(step.f)
    return step.f in (AWAIT, SLEEP, MARK) or (fault is not None and fault.actions[step.f].waits)


def changed(plan: Plan, **values: Any) -> Plan | None:
    """The plan with these values by key; None if they make no valid plan."""
    try:
        return Plan.model_validate({**plan.model_dump(by_alias=True), **values})
    except ValidationError:
        return None


def moves_of(steps: Sequence[StoryStep]) -> list[list[StoryStep]]:
    """The story in parts: each begins at a mark if it has marks, otherwise after a heal and the pauses behind it."""
    parts: list[list[StoryStep]] = [[]]
    has_marks = any(step.f == MARK for step in steps)
    is_healed = False
    for step in steps:
        begins = step.f == MARK if has_marks else is_healed and step.f not in (SLEEP, AWAIT)
        if begins and parts[-1]:
            parts.append([])
        is_healed = step.f == HEAL or (is_healed and step.f in (SLEEP, AWAIT))
        parts[-1].append(step)
    return [part for part in parts if part]


def _waits(plan: Plan, fails: Fails) -> Plan:
    """Wait for any leader where the story waits for a certain one, which another election may not give."""
    for at, step in enumerate(plan.story):
        if step.f == AWAIT and step.value["condition"]["name"] == all_follow(1).name:
            wait = StoryStep(f=AWAIT, value={**step.value, "condition": ALL_FOLLOW_LEADER.to_json()})
            candidate = with_story(plan, [*plan.story[:at], wait, *plan.story[at + 1 :]])
            if candidate is not None and fails(f"step {at + 1} waits for any leader", candidate):
                plan = candidate
    return plan


def _moves(plan: Plan, fails: Fails) -> Plan:
    """Leave out whole moves of the story; what comes before the first mark stays for now."""
    first, *moves = moves_of(plan.story)
    if first[0].f == MARK or not moves:
        first, moves = [], [first, *moves]

    def story(kept: Sequence[list[StoryStep]]) -> list[StoryStep]:
        return [*first, *(step for move in kept for step in move)]

    def still_fails(kept: Sequence[list[StoryStep]]) -> bool:
        return _try(plan, story(kept), f"{counted(len(kept), 'move')} of {len(moves)}", fails)

    return with_story(plan, story(minimized(moves, still_fails))) or plan


def _steps(plan: Plan, fails: Fails) -> Plan:
    """Leave out single steps, but for the waits at the beginning: without them, the start of the nodes decides."""
    waits = list(takewhile(lambda step: step.f == AWAIT, plan.story))
    return _without(plan, fails, range(len(waits), len(plan.story)))


def _actions(plan: Plan, fails: Fails) -> Plan:
    """As _steps, but all pauses stay."""
    waits = list(takewhile(lambda step: step.f == AWAIT, plan.story))
    return _without(plan, fails, [at for at, step in enumerate(plan.story) if at >= len(waits) and step.f != SLEEP])


def _without(plan: Plan, fails: Fails, places: Sequence[int]) -> Plan:
    """Leave out steps at these places of the story."""

    def story(kept: Sequence[int]) -> list[StoryStep]:
        return [step for at, step in enumerate(plan.story) if at in kept or at not in places]

    def still_fails(kept: Sequence[int]) -> bool:
        return _try(plan, story(kept), f"{counted(len(kept), 'step')} of {len(places)}", fails)

    return with_story(plan, story(minimized(places, still_fails))) or plan


def _try(plan: Plan, steps: Sequence[StoryStep], text: str, fails: Fails) -> bool:
    candidate = with_story(plan, steps)
    return candidate is not None and fails(text, candidate)


def _pauses(plan: Plan, fails: Fails) -> Plan:
    """Shorten the story's pauses: all of them by half, as often as that goes, then each alone."""
    plan = _repeated(plan, fails, lambda each: _halved(each, range(len(each.story))), "all pauses halved")
    for at, step in enumerate(plan.story):
        if step.f == SLEEP:
            plan = _repeated(plan, fails, partial(_halved, places=[at]), f"pause {at + 1} halved")
    return plan


def _halved(plan: Plan, places: Sequence[int]) -> Plan | None:
    """The plan with shorter pauses at these places; None if they are as short as it goes."""
    steps = [
        StoryStep(f=SLEEP, value=max(PAUSE_SECONDS_MIN, round(step.value / 2, 2)))
        if at in places and step.f == SLEEP and step.value > PAUSE_SECONDS_MIN
        else step
        for at, step in enumerate(plan.story)
    ]
    return None if steps == list(plan.story) else with_story(plan, steps)


def _repeated(plan: Plan, fails: Fails, change: Callable[[Plan], Plan | None], text: str) -> Plan:
    while (candidate := change(plan)) is not None and candidate != plan and fails(text, candidate):
        plan = candidate
    return plan


def _nodes(plan: Plan, fails: Fails) -> Plan:
    """Fewer nodes; steps that name one of the others name a node instead that no step names. And voters only."""
    for nodes in range(max([NODES_MIN, *plan.node_systems, *plan.not_started]), plan.nodes):
        candidate = _with_nodes(plan, nodes)
        if candidate is not None and fails(counted(nodes, "node"), candidate):
            return candidate
    return plan


def _with_nodes(plan: Plan, nodes: int) -> Plan | None:
    """The plan with so many nodes; None if its steps name more."""
    named = {number for step in plan.story for number in _numbers(step.value)}
    removed = sorted(number for number in named if number > nodes)
    free = sorted(set(range(1, nodes + 1)) - named)[-len(removed) :] if removed else []
    if len(free) < len(removed):
        return None
    names = dict(zip(removed, free, strict=True))
    switches = {node: each for node, each in plan.node_switches.items() if node <= nodes}
    switches |= {names[node]: each for node, each in plan.node_switches.items() if node in names}
    story = [{**step.model_dump(), "value": _renamed(step.value, names)} for step in plan.story]
    voters = None if plan.voters is None or plan.voters >= nodes else plan.voters
    return changed(plan, nodes=nodes, voters=voters, node_switches=switches, story=story)


def _numbers(value: Any, is_node: bool = False) -> Iterator[int]:
    """The numbers of nodes in a step's arguments: n3, and whole numbers below keys that mean nodes."""
    if isinstance(value, str):
        if match := _NODE.fullmatch(value):
            yield int(match[1])
    elif isinstance(value, bool):
        return
    elif isinstance(value, int) and is_node:
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(each, is_node or key in _NODE_KEYS)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(each, is_node)


def _renamed(value: Any, names: Mapping[int, int], is_node: bool = False) -> Any:
    """A step's arguments with other numbers of nodes, where _numbers finds them."""
    if isinstance(value, str):
        match = _NODE.fullmatch(value)
        return f"n{names.get(int(match[1]), int(match[1]))}" if match else value
    if isinstance(value, int) and is_node and not isinstance(value, bool):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(each, names, is_node or key in _NODE_KEYS) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(each, names, is_node) for each in value]
    return value


def _load(plan: Plan, fails: Fails) -> Plan:
    """No pinned clients, no bursts, fewer clients, fewer operations."""
    for text, values in (
        ("no pinned clients", {"pinned": 0}),
        ("no bursts", {"bursts": None}),
    ):
        plan = _changed_if_fails(plan, fails, text, values)
    plan = _repeated(plan, fails, _fewer_clients, "fewer clients")
    return _repeated(plan, fails, _fewer_operations, "fewer operations")


def _fewer_clients(plan: Plan) -> Plan | None:
    clients = max(CLIENTS_MIN, plan.concurrency // 2)
    return changed(plan, concurrency=clients, pinned=min(plan.pinned, clients))


def _fewer_operations(plan: Plan) -> Plan | None:
    return changed(plan, rate=max(RATE_MIN, plan.rate_per_second / 2))


def _settings(plan: Plan, fails: Fails) -> Plan:
    """Without switches, options, a disk of the nodes' own, and the record of RPCs, where these do not matter."""
    for name in plan.switches:
        switches = {key: value for key, value in plan.switches.items() if key != name}
        plan = _changed_if_fails(plan, fails, f"without {name}", {"switch": switches})
    for name in plan.workload_options:
        options = {key: value for key, value in plan.workload_options.items() if key != name}
        plan = _changed_if_fails(plan, fails, f"without option {name}", {"option": options})
    for node in plan.node_switches:
        others = {other: each for other, each in plan.node_switches.items() if other != node}
        plan = _changed_if_fails(plan, fails, f"without the switches of n{node}", {"node_switches": others})
    plan = _changed_if_fails(plan, fails, "without a record of RPCs", {"record_rpcs": False})
    return _changed_if_fails(plan, fails, "disk: directory", {"disk": "directory"})


def _changed_if_fails(plan: Plan, fails: Fails, text: str, values: dict[str, Any]) -> Plan:
    candidate = changed(plan, **values)
    return candidate if candidate is not None and candidate != plan and fails(text, candidate) else plan
