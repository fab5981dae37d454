"""Compares every model with its plain twin on random small histories, and checks literal ones."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from checkers.framework.contract import JudgeSettings
from checkers.framework.operations import possible_operations, register_operations
from checkers.kernels.layers import search_in_layers
from checkers.kernels.rows import NIL
from checkers.kernels.search import INVALID, UNDECIDED, VALID, search
from checkers.kernels.steps import NO_TEXTS
from checkers.linearizability.models import MODELS, queue
from checkers.linearizability.models.model import Outcome
from checkers.twins.models import TWINS, explained
from harness.model import Op
from tests.support.checks.model_histories import CORRUPTIONS, calls_of, keys_from, random_history, sequential_history
from tests.support.checks.small_histories import history, read, write

MANY = [2_000, pytest.param(10_000, marks=pytest.mark.slow)]
"""How many random histories a comparison takes."""
SETTINGS = JudgeSettings()

ALGORITHMS = {
    "cas-register": {"zones of unique values", "chains of unique values", "depth-first search"},
    "kv": {"depth-first search"},
    "mutex": {"depth-first search"},
    "set": {"inclusion of reads"},
    "fifo-queue": {"order of unique values", "plain search"},
}


def outcomes_of(model: str, histories: Sequence[Sequence[Op]]) -> list[Outcome]:
    return MODELS[model].judge(keys_from(model, histories), SETTINGS)


def outcome(model: str, *ops: Op) -> Outcome:
    return outcomes_of(model, [history(*ops)])[0]


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("model", ALGORITHMS)
def test_a_model_agrees_with_trying_every_order(model: str, count: int) -> None:
    histories = [random_history(model, random.Random(seed)) for seed in range(count)]
    rule, initial = TWINS[model]
    verdicts: Counter[tuple[str, bool]] = Counter()
    for seed, found in enumerate(outcomes_of(model, histories)):
        is_valid = found.problem is None
        assert is_valid == explained(calls_of(histories[seed]), initial, rule), f"seed {seed}"
        verdicts[found.algorithm, is_valid] += 1
    assert {algorithm for algorithm, _ in verdicts} == ALGORITHMS[model]
    assert min(verdicts.values()) > count / 1000


def test_texts_agree_with_trying_every_order_where_many_operations_are_open() -> None:
    """More than windows.FEW operations: the searches look ahead for the next read."""
    histories = [random_history("kv", random.Random(seed), 9, 9) for seed in range(600)]
    rule, initial = TWINS["kv"]
    found = [each.problem is None for each in outcomes_of("kv", histories)]
    assert found == [explained(calls_of(ops), initial, rule) for ops in histories]
    assert 50 < sum(found) < 550


@pytest.mark.parametrize("count", MANY)
def test_both_searches_agree_with_the_faster_algorithms(count: int) -> None:
    histories = [random_history("cas-register", random.Random(seed)) for seed in range(count)]
    keys = keys_from("cas-register", histories)
    batch = register_operations(keys)
    for which, found in enumerate(MODELS["cas-register"].judge(keys, SETTINGS)):
        depth = search(batch.of(which), NO_TEXTS, NIL, 10**6, 1 << 28)
        breadth = search_in_layers(batch.of(which), NO_TEXTS, NIL, 10**6, 1 << 28)
        assert depth[0] == breadth[0] == (VALID if found.problem is None else INVALID), f"seed {which}"
        assert depth[2:4] == breadth[2:4], f"seed {which}: the longest order, and what cannot follow it"


def test_the_search_for_queues_agrees_with_the_order_of_unique_values() -> None:
    histories = [random_history("fifo-queue", random.Random(seed)) for seed in range(2000)]
    keys = keys_from("fifo-queue", histories)
    found = possible_operations(keys, crashed_reads=True)
    for which, quick in enumerate(queue.judge(keys, SETTINGS)):
        plain = queue.searched(keys, queue.queue_history(keys, found, which)[0], 10**6)
        assert (plain.problem is None) == (quick.problem is None), f"seed {which}"


def op(f: str, process: int, argument: object = None, returned: object = None) -> tuple[Op, Op]:
    """An invocation and its ok."""
    start = Op("invoke", f, process, "x", argument)
    return start, start.ok(returned)


CRASHED_ENQUEUE = Op("invoke", "enqueue", 7, "x", 1)
CRASHED_DEQUEUE = Op("invoke", "dequeue", 7, "x")
CRASHED_ADD = Op("invoke", "add", 7, "x", 1)
SWAP = Op("invoke", "cas", 7, "x", [1, 2])

VALID_ONES = {
    "cas-register: a crashed swap may be seen": [*write(0, 1), SWAP, SWAP.info("timeout"), *read(1, 1), *read(1, 2)],
    "kv: appends are seen in order": [*op("put", 0, "a"), *op("append", 1, "b"), *op("get", 0, None, "ab")],
    "kv: a put forgets what was there": [*op("append", 0, "a"), *op("put", 0, ""), *op("get", 0, None, "")],
    "mutex: one after the other": [*op("acquire", 0), *op("release", 0), *op("acquire", 1)],
    "set: a crashed add may be seen": [CRASHED_ADD, CRASHED_ADD.info("timeout"), *op("read", 0, None, [1])],
    "set: adding again changes nothing": [*op("add", 0, 1), *op("read", 0, None, [1]), *op("add", 0, 1)],
    "fifo-queue: a crashed dequeue took the first": [
        *op("enqueue", 0, 1), *op("enqueue", 0, 2), CRASHED_DEQUEUE, CRASHED_DEQUEUE.info("timeout"),
        *op("dequeue", 1, None, 2),
    ],
    "fifo-queue: a value may come twice if it went in twice": [
        *op("enqueue", 0, 1), *op("enqueue", 0, 1), *op("dequeue", 0, None, 1), *op("dequeue", 0, None, 1),
    ],
    "fifo-queue: an empty queue returns nothing": [*op("dequeue", 0), *op("enqueue", 0, 1)],
}  # fmt: skip

BROKEN_ONES = {
    "cas-register: a value is swapped twice": (
        [*write(0, 1), SWAP, SWAP.ok(), *op("cas", 1, [1, 3])],
        "a value written once is swapped once: cas [1, 2] (index 2 to 3) and cas [1, 3] (index 4 to 5) both",
    ),
    "cas-register: a swap of what was never written": ([SWAP, SWAP.ok()], "cas [1, 2] (index 0 to 1) returned a value"),
    "cas-register: swaps in a circle": (
        [SWAP, Op("invoke", "cas", 1, "x", [2, 1]), SWAP.ok(), Op("ok", "cas", 1, "x", [2, 1])],
        "replaced a value that only its own new value led to",
    ),
    "cas-register: a read of what was swapped away": (
        [*write(0, 1), SWAP, SWAP.ok(), *read(0, 1)], "(index 2 to 3) ended before read 1 (index 4 to 5) began",
    ),
    "kv: an append is lost": ([*op("append", 0, "a"), *op("get", 0)], "no order of the operations explains get nil"),
    "kv: appends in the wrong order": (
        [*op("append", 0, "a"), *op("append", 0, "b"), *op("get", 0, None, "ba")], 'explains get "ba" (index 4 to 5)',
    ),
    "mutex: held twice": (
        [*op("acquire", 0), *op("acquire", 1)],
        "explains acquire (index 2 to 3); the longest order before it has 1 of the operations that returned, after "
        "which the state is held",
    ),
    "mutex: released when free": ([*op("release", 0)], "after which the state is free"),
    "set: an element is lost": (
        [*op("add", 0, 1), *op("read", 0, None, [])], "add 1 (index 0 to 1) ended before read [] (index 2 to 3) began",
    ),
    "set: an element that was never added": ([*op("read", 0, None, [4])], "read [4] (index 0 to 1) shows an element"),
    "set: reads that disagree": (
        [*op("add", 0, 1), *op("add", 0, 2), *op("read", 1, None, [1]), *op("read", 1, None, [2])], "neither of",
    ),
    "fifo-queue: the second came first": (
        [*op("enqueue", 0, 1), *op("enqueue", 0, 2), *op("dequeue", 1, None, 2), *op("dequeue", 1, None, 1)],
        "enqueue 1 (index 0 to 1) ended before enqueue 2 (index 2 to 3) began",
    ),
    "fifo-queue: the first was lost": (
        [*op("enqueue", 0, 1), *op("enqueue", 0, 2), *op("dequeue", 1, None, 2)], "a queue returns values in the order",
    ),
    "fifo-queue: a value out of nothing": ([*op("dequeue", 1, None, 2)], "dequeue 2 (index 0 to 1) returned a value"),
    "fifo-queue: a value twice": (
        [*op("enqueue", 0, 1), *op("dequeue", 1, None, 1), *op("dequeue", 1, None, 1)], "returned the same",
    ),
    "fifo-queue: a value before it went in": (
        [*op("dequeue", 1, None, 1), *op("enqueue", 0, 1)], "dequeue 1 (index 0 to 1) ended before enqueue 1",
    ),
    "fifo-queue: a queue that is not empty returns nothing": (
        [*op("enqueue", 0, 1), *op("dequeue", 0)], "explains dequeue nil (index 2 to 3) (plain search)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALID_ONES)
def test_valid_histories_are_valid(name: str) -> None:
    assert outcome(name.partition(":")[0], *VALID_ONES[name]).problem is None


@pytest.mark.parametrize("name", BROKEN_ONES)
def test_broken_histories_are_explained(name: str) -> None:
    ops, words = BROKEN_ONES[name]
    problem = outcome(name.partition(":")[0], *ops).problem
    assert problem is not None
    assert (problem.name, problem.severity) == ("non-linearizable", "invalid")
    assert words in problem.message


def test_a_search_out_of_budget_reports_its_steps() -> None:
    starts = [Op("invoke", "enqueue", process, "x", process % 2 + 1) for process in range(14)]
    taken = [each for _ in range(8) for each in op("dequeue", 99, None, 1)]
    ops = history(*starts, *(start.ok() for start in starts), *taken)
    (found,) = MODELS["fifo-queue"].judge(keys_from("fifo-queue", [ops]), JudgeSettings(search_steps=20_000))
    assert found.problem is not None
    assert (found.problem.name, found.problem.severity) == ("undecided", "unknown")
    assert "steps were spent, and none got past" in found.problem.message


def test_planted_corruptions_are_found_in_histories_of_a_thousand_operations() -> None:
    for name, (model, plant) in CORRUPTIONS.items():
        for seed in range(3):
            ops = sequential_history(model, random.Random(seed), 1000)
            assert outcome(model, *ops).problem is None, f"{name}, seed {seed}: before"
            problem = outcome(model, *plant(ops)).problem
            assert problem is not None, f"{name}, seed {seed}: after"
            assert problem.name == "non-linearizable"


def test_a_search_out_of_memory_is_undecided() -> None:
    starts = [Op("invoke", "write", process, "x", process % 3 + 1) for process in range(12)]
    ops = history(*starts, *(start.ok() for start in starts), *read(99, 4))
    operations = register_operations(keys_from("cas-register", [ops])).of(0)
    assert search(operations, NO_TEXTS, NIL, 10**9, 1 << 14)[0] == UNDECIDED
    assert search_in_layers(operations, NO_TEXTS, NIL, 10**9, 1 << 14)[0] == UNDECIDED


def test_the_breadth_first_search_drops_configurations_with_needless_crashed_operations() -> None:
    starts = [Op("invoke", "write", process, "x", process % 25) for process in range(100)]
    crashed = [*starts, *(start.info("timeout") for start in starts)]
    ops = history(
        *crashed, *(each for value in range(20) for each in (*write(200, 100 + value), *read(200, 100 + value)))
    )
    ops = history(*ops, *read(200, 999))
    operations = register_operations(keys_from("cas-register", [ops])).of(0)
    verdict, steps, placed, _, _ = search_in_layers(operations, NO_TEXTS, NIL, 10**6, 1 << 28)
    assert (verdict, placed) == (INVALID, 40)
    assert steps < 50_000
