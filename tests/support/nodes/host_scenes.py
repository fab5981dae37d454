"""What the tests of namespace hosts do inside a sandbox: each scene brings hosts up and tells what it saw.

    python scenes.py SCENE DIRECTORY      (started by the sandbox fixtures of conftest.py)

A scene tells by JSON lines on standard output. Only the standard library and the hosts themselves are imported, so that
any Python 3.11 runs it, whatever user it belongs to.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from harness.model import PeerFailure
from harness.model.hosts import HostView
from harness.model.quorum_states import TableName
from harness.model.systems import NodeCommand, NodeFiles
from nodes.hosts.commands import run
from nodes.hosts.links import PROBE_PORT, NamespaceLinks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.processes import ChildProcesses

SERVES = "echo ready; exec sleep infinity"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
FAILS = "exit 3"
DEADLINE_SECONDS = 10.0
CLOSED_PORT = 7


@dataclass(frozen=True, slots=True)
class ShellSystem:
    """A system whose node N runs the N-th of these shell scripts."""

    scripts: tuple[str, ...]
    label: str = "shell"
    table: TableName = "kip-996"

    async def prepare(self, hosts: Mapping[int, HostView]) -> None:
        """Nothing to prepare."""

    def command(self, host: HostView) -> NodeCommand:
        return NodeCommand(["sh", "-c", self.scripts[host.node - 1]], {"ROLE": "node"}, grace_seconds=0.3)

    def files(self, host: HostView) -> NodeFiles:
        return NodeFiles(host.directory / "server.log", host.directory, host.directory / "quorum-state")


def tell(**line: Any) -> None:
    print(json.dumps(line), flush=True)


async def until(condition: Any, what: str) -> None:
    """Wait until condition() is true."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"waiting until {what}"
        await asyncio.sleep(0.005)


def said(hosts: NamespaceHosts, node: int) -> str:
    log = hosts.views[node].directory / "server.log"
    return log.read_text() if log.exists() else ""


async def five_hosts(directory: Path) -> None:
    """What each of five hosts says of itself, and whether a mount of one is seen by another."""
    async with NamespaceHosts.up(directory, nodes=5) as hosts:
        script = "hostname; ip -4 -o addr show eth0 | awk '{print $4}'; readlink /proc/self/ns/mnt /proc/self/ns/net"
        words = {node: (await run(hosts.enter(node, ["sh", "-c", script]))).split() for node in hosts.views}
        shared = str(hosts.views[1].directory)
        await run(hosts.enter(1, ["mount", "-t", "tmpfs", "none", shared]))
        seen = "if mountpoint -q $0; then echo yes; else echo no; fi"
        mounted = [(await run(hosts.enter(node, ["sh", "-c", seen, shared]))).strip() for node in (1, 2)]
        own = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "net")]
        tell(words=words, mounted=mounted, own=own, known={n: view.address for n, view in hosts.views.items()})


async def cuts(directory: Path) -> None:
    """Which links fail after each deed."""
    async with NamespaceHosts.up(directory, nodes=3) as hosts:
        links = NamespaceLinks(hosts)
        failing: dict[str, list[list[int]]] = {}

        async def look(name: str) -> None:
            passing = await links.passes(permutations(hosts.views, 2))
            failing[name] = sorted(list(link) for link, passes in passing.items() if not passes)

        await look("at first")
        await links.cut([(1, 2)])
        await look("one way")
        await links.cut([(3, 1), (3, 2)])
        await look("two cuts")
        refusals = [await _refuses(view.address) for view in hosts.views.values()]
        await links.heal()
        await look("mended")
        await links.heal()
        await look("mended twice")
        await run(hosts.enter(3, ["ip", "link", "set", "eth0", "down"]))
        await look("cable out")
        links.close()
        tell(failing=failing, refusals=refusals)


async def late_probe(directory: Path) -> None:
    """Which links fail when a datagram of an earlier round still waits for its reader."""
    async with NamespaceHosts.up(directory, nodes=2) as hosts:
        links = NamespaceLinks(hosts)
        every = [(1, 2), (2, 1)]
        await links.passes(every)
        late = f"printf '1 1' >/dev/udp/{hosts.views[2].address}/{PROBE_PORT}"
        await run(hosts.enter(1, ["bash", "-c", late]))
        await until(lambda: _waiting_datagrams(hosts, 2), "the late probe has come")
        await links.cut([(1, 2)])
        passing = await links.passes(every)
        links.close()
        tell(there=passing[(1, 2)], back=passing[(2, 1)])


