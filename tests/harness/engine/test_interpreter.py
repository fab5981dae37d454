"""The interpreter with sessions that respond, fail, crash, hang or cannot be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from harness.engine.clock import RunClock
from harness.engine.combinators import any_of, limit, phases
from harness.engine.generator import Context, Emitted, Generator, fixed, from_function, mark
from harness.engine.interpreter import Tally, interpret
from harness.engine.pacing import milliseconds, time_limit
from harness.engine.placement import clients, nemesis
from harness.model import NEMESIS, EnvironmentFailure, Op
from harness.model.session import NotSent


@dataclass
class MemoryRecorder:
    """A recorder in memory; its disk is full at the index full_at."""

    clock: RunClock
    full_at: int | None = None
    history: list[Op] = field(default_factory=list)

    def record(self, op: Op) -> Op:
        if len(self.history) == self.full_at:
            raise EnvironmentFailure("history/: no space left on device")
        self.history.append(replace(op, index=len(self.history), time_ns=self.clock.now_ns()))
        return self.history[-1]


@dataclass
class Service:
    """Opens sessions that complete operations with respond; counts opened and closed ones."""

    respond: Callable[[Op], Op]
    refused_opens: int = 0
    opened: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)

    async def open(self, process: int) -> _Session:
        if self.refused_opens:
            self.refused_opens -= 1
            raise NotSent("connection refused")
        self.opened.append(process)
        return _Session(self, process)


@dataclass
class _Session:
    service: Service
    process: int

    async def invoke(self, op: Op) -> Op:
        completion = self.service.respond(op)
        if completion.error == "hang":
            await asyncio.Event().wait()
        return completion

    async def close(self) -> None:
        self.service.closed.append(self.process)


def writes(count: int) -> Generator:
    return clients(limit(count, from_function(lambda number, _: Op("invoke", "write", value=number), seed=0)))


def run(
    generator: Generator,
    service: Service,
    *,
    concurrency: int = 1,
    full_at: int | None = None,
    stop_after_s: float | None = None,
    with_nemesis: _Session | _SlowNemesis | None = None,
    **options: int,
) -> tuple[Tally | Exception, list[Op]]:
    """What interpret returned or raised, and the history."""

    async def main() -> Tally:
        stop = asyncio.Event()
        if stop_after_s is not None:
            asyncio.get_running_loop().call_later(stop_after_s, stop.set)
        return await interpret(
            generator,
            concurrency=concurrency,
            open_session=service.open,
            nemesis=with_nemesis,
            recorder=recorder,
            clock=recorder.clock,
            stop=stop,
            **options,
        )

    recorder = MemoryRecorder(RunClock.started_now(), full_at)
    try:
        return asyncio.run(asyncio.wait_for(main(), 20)), recorder.history
    except (EnvironmentFailure, ZeroDivisionError, AssertionError) as error:
        return error, recorder.history


def test_each_invocation_is_recorded_before_it_is_dispatched() -> None:
    seen: list[int] = []
    service = Service(lambda op: (seen.append(op.value), op.ok())[1])
    tally, history = run(writes(3), service)
    assert tally == Tally(ok=3)
    assert [(op.index, op.type, op.value) for op in history] == [
        (0, "invoke", 0),
        (1, "ok", 0),
        (2, "invoke", 1),
        (3, "ok", 1),
        (4, "invoke", 2),
        (5, "ok", 2),
    ]
    assert seen == [0, 1, 2]


def test_times_never_decrease_and_every_operation_completes_once() -> None:
    tally, history = run(writes(500), Service(lambda op: op.ok()), concurrency=7)
    assert tally == Tally(ok=500)
    assert [op.time_ns for op in history] == sorted(op.time_ns for op in history)
    assert sorted(op.value for op in history if op.type == "ok") == list(range(500))


def test_operations_are_evenly_distributed_over_workers() -> None:
    _, history = run(writes(100), Service(lambda op: op.ok()), concurrency=4)
    assert [sum(op.process == process for op in history) for process in range(4)] == [50] * 4


def test_after_info_the_worker_continues_as_a_new_process_with_a_new_session() -> None:
    service = Service(lambda op: op.info("no answer") if op.value in (0, 1, 3) else op.ok())
    tally, history = run(writes(5), service, concurrency=2)
    assert tally == Tally(ok=2, info=3)
    assert [op.process for op in history if op.type == "invoke"] == [0, 1, 2, 2, 4]
    assert sorted(service.opened) == [0, 1, 2, 4]
    assert sorted(service.closed) == [0, 1, 2, 4]


def test_a_fail_keeps_process_and_session() -> None:
    service = Service(lambda op: op.fail("not leader"))
    tally, history = run(writes(3), service)
    assert tally == Tally(fail=3)
    assert {op.process for op in history} == {0}
    assert service.opened == [0]


def test_an_exception_of_a_session_is_an_info() -> None:
    _, history = run(writes(1), Service(lambda op: Op("ok", "write", value=1 // op.value)))
    assert [(op.type, op.error) for op in history] == [
        ("invoke", None),
        ("info", "ZeroDivisionError: integer division or modulo by zero"),
    ]


def test_an_operation_fails_if_its_session_cannot_be_opened_and_the_next_one_retries() -> None:
    tally, history = run(writes(3), Service(lambda op: op.ok(), refused_opens=2))
    assert tally == Tally(ok=1, fail=2)
    assert [op.error for op in history if op.type == "fail"] == ["no session: NotSent: connection refused"] * 2
    assert {op.process for op in history} == {0}


def test_an_operation_that_hangs_is_an_info_after_the_op_timeout() -> None:
    service = Service(lambda op: op.info("hang") if op.value == 0 else op.ok())
    tally, history = run(writes(2), service, op_timeout_ms=50)
    assert tally == Tally(ok=1, info=1)
    assert history[1].error == "no completion within the op timeout"


def test_operations_still_open_after_the_drain_timeout_are_info() -> None:
    tally, history = run(writes(1), Service(lambda op: op.info("hang")), drain_timeout_ms=50)
    assert tally == Tally(info=1, abandoned=1)
    assert history[-1].error == "still open when the run ended"


@dataclass
class _SlowNemesis:
    """Its operations take this long."""

    seconds: float

    async def invoke(self, op: Op) -> Op:
        await asyncio.sleep(self.seconds)
        return op.info("late")


def test_last_nemesis_operation_has_all_its_time() -> None:
    wait = nemesis(fixed(Op("invoke", "await")))
    _, history = run(wait, Service(lambda op: op.ok()), with_nemesis=_SlowNemesis(0.3), drain_timeout_ms=20)
    assert [op.error for op in history] == [None, "late"]


def test_stop_does_not_wait_for_the_last_nemesis_operation() -> None:
    wait = nemesis(fixed(Op("invoke", "await")))
    service, slow = Service(lambda op: op.ok()), _SlowNemesis(60)
    _, history = run(wait, service, with_nemesis=slow, stop_after_s=0.1, drain_timeout_ms=20)
    assert [op.error for op in history] == [None, "still open when the run ended"]


def test_stop_ends_generation_and_drains_open_operations() -> None:
    service = Service(lambda op: op.ok())
    infinite = clients(from_function(lambda number, _: Op("invoke", "write", value=number), seed=0))
    tally, history = run(infinite, service, concurrency=3, stop_after_s=0.1)
    assert isinstance(tally, Tally)
    assert tally.ok > 0
    assert tally.info == 0
    assert len(history) == 2 * tally.ok


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize(
    "service",
    [
        Service(lambda op: op.ok()),
        Service(lambda op: op.info("no answer")),
        Service(lambda op: op.ok(), refused_opens=10**9),
    ],
    ids=["ok", "info", "no session"],
)
def test_workers_that_never_wait_let_other_tasks_run(service: Service, concurrency: int) -> None:
    infinite = clients(from_function(lambda number, _: Op("invoke", "write", value=number), seed=0))
    tally, history = run(infinite, service, concurrency=concurrency, stop_after_s=0.05)
    assert isinstance(tally, Tally)
    assert {op.process % concurrency for op in history} == set(range(concurrency))


def test_stop_ends_a_wait_for_a_pending_generator() -> None:
    tally, _ = run(time_limit(milliseconds(60_000), writes(1)), Service(lambda op: op.ok()), stop_after_s=0.05)
    assert tally == Tally(ok=1)


def test_nemesis_operations_are_info_rows_of_one_process() -> None:
    session = _Session(Service(lambda op: Op("ok", op.f, op.process, value="nodes 1 and 2")), NEMESIS)
    faults = nemesis(fixed(Op("invoke", "cut", value="halves"), Op("invoke", "heal")))
    tally, history = run(any_of(faults, writes(1)), Service(lambda op: op.ok()), with_nemesis=session)
    assert tally == Tally(ok=1)
    assert [(op.type, op.f, op.value) for op in history if op.process == NEMESIS] == [
        ("info", "cut", "halves"),
        ("info", "cut", "nodes 1 and 2"),
        ("info", "heal", None),
        ("info", "heal", "nodes 1 and 2"),
    ]
    assert session.service.closed == []


def test_phases_and_marks_order_the_history() -> None:
    generator = phases(writes(2), mark("quiet"), writes(1))
    _, history = run(generator, Service(lambda op: op.ok()), concurrency=2)
    assert [(op.type, op.value) for op in history[4:]] == [("info", "quiet"), ("invoke", 0), ("ok", 0)]


class _Broken:
    """A generator with a defect: it raises after one operation."""

    reacts = False

    def next(self, context: Context) -> Emitted | None:
        return (Op("invoke", "write", value=1 // len(context.free)), self) if context.time_ns >= 0 else None

    def update(self, _context: Context, _event: Op) -> Generator:
        return self


def test_an_error_of_a_generator_is_raised_after_open_operations_are_recorded() -> None:
    service = Service(lambda op: op.info("hang"))
    error, history = run(_Broken(), service)
    assert isinstance(error, ZeroDivisionError)
    assert [op.type for op in history] == ["invoke", "info"]
    assert service.closed == service.opened


def test_a_full_disk_ends_the_run_and_closes_its_sessions() -> None:
    service = Service(lambda op: op.ok())
    error, history = run(writes(100), service, concurrency=3, full_at=9)
    assert isinstance(error, EnvironmentFailure)
    assert len(history) == 9
    assert sorted(service.closed) == sorted(service.opened)


def test_a_completion_for_another_process_is_a_defect() -> None:
    error, _ = run(writes(1), Service(lambda op: Op("ok", op.f, op.process + 1)))
    with pytest.raises(AssertionError, match="for another process"):
        raise error if isinstance(error, Exception) else TypeError(error)
