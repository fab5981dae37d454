"""What a host can do for a fault, a system or an observer, whatever kind of host it is.

A host is where one node lives. A fault asks for the capability it needs (Links, Processes, Clocks; Packets and Disks in
modules of their own) and is reported unavailable where a host kind does not have it. Nodes are numbered from 1, as in
controller.quorum.voters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Link = tuple[int, int]
"""A directed link: what (a, b) names is the traffic that a sends and b receives."""


@dataclass(frozen=True, slots=True)
class HostView:
    """What is known of a host without asking it.

    address is the IPv4 address that other nodes and clients dial; directory is the node's own, as its server sees it.
    listens is where the server binds, if that is not address: behind a proxy of ours it is another one, and it is what
    the controller dials. mirror is where the controller reads what is in directory, if that is not directory itself.
    """

    node: int
    address: str
    hostname: str
    directory: Path
    listens: str = ""
    mirror: Path = Path()

    @property
    def bound(self) -> str:
        """The IPv4 address that the server binds and that the controller dials."""
        return self.listens or self.address

    @property
    def readable(self) -> Path:
        """The directory's content as the controller reads it."""
        return self.directory if self.mirror == Path() else self.mirror


class Host(Protocol):
    """One host that is up: its files and short commands, by the paths that its server sees."""

    @property
    def view(self) -> HostView:
        """Its node, addresses and directory."""

    async def write(self, path: Path, text: str) -> None:
        """Write a small file, folders on its way included. Raises EnvironmentFailure."""

    async def run(self, argv: Sequence[str], timeout_seconds: float = 60.0) -> str:
        """Run a short command there; its standard output. Raises EnvironmentFailure with the command's last line."""

    async def put(self, source: Path, target: Path) -> None:
        """Copy a file or a folder of the controller's to the host. Raises EnvironmentFailure."""

    async def get(self, source: Path, target: Path) -> None:
        """Copy a file or a folder of the host's to the controller. Raises EnvironmentFailure."""


class Links(Protocol):
    """A network whose directed links can be cut."""

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop what travels on these links, besides what is dropped already."""

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let these links through again, or everything; harmless where nothing is cut."""

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Try each link with real traffic: whether what the first node sends reaches the second."""


class Processes(Protocol):
    """The nodes' server processes."""

    async def start(self, node: int) -> None:
        """Start the node's server; it need not be ready when this returns."""

    async def kill(self, node: int) -> None:
        """SIGKILL; returns when the process is gone."""

    async def stop(self, node: int) -> None:
        """SIGTERM; returns when the process is gone. Raises PeerFailure after the system's grace period."""

    async def pause(self, node: int) -> None:
        """SIGSTOP; returns when the process is stopped."""

    async def resume(self, node: int) -> None:
        """SIGCONT; returns when the process runs again."""

    def state(self, node: int) -> str:
        """'running', 'paused' or 'gone', as the kernel tells it."""


Clock = Literal["realtime", "monotonic"]
"""What time it is, and how much time has passed: the two clocks that servers read."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What a clock showed a process, beside the true time of that clock at the same moment."""

    true_ns: int
    shown_ns: int

    @property
    def offset_ns(self) -> int:
        """How far the clock is ahead; negative where it is behind."""
        return self.shown_ns - self.true_ns


class Clocks(Protocol):
    """The clocks that the nodes' processes read; a process started later reads true ones."""

    async def skew(self, node: int, clocks: Iterable[Clock], offset_ns: int) -> None:
        """From now on these clocks show the true time and offset_ns more, whatever they showed before."""

    async def drift(self, node: int, clocks: Iterable[Clock], rate: float) -> None:
        """From now on these clocks go at this rate (1 as they should, 0.2 five times too slow), without a leap."""

    async def reset(self, node: int) -> None:
        """The process reads true clocks again, and nothing of ours is left in it; harmless where none is."""

    async def read(self, node: int) -> Mapping[Clock, ClockReading]:
        """What the process is shown, by the code that it reads its clocks with."""


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """What it takes to undo a fault without the process that injected it; goes to the journal before the fault does.

    kind names the undo routine; details are its JSON arguments.
    """

    fault: str
    kind: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HostKind:
    """A kind of host, registered with the entry point group `splitbrain.hosts`.

    provision takes an AsyncExitStack and a harness.environments.EnvironmentSpec, brings the hosts up and returns a
    harness.environments.Environment; what it opened stays on the stack. undo removes what outlived its controller, from
    the details in the journal; it returns what it did in words, and is safe where nothing is left. outlives: the hosts
    do not end with the controller's sandbox. sandboxed: the controller runs in a sandbox of its own.
    """

    name: str
    provision: Callable[..., Awaitable[Any]]
    undo: Callable[[Mapping[str, str]], str] | None = None
    outlives: bool = False
    sandboxed: bool = False
