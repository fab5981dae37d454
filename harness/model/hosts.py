"""Hosts and their capabilities, the same for every kind of host.

One node runs on each host. A fault uses the capabilities that it needs (Links, Processes and Clocks here; Packets,
Disks and Rpcs in harness.model.faults) and is unavailable where a kind of host lacks one. Nodes are numbered from 1,
as in controller.quorum.voters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Link = tuple[int, int]
"""A directed link: (a, b) is the traffic that a sends and b receives."""


@dataclass(frozen=True, slots=True)
class HostView:
    """A host's static properties.

    address is the IPv4 address that other nodes and clients connect to. directory is the node's own directory, as its
    server sees it. listens is the address that the server binds if it differs from address, as it does behind the
    proxy; the controller connects to it. mirror is where the controller reads the content of directory, if it cannot
    read directory itself.
    """

    node: int
    address: str
    hostname: str
    directory: Path
    listens: str = ""
    mirror: Path = Path()

    @property
    def bound(self) -> str:
        """The IPv4 address that the server binds and the controller connects to."""
        return self.listens or self.address

    @property
    def readable(self) -> Path:
        """The directory as a path that the controller can read."""
        return self.directory if self.mirror == Path() else self.mirror


class Host(Protocol):
    """A running host: files and short commands. Paths are those that its server sees."""

    @property
    def view(self) -> HostView:
        """Node number, addresses and directory."""

    async def write(self, path: Path, text: str) -> None:
        """Write a small file and create its parent folders. Raises EnvironmentFailure."""

    async def run(self, argv: Sequence[str], timeout_seconds: float = 60.0) -> str:
        """Run a short command on the host; returns its standard output.

        Raises EnvironmentFailure with the last line that the command printed.
        """

    async def put(self, source: Path, target: Path) -> None:
        """Copy a file or a folder from the controller to the host. Raises EnvironmentFailure."""

    async def get(self, source: Path, target: Path) -> None:
        """Copy a file or a folder from the host to the controller. Raises EnvironmentFailure."""


class Links(Protocol):
    """A network whose directed links can be cut."""

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop all traffic on these links, in addition to links that are already cut."""

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Restore these links, or all links. Safe if nothing is cut."""

    async def passes(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Probe each link with real traffic: whether what the first node sends reaches the second."""


class Processes(Protocol):
    """The nodes' server processes."""

    async def start(self, node: int) -> None:
        """Start the node's server; does not wait until it is ready."""

    async def kill(self, node: int) -> None:
        """SIGKILL; returns when the process is gone."""

    async def stop(self, node: int) -> None:
        """SIGTERM; returns when the process is gone. Raises PeerFailure after the system's grace period."""

    async def pause(self, node: int) -> None:
        """SIGSTOP; returns when the process is stopped."""

    async def resume(self, node: int) -> None:
        """SIGCONT; returns when the process runs again."""

    def state(self, node: int) -> str:
        """'running', 'paused' or 'gone', as the kernel reports it."""


Clock = Literal["realtime", "monotonic"]
"""The two clocks that servers read: the time of day, and elapsed time."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What a process reads from a clock, and the true time of that clock at the same moment."""

    true_ns: int
    shown_ns: int

    @property
    def offset_ns(self) -> int:
        """How far the clock is ahead of the true time; negative if it is behind."""
        return self.shown_ns - self.true_ns


class Clocks(Protocol):
    """The clocks that the nodes' processes read. A process that is started later reads true clocks."""

    async def skew(self, node: int, clocks: Iterable[Clock], offset_ns: int) -> None:
        """Set these clocks to the true time plus offset_ns, whatever they showed before."""

    async def drift(self, node: int, clocks: Iterable[Clock], rate: float) -> None:
        """Run these clocks at this rate (1 is true, 0.2 five times too slow), without a jump."""

    async def reset(self, node: int) -> None:
        """Restore true clocks and remove the hook from the process. Safe if there is none."""

    async def read(self, node: int) -> Mapping[Clock, ClockReading]:
        """What the process reads, through the code that it reads its clocks with."""


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """How to undo a fault without the process that injected it. It is journaled before the fault is injected.

    kind names the undo routine; details are its arguments as JSON.
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
    do not end with the controller's sandbox. sandboxed: the controller runs in a sandbox of its own. needs_inventory:
    the hosts are machines that an inventory lists. proxied: a proxy between the nodes forwards Kafka's protocol, and no
    other. simulated: there are no hosts; nodes run under virtual time, in the controller. check_inventory raises
    BadInput, before a run is created, for the path of an inventory that cannot be read or that has fewer machines than
    a number of nodes.
    """

    name: str
    provision: Callable[..., Awaitable[Any]]
    undo: Callable[[Mapping[str, str]], str] | None = None
    outlives: bool = False
    sandboxed: bool = False
    needs_inventory: bool = False
    proxied: bool = False
    check_inventory: Callable[[str, int], object] | None = None
    simulated: bool = False
