"""Test cases for SSH hosts, run inside a sandbox with a real sshd in each namespace: each prints JSON lines.

python ssh_cases.py CASE DIRECTORY      (started by test_ssh_hosts.py)
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

from harness.model import EnvironmentFailure, SplitbrainError
from nodes.hosts.commands import run
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.ssh.hosts import SshHost, SshHosts, heal
from nodes.hosts.ssh.inventory import Inventory
from nodes.hosts.ssh.links import SshLinks
from nodes.hosts.ssh.processes import SshProcesses
from nodes.observe.quorum_state import read_quorum_state
from nodes.reference.system import ReferenceSystem
from tests.support.nodes.host_cases import (
    CLOSED_PORT,
    DEADLINE_SECONDS,
    FAILING,
    READY,
    STUBBORN,
    ShellServers,
    log_of,
    report,
    states_through_actions,
    until,
)
from tests.support.nodes.leaders import leader_of
from tests.support.nodes.ssh_machines import host_key, inventory, machines, make_key, serve

SLEEP = "sleep 1234567"
SLEEPERS = ShellServers((f"exec {SLEEP}",) * 2)
CLUSTER_ID = "9QAAAAAAAAAAAAAAAAAAAA"
RUN = "run-7"


async def refusal(action: Awaitable[object]) -> str:
    """The message of the error that an action raises."""
    try:
        await action
    except SplitbrainError as error:
        return str(error)
    raise AssertionError("expected an error")


async def files(directory: Path) -> None:
    """Files and commands on a machine, and what remains there afterwards."""
    async with machines(directory, 1) as machine_hosts:
        async with SshHosts.up(Inventory.read(inventory(machine_hosts, directory)), RUN, directory / "mirror") as hosts:
            host, remote = hosts.host(1), hosts.views[1].directory
            await host.write(remote / "deep" / "words", "written here\n")
            special = ["printf", "%s|", "a b", "$(touch x)", "; touch y", "`touch z`", "it's", "new\nline", "*"]
            (directory / "folder" / "inner").mkdir(parents=True)
            (directory / "folder" / "inner" / "big").write_bytes(bytes(range(256)) * 4096)
            await host.put(directory / "folder", remote / "folder")
            await host.put(directory / "folder" / "inner" / "big", remote / "one" / "big")
            await host.get(remote / "folder", directory / "back")
            await host.get(remote / "one" / "big", directory / "one")
            big = (directory / "folder" / "inner" / "big").read_bytes()
            failing = await refusal(host.run(["ls", "/nowhere"]))
            endless = await refusal(host.run(["sleep", "987654"], 0.3))
            await until(lambda: not running("sleep 987654"), "the timed-out command is killed")
            report(
                written=await host.run(["cat", str(remote / "deep" / "words")]),
                special=await host.run(special),
                identical=[
                    (directory / "back" / "inner" / "big").read_bytes() == big,
                    (directory / "one").read_bytes() == big,
                ],
                failing=failing,
                endless=endless,
                missing=await refusal(host.get(Path("/nowhere"), directory / "x")),
                command_ms=await command_ms(hosts, host),
                view=[hosts.views[1].address, hosts.views[1].hostname],
                touched=[name for name in ("x", "y", "z") if Path(name).exists() or Path("/root", name).exists()],
            )
        mirrored = sorted(path.name for path in (directory / "mirror" / "n1").iterdir())
        report(left=sorted(path.name for path in (directory / "remote").iterdir()), mirrored=mirrored)


def running(command: str) -> bool:
    """Whether a process with this command line exists."""
    return command in command_lines().values()


def command_lines() -> dict[int, str]:
    """The command line of each process, separated by spaces; processes that end meanwhile are left out."""
    lines = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines[int(path.parent.name)] = path.read_bytes().replace(b"\0", b" ").decode().strip()
    return lines


async def command_ms(hosts: SshHosts, host: SshHost) -> dict[str, float]:
    """The median duration of a command on an open connection, as it is and with Nagle's algorithm."""

    async def median_ms() -> float:
        durations = []
        for _ in range(25):
            started = time.perf_counter()
            await host.run(["true"])
            durations.append((time.perf_counter() - started) * 1000)
        return statistics.median(durations)

    (connection,) = hosts._connections.values()
    connected = connection._transport().sock
    as_opened = await median_ms()
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    with_delays = await median_ms()
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return {"as opened": as_opened, "with delays": with_delays}


