"""Clocks of a running process: skewed, read from outside as the process reads them, and restored without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.model import PeerFailure
from nodes.clocks.kernel_vdso import kernel_image
from nodes.clocks.target import Target

SECOND_NS = 1_000_000_000
BOTH = ("realtime", "monotonic")
NEAR = 0.15
"""Tolerance in seconds between readings of two processes; offsets in these tests are in seconds."""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("reader", ["time.time", "gettimeofday", "libc.time"])
@pytest.mark.parametrize("offset", [-5, 90])
def test_every_reader_of_the_realtime_clock_sees_the_skew_and_the_reset(clock_reader, perform, reader, offset):
    allowed = 1 + NEAR if reader == "libc.time" else NEAR  # whole seconds
    perform(clock_reader.clocks.skew(1, ["realtime"], offset * SECOND_NS))
    assert clock_reader.offset(reader) == pytest.approx(offset, abs=allowed)
    assert clock_reader.offset("asyncio's clock") == pytest.approx(0, abs=NEAR)
    perform(clock_reader.clocks.reset(1))
    assert clock_reader.offset(reader) == pytest.approx(0, abs=allowed)


def test_asyncio_and_a_forked_child_see_a_skewed_monotonic_clock_but_a_new_program_does_not(clock_reader, perform):
    perform(clock_reader.clocks.skew(1, ["monotonic"], -7 * SECOND_NS))
    assert clock_reader.offset("asyncio's clock") == pytest.approx(-7, abs=NEAR)
    assert clock_reader.offset("forked clock") == pytest.approx(-7, abs=NEAR)
    assert clock_reader.offset("executed clock") == pytest.approx(0, abs=1)
    assert clock_reader.offset("gettimeofday") == pytest.approx(0, abs=NEAR)


def test_a_drifting_clock_continues_from_its_last_time_at_its_rate(clock_reader, perform):
    perform(clock_reader.clocks.skew(1, BOTH, 10 * SECOND_NS), clock_reader.clocks.drift(1, ["monotonic"], 0.2))
    first = perform(clock_reader.clocks.read(1))
    assert first["monotonic"].offset_ns == pytest.approx(10 * SECOND_NS, abs=SECOND_NS / 10)
    while (last := perform(clock_reader.clocks.read(1)))["monotonic"].true_ns < first[
        "monotonic"
    ].true_ns + SECOND_NS / 2:
        shown_ns = last["monotonic"].shown_ns - first["monotonic"].shown_ns
        true_ns = last["monotonic"].true_ns - first["monotonic"].true_ns
        assert shown_ns == pytest.approx(0.2 * true_ns, abs=2_000_000)
    assert last["realtime"].offset_ns == pytest.approx(10 * SECOND_NS, abs=2_000_000)


def test_a_reading_from_outside_equals_the_process_s_own(clock_reader, perform):
    perform(clock_reader.clocks.skew(1, ["realtime"], 33 * SECOND_NS), clock_reader.clocks.drift(1, ["monotonic"], 2))
    outside = perform(clock_reader.clocks.read(1))
    assert outside["realtime"].offset_ns / SECOND_NS == pytest.approx(clock_reader.offset("time.time"), abs=NEAR)
    assert outside["monotonic"].offset_ns / SECOND_NS == pytest.approx(
        clock_reader.offset("asyncio's clock"), abs=2 * NEAR
    )


def test_reset_restores_every_byte_and_can_be_repeated(clock_reader, perform):
    assert clock_reader.image() == kernel_image().pristine
    perform(clock_reader.clocks.skew(1, BOTH, SECOND_NS))
    assert clock_reader.image() != kernel_image().pristine
    perform(clock_reader.clocks.reset(1), clock_reader.clocks.reset(1))
    assert clock_reader.image() == kernel_image().pristine
    assert perform(clock_reader.clocks.read(1))["realtime"].offset_ns == 0


def test_an_interrupted_reset_is_completed_by_the_next(clock_reader, perform):
    perform(clock_reader.clocks.skew(1, BOTH, SECOND_NS))
    Target(clock_reader.process.pid, "n1").write(*kernel_image().originals().items())
    assert perform(clock_reader.clocks.read(1))["realtime"].offset_ns == 0
    perform(clock_reader.clocks.reset(1))
    assert clock_reader.image() == kernel_image().pristine


def test_threads_that_read_clocks_without_pause_survive_200_changes(clock_reader, perform):
    assert clock_reader.request("start readers") == "3"
    for number in range(200):
        perform(clock_reader.clocks.skew(1, BOTH, number * SECOND_NS))
        if number % 4 == 3:
            perform(clock_reader.clocks.reset(1))
    assert clock_reader.process.poll() is None
    assert clock_reader.offset("gettimeofday") == pytest.approx(0, abs=1)


def test_no_other_process_sees_the_change(clock_reader, perform):
    before = time.time()
    perform(clock_reader.clocks.skew(1, BOTH, 3600 * SECOND_NS))
    assert time.time() - before < 60
    assert Target(os.getpid(), "this test").read() == kernel_image().pristine


def test_a_wait_for_a_duration_is_not_affected_and_a_wait_for_a_deadline_is_off_by_the_offset(clock_reader, perform):
    perform(clock_reader.clocks.skew(1, ["monotonic"], SECOND_NS))
    took = {}
    for wait in ("epoll", "lock"):
        started = time.monotonic()
        clock_reader.request(wait)
        took[wait] = time.monotonic() - started
    assert took["epoll"] == pytest.approx(0.3, abs=0.25)
    assert took["lock"] == pytest.approx(1.3, abs=0.25)


def test_a_process_that_was_just_started_is_found():
    """Of a thousand processes, a few are inspected while the kernel still carries out execve(2)."""
    for _ in range(1000):
        with subprocess.Popen(["sleep", "60"]) as process:
            try:
                assert Target(process.pid, "n1").read() == kernel_image().pristine
            finally:
                process.kill()


def test_a_paused_process_stays_paused(clock_reader, perform):
    clock_reader.request("time.time")
    clock_reader.process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 5
    while state(clock_reader.process.pid) != "T":
        assert time.monotonic() < deadline
    perform(clock_reader.clocks.skew(1, ["realtime"], -SECOND_NS))
    assert state(clock_reader.process.pid) == "T"
    clock_reader.process.send_signal(signal.SIGCONT)
    assert clock_reader.offset("time.time") == pytest.approx(-1, abs=NEAR)


@pytest.mark.parametrize("action", ["skew", "drift", "reset", "read"])
def test_a_process_that_is_gone_is_reported(clock_reader, perform, action):
    arguments = {"skew": (["realtime"], SECOND_NS), "drift": (["realtime"], 2.0)}.get(action, ())
    clock_reader.process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, clock_reader.process.pid, os.WEXITED | os.WNOWAIT)  # it has ended but is not reaped yet
    expected = rf"^skewing n1's clock: finding its vDSO: process {clock_reader.process.pid} is gone$"
    with pytest.raises(PeerFailure, match=expected):
        perform(getattr(clock_reader.clocks, action)(1, *arguments))
    clock_reader.process.wait()
    with pytest.raises(PeerFailure, match=expected):
        perform(getattr(clock_reader.clocks, action)(1, *arguments))


def test_a_vdso_with_foreign_changes_is_left_alone(clock_reader, perform):
    at = kernel_image().functions["__vdso_time"]
    Target(clock_reader.process.pid, "n1").write((at, b"\xc3"))
    changed = clock_reader.image()
    with pytest.raises(PeerFailure, match="neither the kernel's nor hooked by us"):
        perform(clock_reader.clocks.skew(1, ["realtime"], SECOND_NS))
    assert clock_reader.image() == changed
