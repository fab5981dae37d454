"""A layer between a node and its files, in a process of its own, that fails, delays or holds requests when told to.

    python -m nodes.hosts.disks.layer BENEATH MOUNTED SEED

It mounts itself on MOUNTED and passes everything on to BENEATH. A JSON line on standard input, `{"delay_ms": 50}`, says
how to set_fault_mode from then on, in place of what was said before (FaultMode's fields); each is answered by `{}` once
it holds. It ends when standard input does, and whoever waits then meets an error instead of waiting for ever. So does
whoever waits for a disk that hangs and is killed: the kernel would have it wait for the answer (fuse/dev.c).
"""

from __future__ import annotations

import ctypes
import errno
import heapq
import json
import os
import random
import resource
import select
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nodes.hosts.disks.fuse import (
    CHANGING,
    CREATE,
    FALLOCATE,
    FSYNC,
    FSYNCDIR,
    MKDIR,
    READ,
    REQUEST_BYTES_MAX,
    UNANSWERED,
    WRITE,
    PassThrough,
    Request,
    answer,
)

DATA = frozenset({READ, WRITE, FSYNC, FSYNCDIR})
"""What hangs: a request that changes a folder would hold the folder's lock, and keep all from it that no kill ends."""
SLOWED = DATA | CHANGING
FAILING = {"EIO": DATA, "ENOSPC": frozenset({WRITE, CREATE, MKDIR, FALLOCATE})}
KILLED_LOOK_SECONDS = 0.02
"""How often it is seen whether one who waits for a disk that hangs has been killed."""

_NO_SUID, _NO_DEVICES, _SIGKILL_BIT = 2, 4, 1 << 8


@dataclass(frozen=True, slots=True)
class FaultMode:
    """How requests fare: how much later they are carried out, or not at all, or with which error and how often."""

    delay_ms: float = 0.0
    hang: bool = False
    read_only: bool = False
    error: str = "EIO"
    rate: float = 0.0

    def error_of(self, request: Request, drawn: random.Random) -> int:
        """The errno that a request ends with at once; 0 where it is carried out."""
        if self.read_only and (request.opcode in CHANGING or request.opens_to_write):
            return errno.EROFS
        if self.rate and request.opcode in FAILING[self.error] and drawn.random() < self.rate:
            return int(getattr(errno, self.error))
        return 0


@dataclass(slots=True)
class Layer:
    """The requests of one mount: those that wait until a time (seconds of time.monotonic), and those that hang."""

    device: int
    files: PassThrough
    drawn: random.Random
    fault_mode: FaultMode = field(default_factory=FaultMode)
    waiting: list[tuple[float, int, Request]] = field(default_factory=list)
    hanging: list[Request] = field(default_factory=list)

    def take(self) -> None:
        """Take one request and do with it what is due. Raises OSError (ENODEV) where the mount is gone."""
        request = Request.from_bytes(os.read(self.device, REQUEST_BYTES_MAX))
        if self.fault_mode.hang and request.opcode in DATA:
            self.hanging.append(request)
        elif self.fault_mode.delay_ms and request.opcode in SLOWED:
            due = time.monotonic() + self.fault_mode.delay_ms / 1000
            heapq.heappush(self.waiting, (due, request.unique, request))
        else:
            self.carry_out(request)

    def carry_out(self, request: Request) -> None:
        """Do what is asked, or fail it, and answer."""
        error, body = self.fault_mode.error_of(request, self.drawn), b""
        if not error:
            try:
                body = self.files.do(request)
            except OSError as failure:
                error = failure.errno or errno.EIO
        if request.opcode not in UNANSWERED:
            self._answer(request, error, body)

    def carry_out_due(self) -> None:
        """Carry out what has waited for long enough; let go of what hangs if its asker has been killed."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            self.carry_out(heapq.heappop(self.waiting)[2])
        killed = [request for request in self.hanging if _is_killed(request.pid)]
        for request in killed:
            self.hanging.remove(request)
            self._answer(request, errno.EINTR)

    def set_fault_mode(self, how: FaultMode) -> None:
        """Misbehave so from now on; what waited or hung is carried out by the new rule, which may be to hang."""
        self.fault_mode = how
        waited = [*(request for _, _, request in sorted(self.waiting)), *self.hanging]
        self.waiting, self.hanging = [], waited if how.hang else []
        if not how.hang:
            for request in waited:
                self.carry_out(request)

    def seconds_until_due(self) -> float | None:
        """How long there is nothing to do but to take requests."""
        if self.hanging:
            return KILLED_LOOK_SECONDS
        return max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else None

    def _answer(self, request: Request, error: int, body: bytes = b"") -> None:
        with suppress(FileNotFoundError):  # the asker was killed before its request was taken
            os.write(self.device, answer(request.unique, error, b"" if error else body))


def mount(mounted: Path) -> int:
    """Mount a file system that is answered by the returned descriptor. Raises OSError."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"splitbrain", os.fsencode(mounted), b"fuse", _NO_SUID | _NO_DEVICES, options):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    os.set_blocking(device, False)
    return device


def serve(layer: Layer) -> None:
    """Say `{}` and answer requests until standard input ends or the mount goes."""
    print("{}", flush=True)
    while True:
        ready, _, _ = select.select([layer.device, sys.stdin], [], [], layer.seconds_until_due())
        if layer.device in ready and not _took_one(layer):
            return
        layer.carry_out_due()
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                return
            layer.set_fault_mode(FaultMode(**json.loads(line)))
            print("{}", flush=True)


def _took_one(layer: Layer) -> bool:
    """Take a request, if there still is one; False where the mount is gone."""
    try:
        layer.take()
    except (BlockingIOError, FileNotFoundError):
        return True
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        return False
    return True


def _is_killed(pid: int) -> bool:
    """Whether a thread has a SIGKILL coming (proc(5), SigPnd), or is gone; 0 is the kernel, which writes back."""
    if pid == 0:
        return False
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(signals & _SIGKILL_BIT for signals in pending)


def main() -> None:
    """Mount and serve, as the command line says."""
    beneath, mounted, seed = sys.argv[1:]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    try:
        device = mount(Path(mounted))
    except OSError as failure:
        sys.exit(f"mounting a layer on {mounted}: {failure.strerror}")
    serve(Layer(device, PassThrough(os.open(beneath, os.O_PATH)), random.Random(seed)))


if __name__ == "__main__":
    main()
