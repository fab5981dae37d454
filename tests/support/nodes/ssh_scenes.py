"""What the tests of SSH hosts do inside a sandbox, with a real sshd in each of its namespaces; as scenes.py.

python ssh_scenes.py SCENE DIRECTORY
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

from harness.model import EnvironmentFailure, PeerFailure, SplitbrainError
from harness.model.systems import CONTROLLER_PORT
from nodes.hosts.commands import run
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.ssh.hosts import SshHost, SshHosts, heal
from nodes.hosts.ssh.inventory import Inventory
from nodes.hosts.ssh.links import SshLinks
from nodes.hosts.ssh.processes import SshProcesses
from nodes.observe.describe_quorum import describe_quorum
from nodes.observe.quorum_state import read_quorum_state
from nodes.reference.system import ReferenceSystem
from nodes.wire.connection import WireConnection
from tests.support.nodes.host_scenes import CLOSED_PORT, FAILS, SERVES, STUBBORN, ShellSystem, tell
from tests.support.nodes.ssh_machines import host_key, inventory, machines, make_key, serve

DEADLINE_SECONDS = 20.0
SLEEPS = "sleep 1234567"
SLEEPERS = ShellSystem((f"exec {SLEEPS}",) * 2)
CLUSTER_ID = "9QAAAAAAAAAAAAAAAAAAAA"
RUN = "run-7"


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until condition() is true."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"waiting until {what}"
        await asyncio.sleep(0.005)


async def refusal(deed: Awaitable[Any]) -> str:
    """What a deed is refused with."""
    try:
        await deed
    except SplitbrainError as error:
        return str(error)
    raise AssertionError("it was not refused")


async def files(directory: Path) -> None:
    """What is written, copied and run on a machine, and what is left of it."""
    async with machines(directory, 1) as near:
        async with SshHosts.up(Inventory.read(inventory(near, directory)), RUN, directory / "mirror") as hosts:
            host, far = hosts.host(1), hosts.views[1].directory
            await host.write(far / "deep" / "words", "written here\n")
            odd = ["printf", "%s|", "a b", "$(touch x)", "; touch y", "`touch z`", "it's", "new\nline", "*"]
            (directory / "folder" / "inner").mkdir(parents=True)
            (directory / "folder" / "inner" / "big").write_bytes(bytes(range(256)) * 4096)
            await host.put(directory / "folder", far / "folder")
            await host.put(directory / "folder" / "inner" / "big", far / "one" / "big")
            await host.get(far / "folder", directory / "back")
            await host.get(far / "one" / "big", directory / "one")
            big = (directory / "folder" / "inner" / "big").read_bytes()
            tell(
                said=await host.run(["cat", str(far / "deep" / "words")]),
                odd=await host.run(odd),
                same=[
                    (directory / "back" / "inner" / "big").read_bytes() == big,
                    (directory / "one").read_bytes() == big,
                ],
                failing=await refusal(host.run(["ls", "/nowhere"])),
                endless=await refusal(host.run(["sleep", "987654"], 0.3)),
                missing=await refusal(host.get(Path("/nowhere"), directory / "x")),
                command_ms=await command_ms(host),
                view=[hosts.views[1].address, hosts.views[1].hostname],
                ended=await until(lambda: not running("sleep 987654"), "the endless command has ended"),
                touched=[name for name in ("x", "y", "z") if Path(name).exists() or Path("/root", name).exists()],
            )
        mirrored = sorted(path.name for path in (directory / "mirror" / "n1").iterdir())
        tell(left=sorted(path.name for path in (directory / "far").iterdir()), mirrored=mirrored)


def running(command: str) -> bool:
    """Whether a process of this command line is there."""
    return command in command_lines().values()


def command_lines() -> dict[int, str]:
    """The command line of each process, its words apart by spaces; a process that ends meanwhile is left out."""
    lines = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines[int(path.parent.name)] = path.read_bytes().replace(b"\0", b" ").decode().strip()
    return lines


async def command_ms(host: SshHost) -> float:
    """What a command costs when others went before."""
    began = time.perf_counter()
    for _ in range(50):
        await host.run(["true"])
    return (time.perf_counter() - began) / 50 * 1000


async def cuts(directory: Path) -> None:
    """Which links fail after each deed, and whether the controller still reaches who is cut off."""
    async with (
        machines(directory, 3) as near,
        SshHosts.up(Inventory.read(inventory(near, directory)), RUN, directory / "mirror") as hosts,
    ):
        links, failing = SshLinks(hosts), {}
        for name, deed in (
            ("at first", links.heal()),
            ("one way", links.cut([(1, 2)])),
            ("two cuts", links.cut([(3, 1), (3, 2)])),
            ("one mended", links.heal([(3, 1)])),
            ("mended", links.heal()),
        ):
            await deed
            passing = await links.passes(permutations(hosts.views, 2))
            failing[name] = sorted(list(link) for link, passes in passing.items() if not passes)
            if name == "two cuts":
                reached = [await hosts.host(node).run(["hostname"]) for node in hosts.views]
                refused = await refused_connection(near.views[2].address)
        await links.close()
        tell(failing=failing, reached=[name.strip() for name in reached], refused=refused)


async def refused_connection(address: str) -> bool:
    """Whether a machine answers the controller, if only by saying that nothing listens."""
    try:
        async with asyncio.timeout(2):
            await asyncio.open_connection(address, CLOSED_PORT)
    except ConnectionRefusedError:
        return True
    return False


async def processes(directory: Path) -> None:
    """The states a server goes through, what is told of it, and how a stubborn one and a failing one end."""
    events: list[list[Any]] = []
    async with (
        machines(directory, 3) as near,
        SshHosts.up(Inventory.read(inventory(near, directory)), RUN, directory / "mirror") as hosts,
    ):
        system = ShellSystem((SERVES, STUBBORN, FAILS))
        servers = SshProcesses(hosts, system, lambda *event: events.append(list(event)))
        await asyncio.gather(*(hosts.mirror(node, [Path("server.log")]) for node in hosts.views))
        states = [servers.state(1)]
        for deed in (servers.start, servers.pause, servers.resume, servers.stop, servers.start, servers.kill):
            if deed == servers.stop:
                await until(lambda: "ready" in said(hosts, 1), "n1 serves")
            await deed(1)
            states.append(servers.state(1))
        await servers.start(2)
        await until(lambda: "ready" in said(hosts, 2), "n2 serves")
        stubborn = await refusal(servers.stop(2))
        os.kill(servers.pid(2), 19)
        await until(lambda: servers.state(2) == "paused", "somebody else's SIGSTOP is seen")
        await servers.kill_all()
        await servers.start(3)
        await until(lambda: [3, "stopped", "exit 3"] in events, "n3's end is told")
        tell(states=states, events=events, stubborn=stubborn, last=servers.state(2), log=said(hosts, 1))


def said(hosts: SshHosts, node: int) -> str:
    """What a node's server wrote, as far as it came here."""
    log = hosts.views[node].readable / "server.log"
    return log.read_text() if log.exists() else ""


