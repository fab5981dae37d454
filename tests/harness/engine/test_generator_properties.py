"""Properties of all combinations of generators, on a system that fails and crashes at random."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from harness.engine.combinators import all_ok, any_of, limit, mix, phases, repeat, then, until_ok
from harness.engine.generator import Context, Emitted, Generator, fixed, from_function, mark
from harness.engine.independent import concurrent_generator
from harness.engine.pacing import ask_again, bursts, delay, sleep, stagger, time_limit
from harness.engine.placement import clients, each_process, each_worker, nemesis, reserve
from harness.model import NEMESIS, BadInput, Op
from tests.support.engine_simulation import System, crashing, simulate

LEAVES = st.one_of(
    st.integers(0, 4).map(lambda count: fixed(*[Op("invoke", f"f{n}", value=n) for n in range(count)])),
    st.integers().map(lambda seed: from_function(lambda n, number: Op("invoke", "g", value=[n, number]), seed=seed)),
    st.integers(0, 4).map(lambda count: all_ok(*[Op("invoke", f"o{n}", value=n) for n in range(count)])),
    st.integers(1, 50).map(sleep),
    st.just("here").map(mark),
)


def combined(inner: st.SearchStrategy[Generator]) -> st.SearchStrategy[Generator]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.builds(limit, st.integers(0, 9), inner),
        st.builds(lambda one: limit(30, repeat(one, 3)), inner),
        pairs.map(lambda two: then(*two)),
        pairs.map(lambda two: phases(*two)),
        pairs.map(lambda two: any_of(*two)),
        pairs.map(lambda two: mix([(1, two[0]), (2, two[1])], seed=4)),
        pairs.map(lambda two: reserve((1, two[0]), rest=two[1])),
        st.builds(time_limit, st.integers(1, 200), inner),
        st.builds(delay, st.integers(1, 30), inner),
        st.builds(lambda one: stagger(9, one, seed=8), inner),
        st.builds(until_ok, inner),
        st.builds(lambda one: bursts(20, one, seed=6), inner),
        st.builds(
            lambda one: ask_again([7, 20], lambda op: None if op.f == "again" else Op("invoke", "again"), one), inner
        ),
        st.builds(each_worker, inner),
        st.builds(lambda one: limit(30, each_process(one)), inner),
    )


KEYED = st.recursive(LEAVES, combined, max_leaves=4).map(
    lambda one: concurrent_generator(lambda _: one, key_count=3, workers_per_key=1, ops_per_key=5)
)
"""Never one inside another: an operation has one key."""

GENERATORS = st.recursive(st.one_of(LEAVES, KEYED), combined, max_leaves=6).map(clients)


def run(generator: Generator, concurrency: int, system: System, max_rows: int = 5000) -> list[Op]:
    """The history; rejects an example whose generator needs more workers."""
    try:
        return simulate(generator, concurrency, system, max_rows)
    except BadInput:
        reject()


SEEDS = st.integers(0, 2**64 - 1)


@settings(max_examples=150)
@given(GENERATORS, SEEDS, st.integers(2, 5))
def test_same_seed_and_completions_give_the_same_history(generator: Generator, seed: int, concurrency: int) -> None:
    first = run(generator, concurrency, crashing(seed), max_rows=200)
    assert first == run(generator, concurrency, crashing(seed), max_rows=200)


@settings(max_examples=150)
@given(GENERATORS, SEEDS, st.integers(2, 5))
def test_a_process_has_one_operation_open_and_none_after_a_crash(
    generator: Generator, seed: int, concurrency: int
) -> None:
    last: dict[int, str] = defaultdict(lambda: "ok")
    for op in run(generator, concurrency, crashing(seed), max_rows=200):
        if op.f == "mark":
            continue
        assert op.process != NEMESIS
        assert last[op.process] in (("ok", "fail") if op.type == "invoke" else ("invoke",))
        last[op.process] = op.type


@given(st.recursive(st.just(all_ok(Op("invoke", "write"))), combined, max_leaves=6))
def test_events_reach_a_part_that_reacts(generator: Generator) -> None:
    assert generator.reacts


@settings(max_examples=150)
@given(GENERATORS, SEEDS)
def test_a_generator_that_does_not_react_has_the_same_history_without_events(generator: Generator, seed: int) -> None:
    assume(not generator.reacts)
    completions = run(generator, 3, crashing(seed), max_rows=200)
    assert completions == run(_Deaf(generator), 3, crashing(seed), max_rows=200)


class _Deaf(NamedTuple):
    """inner, without any events."""

    inner: Generator

    @property
    def reacts(self) -> bool:
        return False

    def next(self, context: Context) -> Emitted | None:
        emitted = self.inner.next(context)
        return emitted and (emitted[0], _Deaf(emitted[1]))

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


@settings(max_examples=100, deadline=None)
@given(GENERATORS, SEEDS)
def test_a_time_limit_is_never_exceeded(generator: Generator, seed: int) -> None:
    history = run(time_limit(100, generator), 3, crashing(seed))
    assert all(op.time_ns < 100 for op in history if op.type == "invoke")


@settings(max_examples=50, deadline=None)
@given(GENERATORS, SEEDS)
def test_client_load_does_not_delay_the_nemesis(generator: Generator, seed: int) -> None:
    faults = nemesis(delay(40, fixed(Op("invoke", "cut"), Op("invoke", "heal"))))
    history = run(any_of(faults, time_limit(200, generator)), 3, crashing(seed))
    nemesis_ops = [(op.f, op.time_ns) for op in history if op.process == NEMESIS and op.type == "invoke"]
    assert [f for f, _ in nemesis_ops] == ["cut", "heal"]
    assert 40 <= nemesis_ops[1][1] <= 60
