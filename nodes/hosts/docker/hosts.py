"""Hosts as containers on a network of their own, each with a fixed address and its directory mounted at the same path.

A container's first process reads its standard input, to which the controller is attached, and ends at its end. This is
the lease: when the controller is killed, the kernel closes the connection, the engine closes the input, and the
container ends with everything in it. A network that remains carries the run's label (nodes.hosts.docker.engine.heal).
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
from nodes.hosts.commands import last_line
from nodes.hosts.docker.engine import LABEL, attempting, check_label, engine, remove
from nodes.hosts.docker.image import Report, ensure_image
from nodes.hosts.kinds import SameMachineHost

SUBNETS = [f"10.78.{third}" for third in range(256)]
"""Tried in this order; the engine refuses a subnet that another network uses."""
GATEWAY = 254
NODES_MAX = 200
LEASE = ["sh", "-c", "cat >/dev/null; exit 0"]
REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Container:
    """A running container: its id in the engine, the pid of its first process, and the socket that keeps it alive."""

    id: str
    pid: int
    lease: Any


@dataclass(frozen=True, slots=True)
class DockerHost:
    """harness.model.hosts.Host in a container whose files have the same paths for the controller."""

    view: HostView
    api: Any
    container: Container

    async def write(self, path: Path, text: str) -> None:
        """Write a small file and create its missing parent folders."""
        await SameMachineHost(self.view).write(path, text)

    async def run(self, argv: Sequence[str], timeout_seconds: float = 60.0) -> str:
        """Run a short command in the container; its standard output."""
        with attempting(f"running {argv[0]} on {self.view.hostname}"):
            options = {"workdir": str(self.view.directory)}
            execution = (await asyncio.to_thread(self.api.exec_create, self.container.id, list(argv), **options))["Id"]
            output = asyncio.to_thread(self.api.exec_start, execution, demux=True)
            try:
                out, err = await asyncio.wait_for(output, timeout_seconds)
            except TimeoutError as error:
                await asyncio.to_thread(_kill, self.api, execution)
                raise EnvironmentFailure(f"running {' '.join(argv)}: timed out after {timeout_seconds:g} s") from error
            code = (await asyncio.to_thread(self.api.exec_inspect, execution))["ExitCode"]
        if code:
            raise EnvironmentFailure(f"running {' '.join(argv)}: exit {code}: {last_line(err or out or b'')}")
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

        Raises BadInput for an invalid label, EnvironmentFailure if the engine or the machine cannot provide them.
        """
        assert 0 < nodes <= NODES_MAX
        check_label(label)
        if os.geteuid() != 0:
            raise EnvironmentFailure(
                "starting containers: faults enter their namespaces, which needs root; run as root"
            )
        with engine() as client:
            if image is None:
                image = await asyncio.to_thread(ensure_image, client, report)
            hosts = cls(client.api, "", {}, {})
            try:
                await hosts._start(_ContainerSpec(client, label, image, _outermost(read_only)), directory, nodes)
                yield hosts
            finally:
                hosts._release_leases()
                await asyncio.shield(asyncio.to_thread(remove, client, label))

    @property
    def controller_address(self) -> str:
        """The controller's own address on the nodes' network, which is the bridge's."""
        return f"{self._subnet}.{GATEWAY}"

    def host(self, node: int) -> DockerHost:
        """The node's files and short commands."""
        return DockerHost(self.views[node], self.api, self._containers[node])

    def container(self, node: int) -> str:
        """The id of the node's container in the engine."""
        return self._containers[node].id

    def enter(self, node: int, argv: Sequence[str]) -> list[str]:
        """The command that runs a program of this machine in the node's network; its pid is argv's."""
        return ["nsenter", "--target", str(self._containers[node].pid), "--net", "--", *argv]

    def network_namespace(self, node: int) -> Path:
        """The path of the node's network namespace, for setns."""
        return Path(f"/proc/{self._containers[node].pid}/ns/net")

    async def _start(self, spec: _ContainerSpec, directory: Path, nodes: int) -> None:
        self._subnet, network = await asyncio.to_thread(spec.make_network)
        for node in range(1, nodes + 1):
            view = HostView(node, f"{self._subnet}.{node}", f"n{node}", directory / f"n{node}")
            view.directory.mkdir(parents=True, exist_ok=True)
            self.views[node] = view
        starting = [asyncio.to_thread(self._start_container, spec, network, view) for view in self.views.values()]
        # Wait for all before raising the first failure: no container may start after the clean-up.
        for outcome in await asyncio.gather(*starting, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _start_container(self, spec: _ContainerSpec, network: str, view: HostView) -> None:
        self._containers[view.node] = spec.start_container(network, view)

    def _release_leases(self) -> None:
        """Close the containers' inputs, which ends their first processes and so all others."""
        for container in self._containers.values():
            with suppress(OSError):
                container.lease.close()


@dataclass(frozen=True, slots=True)
class _ContainerSpec:
    """What all containers of a run have in common."""

    client: docker.DockerClient
    label: str
    image: str
    read_only: Sequence[Path]

    def make_network(self) -> tuple[str, str]:
        """Create a network on a free subnet; returns the subnet's first three octets and the network's id."""
        with attempting("creating the containers' network"):
            for subnet in SUBNETS:
                pool = IPAMPool(subnet=f"{subnet}.0/24", gateway=f"{subnet}.{GATEWAY}")
                try:
                    network = self.client.api.create_network(
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
                    return subnet, network["Id"]
        raise EnvironmentFailure(f"creating the containers' network: no subnet from {SUBNETS[0]}.0/24 on is free")

    def start_container(self, network: str, view: HostView) -> Container:
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
        _check_is_local(view, container, pid)
        return Container(container, pid, lease)


def _check_is_local(view: HostView, container: str, pid: int) -> None:
    """Check that the engine runs on this machine: pids from another or a virtual machine mean nothing here.

    The container's first process is in a control group named after the container before it runs.
    """
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        groups = ""
    if container not in groups:
        raise EnvironmentFailure(
            f"entering {view.hostname}'s container: its process {pid} is not on this machine; "
            "Docker's engine must run on the machine that runs splitbrain"
        )


def _outermost(more: Iterable[Path]) -> list[Path]:
    """The folders to mount: the controller's code and interpreter, and `more`, without subfolders of each other."""
    needed = {REPOSITORY, Path(sys.prefix), Path(sys.base_prefix), *more}
    outside = {path.absolute() for path in needed if not path.absolute().is_relative_to("/usr")}
    return sorted(path for path in outside if not any(other in outside for other in path.parents))


def _mounts(directory: Path, read_only: Sequence[Path]) -> list[Mapping[str, Any]]:
    return [
        *(Mount(str(path), str(path), type="bind", read_only=True) for path in read_only),
        Mount(str(directory), str(directory), type="bind"),
    ]


def _kill(api: Any, execution: str) -> None:
    status = api.exec_inspect(execution)
    if status["Running"] and status["Pid"]:
        with suppress(ProcessLookupError):
            os.kill(status["Pid"], 9)
