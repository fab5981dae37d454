"""Clocks of a running process: moved, read from outside as the process reads them, and put back without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.model import PeerFailure
from nodes.clocks.own import kernel_image
from nodes.clocks.target import Target

SECOND_NS = 1_000_000_000
BOTH = ("realtime", "monotonic")
NEAR = 0.15
"""Seconds within which two readings in different processes are the same; offsets in these tests are seconds."""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("reader", ["time.time", "gettimeofday", "libc.time"])
@pytest.mark.parametrize("offset", [-5, 90])
def test_every_reader_of_the_realtime_clock_sees_the_leap_and_its_end(victim, perform, reader, offset):
    allowed = 1 + NEAR if reader == "libc.time" else NEAR  # whole seconds
    perform(victim.clocks.skew(1, ["realtime"], offset * SECOND_NS))
    assert victim.offset(reader) == pytest.approx(offset, abs=allowed)
    assert victim.offset("asyncio's clock") == pytest.approx(0, abs=NEAR)
    perform(victim.clocks.reset(1))
    assert victim.offset(reader) == pytest.approx(0, abs=allowed)


def test_asyncio_and_a_forked_child_see_a_moved_monotonic_clock_and_a_new_program_does_not(victim, perform):
    perform(victim.clocks.skew(1, ["monotonic"], -7 * SECOND_NS))
    assert victim.offset("asyncio's clock") == pytest.approx(-7, abs=NEAR)
    assert victim.offset("forked clock") == pytest.approx(-7, abs=NEAR)
    assert victim.offset("executed clock") == pytest.approx(0, abs=1)
    assert victim.offset("gettimeofday") == pytest.approx(0, abs=NEAR)


def test_a_drifting_clock_goes_on_from_what_it_showed_at_its_rate(victim, perform):
    perform(victim.clocks.skew(1, BOTH, 10 * SECOND_NS), victim.clocks.drift(1, ["monotonic"], 0.2))
    first = perform(victim.clocks.read(1))
    assert first["monotonic"].offset_ns == pytest.approx(10 * SECOND_NS, abs=SECOND_NS / 10)
    while (last := perform(victim.clocks.read(1)))["monotonic"].true_ns < first["monotonic"].true_ns + SECOND_NS / 2:
        shown_ns = last["monotonic"].shown_ns - first["monotonic"].shown_ns
        true_ns = last["monotonic"].true_ns - first["monotonic"].true_ns
        assert shown_ns == pytest.approx(0.2 * true_ns, abs=2_000_000)
    assert last["realtime"].offset_ns == pytest.approx(10 * SECOND_NS, abs=2_000_000)


def test_what_is_read_from_outside_is_what_the_process_reads(victim, perform):
    perform(victim.clocks.skew(1, ["realtime"], 33 * SECOND_NS), victim.clocks.drift(1, ["monotonic"], 2))
    outside = perform(victim.clocks.read(1))
    assert outside["realtime"].offset_ns / SECOND_NS == pytest.approx(victim.offset("time.time"), abs=NEAR)
    assert outside["monotonic"].offset_ns / SECOND_NS == pytest.approx(victim.offset("asyncio's clock"), abs=2 * NEAR)


def test_reset_restores_every_byte_and_is_harmless_twice(victim, perform):
    assert victim.image() == kernel_image().pristine
    perform(victim.clocks.skew(1, BOTH, SECOND_NS))
    assert victim.image() != kernel_image().pristine
    perform(victim.clocks.reset(1), victim.clocks.reset(1))
    assert victim.image() == kernel_image().pristine
    assert perform(victim.clocks.read(1))["realtime"].offset_ns == 0


def test_a_reset_that_was_broken_off_is_ended_by_the_next(victim, perform):
    perform(victim.clocks.skew(1, BOTH, SECOND_NS))
    Target(victim.process.pid, "victim").write(*kernel_image().originals().items())
    assert perform(victim.clocks.read(1))["realtime"].offset_ns == 0
    perform(victim.clocks.reset(1))
    assert victim.image() == kernel_image().pristine


def test_threads_that_do_nothing_but_read_clocks_survive_200_changes(victim, perform):
    assert victim.ask("begin") == "3"
    for number in range(200):
        perform(victim.clocks.skew(1, BOTH, number * SECOND_NS))
        if number % 4 == 3:
            perform(victim.clocks.reset(1))
    assert victim.process.poll() is None
    assert victim.offset("gettimeofday") == pytest.approx(0, abs=1)


def test_no_other_process_sees_the_change(victim, perform):
    before = time.time()
    perform(victim.clocks.skew(1, BOTH, 3600 * SECOND_NS))
    assert time.time() - before < 60
    assert Target(os.getpid(), "this test").read() == kernel_image().pristine


def test_a_wait_for_a_duration_is_true_and_one_for_a_moment_is_off_by_the_offset(victim, perform):
    perform(victim.clocks.skew(1, ["monotonic"], SECOND_NS))
    took = {}
    for wait in ("epoll", "lock"):
        began = time.monotonic()
        victim.ask(wait)
        took[wait] = time.monotonic() - began
    assert took["epoll"] == pytest.approx(0.3, abs=0.25)
    assert took["lock"] == pytest.approx(1.3, abs=0.25)


def test_a_process_that_has_just_been_started_is_found():
    """Of a thousand, a few are looked at while the kernel still carries out execve(2)."""
    for _ in range(1000):
        with subprocess.Popen(["sleep", "60"]) as process:
            try:
                assert Target(process.pid, "n1").read() == kernel_image().pristine
            finally:
                process.kill()


def test_a_paused_process_stays_paused(victim, perform):
    victim.ask("time.time")
    victim.process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 5
    while state(victim.process.pid) != "T":
        assert time.monotonic() < deadline
    perform(victim.clocks.skew(1, ["realtime"], -SECOND_NS))
    assert state(victim.process.pid) == "T"
    victim.process.send_signal(signal.SIGCONT)
    assert victim.offset("time.time") == pytest.approx(-1, abs=NEAR)


@pytest.mark.parametrize("deed", ["skew", "drift", "reset", "read"])
def test_a_process_that_is_gone_is_named(victim, perform, deed):
    arguments = {"skew": (["realtime"], SECOND_NS), "drift": (["realtime"], 2.0)}.get(deed, ())
    victim.process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, victim.process.pid, os.WEXITED | os.WNOWAIT)  # ended, and still to be reaped
    expected = rf"^moving n1's clock: finding its vDSO: process {victim.process.pid} is gone$"
    with pytest.raises(PeerFailure, match=expected):
        perform(getattr(victim.clocks, deed)(1, *arguments))
    victim.process.wait()
    with pytest.raises(PeerFailure, match=expected):
        perform(getattr(victim.clocks, deed)(1, *arguments))


def test_a_vdso_that_somebody_else_changed_is_left_alone(victim, perform):
    at = kernel_image().functions["__vdso_time"]
    Target(victim.process.pid, "victim").write((at, b"\xc3"))
    changed = victim.image()
    with pytest.raises(PeerFailure, match="neither the kernel's nor hooked by us"):
        perform(victim.clocks.skew(1, ["realtime"], SECOND_NS))
    assert victim.image() == changed
