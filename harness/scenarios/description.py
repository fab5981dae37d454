"""Describes a scenario as text, for `splitbrain scenarios show ID`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from harness.model.conditions import Condition
from harness.model.faults.probe import ASK, RUN_TOOL
from harness.model.faults.rpc import INTERCEPT, RpcRule
from harness.model.nemesis_ops import AWAIT, SLEEP
from harness.model.scenario import Deployment, Expectation, Scenario, Setup, SideName, alternatives
from harness.model.story import Step


def describe(scenario: Scenario) -> str:
    """Title, question, source, story, both sides, and the commands that run it."""
    lines = [
        f"{scenario.id}: {scenario.title}",
        "",
        scenario.question,
        f"Source: {scenario.source}. {_nodes(scenario)}, workload {scenario.workload}.",
        "",
        "Story:",
        *(f"  {number}. {_step(step)}" for number, step in enumerate(scenario.story, 1)),
        "",
        *(line for name in scenario.sides for line in _side(scenario, name)),
        "Run it with:",
        *(f"  {command}" for command in _commands(scenario)),
    ]
    return "\n".join(lines)


def _nodes(deployment: Scenario | Deployment) -> str:
    count = deployment.nodes
    kinds = {
        "controllers": f"{count} controllers",
        "combined": f"{count} combined controllers and brokers",
        "zookeeper": f"{count - 1} brokers, and ZooKeeper on n{count}",
    }
    by_story = ", ".join(f"n{node}" for node in deployment.not_started)
    return kinds[deployment.layout] + (f", of which the story starts {by_story}" if by_story else "")


def _commands(scenario: Scenario) -> Iterable[str]:
    """One command for each system; it names the side if only one is available."""
    for system in scenario.systems:
        sides = scenario.sides_on(system)
        only = f" --side {sides[0]}" if len(sides) == 1 else ""
        yield f"splitbrain reproduce {scenario.id} --system {system}{only}"


def _side(scenario: Scenario, name: SideName) -> Iterable[str]:
    side = scenario.side(name)
    yield f"{name.capitalize()} side: {'; '.join(_setup(system, setup) for system, setup in side.setups.items())}"
    yield from (f"  needs {feature} {least} or higher" for feature, least in side.needs_features.items())
    yield from (f"  the workload runs with {key}={value}" for key, value in side.workload_options.items())
    for node, own in side.node_switches.items():
        yield f"  n{node} runs with {', '.join(f'{key}={value}' for key, value in own.items())}"
    for system, setup in side.setups.items():
        if setup.deployment is not None:
            yield f"  on {system}: {_nodes(setup.deployment)}"
            yield from _changes(scenario.story_of(name), setup.deployment.story)
    yield from (f"  must have the finding: {' or '.join(alternatives(each))}" for each in side.breaks)
    yield from (f"  may have the finding: {name}" for name in side.may_break)
    yield from (f"  must show: {_expectation(expectation)}" for expectation in side.shows)
    yield from (f"  must not show: {_expectation(expectation)}" for expectation in side.never)
    yield from _changes(scenario.story, scenario.story_of(name))


def _changes(story: Sequence[Step], own: Sequence[Step]) -> Iterable[str]:
    """The steps that a side's own story leaves out, and those that it has besides; all of them if few are the same."""
    before, after = [[_step(step) for step in each] for each in (story, own)]
    matcher = SequenceMatcher(a=before, b=after, autojunk=False)
    if matcher.ratio() < LIKENESS_MIN:
        yield "  its own story:"
        yield from (f"    {number}. {text}" for number, text in enumerate(after, start=1))
        return
    for kind, first, end, own_first, own_end in matcher.get_opcodes():
        if kind != "equal":
            yield from (f"  without step {number + 1}: {before[number]}" for number in range(first, end))
            yield from (f"  after step {end}: {text}" for text in after[own_first:own_end])


