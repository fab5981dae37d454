"""How much memory and how many processors a node's server may use: one cgroup a node, of either version.

    with NodeLimits.up("run-7", [1, 2, 3], Limits(memory_mib=256, cpus=0.5)) as limits:
        argv = limits.join(1, argv)     # a command that enters the node's cgroup and becomes argv

What may live here: making, joining and removing cgroups. What may not: who is limited (harness.environments). Removing
needs
them empty, which they are once the sandbox is gone; `remove` does it by the run's label alone, harmless twice.
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
    """None is no limit. cpus is in processors, 0.5 half of one."""

    memory_mib: int | None = None
    cpus: float | None = None

    @property
    def is_any(self) -> bool:
        """Whether anything is limited."""
        return self.memory_mib is not None or self.cpus is not None


class NodeLimits:
    """The nodes' cgroups, inside the block that up() opens."""

    def __init__(self, folders: Mapping[int, Sequence[Path]]) -> None:
        self._folders = folders

    @classmethod
    @contextmanager
    def up(cls, label: str, nodes: Sequence[int], limits: Limits) -> Iterator[NodeLimits]:
        """Make the nodes' cgroups; they are removed at the end of the block. Raises EnvironmentFailure."""
        try:
            made = {node: _make(f"{PREFIX}-{label}-n{node}", limits) if limits.is_any else [] for node in nodes}
            yield cls(made)
        finally:
            remove(label)

    def join(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that enters the node's cgroups and becomes argv; its pid is argv's."""
        return ["sh", "-c", _JOIN, "join", " ".join(map(str, self._folders[node])), *argv]


def remove(label: str) -> None:
    """Remove a run's cgroups, once nobody is in them. Raises EnvironmentFailure where somebody stays."""
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
    """The cgroups of that name, right below the root or a controller: what lies deeper may vanish under one's feet."""
    parents = [ROOT, *(ROOT / parent for parent in CONTROLLERS)]
    return sorted(folder for parent in parents for folder in parent.glob(pattern))


def _make(name: str, limits: Limits) -> list[Path]:
    """A node's cgroups: one of version 2, or one a controller of version 1."""
    if os.geteuid() != 0:
        raise EnvironmentFailure("limiting memory or processors: making cgroups needs root; run as root")
    settings = _settings_v2(limits) if (ROOT / "cgroup.controllers").exists() else _settings_v1(limits)
    folders = []
    for parent, values in settings.items():
        folder = ROOT / parent / name
        try:
            folder.mkdir(exist_ok=True)
            for file, value in values.items():
                (folder / file).write_text(value)
        except OSError as error:
            raise EnvironmentFailure(f"limiting by {folder}: {error.strerror}; has this machine cgroups?") from error
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
