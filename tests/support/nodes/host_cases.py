"""Test cases for namespace hosts, run inside a sandbox: each prints its results as JSON lines.

    python host_cases.py CASE DIRECTORY      (started by the sandbox fixtures of conftest.py)

Imports only the standard library and the hosts themselves, so any Python 3.11 can run it, as any user.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, Protocol

from harness.model import PeerFailure
from harness.model.hosts import HostView
from harness.model.systems import NodeCommand
from nodes.hosts.commands import run
from nodes.hosts.links import PROBE_PORT, NamespaceLinks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.processes import LOG_NAME, ChildProcesses, ServerProcesses

READY = "echo ready; exec sleep infinity"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
FAILING = "exit 3"
DEADLINE_SECONDS = 20.0
CLOSED_PORT = 7


@dataclass(frozen=True, slots=True)
class ShellServers:
    """Node N runs the N-th of these shell scripts."""

    scripts: tuple[str, ...]

    def command(self, host: HostView) -> NodeCommand:
        return NodeCommand(["sh", "-c", self.scripts[host.node - 1]], {"ROLE": "node"}, grace_seconds=0.3)


def report(**result: Any) -> None:
    print(json.dumps(result), flush=True)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until condition() is true."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"waiting until {what}"
        await asyncio.sleep(0.005)


class Hosts(Protocol):
    """Hosts of any kind."""

    @property
    def views(self) -> Mapping[int, HostView]: ...


def log_of(hosts: Hosts, node: int) -> str:
    """What a node's server has written."""
    log = hosts.views[node].readable / LOG_NAME
    return log.read_text() if log.exists() else ""


async def states_through_actions(hosts: Hosts, servers: ServerProcesses) -> list[str]:
    """The state of n1, a READY server, at first and after each action on it."""
    states = [servers.state(1)]
    for action in (servers.start, servers.pause, servers.resume, servers.stop, servers.start, servers.kill):
        if action == servers.stop:
            await until(lambda: "ready" in log_of(hosts, 1), "n1 is ready")
        await action(1)
        states.append(servers.state(1))
    return states


async def five_hosts(directory: Path) -> None:
    """The name, address and namespaces of five hosts, and whether a mount on one is visible on another."""
    async with NamespaceHosts.up(directory, nodes=5) as hosts:
        script = "hostname; ip -4 -o addr show eth0 | awk '{print $4}'; readlink /proc/self/ns/mnt /proc/self/ns/net"
        identities = {node: (await run(hosts.enter(node, ["sh", "-c", script]))).split() for node in hosts.views}
        shared = str(hosts.views[1].directory)
        await run(hosts.enter(1, ["mount", "-t", "tmpfs", "none", shared]))
        test_mount = "if mountpoint -q $0; then echo yes; else echo no; fi"
        mounted = [(await run(hosts.enter(node, ["sh", "-c", test_mount, shared]))).strip() for node in (1, 2)]
        own = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "net")]
        addresses = {node: view.address for node, view in hosts.views.items()}
        report(identities=identities, mounted=mounted, own=own, addresses=addresses)


async def cuts(directory: Path) -> None:
    """Which links fail after each cut and heal."""
    async with NamespaceHosts.up(directory, nodes=3) as hosts:
        links = NamespaceLinks(hosts)
        failing: dict[str, list[list[int]]] = {}

        async def test_links(name: str) -> None:
            passing = await links.passes(permutations(hosts.views, 2))
            failing[name] = sorted(list(link) for link, passes in passing.items() if not passes)

        await test_links("initially")
        await links.cut([(1, 2)])
        await test_links("one direction")
        await links.cut([(3, 1), (3, 2)])
        await test_links("two cuts")
        refusals = [await _refuses(view.address) for view in hosts.views.values()]
        await links.heal()
        await test_links("healed")
        await links.heal()
        await test_links("healed twice")
        await run(hosts.enter(3, ["ip", "link", "set", "eth0", "down"]))
        await test_links("interface down")
        links.close()
        report(failing=failing, refusals=refusals)


