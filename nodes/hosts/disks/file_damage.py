"""Damage to files at rest: wiping, flipped bits, truncation, replacement by garbage.

Contains functions of paths and a random source, to be called while no process writes there. Does not know mounts or
nodes. Each function returns what it did, with the file's checksums before and after, so a probe on the node can prove
it.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.model import BadInput, PeerFailure
from harness.model.faults.disks import Damage
from nodes.wire.batches import heads

DAMAGES: Mapping[Damage, Callable[[int, random.Random], bytes]] = {
    "garbage": lambda size, random_source: random_source.randbytes(max(1, size)),
    "zeros": lambda size, _random_source: bytes(max(1, size)),
    "empty": lambda _size, _random_source: b"",
}


def wipe(directory: Path) -> dict[str, Any]:
    """Remove everything in a directory."""
    entries = sorted(directory.iterdir())
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return {"removed": len(entries)}


def flip_bits(directory: Path, details: Mapping[str, Any], random_source: random.Random) -> dict[str, Any]:
    """Flip distinct bits of one file that matches the pattern; larger files are chosen more often."""
    files = [path for path in sorted(directory.glob(details["files"])) if path.is_file() and path.stat().st_size]
    if not files:
        raise PeerFailure(f"flipping bits in {directory}: no non-empty file matches {details['files']!r}")
    (path,) = random_source.choices(files, weights=[path.stat().st_size for path in files])
    content = bytearray(path.read_bytes())
    bits = random_source.sample(range(len(content) * 8), min(details["bits"], len(content) * 8))
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
    return {**_replace(directory, path, bytes(content)), "bits": sorted(bits)}


def truncate_log(directory: Path, details: Mapping[str, Any], _random_source: random.Random) -> dict[str, Any]:
    """Cut the last bytes, or the last whole batches and everything behind them, from a log's newest segment."""
    segments = sorted((directory / details["log"]).glob("*.log"))
    if not segments:
        raise PeerFailure(f"truncating {directory / details['log']}: it has no segment")
    content = segments[-1].read_bytes()
    size = _truncated_size(content, details)
    if not 0 <= size < len(content):
        raise PeerFailure(f"truncating {segments[-1]}: its {len(content)} bytes are too few")
    return {**_replace(directory, segments[-1], content[:size]), "from_bytes": len(content), "to_bytes": size}


def _truncated_size(content: bytes, details: Mapping[str, Any]) -> int:
    last_bytes, last_batches = details.get("last_bytes", 0), details.get("last_batches", 0)
    if bool(last_bytes) == bool(last_batches):
        raise BadInput("truncate_log: expected either last_bytes or last_batches")
    if last_bytes:
        return len(content) - int(last_bytes)
    starts = [head.start for head in heads(content)]
    return starts[-last_batches] if last_batches <= len(starts) else -1


def corrupt_checkpoint(directory: Path, details: Mapping[str, Any], random_source: random.Random) -> dict[str, Any]:
    """Replace a checkpoint's content with garbage or zeros of the same length, or with nothing; or delete the file."""
    path = directory / details["file"]
    if not path.is_file():
        raise PeerFailure(f"corrupting {path}: there is no such file")
    if details["damage"] == "missing":
        done = {"file": str(path.relative_to(directory)), "before": _checksum(path.read_bytes()), "after": None}
        path.unlink()
        return done
    return _replace(directory, path, DAMAGES[details["damage"]](path.stat().st_size, random_source))


def _replace(directory: Path, path: Path, content: bytes) -> dict[str, Any]:
    """Replace a file's content; returns its checksums before and after."""
    before = _checksum(path.read_bytes())
    path.write_bytes(content)
    return {"file": str(path.relative_to(directory)), "before": before, "after": _checksum(content)}


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
