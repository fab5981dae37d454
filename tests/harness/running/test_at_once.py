"""Several runs at a time: how many, and what is reported of each."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from harness.model.progress import Event, Leadership, NemesisEvent, OnEvent, Operations, Phase, RunStarted
from harness.model.systems import NodeNeeds
from harness.planning.plan import Plan
from harness.running import at_once
from harness.running.at_once import (
    PendingRun,
    at_end_of_load,
    carried_out,
    carry_out_all,
    cost_of,
    ended_together,
    labelled,
)
from results.store import RunDirectory

MACHINE = NodeNeeds(cores=2, memory_mib=10_000)


def plan(system: str = "reference", nodes: int = 3) -> Plan:
    return Plan(name="PV-01", system=system, nodes=nodes, seed=1, story=[])


@pytest.mark.parametrize(
    ("system", "nodes", "machine", "cost"),
    [
        ("reference", 3, MACHINE, 3 * 0.15 / 2),
        ("kafka:4.3.1", 3, MACHINE, 3 * 0.6 / 2),
        ("kafka:4.3.1", 3, NodeNeeds(cores=64, memory_mib=4200), 3 * 700 / 4200),
    ],
    ids=["cores of the reference", "cores of Kafka", "memory"],
)
def test_cost_is_the_larger_share_of_cores_and_memory(system: str, nodes: int, machine: NodeNeeds, cost: float) -> None:
    assert cost_of(plan(system, nodes), machine) == pytest.approx(cost)


def test_cost_includes_the_load_beyond_that_of_scenarios() -> None:
    loaded = plan().model_copy(update={"rate_per_second": 1000.0})
    assert cost_of(loaded, MACHINE) == pytest.approx((3 * 0.15 + 0.9) / 2)


class Runs:
    """Runs that wait until they are told to end, and how many there were at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, expected: int) -> None:
        self.path, self.now, self.most = tmp_path, 0, 0
        self.lock, self.full = threading.Lock(), threading.Barrier(expected, timeout=10)
        monkeypatch.setattr(at_once, "carry_out", self.carry_out)
        monkeypatch.setattr(at_once, "cost_of", lambda plan, _machine: plan.nodes / 6)

    def carry_out(self, _plan: Plan, _run: RunDirectory, on_event: object, *_: object) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.full.wait()
        on_event(Phase("final reads", "final reads"))  # type: ignore[operator]
        on_event(Phase("collecting", "collection"))  # type: ignore[operator]
        with self.lock:
            self.now -= 1

    def pending(self, nodes: list[int], alone: bool) -> list[PendingRun]:
        plans, directory = [plan(nodes=each) for each in nodes], RunDirectory(self.path / "bad-1")
        return [PendingRun(each, lambda _, begun=each: (directory, begun), alone) for each in plans]


@pytest.mark.parametrize(
    ("nodes", "alone", "limit", "expected"),
    [
        ([2] * 6, False, None, 3),
        ([5] * 3, False, None, 1),
        ([7] * 2, False, None, 1),
        ([1] * 4, False, 2, 2),
        ([1] * 2, True, None, 1),
        ([1] * 2, True, 2, 1),
    ],
    ids=[
        "three fit",
        "one fits",
        "larger than the machine",
        "as the user says",
        "alone",
        "alone whatever the user says",
    ],
)
def test_as_many_runs_as_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nodes: list[int], alone: bool, limit: int | None, expected: int
) -> None:
    runs, over = Runs(monkeypatch, tmp_path, expected), []
    carry_out_all(runs.pending(nodes, alone), limit, lambda _event: None, lambda: over.append(runs.now))
    assert runs.most == expected
    assert len(over) == 1, "the end of all loads is reported once"


def test_other_runs_are_told_to_end_when_one_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failed, stopped, begun = threading.Event(), [], []
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, text=True)

    def carry_out(
        one: Plan, _run: RunDirectory, _on_event: object, on_process: Any, is_stopped: Any, *_: object
    ) -> None:
        if one.side == "good":
            failed.set()
            raise ValueError("the first failure")
        on_process(process)
        failed.wait(10)
        process.wait(10)  # until its standard input is closed
        stopped.append(is_stopped())
        raise ValueError("ended early")

    monkeypatch.setattr(at_once, "carry_out", carry_out)

    def begin(one: Plan, _report: OnEvent) -> tuple[RunDirectory, Plan]:
        begun.append(1)
        return RunDirectory(tmp_path / "run"), one

    plans = [plan().model_copy(update={"side": side}) for side in ("bad", "good", "bad")]
    with pytest.raises(ValueError, match="the first failure"):
        carry_out_all([PendingRun(each, partial(begin, each)) for each in plans], 2, lambda _event: None, lambda: None)
    assert stopped == [True]
    assert len(begun) == 2, "no run begins after the failure"


