"""Literal histories of generators on virtual time; every operation takes 10 ns and succeeds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from harness.engine.combinators import all_ok, any_of, limit, mix, phases, repeat, then, until_ok
from harness.engine.generator import Generator, fixed, from_function, mark
from harness.engine.independent import concurrent_generator
from harness.engine.pacing import ask_again, bursts, delay, sleep, stagger, time_limit
from harness.engine.placement import clients, each_process, each_worker, nemesis, reserve
from harness.model import NEMESIS, BadInput, Op
from tests.support.engine_simulation import perfect, simulate, starts


def named(*names: str) -> Generator:
    return fixed(*(Op("invoke", name) for name in names))


def infinite(name: str) -> Generator:
    return from_function(lambda number, _random: Op("invoke", name, value=number), seed=0)


def client_starts(generator: Generator, concurrency: int = 2) -> list[tuple[int, int, str]]:
    return starts(simulate(clients(generator), concurrency))


def test_fixed_ops_go_to_the_worker_that_is_idle_longest_and_wait_if_none_is_free() -> None:
    assert client_starts(named("a", "b", "c")) == [(0, 0, "a"), (0, 1, "b"), (10, 0, "c")]


def test_the_history_has_each_invocation_and_its_completion() -> None:
    history = simulate(clients(named("a")), concurrency=1)
    assert history == [Op("invoke", "a", 0, time_ns=0), Op("ok", "a", 0, time_ns=10)]


def test_limit_counts_operations_but_not_pending() -> None:
    assert client_starts(limit(3, infinite("a")), 1) == [(0, 0, "a"), (10, 0, "a"), (20, 0, "a")]


def test_repeat_starts_again_when_exhausted() -> None:
    assert [f for _, _, f in client_starts(repeat(named("a", "b"), rounds=2))] == ["a", "b", "a", "b"]


def test_repeat_without_rounds_is_infinite() -> None:
    assert len(client_starts(limit(50, repeat(named("a"))))) == 50


def test_then_does_not_wait_for_completions() -> None:
    assert client_starts(then(named("a"), named("b"))) == [(0, 0, "a"), (0, 1, "b")]


def test_phases_wait_for_completions() -> None:
    assert client_starts(phases(named("a"), named("b"))) == [(0, 0, "a"), (10, 1, "b")]


def test_a_mark_needs_no_worker() -> None:
    generator = then(named("a", "b"), mark("both started"))
    assert client_starts(generator) == [(0, 0, "a"), (0, 1, "b"), (0, NEMESIS, "both started")]


def test_sleep_waits_between_parts() -> None:
    assert client_starts(then(named("a"), sleep(500), named("b"))) == [(0, 0, "a"), (500, 1, "b")]


def test_delay_separates_the_starts_of_operations() -> None:
    assert client_starts(delay(100, named("a", "b", "c"))) == [(0, 0, "a"), (100, 1, "b"), (200, 0, "c")]


def test_time_limit_ends_an_infinite_generator() -> None:
    assert client_starts(time_limit(25, infinite("a")), 1) == [(0, 0, "a"), (10, 0, "a"), (20, 0, "a")]


def test_time_limit_ends_a_sleep() -> None:
    assert client_starts(then(time_limit(30, sleep(500)), named("a"))) == [(30, 0, "a")]


def test_stagger_has_its_mean_rate() -> None:
    history = client_starts(limit(400, stagger(100, infinite("a"), seed=5)), 5)
    gaps = [after - before for (before, *_), (after, *_) in pairwise(history)]
    assert 92 < history[-1][0] / 399 < 108
    assert max(gaps) < 200


def test_stagger_catches_up_after_a_stall() -> None:
    slow_then_fast = iter([1000] + [1] * 100)
    history = simulate(
        clients(limit(20, stagger(100, infinite("a"), seed=5))), 1, lambda op: (next(slow_then_fast), op.ok())
    )
    assert [time_ns for time_ns, *_ in starts(history)][:4] == [0, 1000, 1001, 1002]


def test_mix_chooses_by_weight() -> None:
    history = client_starts(limit(1000, mix([(3, infinite("a")), (1, infinite("b"))], seed=1)))
    assert 700 < sum(f == "a" for _, _, f in history) < 800


def test_mix_continues_with_the_remaining_branches() -> None:
    names = [f for _, _, f in client_starts(mix([(1, named("a", "b")), (1, named("c"))], seed=1))]
    assert sorted(names) == ["a", "b", "c"]
    assert names.index("a") < names.index("b")


def test_any_of_emits_from_the_first_branch_that_has_an_operation() -> None:
    generator = any_of(then(sleep(15), named("first")), limit(3, infinite("second")))
    assert client_starts(generator, 1) == [(0, 0, "second"), (10, 0, "second"), (20, 0, "first"), (30, 0, "second")]


def test_until_ok_ends_only_after_an_ok_of_its_own_operations() -> None:
    outcomes = {"try": iter(["fail", "info", "ok"]), "other": iter(["ok"] * 9)}

    def system(op: Op) -> tuple[int, Op]:
        return 10, Op(next(outcomes[op.f]), op.f, op.process)  # type: ignore[arg-type]

    generator = clients(reserve((1, until_ok(repeat(named("try")))), rest=named("other", "other", "other")))
    assert [f for _, _, f in starts(simulate(generator, 2, system)) if f == "try"] == ["try"] * 3


def test_nemesis_and_clients_run_concurrently_on_their_own_workers() -> None:
    generator = any_of(nemesis(named("cut", "heal")), clients(named("a", "b", "c")))
    assert starts(simulate(generator, concurrency=2)) == [
        (0, NEMESIS, "cut"),
        (0, 0, "a"),
        (0, 1, "b"),
        (10, NEMESIS, "heal"),
        (10, 0, "c"),
    ]


def test_phases_of_clients_do_not_wait_for_the_nemesis() -> None:
    slow_nemesis = any_of(nemesis(named("cut")), clients(phases(named("a"), named("b"))))
    history = simulate(slow_nemesis, 1, lambda op: (1000, op.ok()) if op.f == "cut" else perfect(op))
    assert starts(history) == [(0, NEMESIS, "cut"), (0, 0, "a"), (10, 0, "b")]


def test_reserve_assigns_workers_in_order() -> None:
    generator = reserve((2, limit(4, infinite("a"))), (1, limit(2, infinite("b"))), rest=limit(2, infinite("c")))
    history = client_starts(generator, 4)
    assert {f: {process for _, process, g in history if g == f} for f in "abc"} == {"a": {0, 1}, "b": {2}, "c": {3}}


def test_each_worker_runs_its_own_copy() -> None:
    assert sorted(client_starts(each_worker(named("a", "b")))) == [
        (0, 0, "a"),
        (0, 1, "a"),
        (10, 0, "b"),
        (10, 1, "b"),
    ]


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (each_worker, [(0, 0, "a"), (10, 1, "b")]),
        (each_process, [(0, 0, "a"), (10, 1, "a"), (20, 1, "b")]),
    ],
    ids=["each_worker continues", "each_process starts again"],
)
def test_after_a_crash(each: Callable[[Generator], Generator], expected: list[tuple[int, int, str]]) -> None:
    history = simulate(
        clients(each(named("a", "b"))), 1, lambda op: (10, op.info("lost") if op.process == 0 else op.ok())
    )
    assert starts(history) == expected


def test_each_key_has_one_group_of_workers_and_its_number_of_operations() -> None:
    generator = concurrent_generator(
        lambda number: infinite(f"f{number}"), key_count=3, workers_per_key=2, ops_per_key=4
    )
    invoked = [op for op in simulate(generator, concurrency=4) if op.type == "invoke"]
    assert {op.key: op.f for op in invoked} == {"k0": "f0", "k1": "f1", "k2": "f2"}
    assert [sum(op.key == key for op in invoked) for key in ("k0", "k1", "k2")] == [4, 4, 4]
    assert {op.process // 2 for op in invoked if op.key == "k0"} == {0}
    assert {op.process // 2 for op in invoked if op.key == "k1"} == {1}


def test_a_concurrent_generator_refuses_an_incomplete_group_of_workers() -> None:
    with pytest.raises(BadInput, match="expected a multiple of the 2 workers per key, got 3"):
        simulate(
            concurrent_generator(lambda _: infinite("a"), key_count=1, workers_per_key=2, ops_per_key=1), concurrency=3
        )


def test_reserve_refuses_a_concurrency_that_leaves_a_generator_without_workers() -> None:
    with pytest.raises(BadInput, match="some operations need worker 2, got only workers 0 to 1"):
        simulate(clients(reserve((2, named("a")), rest=named("b"))), concurrency=2)


def crashing_writes(op: Op) -> tuple[int, Op]:
    return 10, op.info("no response") if op.f == "write" else op.ok()


def question(op: Op) -> Op | None:
    return Op("invoke", "read", value=op.value) if op.f == "write" else None


def test_operation_of_unknown_outcome_is_asked_about_after_each_delay() -> None:
    writes = delay(30, fixed(Op("invoke", "write", value="a"), Op("invoke", "other"), Op("invoke", "write", value="b")))
    history = simulate(clients(ask_again([15, 100], question, writes)), 1, crashing_writes)
    invoked = [(op.time_ns, op.f, op.value) for op in history if op.type == "invoke"]
    assert invoked == [
        (0, "write", "a"), (25, "read", "a"), (35, "other", None), (65, "write", "b"), (90, "read", "b"),
        (110, "read", "a"), (175, "read", "b"),
    ]  # fmt: skip


def test_question_comes_before_the_other_operations_once_a_worker_is_free() -> None:
    load = then(named("write"), limit(3, infinite("other")))
    history = simulate(clients(ask_again([15], question, load)), 1, crashing_writes)
    assert [(time_ns, f) for time_ns, _, f in starts(history)] == [
        (0, "write"), (10, "other"), (20, "other"), (30, "read"), (40, "other"),
    ]  # fmt: skip


def test_load_pauses_and_what_was_due_follows_in_a_burst() -> None:
    load = bursts(2000, stagger(20, infinite("a"), seed=2), seed=1)
    times = [time for time, _, _ in client_starts(time_limit(40_000, load), 1)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    pauses = [place for place, gap in enumerate(gaps) if gap > 200]
    assert 5 < len(pauses) < 15
    assert all(gaps[place + 1] == 10 for place in pauses), "the next operation starts as soon as the worker is free"
    assert gaps.count(10) > 0.4 * len(gaps)
    assert 1700 < len(times) < 2100, "the mean rate holds"


def test_operations_that_are_not_ok_are_carried_out_again_beside_the_others() -> None:
    failing = iter([True, False, True])

    def system(op: Op) -> tuple[int, Op]:
        return (10, op.fail("not the leader")) if op.f == "b" and next(failing, False) else perfect(op)

    history = simulate(clients(all_ok(*(Op("invoke", f) for f in "abcd"))), 2, system)
    assert starts(history) == [(0, 0, "a"), (0, 1, "b"), (10, 0, "c"), (10, 1, "d"), (20, 0, "b")]
