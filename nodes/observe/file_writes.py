"""Wakes up the reader of a growing file as soon as it is written: inotify(7), which Python's library does not have.

    with on_write(path.parent, wake):
        ...

Contains this. Does not contain a promise: where the kernel refuses, or the directory is on a file system that another
machine writes, nothing is called, so a reader looks at intervals too.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LIBC: Final = ctypes.CDLL(None)
_IN_MODIFY: Final = 0x2
_READ_BYTES: Final = 1 << 16


@contextmanager
def on_write(directory: Path, wake: Callable[[], None]) -> Iterator[None]:
    """Until the end of the block, call wake in the event loop after writes to files in this directory."""
    loop = asyncio.get_running_loop()
    descriptor: int = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        yield
        return

    def report() -> None:
        os.read(descriptor, _READ_BYTES)
        wake()

    _LIBC.inotify_add_watch(descriptor, os.fsencode(directory), _IN_MODIFY)
    loop.add_reader(descriptor, report)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