async def quorum(directory: Path) -> None:
    """A reference quorum elects, its files are mirrored while it runs, and it elects again without its leader."""
    async with machines(directory, 3) as near:
        async with SshHosts.up(Inventory.read(inventory(near, directory)), RUN, directory / "mirror") as hosts:
            await begin_quorum(hosts, ReferenceSystem({}, CLUSTER_ID, seed=7))
        # Nobody ended the servers or mended the links: the leases did.
        fetched = (directory / "mirror" / "n1" / "server.properties").exists()
        tell(left=await left_in_the_end(near, directory), fetched=fetched)


async def begin_quorum(hosts: SshHosts, system: ReferenceSystem) -> None:
    """Start it, cut its first leader off, and tell who led before and after."""
    servers = SshProcesses(hosts, system, lambda *_: None)
    for node, view in hosts.views.items():
        await system.prepare(hosts.host(node), hosts.views)
        paths = system.files(view)
        await hosts.mirror(node, [path.relative_to(view.readable) for path in (paths.log, paths.quorum_state)])
        await servers.start(node)
    first = await leader_of(hosts, without=0)
    links = SshLinks(hosts)
    await links.cut([link for link in permutations(hosts.views, 2) if first in link])
    second = await leader_of(hosts, without=first)
    await links.close()
    state = system.files(hosts.views[second]).quorum_state
    await until(lambda: (read_quorum_state(state) or NOTHING).leader == second, "the new leader's state is mirrored")
    await until(lambda: "Leader" in said(hosts, second), "the log is mirrored")
    tell(first=first, second=second)


