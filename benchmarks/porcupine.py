"""Porcupine as the peer: our own small Go program, built against a checkout of Porcupine, judges a register's history.

    peer = build(Path("checkout"), Path("directory"))
    judged(peer, operations, Path("directory"), seconds=60)       # PeerResult('valid', 44.0)

Porcupine's source is the caller's checkout, and nothing of it is kept. Building needs Go and no download. The process
that judges a history has bounded memory: without a bound, some histories use all of the machine's.

Contains the way to the peer and back. The benchmarks measure.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np

from checkers.kernels.rows import NEVER
from checkers.kernels.steps import Operations

SOURCE = Path(__file__).parent / "porcupine_peer" / "main.go"
MODULE = "github.com/anishathalye/porcupine"
MEMORY_BYTES = 6 << 30
"""The memory limit for one history."""

GRACE_SECONDS = 60
"""Extra time for reading the history and for ending after the limit."""


class PeerResult(NamedTuple):
    """The peer's verdict (valid, invalid, unknown if its time was up, out of memory, crashed), and the milliseconds."""

    verdict: str
    ms: float


def build(checkout: Path, directory: Path) -> Path:
    """The peer's program, built in a directory. Exits in one line where there is no checkout, or no Go."""
    if not (checkout / "go.mod").is_file():
        raise SystemExit(f"{checkout}: expected a checkout of Porcupine, with a go.mod in it")
    if shutil.which("go") is None:
        raise SystemExit("go: expected Go on the path to build the peer, found none")
    shutil.copy(SOURCE, directory)
    needed = f"require {MODULE} v0.0.0\nreplace {MODULE} => {checkout.absolute()}\n"
    (directory / "go.mod").write_text(f"module porcupine_peer\ngo 1.16\n{needed}")
    offline = os.environ | {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    line = ["go", "build", "-o", "peer", "."]
    built = subprocess.run(line, cwd=directory, env=offline, capture_output=True, text=True)
    if built.returncode:
        raise SystemExit(f"the peer could not be built: {built.stderr.strip().splitlines()[-1]}")
    return directory / "peer"


def judged(peer: Path, operations: Operations, directory: Path, seconds: int) -> PeerResult:
    """The peer's verdict on a history, within this many seconds."""
    path = directory / "history.txt"
    columns = [np.where(column == NEVER, -1, column) for column in operations]
    np.savetxt(path, np.column_stack(columns), fmt="%d")
    command = [str(peer), str(path), str(seconds)]
    results = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + GRACE_SECONDS, preexec_fn=bound_memory
    )
    if results.returncode:
        return PeerResult("out of memory" if "out of memory" in results.stderr else "crashed", float("nan"))
    verdict, ms = results.stdout.split()
    return PeerResult(verdict, float(ms))


def bound_memory() -> None:
    """Limit this process's memory to MEMORY_BYTES."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
