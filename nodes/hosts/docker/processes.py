"""Servers in containers: launched by Docker's engine, then signalled and awaited as processes of this machine.

Contains one incarnation of such a server; code for all kinds of servers is in nodes.hosts.processes. The engine is used
only to launch a server and to get its exit code, so a fault costs no more than a signal.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from contextlib import suppress
from functools import partial
from typing import Any

from harness.model import PeerFailure
from harness.model.hosts import HostView
from harness.model.systems import NodeCommand
from nodes.hosts.docker.engine import attempting
from nodes.hosts.docker.hosts import DockerHosts
from nodes.hosts.processes import (
    LOG_NAME,
    SIGNAL_SECONDS,
    NodeCommands,
    ProcessEvent,
    Server,
    ServerProcesses,
    describe_shell_exit,
    state_letter,
    state_of,
)

APPEND_TO_LOG = 'exec "$@" >>"$0" 2>&1 </dev/null'


class DockerProcesses(ServerProcesses):
    """The Processes capability of containers."""

    def __init__(self, hosts: DockerHosts, system: NodeCommands, on_event: ProcessEvent) -> None:
        super().__init__(hosts.views, system, on_event, partial(_launch, hosts))


class _ContainerServer:
    """A server in a container, held by a pidfd so that a reused pid is never mistaken for it."""

    def __init__(self, api: Any, execution: str, pid: int, descriptor: int | None) -> None:
        self._api = api
        self._execution = execution
        self._pid = pid
        self._descriptor = descriptor

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def state(self) -> str:
        if self._descriptor is None:
            return "gone"
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return "gone" if poll.poll(0) else state_of(state_letter(self._pid))

    async def signal(self, number: signal.Signals) -> None:
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    async def wait(self) -> str:
        await self._until_gone()
        code = await self._exit_code()
        return describe_shell_exit(code)

    async def _until_gone(self) -> None:
        """Wait until the kernel makes the pidfd readable."""
        if self._descriptor is None:
            return
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    async def _exit_code(self) -> int:
        """The server's exit code; the engine has it some milliseconds after the process ended."""
        deadline = asyncio.get_running_loop().time() + SIGNAL_SECONDS
        while True:
            with attempting("getting the exit code of a server"):
                status = await asyncio.to_thread(self._api.exec_inspect, self._execution)
            if not status["Running"] and status["ExitCode"] is not None:
                return int(status["ExitCode"])
            if asyncio.get_running_loop().time() > deadline:
                raise PeerFailure(
                    f"getting the exit code of process {self._pid}: it has ended, Docker's engine reports it running"
                )
            await asyncio.sleep(0.01)


async def _launch(hosts: DockerHosts, view: HostView, command: NodeCommand) -> Server:
    return await asyncio.to_thread(_execute, hosts.api, hosts.container(view.node), view, command)


def _execute(api: Any, container: str, view: HostView, command: NodeCommand) -> _ContainerServer:
    argv = ["sh", "-c", APPEND_TO_LOG, str(view.directory / LOG_NAME), *command.argv]
    with attempting(f"starting n{view.node}'s server"):
        execution = api.exec_create(
            container, argv, environment=dict(command.environment), workdir=str(view.directory)
        )["Id"]
        api.exec_start(execution, detach=True)
        pid = api.exec_inspect(execution)["Pid"]
        descriptor = _open_pidfd(pid)
        # Only a process that still runs after its pidfd was opened is certainly the one that was launched.
        if descriptor is not None and not api.exec_inspect(execution)["Running"]:
            os.close(descriptor)
            descriptor = None
    return _ContainerServer(api, execution, pid, descriptor)


def _open_pidfd(pid: int) -> int | None:
    """A pidfd of the process; None if it has already ended."""
    try:
        return os.pidfd_open(pid) if pid > 0 else None
    except ProcessLookupError:
        return None
