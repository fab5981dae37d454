"""What a command shows while it works, from the events of a run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.console import Console

from harness.commands.output.progress import Lines, Verbosity, panel, progress, rows
from harness.commands.output.status import Status
from harness.model.progress import (
    Event,
    Leadership,
    NemesisEvent,
    Operations,
    Phase,
    RunEnded,
    RunFailed,
    RunStarted,
)
from harness.running.event_lines import from_line, to_line

RUN = RunStarted("register on reference", "results/runs/r1", 25.0)
CUT = "cut n1 | n2,n3"
EVENTS: Sequence[tuple[float, Event]] = [
    (0.0, Phase("resolving kafka")),
    (1.0, RUN),
    (2.0, Phase("waiting for the cluster")),
    (2.0, NemesisEvent("waiting until a leader is known", False, is_wait=True)),
    (4.0, NemesisEvent("waiting until a leader is known", True, is_wait=True)),
    (4.0, Leadership(2, 1)),
    (5.0, Phase("faults and load", "story")),
    (6.0, Operations(10, 0, 0)),
    (6.5, NemesisEvent("cut {}", False)),
    (7.0, NemesisEvent(CUT, True, active=(CUT,))),
    (8.0, Leadership(None)),
    (9.0, Operations(10, 2, 1)),
    (12.0, NemesisEvent("kill n1", True, error="n1 still runs", active=(CUT,))),
    (30.0, Phase("final reads", "final reads")),
    (31.0, Phase("stopping the servers and collecting their logs", "collection")),
    (32.0, Phase("starting Spark", "checks")),
]


class Player:
    """Plays events at their times."""

    def __init__(self, operations_every: float = 5.0, verbose: bool = False) -> None:
        self.now = 0.0
        self.status = Status(lambda: self.now)
        self.written: list[str] = []
        self.lines = Lines(self.status, self.written.append, operations_every, verbose)

    def play(self, until: float) -> Player:
        for at, event in EVENTS:
            if self.now <= at <= until:
                self.now = at
                self.lines(event)
        self.now = until
        return self


def shown(player: Player) -> dict[str, str]:
    return dict(rows(player.status))


def test_lines_show_waits_when_they_begin_and_faults_when_they_are_done() -> None:
    player = Player().play(40.0)
    assert [line.strip() for line in player.written] == [
        "0.0 s  phase     resolving kafka",
        "1.0 s  run       register on reference, recorded in results/runs/r1",
        "2.0 s  phase     waiting for the cluster",
        "2.0 s  nemesis   waiting until a leader is known",
        "4.0 s  leader    n2 in epoch 1",
        "5.0 s  phase     faults and load",
        "6.0 s  clients   10 ok, 0 fail, 0 info",
        "7.0 s  nemesis   cut n1 | n2,n3",
        "8.0 s  leader    none",
        "12.0 s  nemesis   kill n1: FAILED: n1 still runs",
        "30.0 s  phase     final reads",
        "31.0 s  phase     stopping the servers and collecting their logs",
        "32.0 s  phase     starting Spark",
    ]


def test_verbose_shows_both_ends_of_each_operation_and_every_count() -> None:
    player = Player(operations_every=0.0, verbose=True).play(10.0)
    text = "\n".join(player.written)
    assert "waiting until a leader is known: begins" in text
    assert "waiting until a leader is known: done" in text
    assert text.count("clients") == 2


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(Verbosity.QUIET) as on_event:
        on_event(RUN)
    assert capsys.readouterr() == ("", "")


def test_an_interrupted_run_is_named_with_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        with progress() as on_event:
            on_event(RUN)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "recorded in results/runs/r1; check it with: splitbrain check results/runs/r1"


def test_the_panel_shows_what_is_broken_who_leads_and_whether_clients_progress() -> None:
    player = Player().play(10.0)
    assert shown(player) == {
        "run": "register on reference",
        "time": "10 s; about 20 s of the story left, then final reads and checks",
        "phase": "faults and load",
        "faults": "cut n1 | n2,n3 (for 3 s)",
        "leader": "none (for 2 s)",
        "clients": "10 ok, 2 fail, 1 info; last ok 4.0 s ago",
        "Ctrl-C": "ends the run, heals every fault and keeps what was recorded in results/runs/r1",
    }


def test_the_panel_shows_the_operation_in_progress() -> None:
    assert shown(Player().play(3.0))["now"] == "waiting until a leader is known"
    assert shown(Player().play(6.6))["now"] == "cut {}"
    assert "now" not in shown(Player().play(7.5))


def test_the_panel_of_a_run_that_is_checked_shows_no_faults() -> None:
    assert set(shown(Player().play(33.0))) == {"run", "time", "phase", "clients"}


def test_a_run_with_an_earlier_one_before_it_starts_afresh() -> None:
    player = Player().play(10.0)
    player.lines(RunStarted("good side", "results/runs/r2", 1.0))
    assert {"leader", "clients", "now"}.isdisjoint(shown(player))


def test_the_panel_fits_a_narrow_terminal() -> None:
    console = Console(width=60, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(panel(Player().play(10.0).status))
    assert max(len(line) for line in captured.get().splitlines()) <= 60
    assert "cut n1 | n2,n3" in captured.get()


def test_the_time_of_each_stage_is_told_at_the_end() -> None:
    player = Player().play(40.0)
    assert player.status.where_the_time_went() == (
        "took 40.0 s: preparation 1.0 s, start 4.0 s, story 25.0 s, final reads 1.0 s, collection 1.0 s, checks 8.0 s"
    )


@pytest.mark.parametrize(
    "event",
    [*(event for _, event in EVENTS), RunEnded(), RunFailed("no space left", 255)],
    ids=lambda event: event.kind,
)
def test_an_event_is_the_same_after_its_line_was_read(event: Event) -> None:
    assert from_line(to_line(event)) == event
