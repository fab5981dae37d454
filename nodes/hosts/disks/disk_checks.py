"""Proves each disk fault by what a process on the node sees.

Contains one check per fault: a function of a probe (nodes.hosts.disks.probe) and of the injected fault. It returns None
if the fault shows, else a description of what the process saw instead. Does not inject faults.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

DiskProbe = Callable[..., Awaitable[Any]]
"""Runs a probe as a process on the node, by its name in nodes.hosts.disks.probe; with off_disk=True beside the disk."""

SYNCED, UNSYNCED = ".splitbrain-synced", ".splitbrain-unsynced"
HEALTHY_MS = 1000.0
OVERFULL_BYTES = 1 << 20
SLOWED_REQUESTS = 3
"""A write probe creates, writes, syncs and removes a file: four requests that a slow disk delays. One is slack."""
HANGS_SECONDS_MIN = 1.0
ATTEMPTS_MIN, ATTEMPTS_MAX = 50, 600
DEVIATIONS = 4.0


async def healthy(probe: DiskProbe) -> str | None:
    """Check that a file can be written, synced, read and removed, at least once without delay."""
    result = await probe(do="write", bytes=4096, times=3)
    if result is None:
        return "the disk hangs"
    if set(result["ends"]) != {"ok"} or not result["same"]:
        wrong = "" if result["same"] else ", and the bytes read differ from those written"
        return f"writing and reading ended with {_outcomes(result)}{wrong}"
    return None if result["least_ms"] < HEALTHY_MS else f"a write with sync took {result['least_ms']:.0f} ms"


async def _replaced(probe: DiskProbe, done: Mapping[str, Any]) -> str | None:
    """The file has its new content, not its old content."""
    checksum = (await probe(do="contents", files=[done["file"]]))[done["file"]]
    if checksum == done["after"] != done["before"]:
        return None
    if checksum == done["before"]:
        return f"{done['file']} is unchanged"
    return f"{done['file']} holds neither its old nor its new content"


async def _wiped(probe: DiskProbe, _done: Mapping[str, Any]) -> str | None:
    checksums = await probe(do="contents", files=[SYNCED, UNSYNCED])
    return None if not any(checksums.values()) else "files written before the wipe are still there"


async def _unsynced_lost(probe: DiskProbe, _done: Mapping[str, Any]) -> str | None:
    checksums = await probe(do="contents", files=[SYNCED, UNSYNCED])
    if checksums[SYNCED] != hashlib.sha256(b"synced").hexdigest():
        return "synced data is lost too"
    return "unsynced data is still there" if checksums[UNSYNCED] == hashlib.sha256(b"unsynced").hexdigest() else None


async def _full(probe: DiskProbe, done: Mapping[str, Any]) -> str | None:
    result = await probe(do="write", bytes=done["free_bytes"] + OVERFULL_BYTES)
    if result["ends"] == ["ENOSPC"]:
        return None
    return f"writing more than the free space ended with {_outcomes(result)}, expected ENOSPC"


async def _read_only(probe: DiskProbe, _done: Mapping[str, Any]) -> str | None:
    result = await probe(do="write", bytes=4096)
    return None if result["ends"] == ["EROFS"] else f"writing ended with {_outcomes(result)}, expected EROFS"


async def _slow(probe: DiskProbe, done: Mapping[str, Any]) -> str | None:
    result = await probe(do="write", bytes=4096, within_seconds=60 + done["delay_ms"] / 50)
    if result is None or result["ends"] != ["ok"]:
        return "the disk hangs" if result is None else f"writing ended with {_outcomes(result)}"
    least_ms = SLOWED_REQUESTS * done["delay_ms"]
    if result["least_ms"] >= least_ms:
        return None
    return f"a write took {result['least_ms']:.0f} ms, expected at least {least_ms:g} ms"


async def _hangs(probe: DiskProbe, _done: Mapping[str, Any]) -> str | None:
    """A write probe that completes beside the disk does not complete on it within five times as long."""
    started = time.monotonic()
    await probe(do="write", bytes=4096, off_disk=True)
    timeout_seconds = max(HANGS_SECONDS_MIN, 5 * (time.monotonic() - started))
    result = await probe(do="write", bytes=4096, within_seconds=timeout_seconds)
    return None if result is None else f"writing ended with {_outcomes(result)}, expected no answer"


async def _fails(probe: DiskProbe, done: Mapping[str, Any]) -> str | None:
    """The number of failed attempts matches the error rate; each attempt has two requests that can fail."""
    chance = 1 - (1 - done["rate"]) ** 2
    attempts = min(ATTEMPTS_MAX, max(ATTEMPTS_MIN, math.ceil((DEVIATIONS**2 + DEVIATIONS) / chance)))
    result = await probe(do="write", bytes=4096, times=attempts, within_seconds=60)
    if result is None:
        return "the disk hangs"
    ends, expected = Counter(result["ends"]), attempts * chance
    failed = ends.pop(done.get("error", "EIO"), 0)
    ends.pop("ok", None)
    if ends:
        return f"writing ended with {_outcomes(result)}"
    slack = DEVIATIONS * math.sqrt(expected)
    if abs(failed - expected) <= slack:
        return None
    return f"{failed} of {attempts} writes failed, expected {expected - slack:.0f} to {expected + slack:.0f}"


def _outcomes(result: Mapping[str, Any]) -> str:
    return ", ".join(f"{number} {end}" for end, number in sorted(Counter(result["ends"]).items()))


DISK_CHECKS: Mapping[str, Callable[[DiskProbe, Mapping[str, Any]], Awaitable[str | None]]] = {
    "lose_disk": _wiped,
    "lose_unsynced": _unsynced_lost,
    "flip_bits": _replaced,
    "truncate_log": _replaced,
    "corrupt_checkpoint": _replaced,
    "fill_disk": _full,
    "read_only_disk": _read_only,
    "slow_disk": _slow,
    "hang_disk": _hangs,
    "disk_errors": _fails,
}