async def cuts(directory: Path) -> None:
    """Which links fail after each cut and heal, and whether the controller still reaches partitioned nodes."""
    async with (
        machines(directory, 3) as machine_hosts,
        SshHosts.up(Inventory.read(inventory(machine_hosts, directory)), RUN, directory / "mirror") as hosts,
    ):
        links, failing = SshLinks(hosts), {}
        for name, action in (
            ("initially", links.heal()),
            ("one direction", links.cut([(1, 2)])),
            ("two cuts", links.cut([(3, 1), (3, 2)])),
            ("one healed", links.heal([(3, 1)])),
            ("healed", links.heal()),
        ):
            await action
            passing = await links.passes(permutations(hosts.views, 2))
            failing[name] = sorted(list(link) for link, passes in passing.items() if not passes)
            if name == "two cuts":
                reached = [await hosts.host(node).run(["hostname"]) for node in hosts.views]
                refused = await refused_connection(machine_hosts.views[2].address)
        await links.close()
        report(failing=failing, reached=[name.strip() for name in reached], refused=refused)


async def refused_connection(address: str) -> bool:
    """Whether a machine is reachable and refuses a connection to a closed port."""
    try:
        async with asyncio.timeout(2):
            await asyncio.open_connection(address, CLOSED_PORT)
    except ConnectionRefusedError:
        return True
    return False


async def processes(directory: Path) -> None:
    """The states of a server, its reported events, and how a server that ignores SIGTERM and a failing one end."""
    events: list[list[int | str]] = []
    async with (
        machines(directory, 3) as machine_hosts,
        SshHosts.up(Inventory.read(inventory(machine_hosts, directory)), RUN, directory / "mirror") as hosts,
    ):
        system = ShellServers((READY, STUBBORN, FAILING))
        servers = SshProcesses(hosts, system, lambda *event: events.append(list(event)))
        await asyncio.gather(*(hosts.mirror(node, [Path("server.log")]) for node in hosts.views))
        states = await states_through_actions(hosts, servers)
        await servers.start(2)
        await until(lambda: "ready" in log_of(hosts, 2), "n2 is ready")
        stubborn = await refusal(servers.stop(2))
        os.kill(servers.pid(2), signal.SIGSTOP)
        await until(lambda: servers.state(2) == "paused", "a SIGSTOP from another process is seen")
        await servers.kill_all()
        await servers.start(3)
        await until(lambda: [3, "exited", "exit 3"] in events, "the end of n3 is reported")
        report(states=states, events=events, stubborn=stubborn, last=servers.state(2), log=log_of(hosts, 1))


async def quorum(directory: Path) -> None:
    """A reference quorum elects a leader, its files are mirrored, and it elects another when its leader is cut off."""
    async with machines(directory, 3) as machine_hosts:
        async with SshHosts.up(Inventory.read(inventory(machine_hosts, directory)), RUN, directory / "mirror") as hosts:
            await run_quorum(hosts, ReferenceSystem({}, CLUSTER_ID, seed=7))
        # The leases end the servers and heal the links.
        fetched = (directory / "mirror" / "n1" / "server.properties").exists()
        report(left=await left_after_cleanup(machine_hosts, directory), fetched=fetched)


async def run_quorum(hosts: SshHosts, system: ReferenceSystem) -> None:
    """Start a quorum, partition its first leader, and report the leaders before and after."""
    servers = SshProcesses(hosts, system, lambda *_: None)
    for node, view in hosts.views.items():
        await system.prepare(hosts.host(node), hosts.views)
        paths = system.files(view)
        await hosts.mirror(node, [path.relative_to(view.readable) for path in (paths.log, paths.quorum_state) if path])
        await servers.start(node)
    first = await leader_of(hosts.views)
    links = SshLinks(hosts)
    await links.cut([link for link in permutations(hosts.views, 2) if first in link])
    second = await leader_of(hosts.views, excluded=first)
    await links.close()
    state = system.files(hosts.views[second]).quorum_state
    assert state is not None
    await until(lambda: leader_in(state) == second, "the new leader's state is mirrored")
    await until(lambda: "Leader" in log_of(hosts, second), "the log is mirrored")
    report(first=first, second=second)


