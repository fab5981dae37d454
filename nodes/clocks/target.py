"""Access to a running process: its vDSO's bytes, and stopping all of its threads.

Contains /proc and signals. Does not decide what is written.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.model import EnvironmentFailure, PeerFailure

STOP_SECONDS = 5.0
POLL_SECONDS = 0.0002
EXEC_SECONDS = 0.5
"""How long the kernel may take for execve(2)."""
AT_SYSINFO_EHDR = 33
"""The entry of a process's auxiliary vector (getauxval(3)) with the address of the vDSO."""

REMEDY = "run as the same user, with ptrace allowed (kernel.yama.ptrace_scope, proc_mem.force_override)"


class Target:
    """A process. Every method raises PeerFailure if the process is gone, and EnvironmentFailure with a remedy if the
    kernel denies access.
    """

    def __init__(self, pid: int, name: str) -> None:
        """name identifies the process in messages."""
        self._proc = Path(f"/proc/{pid}")
        self._pid = pid
        self.name = name
        with self._translated("finding its vDSO"):
            self.start, self.end = self._vdso()

    def read(self) -> bytes:
        """The bytes of its vDSO."""
        with self._translated("reading its vDSO"), (self._proc / "mem").open("rb", buffering=0) as memory:
            image = os.pread(memory.fileno(), self.end - self.start, self.start)
        if len(image) != self.end - self.start:
            raise self._gone("reading its vDSO")
        return image

    def write(self, *patches: tuple[int, bytes]) -> None:
        """Write bytes at offsets in its vDSO, in this order."""
        with self._translated("writing its vDSO"), (self._proc / "mem").open("r+b", buffering=0) as memory:
            for at, patch in patches:
                if os.pwrite(memory.fileno(), patch, self.start + at) != len(patch):
                    raise self._gone("writing its vDSO")

    @contextmanager
    def stopped_outside(self, ranges: list[range]) -> Iterator[None]:
        """Stop all threads, with no thread's instruction pointer in these ranges of vDSO offsets.

        If a thread is in a range, all threads run on briefly, even if another process had stopped them; at the end they
        are in their previous state. A thread that a signal interrupted within a range and that is now in the signal
        handler is not detected. Detecting it would need a debugger's privileges, and the ranges are a few instructions.
        """
        deadline = time.monotonic() + STOP_SECONDS
        with self._translated("stopping it"):
            was_stopped = self._all_stopped()
            try:
                self._stop(deadline)
                while self._threads_in(ranges):
                    if time.monotonic() > deadline:
                        raise PeerFailure(
                            f"skewing {self.name}'s clock: a thread does not leave the code to be changed"
                        )
                    os.kill(self._pid, signal.SIGCONT)
                    time.sleep(POLL_SECONDS)
                    self._stop(deadline)
                yield
            finally:
                if not was_stopped:
                    os.kill(self._pid, signal.SIGCONT)

    def _stop(self, deadline: float) -> None:
        os.kill(self._pid, signal.SIGSTOP)
        while not self._all_stopped():
            if _state(self._proc) in "ZX":
                raise self._gone("stopping it")
            if time.monotonic() > deadline:
                raise PeerFailure(f"skewing {self.name}'s clock: not stopped {STOP_SECONDS:g} s after SIGSTOP")
            time.sleep(POLL_SECONDS)

    def _all_stopped(self) -> bool:
        return all(_state(task) in "Tt" for task in (self._proc / "task").iterdir())

    def _threads_in(self, ranges: list[range]) -> bool:
        """Whether a thread's instruction pointer, the last field of its `syscall` file, is in a range or unknown."""
        fields = [(task / "syscall").read_text().split()[-1] for task in (self._proc / "task").iterdir()]
        pointers = [int(field, 16) - self.start for field in fields if field != "running"]
        return len(pointers) < len(fields) or any(pointer in span for pointer in pointers for span in ranges)

    def _vdso(self) -> tuple[int, int]:
        """The start and end of the vDSO's mapping, which must match the process's auxiliary vector.

        Retries while the kernel is still carrying out execve(2), before it has mapped the vDSO.
        """
        deadline = time.monotonic() + EXEC_SECONDS
        while True:
            maps = (self._proc / "maps").read_text()
            address = dict(struct.iter_unpack("<QQ", (self._proc / "auxv").read_bytes())).get(AT_SYSINFO_EHDR)
            mapping = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*\[vdso\]$", maps, re.MULTILINE)
            if mapping and int(mapping[1], 16) == address:
                return int(mapping[1], 16), int(mapping[2], 16)
            if not maps and _state(self._proc) in "ZX":
                raise self._gone("finding its vDSO")
            if time.monotonic() > deadline:
                raise EnvironmentFailure(f"skewing {self.name}'s clock: process {self._pid} has no vDSO")
            time.sleep(POLL_SECONDS)

    def _gone(self, doing: str) -> PeerFailure:
        return PeerFailure(f"skewing {self.name}'s clock: {doing}: process {self._pid} is gone")

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Turn the kernel's errors within the block into ours."""
        try:
            yield
        except OSError as error:
            if error.errno == errno.ESRCH or not self._proc.exists() or _state(self._proc) in "ZX":
                raise self._gone(doing) from error
            raise EnvironmentFailure(f"skewing {self.name}'s clock: {doing}: {error.strerror}; {REMEDY}") from error


def _state(task: Path) -> str:
    """The state letter of a process or thread (proc(5)); X if it has ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"