def _setup(system: str, setup: Setup) -> str:
    switches = ", ".join(f"{key}={value}" for key, value in setup.switches.items())
    others = "".join(f", {version} on n{node}" for node, version in setup.node_versions.items())
    what = " with ".join(filter(None, (setup.version, switches))) or "with its defaults"
    return f"{system} {what}{others}"


def _expectation(expectation: Expectation) -> str:
    return f"{expectation.text} ({expectation.quantity} >= {expectation.at_least:g})"


def _step(step: Step) -> str:
    if step.f == AWAIT:
        most = "" if step.value.get("is_required", True) else f", {step.value['within_seconds']:g} s at most"
        return f"wait until {Condition.from_json(step.value['condition'])}{most}"
    if step.f == SLEEP:
        return f"wait {step.value:g} s"
    if step.f == INTERCEPT:
        return f"RPC rules: {'; '.join(_rule(RpcRule.from_json(rule)) for rule in step.value['rules'])}"
    if step.f == "cut" and "who" in step.value:
        return f"partition {step.value['who']}, {_DIRECTIONS[step.value['direction']]}"
    if step.f == "cut" and "only" in step.value:
        pairs = ", ".join(f"{a}-{b}" for a, b in step.value["only"])
        return f"cut all links except {pairs}, where n{step.value['leader_as']} is the leader"
    if step.f in ("cut", "heal_links") and "links" in step.value:
        return f"{step.f.removesuffix('_links')} links {', '.join(f'{a}>{b}' for a, b in step.value['links'])}"
    if step.f == ASK:
        return _ask(step.value)
    if step.f == RUN_TOOL:
        return _tool(step.value)
    return f"{step.f.replace('_', ' ')} {_arguments(step.value)}".strip()


def _ask(value: Mapping[str, Any]) -> str:
    """A request with its fields, without the tables around them, and what is expected of the response."""
    title = f"ask {value['who']} for {value['api']}, version {value['version']}{_named(value)}"
    fields = ", ".join(f"{name}={text}" for name, text in _leaves(value["values"]))
    if not value["is_answered"]:
        expected = "no response"
    else:
        paths = ((path.replace(_PARTITION, "partition."), each) for path, each in value["expect"].items())
        expected = ", ".join(f"{path} {_expected(each)}" for path, each in paths) or "a response"
    return f"{title}, with {fields}; expect {expected}" if fields else f"{title}; expect {expected}"


def _tool(value: Mapping[str, Any]) -> str:
    """A tool's command line, and how it is expected to end."""
    expected = [f"exit code {value['exit_code']}"]
    expected += [f"output like {pattern}" for pattern in value["output"]]
    expected += [f"no output like {pattern}" for pattern in value["no_output"]]
    command = " ".join((value["tool"], *value["arguments"]))
    return f"run {command}{_named(value)}; expect {', '.join(expected)}"


def _named(value: Mapping[str, Any]) -> str:
    return f" ({value['name']})" if value["name"] else ""


def _leaves(value: Any, name: str = "") -> Iterable[tuple[str, Any]]:
    """The fields of nested tables and lists that are neither, by name."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, name)
    else:
        yield name, value


def _expected(value: Any) -> str:
    """An expected value in words, e.g. `one of 3, 4` or `3`."""
    if isinstance(value, dict):
        return ", ".join(f"{key.replace('_', ' ')} {_expected(each)}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_PARTITION = "topics.0.partitions.0."
LIKENESS_MIN = 0.6
"""Of two stories, below which the second is shown whole: twice the common steps, divided by the steps of both."""
_DIRECTIONS = {"both": "both directions", "out": "only what it sends", "in": "only what it receives"}


def _rule(rule: RpcRule) -> str:
    return f"{rule.action.do} {rule.name}"


def _arguments(value: Any) -> str:
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    return ", ".join(_argument(name, content) for name, content in value.items())


def _argument(name: str, content: Any) -> str:
    if isinstance(content, dict):
        content = [f"{key}={each}" for key, each in content.items()]
    text = ", ".join(map(str, content)) if isinstance(content, list) else str(content)
    return text if name == "who" else f"{name.replace('_', ' ')} {text}"
