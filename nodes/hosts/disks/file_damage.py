"""Damage to files at rest: wiped, bits flipped, cut short, replaced by garbage.

What may live here: functions of paths and a source of chance, while nobody writes there. What may not: mounts, nodes.
Each returns what it did, with the checksum that the file has now, by which a node's own look proves it.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.model import BadInput, PeerFailure
from harness.model.faults.disks import METADATA_LOG, Checkpoint, Damage
from nodes.wire.batches import heads

CHECKPOINTS: Mapping[Checkpoint, str] = {
    "quorum-state": f"{METADATA_LOG}/quorum-state",
    "leader-epoch-checkpoint": f"{METADATA_LOG}/leader-epoch-checkpoint",
    "meta.properties": "meta.properties",
}
DAMAGES: Mapping[Damage, Callable[[int, random.Random], bytes]] = {
    "garbage": lambda size, drawn: drawn.randbytes(max(1, size)),
    "zeros": lambda size, _drawn: bytes(max(1, size)),
    "empty": lambda _size, _drawn: b"",
}


def wipe(directory: Path) -> dict[str, Any]:
    """Remove all that is in a directory."""
    entries = sorted(directory.iterdir())
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return {"removed": len(entries)}


def flip_bits(directory: Path, details: Mapping[str, Any], drawn: random.Random) -> dict[str, Any]:
    """Flip some bits, all different ones, of a file that fits the pattern, drawn by its share of the bytes."""
    files = [path for path in sorted(directory.glob(details["files"])) if path.is_file() and path.stat().st_size]
    if not files:
        raise PeerFailure(f"flipping bits in {directory}: no file with anything in it fits {details['files']!r}")
    (path,) = drawn.choices(files, weights=[path.stat().st_size for path in files])
    content = bytearray(path.read_bytes())
    bits = drawn.sample(range(len(content) * 8), min(details["bits"], len(content) * 8))
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
    return {**_replace(directory, path, bytes(content)), "bits": sorted(bits)}


def truncate_log(directory: Path, details: Mapping[str, Any], _drawn: random.Random) -> dict[str, Any]:
    """Cut the last bytes, or the last whole batches with all that is behind them, from a log's newest segment."""
    segments = sorted((directory / details["log"]).glob("*.log"))
    if not segments:
        raise PeerFailure(f"truncating {directory / details['log']}: it has no segment")
    content = segments[-1].read_bytes()
    left = _length_without(content, details)
    if not 0 <= left < len(content):
        raise PeerFailure(f"truncating {segments[-1]}: its {len(content)} bytes are too few")
    return {**_replace(directory, segments[-1], content[:left]), "from_bytes": len(content), "to_bytes": left}


def _length_without(content: bytes, details: Mapping[str, Any]) -> int:
    last_bytes, last_batches = details.get("last_bytes", 0), details.get("last_batches", 0)
    if bool(last_bytes) == bool(last_batches):
        raise BadInput("truncate_log: expected last_bytes or last_batches")
    if last_bytes:
        return len(content) - int(last_bytes)
    starts = [head.start for head in heads(content)]
    return starts[-last_batches] if last_batches <= len(starts) else -1


def corrupt_checkpoint(directory: Path, details: Mapping[str, Any], drawn: random.Random) -> dict[str, Any]:
    """Replace what a checkpoint holds by garbage of the same length, zeros or nothing."""
    path = directory / CHECKPOINTS[details["checkpoint"]]
    if not path.is_file():
        raise PeerFailure(f"corrupting {path}: there is no such file")
    return _replace(directory, path, DAMAGES[details["damage"]](path.stat().st_size, drawn))


def _replace(directory: Path, path: Path, content: bytes) -> dict[str, Any]:
    """Write a file's new content in its place; its checksum before and after."""
    before = _checksum(path.read_bytes())
    path.write_bytes(content)
    return {"file": str(path.relative_to(directory)), "before": before, "after": _checksum(content)}


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
