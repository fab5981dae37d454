"""Servers in containers: launched by the engine, then signalled and awaited as the processes of this machine they are.

What may live here: one life of such a server. What may not: what is the same for every server (nodes.hosts.processes).
The engine is asked twice a life, to launch and for the exit code; a fault costs no more than its signal.
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
from harness.model.systems import NodeCommand, NodeSystem
from nodes.hosts.docker.engine import attempting
from nodes.hosts.docker.hosts import DockerHosts
from nodes.hosts.processes import (
    LOG_NAME,
    SIGNAL_SECONDS,
    ProcessEvent,
    Server,
    ServerProcesses,
    ending_as_shells_tell,
    state_letter,
    state_of,
)

APPEND_TO_LOG = 'exec "$@" >>"$0" 2>&1 </dev/null'


class DockerProcesses(ServerProcesses):
    """The Processes capability of containers."""

    def __init__(self, hosts: DockerHosts, system: NodeSystem, on_event: ProcessEvent) -> None:
        super().__init__(hosts.views, system, on_event, partial(_launch, hosts))


class _Contained:
    """A server in a container, held by a pidfd: no other process can be taken for it when its pid is used again."""

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

    async def signal(self, how: signal.Signals) -> None:
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, how)

    async def wait(self) -> str:
        await self._until_gone()
        code = await self._exit_code()
        return ending_as_shells_tell(code)

    async def _until_gone(self) -> None:
        """The kernel tells it, by making the pidfd readable."""
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
        """The engine knows it some milliseconds after the kernel does."""
        deadline = asyncio.get_running_loop().time() + SIGNAL_SECONDS
        while True:
            with attempting("asking how a server ended"):
                seen = await asyncio.to_thread(self._api.exec_inspect, self._execution)
            if not seen["Running"] and seen["ExitCode"] is not None:
                return int(seen["ExitCode"])
            if asyncio.get_running_loop().time() > deadline:
                raise PeerFailure(f"asking how process {self._pid} ended: Docker's engine still takes it to run")
            await asyncio.sleep(0.01)


async def _launch(hosts: DockerHosts, view: HostView, command: NodeCommand) -> Server:
    return await asyncio.to_thread(_execute, hosts.api, hosts.container(view.node), view, command)


def _execute(api: Any, container: str, view: HostView, command: NodeCommand) -> _Contained:
    argv = ["sh", "-c", APPEND_TO_LOG, str(view.directory / LOG_NAME), *command.argv]
    with attempting(f"starting n{view.node}'s server"):
        execution = api.exec_create(
            container, argv, environment=dict(command.environment), workdir=str(view.directory)
        )["Id"]
        api.exec_start(execution, detach=True)
        pid = api.exec_inspect(execution)["Pid"]
        descriptor = _held(pid)
        # Only a process that runs after it was held is surely the one that was launched.
        if descriptor is not None and not api.exec_inspect(execution)["Running"]:
            os.close(descriptor)
            descriptor = None
    return _Contained(api, execution, pid, descriptor)


def _held(pid: int) -> int | None:
    """A pidfd of the process; None where it is gone already."""
    try:
        return os.pidfd_open(pid) if pid > 0 else None
    except ProcessLookupError:
        return None
