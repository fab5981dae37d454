"""Runs in a process whose clocks the tests skew: each input line names a reader, each output line is its result."""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping

LIBC = ctypes.CDLL(None)


def time_of_day() -> float:
    pair = (ctypes.c_int64 * 2)()
    LIBC.gettimeofday(pair, None)
    return pair[0] + pair[1] / 1e6


def coarse_time() -> int:
    LIBC.time.restype = ctypes.c_int64
    return int(LIBC.time(None))


def loop_clock() -> float:
    loop = asyncio.new_event_loop()
    try:
        return loop.time()
    finally:
        loop.close()


def forked() -> float:
    """The monotonic clock of a forked child."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, repr(time.monotonic()).encode())
        os._exit(0)
    os.wait()
    return float(os.read(reader, 64))


def executed() -> float:
    """The monotonic clock of a newly executed program."""
    return float(subprocess.check_output([sys.executable, "-c", "import time; print(time.monotonic())"]))


def read_clocks_forever() -> None:
    pair = (ctypes.c_int64 * 2)()
    while True:
        LIBC.clock_gettime(time.CLOCK_MONOTONIC, pair)
        LIBC.gettimeofday(pair, None)


def start_readers() -> int:
    """Start two threads that read clocks in parallel without pause; ctypes calls release the interpreter lock."""
    for _ in range(2):
        threading.Thread(target=read_clocks_forever, daemon=True).start()
    return threading.active_count()


LOCKED = threading.Lock()
LOCKED.acquire()

READERS: Mapping[str, Callable[[], object]] = {
    "time.time": time.time,
    "time.monotonic": time.monotonic,
    "gettimeofday": time_of_day,
    "libc.time": coarse_time,
    "asyncio's clock": loop_clock,
    "forked clock": forked,
    "executed clock": executed,
    "start readers": start_readers,
    "epoll": lambda: select.epoll().poll(0.3),
    "lock": lambda: LOCKED.acquire(timeout=0.3),
}

if __name__ == "__main__":
    for line in sys.stdin:
        print(READERS[line.strip()](), flush=True)
