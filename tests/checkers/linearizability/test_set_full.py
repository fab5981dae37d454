"""Models weaker than linearizability, on literal histories and against their plain twins."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from checkers.framework.contract import JudgeSettings
from checkers.linearizability.models import MODELS
from checkers.linearizability.models.model import Outcome, Problem
from checkers.twins import set_full as twins
from checkers.twins.models import Call
from harness.model import BadInput, Op
from tests.support.checks.model_histories import keys_from
from tests.support.checks.small_histories import history

HISTORIES = 3000


def outcomes_of(model: str, histories: Sequence[Sequence[Op]]) -> list[Outcome]:
    return MODELS[model].judge(keys_from(model, histories), JudgeSettings())


def problems(outcome: Outcome) -> list[Problem]:
    return [] if outcome.problem is None else [outcome.problem, *outcome.others]


def op(f: str, process: int, argument: object = None, returned: object = None) -> tuple[Op, Op]:
    """An invocation and its ok."""
    start = Op("invoke", f, process, "x", argument)
    return start, start.ok(returned)


def crashed(f: str, argument: object = None) -> tuple[Op, Op]:
    start = Op("invoke", f, 9, "x", argument)
    return start, start.info("timeout")


def failed(f: str, argument: object = None) -> tuple[Op, Op]:
    start = Op("invoke", f, 9, "x", argument)
    return start, start.fail("refused")


READING = Op("invoke", "read", 5, "x")
ADDING = Op("invoke", "add", 6, "x", 1)

SET_FULL_CASES: dict[str, tuple[str, list[Op], list[tuple[str, str]]]] = {
    "set-full: what was added is read": ("set-full", [*op("add", 0, 1), *op("read", 1, None, [1])], []),
    "set-full: a read concurrent with an add may miss it": (
        "set-full", [READING, *op("add", 0, 1), READING.ok([]), *op("read", 1, None, [1])], [],
    ),
    "set-full: a crashed add may be seen or not": (
        "set-full", [*crashed("add", 1), *crashed("add", 2), *op("read", 1, None, [2])], [],
    ),
    "set-full: an element is missing from the last read": (
        "set-full", [*op("add", 0, 1), *op("read", 1, None, [1]), *op("read", 1, None, [])],
        [("lost-element", "1 element lost, first 1 (add 1 (index 0 to 1), read [] (index 4 to 5))")],
    ),
    "set-full: a crashed add that was seen is lost": (
        "set-full", [*crashed("add", 1), *op("read", 1, None, [1]), *op("read", 1, None, [])],
        [("lost-element", "1 element lost")],
    ),
    "set-full: an element comes back": (
        "set-full", [*op("add", 0, 1), *op("read", 1, None, []), *op("read", 1, None, [1])],
        [("stale-read", "1 element missing until a later read, first 1 (add 1 (index 0 to 1), read [] (index 2")],
    ),
    "set-full: nothing was read after the adds": (
        "set-full", [*op("read", 1, None, []), *op("add", 0, 1), *op("add", 0, 2)],
        [("never-read", "2 elements, first 1 (add 1 (index 2 to 3))")],
    ),
    "set-full: one element twice in a read": (
        "set-full", [*op("add", 0, 1), *op("add", 0, 1), *op("read", 1, None, [1, 1])],
        [("duplicate-element", "1 element twice in one read, first 1 (read [1, 1] (index 4 to 5))")],
    ),
    "set-full: an element of a failed add": (
        "set-full", [*failed("add", 1), *op("read", 1, None, [1])],
        [("phantom-element", "1 element not added before, first 1")],
    ),
    "set-full: an element before its add": (
        "set-full", [*op("read", 1, None, [1]), *op("add", 0, 1), *op("read", 1, None, [1])],
        [("phantom-element", "1 element not added before")],
    ),
    "set-full: several outcomes at once, the gravest first": (
        "set-full", [*op("add", 0, 1), *op("add", 0, 2), *op("read", 1, None, [2, 2, 3]), *op("add", 0, 4)],
        [("lost-element", "first 1"), ("duplicate-element", "first 2"), ("phantom-element", "first 3"),
         ("never-read", "first 4")],
    ),
    "counter: reads see what ended before them": (
        "counter", [*op("read", 0, None, 0), *op("add", 0, 5), *op("add", 0, -2), *op("read", 1, None, 3)], [],
    ),
    "counter: increments are by one": (
        "counter", [*op("increment", 0), *op("increment", 0, 4), *op("decrement", 0), *op("read", 1, None, 4)], [],
    ),
    "counter: a read concurrent with an add may see it": (
        "counter", [READING, ADDING, READING.ok(1), ADDING.ok(), *op("read", 1, None, 1)], [],
    ),
    "counter: a crashed add may count at any time": (
        "counter", [*crashed("add", 2), *op("read", 1, None, 0), *op("read", 1, None, 2)], [],
    ),
    "counter: an add is missing": (
        "counter", [*op("add", 0, 5), *op("read", 1, None, 4)],
        [("counter-out-of-bounds", "read 4 (index 2 to 3) is not between 5 and 5")],
    ),
    "counter: a failed add counts": (
        "counter", [*failed("add", 5), *crashed("decrement"), *op("read", 1, None, 5), *op("read", 1, None, -2)],
        [("counter-out-of-bounds", "read 5 (index 4 to 5) is not between -1 and 0, and 1 more reads are out")],
    ),
    "unique-ids: all differ": ("unique-ids", [*op("generate", 0, None, 1), *op("generate", 0, None, "1")], []),
    "unique-ids: nil is no id": ("unique-ids", [*op("generate", 0), *op("generate", 0), *crashed("generate")], []),
    "unique-ids: one is returned again": (
        "unique-ids", [*(each for n in (1, 2, 1, 3, 1, 3) for each in op("generate", n, None, n))],
        [("duplicate-id", "generate 1 (index 0 to 1) and generate 1 (index 4 to 5) returned one id; 2 ids were")],
    ),
}  # fmt: skip
SEVERITIES = {"never-read": "unknown", "stale-read": "tolerated"}


@pytest.mark.parametrize("name", SET_FULL_CASES)
def test_findings_on_literal_histories(name: str) -> None:
    model, ops, expected = SET_FULL_CASES[name]
    found = problems(outcomes_of(model, [history(*ops)])[0])
    assert [problem.name for problem in found] == [name for name, _ in expected]
    assert [problem.severity for problem in found] == [SEVERITIES.get(name, "invalid") for name, _ in expected]
    assert [words for problem, (_, words) in zip(found, expected, strict=True) if words not in problem.message] == []


@pytest.mark.parametrize(
    ("model", "ops", "words"),
    [
        ("counter", op("read", 0, None, "five"), "history index 1: expected a counter's value to be a whole number"),
        ("counter", op("add", 0, [1]), "history index 0: expected a counter's value to be a whole number, found [1]"),
        ("set-full", op("read", 0, None, 3), "history index 1: expected a list of the set's elements, found 3"),
    ],
)
def test_a_malformed_value_is_refused(model: str, ops: Sequence[Op], words: str) -> None:
    with pytest.raises(BadInput, match=re.escape(words)):
        outcomes_of(model, [history(*ops)])


def random_history(source: random.Random, ask: Callable[[], tuple[str, Any]], answer: Callable[[str], Any]) -> list[Op]:
    """A few concurrent operations of four processes, with random results."""
    ops: list[Op] = []
    running: dict[int, Op] = {}
    begun, size = 0, source.randint(1, 9)
    while begun < size or running:
        process = source.randrange(4)
        if process in running:
            start = running.pop(process)
            ends = [start.ok(answer(start.f)), start.ok(answer(start.f)), start.info("timeout"), start.fail("refused")]
            ops.append(source.choice(ends))
        elif begun < size:
            f, value = ask()
            begun += 1
            running[process] = Op("invoke", f, process, "x", value)
            ops.append(running[process])
    return history(*ops)


def random_histories(
    ask: Callable[[random.Random], tuple[str, Any]], answer: Callable[[random.Random, str], Any]
) -> list[list[Op]]:
    """HISTORIES histories; ask draws an operation's f and value, answer what an operation of this f returns."""
    histories = []
    for seed in range(HISTORIES):
        source = random.Random(seed)
        histories.append(random_history(source, partial(ask, source), partial(answer, source)))
    return histories