class NOTHING:
    """A quorum-state that is not there yet."""

    leader = -1


async def leader_of(hosts: SshHosts, without: int) -> int:
    """Who says that it leads, of all but one."""
    asked = {node: view for node, view in hosts.views.items() if node != without}
    connections = {node: WireConnection(view.address, CONTROLLER_PORT, "test") for node, view in asked.items()}
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                for node, connection in connections.items():
                    if await leads(connection):
                        return node
                await asyncio.sleep(0.05)
    finally:
        for connection in connections.values():
            await connection.close()


async def leads(connection: WireConnection) -> bool:
    """Whether a node answers as its quorum's leader."""
    try:
        return (await describe_quorum(connection, 1000)).error is None
    except PeerFailure:
        return False


async def left_on(near: NamespaceHosts, directory: Path) -> list[str]:
    """The processes, tables and pid files of ours that there are on the machines."""
    left = [str(path) for name in ("*.pid", "lease") for path in (directory / "far").rglob(name)]
    for node in near.views:
        left += (await run(near.enter(node, ["nft", "list", "tables"]))).split("\n")
    ours = (f"{directory}/far", SLEEPS)
    left += [words[-100:] for words in command_lines().values() if any(word in words for word in ours)]
    return [line for line in left if line]


async def left_in_the_end(near: NamespaceHosts, directory: Path) -> list[str]:
    """The same, once nothing is left or the deadline has passed: shells end some milliseconds after their servers."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while (left := await left_on(near, directory)) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.05)
    return left


async def inhabited(directory: Path) -> None:
    """Two machines with servers, one of them paused and cut off; stays until it is killed."""
    async with SshHosts.up(Inventory.read(directory / "inventory.toml"), RUN, directory / "mirror") as hosts:
        servers = SshProcesses(hosts, SLEEPERS, lambda *_: None)
        for node in hosts.views:
            await hosts.mirror(node, [Path("server.log"), Path("some-state")])
            await servers.start(node)
        await servers.pause(2)
        links = SshLinks(hosts)
        await links.cut([(1, 2)])
        passing = await links.passes([(1, 2), (2, 1)])
        tell(
            servers=[servers.pid(node) for node in hosts.views], passing=sorted(map(list, filter(passing.get, passing)))
        )
        await asyncio.Event().wait()


async def killed(directory: Path) -> None:
    """What is left on the machines after the controller was killed, and after healing twice."""
    async with machines(directory, 2) as near:
        path = inventory(near, directory)
        told = await kill_controller(near, directory, lambda: None)
        await until(lambda: not alive(told["servers"]), "the leases have ended the servers")
        left = await left_in_the_end(near, directory)
        heal(Inventory.read(path), RUN)
        tell(passing=told["passing"], held=told["held"], left=left, healed=await left_on(near, directory))


async def healed(directory: Path) -> None:
    """What healing undoes where the leases were killed before the controller was."""
    async with machines(directory, 2) as near:
        path = inventory(near, directory)

        def kill_leases() -> None:
            for pid, words in command_lines().items():
                if words.startswith("sh -c") and f" lease {directory}/far" in words:
                    os.kill(pid, 9)

        told = await kill_controller(near, directory, kill_leases)
        before = alive(told["servers"])
        heal(Inventory.read(path), RUN)
        after = [alive(told["servers"]), await left_in_the_end(near, directory)]
        heal(Inventory.read(path), RUN)
        tell(before=len(before), after=after)


async def kill_controller(near: NamespaceHosts, directory: Path, first: Callable[[], None]) -> Any:
    """Start a controller, do something once its machines are inhabited, and kill it; what it told."""
    controller = await asyncio.create_subprocess_exec(
        *[sys.executable, __file__, "inhabited", str(directory)], stdout=asyncio.subprocess.PIPE
    )
    assert controller.stdout is not None
    told = json.loads(await controller.stdout.readline())
    assert len(alive(told["servers"])) == 2
    told["held"] = len(await left_on(near, directory))
    first()
    controller.kill()
    await controller.wait()
    return told


def alive(pids: list[int]) -> list[int]:
    """Those servers that are there and no zombies, which have no words."""
    return [pid for pid in pids if SLEEPS in command_lines().get(pid, "")]


async def trust(directory: Path) -> None:
    """Which machines are believed, and what is said of the others."""
    said: dict[str, str] = {}

    async def attempt(name: str, **others: object) -> None:
        path = inventory(near, directory, **others)
        try:
            async with SshHosts.up(Inventory.read(path), RUN, directory / "mirror") as hosts:
                said[name] = await hosts.host(1).run(["echo", "welcome"])
        except EnvironmentFailure as failure:
            said[name] = str(failure)

    async with machines(directory, 1) as near:
        address, known = near.views[1].address, directory / "known_hosts"
        known.write_text("")
        await attempt("unknown", known_hosts=str(known))
        known.write_text(f"{address} {host_key(near, 1)}\n")
        await attempt("known", known_hosts=str(known))
        other = (directory / "key.pub").read_text().split()[1]
        await attempt("another's key", host_key=f"ssh-ed25519 {other}")
        await attempt("accepted", accept_unknown=True)
        await attempt("refused", user="root", key=str(near.views[1].directory / "host_key"))
        await attempt("no such user", user="nobody")
        await attempt("no key", key="/nowhere/key")
    tell(said=said, home=str(Path.home() / ".ssh"))


async def late(directory: Path) -> None:
    """A machine that begins to answer while it is dialled, and one that never does."""
    async with NamespaceHosts.up(directory, 1) as near:
        for key in (directory / "key", near.views[1].directory / "host_key"):
            make_key(key)
        path = inventory(near, directory)
        never = await refusal(greeted(path, directory))
        refused = resets(near)
        dialling = asyncio.create_task(greeted(path, directory))
        await until(lambda: resets(near) > refused, "the machine has refused the first attempt")
        server = await serve(near, 1)
        tell(late=await dialling, never=never, attempts=refused)
        server.kill()
        await server.wait()


def resets(near: NamespaceHosts) -> int:
    """How many connections the first machine has refused: OutRsts of /proc/net/snmp."""
    names, values = [
        line.split()
        for line in (near.network_namespace(1).parents[1] / "net" / "snmp").read_text().splitlines()
        if line.startswith("Tcp:")
    ]
    return int(dict(zip(names, values, strict=True))["OutRsts"])


async def dropped(directory: Path) -> None:
    """What becomes of a server whose controller lives, but is cut off from it."""
    events: list[list[Any]] = []
    leaving, servers = "", []
    async with machines(directory, 2) as near:
        try:
            async with SshHosts.up(Inventory.read(inventory(near, directory)), RUN, directory / "mirror") as hosts:
                processes = SshProcesses(hosts, SLEEPERS, lambda *event: events.append(list(event)))
                for node in hosts.views:
                    await processes.start(node)
                servers = [processes.pid(node) for node in hosts.views]
                os.kill(session_of(servers[0]), 9)
                await until(lambda: len(events) == 3, "the end of n1's server is told")
                states = [processes.state(node) for node in hosts.views]
                await until(lambda: alive(servers) == servers[1:], "n1's lease has ended its server")
        except EnvironmentFailure as failure:
            leaving = str(failure)
        tell(states=states, events=events, leaving=leaving, left=alive(servers))


def session_of(server: int) -> int:
    """The sshd process whose session a server was started in: the parent of its parent."""
    for _ in range(2):
        server = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    assert "sshd" in command_lines()[server]
    return server


async def sudo(directory: Path) -> None:
    """What is asked of sudo, where the inventory says that root's rights come by it."""
    async with machines(directory, 2) as near:
        path = inventory(near, directory, sudo=True)
        async with SshHosts.up(Inventory.read(path), RUN, directory / "mirror") as hosts:
            links = SshLinks(hosts)
            await links.cut([(1, 2)])
            passing = await links.passes([(1, 2), (2, 1)])
            await links.close()
        asked = [(view.directory / "sudo.log").read_text().splitlines() for view in near.views.values()]
        tell(passing=sorted(map(list, filter(passing.get, passing))), asked=asked, left=await left_on(near, directory))


async def greeted(path: Path, directory: Path) -> str:
    """What the first machine of an inventory says when it is asked."""
    async with SshHosts.up(Inventory.read(path), RUN, directory / "mirror") as hosts:
        return await hosts.host(1).run(["echo", "welcome"])


SCENES = {
    scene.__name__: scene
    for scene in (files, cuts, processes, quorum, inhabited, killed, healed, trust, late, dropped, sudo)
}

if __name__ == "__main__":
    asyncio.run(SCENES[sys.argv[1]](Path(sys.argv[2])))