def test_runs_are_taken_when_there_is_room_and_end_with_the_iterator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken: list[int] = []
    stopped = threading.Event()

    def carry_out(
        one: Plan, _run: RunDirectory, _on_event: object, _on_process: object, is_stopped: Any, *_: object
    ) -> None:
        while one.seed > 2 and not is_stopped():
            stopped.wait(0.01)

    def begin(one: Plan, _report: OnEvent) -> tuple[RunDirectory, Plan]:
        return RunDirectory(tmp_path / str(one.seed)), one

    def pending() -> Iterator[PendingRun]:
        for seed in count(1):
            taken.append(seed)
            one = plan().model_copy(update={"seed": seed})
            yield PendingRun(one, partial(begin, one))

    monkeypatch.setattr(at_once, "carry_out", carry_out)
    carrying = carried_out(pending(), 2, lambda _event: None)
    assert sorted(each.name for each in islice(carrying, 2)) == ["1", "2"]
    assert len(taken) <= 5, "no run is taken long before there is room for it"
    carrying.close()  # runs 3 and 4 end, which would take place forever


def test_runs_begin_while_the_caller_is_busy_until_enough_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(at_once, "carry_out", lambda *_: None)
    begun: list[int] = []
    are_enough, more = threading.Event(), threading.Event()

    def begin(one: Plan, _report: OnEvent) -> tuple[RunDirectory, Plan]:
        begun.append(one.seed)
        if len(begun) == at_once.UNREAD_MAX + 1:
            are_enough.set()
        if len(begun) > at_once.UNREAD_MAX + 1:
            more.set()
        return RunDirectory(tmp_path / str(one.seed)), one

    plans = (plan().model_copy(update={"seed": seed}) for seed in count(1))
    carrying = carried_out((PendingRun(one, partial(begin, one)) for one in plans), 1, lambda _event: None)
    assert next(carrying).name == "1"
    assert are_enough.wait(10), "others begin though the first is still being read"
    assert not more.is_set()
    assert next(carrying).name == "2"
    assert more.wait(10)
    carrying.close()


def test_runs_that_end_while_the_caller_is_busy_are_yielded_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(at_once, "carry_out", lambda *_: None)
    fifth_begins = threading.Event()

    def begin(number: int, _report: OnEvent) -> tuple[RunDirectory, Plan]:
        if number == 5:
            fifth_begins.set()
        return RunDirectory(tmp_path / str(number)), plan()

    runs = (PendingRun(plan(), partial(begin, number)) for number in range(1, 8))
    with closing(ended_together(runs, 1, lambda _event: None, most=3)) as together:
        first = next(together)
        assert fifth_begins.wait(10), "one run at a time: the fourth has ended"
        second = next(together)
        assert len(first + second) >= 4
        assert max(len(first), len(second)) <= 3
        names = [each.directory.name for ended in (first, second, *together) for each in ended if each.directory]
    assert names == [str(number) for number in range(1, 8)]


def test_failure_to_take_the_next_run_is_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(at_once, "carry_out", lambda *_: None)

    def runs() -> Iterator[PendingRun]:
        for seed in range(3):
            yield PendingRun(plan(), lambda _report, name=str(seed): (RunDirectory(tmp_path / name), plan()))
        raise ValueError("no fourth run")

    with pytest.raises(ValueError, match="no fourth run"):
        list(carried_out(runs(), 1, lambda _event: None))


def test_events_of_several_runs_name_their_run() -> None:
    seen: list[Event] = []
    report = labelled("PV-01 bad-1", seen.append)
    started = RunStarted("title", "path", 3.0)
    for event in (
        started,
        Phase("collecting", "collection"),
        NemesisEvent("n1 cut off", True, active=("n1 cut off",)),
        Leadership(2, 7),
        Operations(1, 0, 0),
    ):
        report(event)
    assert seen == [
        started,
        Phase("PV-01 bad-1: collecting"),
        NemesisEvent("PV-01 bad-1: n1 cut off", True),
        Leadership(2, 7, "PV-01 bad-1"),
    ]


def test_end_of_the_load_is_reported_once_and_events_pass() -> None:
    seen: list[Event | str] = []
    report = at_end_of_load(seen.append, lambda: seen.append("over"))
    events = [Phase("load", "story"), Phase("final reads", "final reads"), Phase("collecting", "collection")]
    for event in events:
        report(event)
    assert seen == [events[0], "over", events[1], events[2]]
