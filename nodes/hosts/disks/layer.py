"""A FUSE layer between a node and its files, in a process of its own, that fails, delays or hangs requests on command.

    python -m nodes.hosts.disks.layer BACKING MOUNT_POINT SEED

The layer mounts itself on MOUNT_POINT and passes all requests to BACKING. A JSON line on standard input, such as
`{"delay_ms": 50}`, replaces the fault mode (the fields of FaultMode); the layer answers `{}` once the mode is in force.
The layer ends when standard input ends; requests that wait at that moment fail. A request of a killed process also
fails: the kernel would otherwise keep that process waiting for the response (fuse/dev.c).
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
    WITHOUT_RESPONSE,
    WRITE,
    PassThrough,
    Request,
    response,
)

DATA = frozenset({READ, WRITE, FSYNC, FSYNCDIR})
"""Requests that can hang. A hanging request that changes a folder would hold the folder's lock, and processes that wait
for the lock cannot be killed.
"""
SLOWED = DATA | CHANGING
FAILING = {"EIO": DATA, "ENOSPC": frozenset({WRITE, CREATE, MKDIR, FALLOCATE})}
KILL_POLL_SECONDS = 0.02
"""How often the layer checks whether processes that wait for a hanging disk were killed."""

_NO_SUID, _NO_DEVICES, _SIGKILL_BIT = 2, 4, 1 << 8


@dataclass(frozen=True, slots=True)
class FaultMode:
    """How the layer treats requests: with a delay, not at all, or with an error at a given rate."""

    delay_ms: float = 0.0
    hang: bool = False
    read_only: bool = False
    error: str = "EIO"
    rate: float = 0.0

    def error_of(self, request: Request, random_source: random.Random) -> int:
        """The errno that a request fails with; 0 if it is carried out."""
        if self.read_only and (request.opcode in CHANGING or request.opens_to_write):
            return errno.EROFS
        if self.rate and request.opcode in FAILING[self.error] and random_source.random() < self.rate:
            return int(getattr(errno, self.error))
        return 0


@dataclass(slots=True)
class Layer:
    """The requests of one mount: those delayed until a time (seconds of time.monotonic), and those that hang."""

    device: int
    files: PassThrough
    random_source: random.Random
    fault_mode: FaultMode = field(default_factory=FaultMode)
    waiting: list[tuple[float, int, Request]] = field(default_factory=list)
    hanging: list[Request] = field(default_factory=list)

    def receive(self) -> None:
        """Read one request and delay, hang or carry it out. Raises OSError (ENODEV) if the mount is gone."""
        request = Request.from_bytes(os.read(self.device, REQUEST_BYTES_MAX))
        if self.fault_mode.hang and request.opcode in DATA:
            self.hanging.append(request)
        elif self.fault_mode.delay_ms and request.opcode in SLOWED:
            due = time.monotonic() + self.fault_mode.delay_ms / 1000
            heapq.heappush(self.waiting, (due, request.unique, request))
        else:
            self.carry_out(request)

    def carry_out(self, request: Request) -> None:
        """Carry a request out, or fail it, and respond."""
        error, body = self.fault_mode.error_of(request, self.random_source), b""
        if not error:
            try:
                body = self.files.do(request)
            except OSError as failure:
                error = failure.errno or errno.EIO
        if request.opcode not in WITHOUT_RESPONSE:
            self._respond(request, error, body)

    def carry_out_due(self) -> None:
        """Carry out delayed requests that are due; fail hanging requests whose process was killed."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            self.carry_out(heapq.heappop(self.waiting)[2])
        killed = [request for request in self.hanging if _is_killed(request.pid)]
        for request in killed:
            self.hanging.remove(request)
            self._respond(request, errno.EINTR)

    def set_fault_mode(self, mode: FaultMode) -> None:
        """Replace the fault mode. It also applies to requests that are delayed or hang."""
        self.fault_mode = mode
        pending = [*(request for _, _, request in sorted(self.waiting)), *self.hanging]
        self.waiting, self.hanging = [], pending if mode.hang else []
        if not mode.hang:
            for request in pending:
                self.carry_out(request)

    def seconds_until_due(self) -> float | None:
        """Seconds until a waiting request needs attention; None if none waits."""
        if self.hanging:
            return KILL_POLL_SECONDS
        return max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else None

    def _respond(self, request: Request, error: int, body: bytes = b"") -> None:
        with suppress(FileNotFoundError):  # the requesting process was killed before its request was read
            os.write(self.device, response(request.unique, error, b"" if error else body))


def mount(mount_point: Path) -> int:
    """Mount a FUSE file system; returns the descriptor that delivers its requests. Raises OSError."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"splitbrain", os.fsencode(mount_point), b"fuse", _NO_SUID | _NO_DEVICES, options):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    os.set_blocking(device, False)
    return device


def serve(layer: Layer) -> None:
    """Print `{}` and serve requests until standard input ends or the mount is gone."""
    print("{}", flush=True)
    while True:
        ready, _, _ = select.select([layer.device, sys.stdin], [], [], layer.seconds_until_due())
        if layer.device in ready and not _receive_one(layer):
            return
        layer.carry_out_due()
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                return
            layer.set_fault_mode(FaultMode(**json.loads(line)))
            print("{}", flush=True)


def _receive_one(layer: Layer) -> bool:
    """Receive a request, if there still is one; False if the mount is gone."""
    try:
        layer.receive()
    except (BlockingIOError, FileNotFoundError):
        return True
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        return False
    return True


def _is_killed(pid: int) -> bool:
    """Whether a thread has SIGKILL pending (proc(5), SigPnd) or is gone; pid 0 is the kernel's writeback."""
    if pid == 0:
        return False
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    pending = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(signals & _SIGKILL_BIT for signals in pending)


def main() -> None:
    """Mount and serve, with the arguments of the command line."""
    backing, mount_point, seed = sys.argv[1:]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    try:
        device = mount(Path(mount_point))
    except OSError as failure:
        sys.exit(f"mounting a layer on {mount_point}: {failure.strerror}")
    serve(Layer(device, PassThrough(os.open(backing, os.O_PATH)), random.Random(seed)))


if __name__ == "__main__":
    main()
