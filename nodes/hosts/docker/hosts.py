"""Hosts as containers on a network of their own, each with a fixed address and its directory mounted at its own path.

A container's first process reads its standard input, which this process holds attached, and ends with it: when the
controller is killed the kernel closes the connection, the engine closes the input, and the container goes with all that
is in it: the lease. The network that may then be left carries the run's label (nodes.hosts.docker.engine.heal).
Faults enter a container's namespaces from outside, so the engine must run on this machine and the controller as root.

    async with DockerHosts.up(directory, nodes=3, label="run-7") as hosts:
        hosts.views[1].address      # '10.78.0.1'
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool, Mount

from harness.model import EnvironmentFailure
from harness.model.hosts import HostView
from nodes.hosts.docker.engine import LABEL, attempting, check_label, engine, remove
from nodes.hosts.docker.image import Report, ensure_image
from nodes.hosts.kinds import SameMachineHost

SUBNETS = [f"10.78.{third}" for third in range(256)]
"""Tried in this order; the engine refuses those that another network has."""
GATEWAY = 254
NODES_MAX = 200
LEASE = ["sh", "-c", "cat >/dev/null; exit 0"]
REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Container:
    """A running container: the engine's id of it, its first process on this machine, and what keeps it alive."""

    id: str
    pid: int
    lease: Any


@dataclass(frozen=True, slots=True)
class DockerHost:
    """harness.model.hosts.Host in a container whose files are the controller's by the same paths."""

    view: HostView
    api: Any
    container: Container

    async def write(self, path: Path, text: str) -> None:
        """Write a small file, folders on its way included."""
        await SameMachineHost(self.view).write(path, text)

    async def run(self, argv: Sequence[str], timeout_seconds: float = 60.0) -> str:
        """Run a short command in the container; its standard output."""
        with attempting(f"running {argv[0]} on {self.view.hostname}"):
            there = {"workdir": str(self.view.directory)}
            execution = (await asyncio.to_thread(self.api.exec_create, self.container.id, list(argv), **there))["Id"]
            answer = asyncio.to_thread(self.api.exec_start, execution, demux=True)
            try:
                out, err = await asyncio.wait_for(answer, timeout_seconds)
            except TimeoutError as error:
                await asyncio.to_thread(_kill, self.api, execution)
                raise EnvironmentFailure(f"running {' '.join(argv)}: not done after {timeout_seconds:g} s") from error
            code = (await asyncio.to_thread(self.api.exec_inspect, execution))["ExitCode"]
        if code:
            lines = (err or out or b"").decode(errors="replace").strip().splitlines() or ["it wrote nothing"]
            raise EnvironmentFailure(f"running {' '.join(argv)}: exit {code}: {lines[-1]}")
        return (out or b"").decode(errors="replace")

    async def put(self, source: Path, target: Path) -> None:
        """Copy a file or a folder."""
        await SameMachineHost(self.view).put(source, target)

    async def get(self, source: Path, target: Path) -> None:
        """Copy a file or a folder."""
        await SameMachineHost(self.view).get(source, target)