def _waiting_datagrams(hosts: NamespaceHosts, node: int) -> bool:
    """Whether a datagram socket of the node has bytes that nobody has read: rx_queue of /proc/net/udp."""
    holder = hosts.network_namespace(node).parent.parent
    rows = (holder / "net" / "udp").read_text().splitlines()[1:]
    return any(row.split()[4].split(":")[1] != "00000000" for row in rows)


async def _refuses(address: str) -> bool:
    """Whether a host answers the controller, if only by saying that nothing listens."""
    try:
        async with asyncio.timeout(2):
            await asyncio.open_connection(address, CLOSED_PORT)
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False
    raise AssertionError(f"{address}: something listens on port {CLOSED_PORT}")


async def processes(directory: Path) -> None:
    """The states a server goes through, what its watcher is told, and how a stubborn one and a failing one end."""
    events: list[list[Any]] = []
    async with NamespaceHosts.up(directory, nodes=3) as hosts:
        system = ShellSystem((SERVES, STUBBORN, FAILS))
        servers = ChildProcesses(hosts, system, lambda *event: events.append(list(event)))
        states = [servers.state(1)]
        for deed in (servers.start, servers.pause, servers.resume, servers.stop, servers.start, servers.kill):
            if deed == servers.stop:
                await until(lambda: "ready" in said(hosts, 1), "n1 serves")
            await deed(1)
            states.append(servers.state(1))
        await servers.start(2)
        await until(lambda: "ready" in said(hosts, 2), "n2 serves")
        refusal = ""
        try:
            await servers.stop(2)
        except PeerFailure as error:
            refusal = str(error)
        await servers.pause(2)
        await servers.kill_all()
        await servers.start(3)
        await until(lambda: [3, "stopped", "exit 3"] in events, "n3's end is told")
        tell(states=states, events=events, refusal=refusal, last=servers.state(2), log=said(hosts, 1))


async def crash(directory: Path) -> None:
    """A server that someone else kills."""
    events: list[list[Any]] = []
    async with NamespaceHosts.up(directory, nodes=1) as hosts:
        servers = ChildProcesses(hosts, ShellSystem((SERVES,)), lambda *event: events.append(list(event)))
        await servers.start(1)
        await until(lambda: "ready" in said(hosts, 1), "n1 serves")
        (server,) = [pid for pid in pids_in(hosts, 1) if _is_server(pid)]
        os.kill(server, signal.SIGSEGV)
        await until(lambda: len(events) == 2, "the crash is told")
        tell(events=events, state=servers.state(1))


def pids_in(hosts: NamespaceHosts, node: int) -> list[int]:
    """The processes in a node's network namespace."""
    namespace = os.readlink(hosts.network_namespace(node))
    everyone = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in everyone if os.readlink(f"/proc/{pid}/ns/net") == namespace]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()


def _is_server(pid: int) -> bool:
    return b"ROLE=node" in Path(f"/proc/{pid}/environ").read_bytes()


async def _inhabited(directory: Path, cut_all: bool) -> None:
    """Three hosts with servers, one of them paused; tells their namespaces and stays until standard input ends."""
    async with NamespaceHosts.up(directory, nodes=3) as hosts:
        links = NamespaceLinks(hosts)
        servers = ChildProcesses(hosts, ShellSystem((SERVES,) * 3), lambda *_: None)
        try:
            for node in hosts.views:
                await servers.start(node)
            await servers.pause(2)
            if cut_all:
                await links.cut(permutations(hosts.views, 2))
            passing = await links.passes(permutations(hosts.views, 2))
            namespaces = [os.readlink(hosts.network_namespace(node)) for node in hosts.views]
            commands = [_command(int(path.name)) for path in Path("/proc").glob("[0-9]*")]
            own = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid")]
            tell(namespaces=[*namespaces, *own], passing=sum(passing.values()), commands=commands)
            line = await asyncio.to_thread(sys.stdin.readline)
            if line.strip() == "fail":
                raise PeerFailure("the scene was told to fail")
        finally:
            links.close()
            await servers.kill_all()


async def inhabited(directory: Path) -> None:
    await _inhabited(directory, cut_all=False)


async def cut_apart(directory: Path) -> None:
    await _inhabited(directory, cut_all=True)


SCENES = {scene.__name__: scene for scene in (five_hosts, cuts, late_probe, processes, crash, inhabited, cut_apart)}

if __name__ == "__main__":
    asyncio.run(SCENES[sys.argv[1]](Path(sys.argv[2])))
