"""What runs in the process whose clocks the tests move: each line names what to read or do, each answer is a line."""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None)


def time_of_day() -> float:
    pair = (ctypes.c_int64 * 2)()
    LIBC.gettimeofday(pair, None)
    return pair[0] + pair[1] / 1e6


def coarse_time() -> int:
    LIBC.time.restype = ctypes.c_int64
    return LIBC.time(None)


def loop_clock() -> float:
    loop = asyncio.new_event_loop()
    try:
        return loop.time()
    finally:
        loop.close()


def forked() -> float:
    """The monotonic clock of a child by fork."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, repr(time.monotonic()).encode())
        os._exit(0)
    os.wait()
    return float(os.read(reader, 64))


def executed() -> float:
    """The monotonic clock of a new program."""
    return float(subprocess.check_output([sys.executable, "-c", "import time; print(time.monotonic())"]))


def read_without_end() -> None:
    pair = (ctypes.c_int64 * 2)()
    while True:
        LIBC.clock_gettime(time.CLOCK_MONOTONIC, pair)
        LIBC.gettimeofday(pair, None)


def begin_reading() -> int:
    """Two threads that do nothing but read clocks, at the same time: ctypes lets go of the interpreter meanwhile."""
    for _ in range(2):
        threading.Thread(target=read_without_end, daemon=True).start()
    return threading.active_count()


READERS = {
    "time.time": time.time,
    "time.monotonic": time.monotonic,
    "gettimeofday": time_of_day,
    "libc.time": coarse_time,
    "asyncio's clock": loop_clock,
    "forked clock": forked,
    "executed clock": executed,
    "begin": begin_reading,
    "epoll": lambda: select.epoll().poll(0.3),
    "lock": lambda: LOCKED.acquire(timeout=0.3),
}
LOCKED = threading.Lock()
LOCKED.acquire()

if __name__ == "__main__":
    for line in sys.stdin:
        print(READERS[line.strip()](), flush=True)