class DockerHosts:
    """The nodes' containers, inside the block that up() opens."""

    def __init__(self, api: Any, subnet: str, views: dict[int, HostView], containers: dict[int, Container]) -> None:
        self.api = api
        self.views = views
        self._subnet = subnet
        self._containers = containers

    @classmethod
    @asynccontextmanager
    async def up(
        cls,
        directory: Path,
        nodes: int,
        label: str,
        image: str | None = None,
        read_only: Sequence[Path] = (),
        report: Report = lambda _: None,
    ) -> AsyncIterator[DockerHosts]:
        """Bring up containers 1…nodes with directories below directory; remove them at the end of the block.

        Raises BadInput for a label that cannot be one, EnvironmentFailure for what the engine or the machine lacks.
        """
        assert 0 < nodes <= NODES_MAX
        check_label(label)
        if os.geteuid() != 0:
            raise EnvironmentFailure("bringing up containers: entering their namespaces needs root; run as root")
        with engine() as client:
            if image is None:
                image = await asyncio.to_thread(ensure_image, client, report)
            hosts = cls(client.api, "", {}, {})
            try:
                await hosts._bring_up(_Recipe(client, label, image, _mounted(read_only)), directory, nodes)
                yield hosts
            finally:
                hosts._let_go()
                await asyncio.shield(asyncio.to_thread(remove, client, label))

    @property
    def controller_address(self) -> str:
        """The controller's own address on the nodes' network: the bridge's."""
        return f"{self._subnet}.{GATEWAY}"

    def host(self, node: int) -> DockerHost:
        """The node's files and short commands."""
        return DockerHost(self.views[node], self.api, self._containers[node])

    def container(self, node: int) -> str:
        """The engine's id of the node's container."""
        return self._containers[node].id

    def enter(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that runs this machine's argv in the node's network; its pid is argv's."""
        return ["nsenter", "--target", str(self._containers[node].pid), "--net", "--", *argv]

    def network_namespace(self, node: int) -> Path:
        """The node's network namespace, to be opened and entered with setns."""
        return Path(f"/proc/{self._containers[node].pid}/ns/net")

    async def _bring_up(self, recipe: _Recipe, directory: Path, nodes: int) -> None:
        self._subnet, network = await asyncio.to_thread(recipe.make_network)
        for node in range(1, nodes + 1):
            view = HostView(node, f"{self._subnet}.{node}", f"n{node}", directory / f"n{node}")
            view.directory.mkdir(parents=True, exist_ok=True)
            self.views[node] = view
        making = [asyncio.to_thread(self._contain, recipe, network, view) for view in self.views.values()]
        # All end before the first failure is told: what is removed then must not come after.
        for outcome in await asyncio.gather(*making, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _contain(self, recipe: _Recipe, network: str, view: HostView) -> None:
        self._containers[view.node] = recipe.make_container(network, view)

    def _let_go(self) -> None:
        """Close the containers' inputs: their first processes end, and all others with them."""
        for container in self._containers.values():
            with suppress(OSError):
                container.lease.close()


@dataclass(frozen=True, slots=True)
class _Recipe:
    """What is the same for all containers of a run."""

    client: docker.DockerClient
    label: str
    image: str
    read_only: Sequence[Path]

    def make_network(self) -> tuple[str, str]:
        """The first three numbers of a free subnet, and the engine's id of a network on it."""
        with attempting("making the containers' network"):
            for subnet in SUBNETS:
                pool = IPAMPool(subnet=f"{subnet}.0/24", gateway=f"{subnet}.{GATEWAY}")
                try:
                    made = self.client.api.create_network(
                        f"{LABEL}-{self.label}",
                        driver="bridge",
                        ipam=IPAMConfig(pool_configs=[pool]),
                        internal=True,
                        labels={LABEL: self.label},
                    )
                except APIError as error:
                    if "overlap" not in str(error.explanation):
                        raise
                else:
                    return subnet, made["Id"]
        raise EnvironmentFailure(f"making the containers' network: no subnet is free from {SUBNETS[0]} on")

    def make_container(self, network: str, view: HostView) -> Container:
        """Create a node's container, take its lease, and start it."""
        api = self.client.api
        with attempting(f"starting {view.hostname}'s container"):
            container = api.create_container(
                self.image,
                LEASE,
                hostname=view.hostname,
                stdin_open=True,
                labels={LABEL: self.label},
                host_config=api.create_host_config(
                    auto_remove=True, network_mode=network, mounts=_mounts(view.directory, self.read_only)
                ),
                networking_config=api.create_networking_config(
                    {network: api.create_endpoint_config(ipv4_address=view.address)}
                ),
            )["Id"]
            lease = api.attach_socket(container, params={"stdin": 1, "stream": 1})
            api.start(container)
            pid = api.inspect_container(container)["State"]["Pid"]
        _check_here(view, container, pid)
        return Container(container, pid, lease)


def _check_here(view: HostView, container: str, pid: int) -> None:
    """An engine on another machine, or in a virtual one, tells pids that are somebody else's here, or nobody's.

    A control group is named after the container, and its first process is in it before it runs.
    """
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        groups = ""
    if container not in groups:
        raise EnvironmentFailure(
            f"entering {view.hostname}'s container: its process {pid} is not one of this machine's; "
            "Docker's engine must run where splitbrain does"
        )


def _mounted(more: Iterable[Path]) -> list[Path]:
    """The folders that a server needs beside the image, outermost only: the controller's code and interpreter."""
    wanted = {REPOSITORY, Path(sys.prefix), Path(sys.base_prefix), *more}
    outside = {path.absolute() for path in wanted if not path.absolute().is_relative_to("/usr")}
    return sorted(path for path in outside if not any(other in outside for other in path.parents))


def _mounts(directory: Path, read_only: Sequence[Path]) -> list[Mapping[str, Any]]:
    return [
        *(Mount(str(path), str(path), type="bind", read_only=True) for path in read_only),
        Mount(str(directory), str(directory), type="bind"),
    ]


def _kill(api: Any, execution: str) -> None:
    seen = api.exec_inspect(execution)
    if seen["Running"] and seen["Pid"]:
        with suppress(ProcessLookupError):
            os.kill(seen["Pid"], 9)
