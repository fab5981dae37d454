"""The kernel's vDSO, read from this process, and the clocks shown by a hooked copy.

To prove that a clock is skewed, we copy the node's vDSO into this process and call it. The hook is position-independent
and gets the time from the kernel, so the copy shows the same time as the original. An image without a hook is not
called: it must equal the kernel's image byte for byte, and then it shows the true time.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from harness.model import EnvironmentFailure
from harness.model.hosts import Clock, ClockReading
from nodes.clocks.hook import CLOCKS
from nodes.clocks.image import Image
from nodes.clocks.target import Target

KERNEL_CLOCKS: Mapping[Clock, int] = {"realtime": time.CLOCK_REALTIME, "monotonic": time.CLOCK_MONOTONIC}
SECOND_NS = 1_000_000_000
READINGS = 5


@cache
def kernel_image() -> Image:
    """The kernel's vDSO. Raises EnvironmentFailure with the reason if clocks cannot be skewed on this machine."""
    machine = f"{platform.system()} on {platform.machine()}"
    if machine != "Linux on x86_64":
        raise EnvironmentFailure(f"skewing clocks: expected Linux on x86_64, got {machine}")
    return Image.of(Target(os.getpid(), "splitbrain").read())


def true_ns(clock: Clock) -> int:
    """The kernel's time of this clock."""
    return time.clock_gettime_ns(KERNEL_CLOCKS[clock])


def read_clocks(image: bytes) -> dict[Clock, ClockReading]:
    """The clocks as a hooked image shows them, with the true times."""
    with _callable(image) as clock_gettime:
        return {clock: _reading(clock, clock_gettime) for clock in CLOCKS}


def true_reading(clock: Clock) -> ClockReading:
    """The reading of a process without a hook."""
    now_ns = true_ns(clock)
    return ClockReading(now_ns, now_ns)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64)]


def _reading(clock: Clock, clock_gettime: Callable[..., int]) -> ClockReading:
    """The most precise of several readings; the true time is the midpoint of one reading before and one after."""
    shown = _Timespec()
    readings: list[tuple[int, ClockReading]] = []
    for _ in range(READINGS):
        before_ns = true_ns(clock)
        failed = clock_gettime(KERNEL_CLOCKS[clock], ctypes.byref(shown))
        after_ns = true_ns(clock)
        assert failed == 0, f"clock_gettime of a hooked vDSO returned {failed}"
        reading = ClockReading((before_ns + after_ns) // 2, shown.seconds * SECOND_NS + shown.nanoseconds)
        readings.append((after_ns - before_ns, reading))
    return min(readings, key=lambda pair: pair[0])[1]


@contextmanager
def _callable(image: bytes) -> Iterator[Callable[..., int]]:
    """An image's clock_gettime, callable in this process."""
    try:
        memory = mmap.mmap(-1, len(image), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError as error:
        raise EnvironmentFailure(f"reading a node's clock: mapping executable memory: {error.strerror}") from error
    memory.write(image)
    start = ctypes.c_char.from_buffer(memory)
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    try:
        yield function(ctypes.addressof(start) + kernel_image().functions["__vdso_clock_gettime"])
    finally:
        del start
        memory.close()