def leader_in(path: Path) -> int | None:
    """The leader in a quorum-state file; None if there is no such file yet."""
    state = read_quorum_state(path)
    return state.leader if state else None


async def left_on(machine_hosts: NamespaceHosts, directory: Path) -> list[str]:
    """Our processes, tables and pid files on the machines."""
    left = [str(path) for name in ("*.pid", "lease") for path in (directory / "remote").rglob(name)]
    for node in machine_hosts.views:
        left += (await run(machine_hosts.enter(node, ["nft", "list", "tables"]))).split("\n")
    ours = (f"{directory}/remote", SLEEP)
    left += [line[-100:] for line in command_lines().values() if any(part in line for part in ours)]
    return [line for line in left if line]


async def left_after_cleanup(machine_hosts: NamespaceHosts, directory: Path) -> list[str]:
    """As left_on, after waiting until nothing is left: shells end some milliseconds after their servers."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while (left := await left_on(machine_hosts, directory)) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.05)
    return left


async def servers_running(directory: Path) -> None:
    """Two machines with servers, one of them paused and partitioned; runs until it is killed."""
    async with SshHosts.up(Inventory.read(directory / "inventory.toml"), RUN, directory / "mirror") as hosts:
        servers = SshProcesses(hosts, SLEEPERS, lambda *_: None)
        for node in hosts.views:
            await hosts.mirror(node, [Path("server.log"), Path("some-state")])
            await servers.start(node)
        await servers.pause(2)
        links = SshLinks(hosts)
        await links.cut([(1, 2)])
        passing = await links.passes([(1, 2), (2, 1)])
        report(
            servers=[servers.pid(node) for node in hosts.views], passing=sorted(map(list, filter(passing.get, passing)))
        )
        await asyncio.Event().wait()


async def killed(directory: Path) -> None:
    """What is left on the machines after the controller is killed, and after heal."""
    async with machines(directory, 2) as machine_hosts:
        path = inventory(machine_hosts, directory)
        result = await kill_controller(machine_hosts, directory, lambda: None)
        await until(lambda: not alive(result["servers"]), "the leases have killed the servers")
        left = await left_after_cleanup(machine_hosts, directory)
        heal(Inventory.read(path), RUN)
        report(
            passing=result["passing"], held=result["held"], left=left, healed=await left_on(machine_hosts, directory)
        )


async def healed(directory: Path) -> None:
    """What heal undoes if the leases are killed before the controller."""
    async with machines(directory, 2) as machine_hosts:
        path = inventory(machine_hosts, directory)

        def kill_leases() -> None:
            for pid, line in command_lines().items():
                if line.startswith("sh -c") and f" lease {directory}/remote" in line:
                    os.kill(pid, 9)

        result = await kill_controller(machine_hosts, directory, kill_leases)
        before = alive(result["servers"])
        heal(Inventory.read(path), RUN)
        after = [alive(result["servers"]), await left_after_cleanup(machine_hosts, directory)]
        heal(Inventory.read(path), RUN)
        report(before=len(before), after=after)


async def kill_controller(machine_hosts: NamespaceHosts, directory: Path, first: Callable[[], None]) -> dict[str, Any]:
    """Start a controller, call first() once its servers run, and kill it; returns its result."""
    controller = await asyncio.create_subprocess_exec(
        *[sys.executable, __file__, "servers_running", str(directory)], stdout=asyncio.subprocess.PIPE
    )
    assert controller.stdout is not None
    result: dict[str, Any] = json.loads(await controller.stdout.readline())
    assert len(alive(result["servers"])) == 2
    result["held"] = len(await left_on(machine_hosts, directory))
    first()
    controller.kill()
    await controller.wait()
    return result


def alive(pids: list[int]) -> list[int]:
    """The servers that are alive; zombies have no command line."""
    return [pid for pid in pids if SLEEP in command_lines().get(pid, "")]


async def trust(directory: Path) -> None:
    """Which machines are trusted, and the messages for the others."""
    outcomes: dict[str, str] = {}

    async def attempt(name: str, **settings: object) -> None:
        path = inventory(machine_hosts, directory, **settings)
        try:
            async with SshHosts.up(Inventory.read(path), RUN, directory / "mirror") as hosts:
                outcomes[name] = await hosts.host(1).run(["echo", "welcome"])
        except EnvironmentFailure as failure:
            outcomes[name] = str(failure)

    async with machines(directory, 1) as machine_hosts:
        address, known = machine_hosts.views[1].address, directory / "known_hosts"
        known.write_text("")
        await attempt("unknown", known_hosts=str(known))
        known.write_text(f"{address} {host_key(machine_hosts, 1)}\n")
        await attempt("known", known_hosts=str(known))
        wrong_key = (directory / "key.pub").read_text().split()[1]
        await attempt("wrong key", host_key=f"ssh-ed25519 {wrong_key}")
        await attempt("accepted", accept_unknown=True)
        await attempt("refused", user="root", key=str(machine_hosts.views[1].directory / "host_key"))
        await attempt("no such user", user="nobody")
        await attempt("no key", key="/nowhere/key")
    report(outcomes=outcomes)


async def late(directory: Path) -> None:
    """A machine that starts to accept connections during the retries, and one that never does."""
    async with NamespaceHosts.up(directory, 1) as machine_hosts:
        for key in (directory / "key", machine_hosts.views[1].directory / "host_key"):
            make_key(key)
        path = inventory(machine_hosts, directory)
        never = await refusal(greeting(path, directory))
        refused = resets(machine_hosts)
        dialling = asyncio.create_task(greeting(path, directory))
        await until(lambda: resets(machine_hosts) > refused, "the machine has refused the first attempt")
        server = await serve(machine_hosts, 1)
        report(late=await dialling, never=never, attempts=refused)
        server.kill()
        await server.wait()


def resets(machine_hosts: NamespaceHosts) -> int:
    """The number of connections that the first machine has refused: OutRsts of /proc/net/snmp."""
    names, values = [
        line.split()
        for line in (machine_hosts.network_namespace(1).parents[1] / "net" / "snmp").read_text().splitlines()
        if line.startswith("Tcp:")
    ]
    return int(dict(zip(names, values, strict=True))["OutRsts"])


async def dropped(directory: Path) -> None:
    """A server whose controller is alive but loses the connection to it."""
    events: list[list[int | str]] = []
    ending = ""
    servers: list[int] = []
    async with machines(directory, 2) as machine_hosts:
        try:
            async with SshHosts.up(
                Inventory.read(inventory(machine_hosts, directory)), RUN, directory / "mirror"
            ) as hosts:
                processes = SshProcesses(hosts, SLEEPERS, lambda *event: events.append(list(event)))
                for node in hosts.views:
                    await processes.start(node)
                servers = [processes.pid(node) for node in hosts.views]
                os.kill(session_of(servers[0]), 9)
                await until(lambda: len(events) == 3, "the end of n1's server is reported")
                states = [processes.state(node) for node in hosts.views]
                await until(lambda: alive(servers) == servers[1:], "n1's lease has killed its server")
        except EnvironmentFailure as failure:
            ending = str(failure)
        report(states=states, events=events, ending=ending, left=alive(servers))


def session_of(server: int) -> int:
    """The sshd process in whose session a server was started: its grandparent."""
    for _ in range(2):
        server = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    assert "sshd" in command_lines()[server]
    return server


async def sudo(directory: Path) -> None:
    """The commands that go through sudo if the inventory says so."""
    async with machines(directory, 2) as machine_hosts:
        path = inventory(machine_hosts, directory, sudo=True)
        async with SshHosts.up(Inventory.read(path), RUN, directory / "mirror") as hosts:
            links = SshLinks(hosts)
            await links.cut([(1, 2)])
            passing = await links.passes([(1, 2), (2, 1)])
            await links.close()
        commands = [(view.directory / "sudo.log").read_text().splitlines() for view in machine_hosts.views.values()]
        report(
            passing=sorted(map(list, filter(passing.get, passing))),
            commands=commands,
            left=await left_on(machine_hosts, directory),
        )


async def greeting(path: Path, directory: Path) -> str:
    """The output of a command on the first machine of an inventory."""
    async with SshHosts.up(Inventory.read(path), RUN, directory / "mirror") as hosts:
        return await hosts.host(1).run(["echo", "welcome"])


CASES = {
    case.__name__: case
    for case in (files, cuts, processes, quorum, servers_running, killed, healed, trust, late, dropped, sudo)
}

if __name__ == "__main__":
    asyncio.run(CASES[sys.argv[1]](Path(sys.argv[2])))
