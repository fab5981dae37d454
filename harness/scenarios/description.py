"""A scenario in words, for `splitbrain scenarios show ID`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.model.scenario import Expectation, Scenario, Side
from harness.model.story import Step


def describe(scenario: Scenario) -> str:
    """Title, question, source, story and both sides."""
    lines = [
        f"{scenario.id}: {scenario.title}",
        "",
        scenario.question,
        f"Source: {scenario.source}. {scenario.nodes} {_kind(scenario)}, workload {scenario.workload}.",
        "",
        "Story:",
        *(f"  {number}. {_step(step)}" for number, step in enumerate(scenario.story, 1)),
        "",
        *_side("Bad", scenario.bad),
        *_side("Good", scenario.good),
        f"Play it: splitbrain reproduce {scenario.id} {_systems(scenario)}",
    ]
    return "\n".join(lines)


def _kind(scenario: Scenario) -> str:
    return "controllers" if scenario.layout == "controllers" else "controllers that are brokers too"


def _systems(scenario: Scenario) -> str:
    """The flags that choose a system; in brackets where there is a choice."""
    on_kafka = f"--system kafka{_only_side(scenario)}"
    return on_kafka if None in (scenario.bad.reference, scenario.good.reference) else f"[{on_kafka}]"


def _only_side(scenario: Scenario) -> str:
    """The flag that leaves out the side that is not to be had on Kafka, if there is one."""
    to_be_had = [name for name, side in (("bad", scenario.bad), ("good", scenario.good)) if side.kafka is not None]
    return f" --side {to_be_had[0]}" if len(to_be_had) == 1 else ""


def _side(name: str, side: Side) -> Iterable[str]:
    switches = ", ".join(f"{key}={value}" for key, value in (side.reference or {}).items()) or "as it is"
    switches = "not to be had" if side.reference is None else switches
    versions = [side.kafka or "not to be had", *(f"{text} on n{node}" for node, text in side.kafka_of_node.items())]
    yield f"{name} side: reference {switches}; Kafka {', '.join(versions)}"
    yield from (f"  needs {feature} {least} or higher" for feature, least in side.needs_features.items())
    yield from (f"  the workload has {key}={value}" for key, value in side.workload_options.items())
    for node, own in side.of_node.items():
        yield f"  n{node} has {', '.join(f'{key}={value}' for key, value in own.items())}"
    yield from (f"  must break a guarantee: {name}" for name in side.breaks)
    yield from (f"  must show: {_words(expectation)}" for expectation in side.shows)
    yield from (f"  must never show: {_words(expectation)}" for expectation in side.never)


def _words(expectation: Expectation) -> str:
    return f"{expectation.words} ({expectation.quantity} >= {expectation.at_least:g})"


def _step(step: Step) -> str:
    if step.f == "await":
        return f"wait until {step.value['condition']}"
    if step.f == "sleep":
        return f"hold for {step.value:g} s"
    return f"{step.f} {_arguments(step.value)}".strip()


def _arguments(value: Any) -> str:
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    return ", ".join(f"{name} {content}" for name, content in value.items())
