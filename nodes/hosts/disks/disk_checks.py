"""What proves a disk's fault: what a process on the node meets there, deed by deed.

What may live here: functions from what was done and a way to look (nodes.hosts.disks.probe) to None, or to words for
what was met instead. What may not: deeds.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

DiskProbe = Callable[..., Awaitable[Any]]
"""Look as a process on the node does, by the names of disks_probe; with elsewhere=True beside the disk."""

SYNCED, UNSYNCED = ".splitbrain-synced", ".splitbrain-unsynced"
HEALTHY_MS = 1000.0
OVERFULL_BYTES = 1 << 20
SLOWED_REQUESTS = 3
"""A look creates, writes, syncs and removes a file: four requests that a slow disk delays, one to spare."""
HANGS_SECONDS_MIN = 1.0
TRIES_MIN, TRIES_MAX = 50, 600
DEVIATIONS = 4.0


async def healthy(looker: DiskProbe) -> str | None:
    """That a file can be written, synced, read and removed, at least once in no time."""
    met = await looker(do="write", bytes=4096, times=3)
    if met is None:
        return "it hangs"
    if set(met["ends"]) != {"ok"} or not met["same"]:
        return f"writing and reading ended with {_ends(met)}" + ("" if met["same"] else ", and other bytes were read")
    return None if met["least_ms"] < HEALTHY_MS else f"a write and its sync took {met['least_ms']:.0f} ms"


async def _replaced(looker: DiskProbe, done: Mapping[str, Any]) -> str | None:
    """The file holds what was put there, and not what it held before."""
    seen = (await looker(do="contents", files=[done["file"]]))[done["file"]]
    if seen == done["after"] != done["before"]:
        return None
    return f"{done['file']} holds what it held before" if seen == done["before"] else f"{done['file']} holds neither"


async def _wiped(looker: DiskProbe, _done: Mapping[str, Any]) -> str | None:
    seen = await looker(do="contents", files=[SYNCED, UNSYNCED])
    return None if not any(seen.values()) else "files from before are still there"


async def _unsynced_lost(looker: DiskProbe, _done: Mapping[str, Any]) -> str | None:
    seen = await looker(do="contents", files=[SYNCED, UNSYNCED])
    if seen[SYNCED] != hashlib.sha256(b"synced").hexdigest():
        return "what was synced is lost too"
    return "what was not synced is still there" if seen[UNSYNCED] == hashlib.sha256(b"unsynced").hexdigest() else None


async def _full(looker: DiskProbe, done: Mapping[str, Any]) -> str | None:
    met = await looker(do="write", bytes=done["free_bytes"] + OVERFULL_BYTES)
    return None if met["ends"] == ["ENOSPC"] else f"writing more than is free ended with {_ends(met)}"


async def _read_only(looker: DiskProbe, _done: Mapping[str, Any]) -> str | None:
    met = await looker(do="write", bytes=4096)
    return None if met["ends"] == ["EROFS"] else f"writing ended with {_ends(met)}"


async def _slow(looker: DiskProbe, done: Mapping[str, Any]) -> str | None:
    met = await looker(do="write", bytes=4096, within_seconds=60 + done["delay_ms"] / 50)
    if met is None or met["ends"] != ["ok"]:
        return "it hangs" if met is None else f"writing ended with {_ends(met)}"
    least_ms = SLOWED_REQUESTS * done["delay_ms"]
    return None if met["least_ms"] >= least_ms else f"a write took {met['least_ms']:.0f} ms, expected {least_ms:g}"


async def _hangs(looker: DiskProbe, _done: Mapping[str, Any]) -> str | None:
    """A look that ends beside the disk does not on it, in five times the time."""
    began = time.monotonic()
    await looker(do="write", bytes=4096, elsewhere=True)
    patience = max(HANGS_SECONDS_MIN, 5 * (time.monotonic() - began))
    met = await looker(do="write", bytes=4096, within_seconds=patience)
    return None if met is None else f"writing ended with {_ends(met)}"


async def _fails(looker: DiskProbe, done: Mapping[str, Any]) -> str | None:
    """As many tries fail with the error as its rate leads to expect; a try has two requests that may."""
    chance = 1 - (1 - done["rate"]) ** 2
    tries = min(TRIES_MAX, max(TRIES_MIN, math.ceil((DEVIATIONS**2 + DEVIATIONS) / chance)))
    met = await looker(do="write", bytes=4096, times=tries, within_seconds=60)
    if met is None:
        return "it hangs"
    ends, expected = Counter(met["ends"]), tries * chance
    failed = ends.pop(done.get("error", "EIO"), 0)
    ends.pop("ok", None)
    if ends:
        return f"writing ended with {_ends(met)}"
    slack = DEVIATIONS * math.sqrt(expected)
    if abs(failed - expected) <= slack:
        return None
    return f"{failed} of {tries} writes failed, expected {expected - slack:.0f} to {expected + slack:.0f}"


def _ends(met: Mapping[str, Any]) -> str:
    return ", ".join(f"{number} {end}" for end, number in sorted(Counter(met["ends"]).items()))


LOOKS: Mapping[str, Callable[[DiskProbe, Mapping[str, Any]], Awaitable[str | None]]] = {
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