async def late_probe(directory: Path) -> None:
    """Which links pass when a datagram of an earlier round is still unread."""
    async with NamespaceHosts.up(directory, nodes=2) as hosts:
        links = NamespaceLinks(hosts)
        both = [(1, 2), (2, 1)]
        await links.passes(both)
        late = f"printf '1 1' >/dev/udp/{hosts.views[2].address}/{PROBE_PORT}"
        await run(hosts.enter(1, ["bash", "-c", late]))
        await until(lambda: _has_unread_datagrams(hosts, 2), "the late probe has arrived")
        await links.cut([(1, 2)])
        passing = await links.passes(both)
        links.close()
        report(forward=passing[(1, 2)], backward=passing[(2, 1)])


def _has_unread_datagrams(hosts: NamespaceHosts, node: int) -> bool:
    """Whether a datagram socket of the node has unread bytes: rx_queue of /proc/net/udp."""
    holder = hosts.network_namespace(node).parent.parent
    rows = (holder / "net" / "udp").read_text().splitlines()[1:]
    return any(row.split()[4].split(":")[1] != "00000000" for row in rows)


async def _refuses(address: str) -> bool:
    """Whether a host is reachable and refuses a connection to a closed port."""
    try:
        async with asyncio.timeout(2):
            await asyncio.open_connection(address, CLOSED_PORT)
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False
    raise AssertionError(f"{address}: something listens on port {CLOSED_PORT}")


async def processes(directory: Path) -> None:
    """The states of a server, its reported events, and how a server that ignores SIGTERM and a failing one end."""
    events: list[list[int | str]] = []
    async with NamespaceHosts.up(directory, nodes=3) as hosts:
        system = ShellServers((READY, STUBBORN, FAILING))
        servers = ChildProcesses(hosts, system, lambda *event: events.append(list(event)))
        states = await states_through_actions(hosts, servers)
        await servers.start(2)
        await until(lambda: "ready" in log_of(hosts, 2), "n2 is ready")
        refusal = ""
        try:
            await servers.stop(2)
        except PeerFailure as error:
            refusal = str(error)
        await servers.pause(2)
        await servers.kill_all()
        await servers.start(3)
        await until(lambda: [3, "exited", "exit 3"] in events, "the end of n3 is reported")
        report(states=states, events=events, refusal=refusal, last=servers.state(2), log=log_of(hosts, 1))


async def crash(directory: Path) -> None:
    """A server that another process kills."""
    events: list[list[int | str]] = []
    async with NamespaceHosts.up(directory, nodes=1) as hosts:
        servers = ChildProcesses(hosts, ShellServers((READY,)), lambda *event: events.append(list(event)))
        await servers.start(1)
        await until(lambda: "ready" in log_of(hosts, 1), "n1 is ready")
        (server,) = [pid for pid in pids_in(hosts, 1) if _is_server(pid)]
        os.kill(server, signal.SIGSEGV)
        await until(lambda: len(events) == 2, "the crash is reported")
        report(events=events, state=servers.state(1))


def pids_in(hosts: NamespaceHosts, node: int) -> list[int]:
    """The processes in a node's network namespace."""
    namespace = os.readlink(hosts.network_namespace(node))
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if os.readlink(f"/proc/{pid}/ns/net") == namespace]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()


def _is_server(pid: int) -> bool:
    return b"ROLE=node" in Path(f"/proc/{pid}/environ").read_bytes()


async def _run_servers(directory: Path, cut_all: bool) -> None:
    """Three hosts with servers, one of them paused; reports their namespaces and runs until standard input ends."""
    async with NamespaceHosts.up(directory, nodes=3) as hosts:
        links = NamespaceLinks(hosts)
        servers = ChildProcesses(hosts, ShellServers((READY,) * 3), lambda *_: None)
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
            report(namespaces=[*namespaces, *own], passing=sum(passing.values()), commands=commands)
            line = await asyncio.to_thread(sys.stdin.readline)
            if line.strip() == "fail":
                raise PeerFailure("the test case failed on request")
        finally:
            links.close()
            await servers.kill_all()


async def servers_running(directory: Path) -> None:
    await _run_servers(directory, cut_all=False)


async def all_links_cut(directory: Path) -> None:
    await _run_servers(directory, cut_all=True)


CASES = {
    case.__name__: case for case in (five_hosts, cuts, late_probe, processes, crash, servers_running, all_links_cut)
}

if __name__ == "__main__":
    asyncio.run(CASES[sys.argv[1]](Path(sys.argv[2])))
