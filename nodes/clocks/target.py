"""A running process from outside: its vDSO's bytes, and a while in which none of its threads moves.

What may live here: /proc and signals. What may not: what is written, and why.
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
LOOK_SECONDS = 0.0002
EXEC_SECONDS = 0.5
"""How long the kernel may take over execve(2)."""
AT_SYSINFO_EHDR = 33
"""The entry of a process's auxiliary vector (getauxval(3)) that tells its libc where the vDSO is."""

MEND = "run as the same user, with ptrace allowed (kernel.yama.ptrace_scope, proc_mem.force_override)"


class Target:
    """A process by its pid. Whatever it is asked raises PeerFailure once the process is gone.

    Everything raises EnvironmentFailure where the kernel does not let us, naming what would mend it.
    """

    def __init__(self, pid: int, name: str) -> None:
        """name is what messages call it."""
        self._proc = Path(f"/proc/{pid}")
        self._pid = pid
        self.name = name
        with self._translated("finding its vDSO"):
            self.begin, self.end = self._vdso()

    def read(self) -> bytes:
        """The bytes of its vDSO."""
        with self._translated("reading its vDSO"), (self._proc / "mem").open("rb", buffering=0) as memory:
            image = os.pread(memory.fileno(), self.end - self.begin, self.begin)
        if len(image) != self.end - self.begin:
            raise self._gone("reading its vDSO")
        return image

    def write(self, *patches: tuple[int, bytes]) -> None:
        """Write bytes at places of its vDSO, in this order."""
        with self._translated("writing its vDSO"), (self._proc / "mem").open("r+b", buffering=0) as memory:
            for at, patch in patches:
                if os.pwrite(memory.fileno(), patch, self.begin + at) != len(patch):
                    raise self._gone("writing its vDSO")

    @contextmanager
    def stopped_outside(self, ranges: list[range]) -> Iterator[None]:
        """All threads stand still, none about to execute an instruction in these ranges of its vDSO's places.

        Where a thread is in the way, all go on for a moment, even if somebody else had stopped them; in the end they
        are as they were. A thread that a signal took from within a range to its handler is not seen: the price of
        doing without a debugger's rights, for ranges of a few instructions.
        """
        deadline = time.monotonic() + STOP_SECONDS
        with self._translated("stopping it"):
            was_stopped = self._all_stopped()
            try:
                self._stop(deadline)
                while self._threads_in(ranges):
                    if time.monotonic() > deadline:
                        raise PeerFailure(f"moving {self.name}'s clock: a thread stays where its vDSO is to be changed")
                    os.kill(self._pid, signal.SIGCONT)
                    time.sleep(LOOK_SECONDS)
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
                raise PeerFailure(f"moving {self.name}'s clock: it does not stop within {STOP_SECONDS:g} s of SIGSTOP")
            time.sleep(LOOK_SECONDS)

    def _all_stopped(self) -> bool:
        return all(_state(task) in "Tt" for task in (self._proc / "task").iterdir())

    def _threads_in(self, ranges: list[range]) -> bool:
        """Whether a thread's instruction pointer, the last word of its `syscall`, is in the way or not yet known."""
        words = [(task / "syscall").read_text().split()[-1] for task in (self._proc / "task").iterdir()]
        pointers = [int(word, 16) - self.begin for word in words if word != "running"]
        return len(pointers) < len(words) or any(pointer in each for pointer in pointers for each in ranges)

    def _vdso(self) -> tuple[int, int]:
        """Where the vDSO is mapped, which must be where the process was told that it is.

        A process that is about to begin its program is looked at again: the kernel has yet to map it and to tell it.
        """
        deadline = time.monotonic() + EXEC_SECONDS
        while True:
            maps = (self._proc / "maps").read_text()
            told = dict(struct.iter_unpack("<QQ", (self._proc / "auxv").read_bytes())).get(AT_SYSINFO_EHDR)
            found = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*\[vdso\]$", maps, re.MULTILINE)
            if found and int(found[1], 16) == told:
                return int(found[1], 16), int(found[2], 16)
            if not maps and _state(self._proc) in "ZX":
                raise self._gone("finding its vDSO")
            if time.monotonic() > deadline:
                raise EnvironmentFailure(f"moving {self.name}'s clock: process {self._pid} uses no vDSO")
            time.sleep(LOOK_SECONDS)

    def _gone(self, doing: str) -> PeerFailure:
        return PeerFailure(f"moving {self.name}'s clock: {doing}: process {self._pid} is gone")

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """The kernel's refusals as errors of ours."""
        try:
            yield
        except OSError as error:
            if error.errno == errno.ESRCH or not self._proc.exists() or _state(self._proc) in "ZX":
                raise self._gone(doing) from error
            raise EnvironmentFailure(f"moving {self.name}'s clock: {doing}: {error.strerror}; mend: {MEND}") from error


def _state(task: Path) -> str:
    """The state letter of a process or thread (proc(5)); X where it has ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"