def calls_of(ops: Sequence[Op]) -> list[Call]:
    """The operations that did not fail."""
    found = []
    for start in (each for each in ops if each.type == "invoke"):
        end = next(each for each in ops if each.process == start.process and each.index > start.index)
        if end.type != "fail":
            back, returned = (end.index, end.value) if end.type == "ok" else (None, None)
            found.append(Call(start.index, back, start.f, start.value, returned))
    return found


def test_set_full_agrees_with_comparing_all_pairs() -> None:
    seen: Counter[str] = Counter()
    histories = random_histories(
        lambda source: source.choice([("add", source.randint(1, 4)), ("read", None)]),
        lambda source, f: None if f == "add" else source.choices([1, 2, 3, 4], k=source.randint(0, 4)),
    )
    for seed, outcome in enumerate(outcomes_of("set-full", histories)):
        found = {(each.name, int(re.findall(r"(\d+) elements?", each.message)[0]))
                 if each.name != "never-read" else (each.name, int(re.findall(r": (\d+) element", each.message)[0]))
                 for each in problems(outcome)}  # fmt: skip
        assert found == twins.set_full(calls_of(histories[seed])), f"seed {seed}"
        seen.update(name for name, _ in found)
    assert len(seen) == 5
    assert min(seen.values()) > 50


def test_counter_agrees_with_comparing_all_pairs() -> None:
    wrong = 0
    changes = [("increment", None), ("decrement", 2), ("read", None)]
    histories = random_histories(
        lambda source: source.choice([("add", source.randint(-2, 3)), *changes]),
        lambda source, f: source.randint(-2, 4) if f == "read" else None,
    )
    for seed, outcome in enumerate(outcomes_of("counter", histories)):
        expected = twins.counter(calls_of(histories[seed]))
        message = outcome.problem.message if outcome.problem else ""
        more = re.findall(r"and (\d+) more reads", message)
        assert bool(message) + (int(more[0]) if more else 0) == expected, f"seed {seed}"
        wrong += expected > 0
    assert HISTORIES / 5 < wrong < HISTORIES * 4 / 5


def test_unique_ids_agrees_with_comparing_all_pairs() -> None:
    histories = random_histories(lambda _: ("generate", None), lambda source, _: source.randint(1, 12))
    wrong = 0
    for seed, outcome in enumerate(outcomes_of("unique-ids", histories)):
        expected = twins.unique_ids(calls_of(histories[seed]))
        count = re.findall(r"; (\d+) ids", outcome.problem.message) if outcome.problem else ["0"]
        assert int(count[0]) == expected, f"seed {seed}"
        wrong += expected > 0
    assert HISTORIES / 5 < wrong < HISTORIES * 4 / 5
