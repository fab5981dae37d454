"""Limits on a node's memory and CPU: one cgroup (version 1 or 2) per node.

    with NodeLimits.up("run-7", [1, 2, 3], Limits(memory_mib=256, cpus=0.5)) as limits:
        argv = limits.join(1, argv)     # a command that enters the node's cgroup and executes argv

Contains creation, joining and removal of cgroups; harness.environments decides what is limited. A cgroup can only be
removed when it is empty, which it is once the sandbox has ended. `remove` needs only the run's label and can be
repeated.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.model import EnvironmentFailure

ROOT = Path("/sys/fs/cgroup")
PREFIX = "splitbrain"
PERIOD_US = 100_000
EMPTY_SECONDS = 10.0
MIB = 1 << 20
CONTROLLERS = ("memory", "cpu")
_JOIN = 'for each in $1; do echo $$ >"$each/cgroup.procs" || exit 125; done; shift; exec "$@"'


@dataclass(frozen=True, slots=True)
class Limits:
    """None means no limit. cpus is a number of processors, e.g. 0.5."""

    memory_mib: int | None = None
    cpus: float | None = None

    @property
    def is_any(self) -> bool:
        """Whether at least one limit is set."""
        return self.memory_mib is not None or self.cpus is not None


class NodeLimits:
    """The nodes' cgroups, inside the block that up() opens."""

    def __init__(self, folders: Mapping[int, Sequence[Path]]) -> None:
        self._folders = folders

    @classmethod
    @contextmanager
    def up(cls, label: str, nodes: Sequence[int], limits: Limits) -> Iterator[NodeLimits]:
        """Create the nodes' cgroups; they are removed at the end of the block. Raises EnvironmentFailure."""
        try:
            folders = {node: _make(f"{PREFIX}-{label}-n{node}", limits) if limits.is_any else [] for node in nodes}
            yield cls(folders)
        finally:
            remove(label)

    def join(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that enters the node's cgroups and executes argv; its pid is argv's."""
        return ["sh", "-c", _JOIN, "join", " ".join(map(str, self._folders[node])), *argv]


def remove(label: str) -> None:
    """Remove a run's cgroups. Raises EnvironmentFailure if processes remain in one for EMPTY_SECONDS."""
    deadline = time.monotonic() + EMPTY_SECONDS
    for folder in _folders(f"{PREFIX}-{label}-n*"):
        while folder.exists():
            try:
                folder.rmdir()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise EnvironmentFailure(f"removing {folder}: {error.strerror}") from error
                time.sleep(0.02)


def _folders(pattern: str) -> list[Path]:
    """The cgroups that match, directly below the root or a controller; deeper ones may vanish during the search."""
    parents = [ROOT, *(ROOT / parent for parent in CONTROLLERS)]
    return sorted(folder for parent in parents for folder in parent.glob(pattern))


def _make(name: str, limits: Limits) -> list[Path]:
    """Create a node's cgroups: one for version 2, or one per controller for version 1."""
    if os.geteuid() != 0:
        raise EnvironmentFailure("limiting memory or CPU: creating cgroups needs root; run as root")
    settings = _settings_v2(limits) if (ROOT / "cgroup.controllers").exists() else _settings_v1(limits)
    folders = []
    for parent, values in settings.items():
        folder = ROOT / parent / name
        try:
            folder.mkdir(exist_ok=True)
            for file, value in values.items():
                (folder / file).write_text(value)
        except OSError as error:
            raise EnvironmentFailure(
                f"creating cgroup {folder}: {error.strerror}; check that this machine has cgroups"
            ) from error
        folders.append(folder)
    return folders


def _settings_v2(limits: Limits) -> dict[str, dict[str, str]]:
    values: dict[str, str] = {}
    if limits.memory_mib is not None:
        values |= {"memory.max": str(limits.memory_mib * MIB), "memory.swap.max": "0"}
    if limits.cpus is not None:
        values["cpu.max"] = f"{round(limits.cpus * PERIOD_US)} {PERIOD_US}"
    return {"": values}


def _settings_v1(limits: Limits) -> dict[str, dict[str, str]]:
    settings: dict[str, dict[str, str]] = {}
    if limits.memory_mib is not None:
        settings["memory"] = {"memory.limit_in_bytes": str(limits.memory_mib * MIB)}
    if limits.cpus is not None:
        quota = str(round(limits.cpus * PERIOD_US))
        settings["cpu"] = {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": quota}
    return settings
