"""Hosts as containers, on a real engine: addresses, files, commands, cuts, servers, leases, and what is refused.

`make test-docker` runs these beside an engine of their own; elsewhere they are left out where none answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from harness.model import BadInput, EnvironmentFailure, PeerFailure
from harness.model.systems import CONTROLLER_PORT
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.docker import engine as docker_engine
from nodes.hosts.docker.hosts import DockerHosts
from nodes.hosts.docker.processes import DockerProcesses
from nodes.hosts.links import NamespaceLinks
from nodes.hosts.processes import resident_bytes
from nodes.observe.describe_quorum import describe_quorum
from nodes.proxy.rpcs import NamespaceRpcs
from nodes.reference.system import ReferenceSystem
from nodes.wire.connection import WireConnection
from tests.support import SUPPORT
from tests.support.command import wait_until
from tests.support.nodes.docker_scenes import said, until
from tests.support.nodes.host_scenes import CLOSED_PORT, FAILS, SERVES, STUBBORN, ShellSystem

SCENES = SUPPORT / "nodes" / "docker_scenes.py"
CLUSTER_ID = "9QAAAAAAAAAAAAAAAAAAAA"
HOUR_NS = 3_600_000_000_000


@pytest.fixture
def label(request):
    """A label that no other test has; nothing that carries it is left when the test ends."""
    request.getfixturevalue("docker_engine")  # the name is the module's, too
    label = f"test-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}"
    yield label
    docker_engine.heal(label)


def held_by(label: str) -> list[str]:
    """The containers and networks that the engine has of a label."""
    with docker_engine.engine() as client:
        ours = {"label": f"splitbrain={label}"}
        return [
            each["Id"] for each in (*client.api.containers(all=True, filters=ours), *client.api.networks(filters=ours))
        ]


async def refusal(deed) -> str:
    with pytest.raises((EnvironmentFailure, PeerFailure, BadInput)) as refused:
        await deed
    return str(refused.value)


def test_each_container_has_its_own_address_and_name_and_all_are_gone_afterwards(label, tmp_path):
    async def scene():
        async with DockerHosts.up(tmp_path, 3, label) as hosts:
            script = "hostname; hostname -I; pwd"
            words = [(await hosts.host(node).run(["sh", "-c", script])).split() for node in hosts.views]
            assert words == [[view.hostname, view.address, str(view.directory)] for view in hosts.views.values()]
            assert len(held_by(label)) == 4
        assert held_by(label) == []

    asyncio.run(scene())


def test_files_are_the_same_on_both_sides_and_a_command_ends_in_one_line(label, tmp_path):
    async def scene():
        async with DockerHosts.up(tmp_path / "nodes", 1, label) as hosts:
            host = hosts.host(1)
            await host.write(host.view.directory / "deep" / "words", "written here\n")
            assert await host.run(["cat", "deep/words"]) == "written here\n"
            await host.run(["sh", "-c", "echo written there >back"])
            await host.get(host.view.directory / "back", tmp_path / "back")
            assert (tmp_path / "back").read_text() == "written there\n"
            assert await refusal(host.run(["ls", "nowhere"])) == (
                "running ls nowhere: exit 2: ls: cannot access 'nowhere': No such file or directory"
            )
            assert await refusal(host.run(["sleep", "60"], 0.3)) == "running sleep 60: not done after 0.3 s"
            assert "sleep" not in await host.run(["ps", "-A", "-o", "comm"])
            assert "Read-only" in await refusal(host.run(["touch", str(Path(__file__).parent / "x")]))

    asyncio.run(scene())


def test_cuts_are_one_way_and_the_controller_reaches_who_is_cut_off(label, tmp_path):
    async def scene():
        async with DockerHosts.up(tmp_path, 3, label) as hosts:
            links = NamespaceLinks(hosts)
            every = list(permutations(hosts.views, 2))
            assert all((await links.passes(every)).values())
            await links.cut([(1, 2), (3, 2)])
            assert [link for link, passes in (await links.passes(every)).items() if not passes] == [(1, 2), (3, 2)]
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(hosts.views[2].address, CLOSED_PORT)
            await links.heal()
            assert all((await links.passes(every)).values())
            links.close()

    asyncio.run(scene())


def test_the_state_of_a_server_is_what_the_kernel_says_and_each_end_is_told(label, tmp_path):
    events: list[tuple[int, str, str]] = []

    async def scene():
        async with DockerHosts.up(tmp_path, 2, label) as hosts:
            servers = DockerProcesses(hosts, ShellSystem((SERVES, FAILS)), lambda *event: events.append(event))
            states = [servers.state(1)]
            for deed in (servers.start, servers.pause, servers.resume, servers.stop, servers.start, servers.kill):
                if deed == servers.stop:
                    await until(lambda: "ready" in said(hosts, 1), "n1 serves")
                await deed(1)
                states.append(servers.state(1))
            await servers.start(2)
            await until(lambda: (2, "stopped", "exit 3") in events, "n2's end is told")
            return states

    assert asyncio.run(scene()) == ["gone", "running", "paused", "running", "gone", "running", "gone"]
    ends = [event for event in events if event[0] == 1]
    assert ends == [(1, "started", ""), (1, "stopped", "SIGTERM"), (1, "started", ""), (1, "stopped", "SIGKILL")]


def test_a_stubborn_server_is_reported_a_crash_is_told_and_a_paused_one_can_be_killed(label, tmp_path):
    events: list[tuple[int, str, str]] = []

    async def scene():
        async with DockerHosts.up(tmp_path, 2, label) as hosts:
            servers = DockerProcesses(hosts, ShellSystem((STUBBORN, SERVES)), lambda *event: events.append(event))
            await servers.start(1)
            await until(lambda: "ready" in said(hosts, 1), "n1 serves")
            assert await refusal(servers.stop(1)) == "ending n1 by SIGTERM: still there after 0.3 s"
            await servers.pause(1)
            await servers.kill_all()
            await servers.start(2)
            await until(lambda: "ready" in said(hosts, 2), "n2 serves")
            os.kill(servers.pid(2), 11)
            await until(lambda: len(events) == 4, "the crash is told")
            assert await refusal(asyncio.to_thread(servers.pid, 2)) == "finding n2's process: it is gone"

    asyncio.run(scene())
    assert events[1] == (1, "stopped", "SIGKILL")
    assert events[3] == (2, "stopped", "SIGSEGV")


def test_a_server_lives_in_its_container(label, tmp_path):
    async def scene():
        async with DockerHosts.up(tmp_path, 1, label) as hosts:
            servers = DockerProcesses(hosts, ShellSystem((SERVES,)), lambda *_: None)
            await servers.start(1)
            server, first = f"/proc/{servers.pid(1)}", hosts.network_namespace(1).parents[1]
            for kind in ("net", "pid", "mnt", "uts"):
                assert os.readlink(f"{server}/ns/{kind}") == os.readlink(first / "ns" / kind)
                assert os.readlink(f"{server}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
            assert Path(server, "cgroup").read_text() == (first / "cgroup").read_text()
            assert resident_bytes(servers.pid(1)) > 0

    asyncio.run(scene())


def test_a_reference_quorum_elects_keeps_time_as_it_is_told_and_is_led_through_the_proxy(label, tmp_path):
    async def scene():
        async with DockerHosts.up(tmp_path, 3, label) as hosts:
            system = ReferenceSystem({}, CLUSTER_ID, seed=7)
            for node, view in hosts.views.items():
                await system.prepare(hosts.host(view.node), hosts.views)
                assert not system.files(view).log.exists(), node
            servers = DockerProcesses(hosts, system, lambda *_: None)
            async with NamespaceRpcs.up(hosts) as rpcs:
                for node in hosts.views:
                    await servers.start(node)
                await leader_of(hosts)
                assert set((await rpcs.ways(permutations(hosts.views, 2))).values()) == {"through"}
                clocks = ProcessClocks(servers.pid)
                await clocks.skew(2, ["realtime"], HOUR_NS)
                assert (await clocks.read(2))["realtime"].offset_ns == pytest.approx(HOUR_NS, abs=10**9)
                await clocks.reset(2)
            await servers.kill_all()

    asyncio.run(scene())


async def leader_of(hosts: DockerHosts) -> None:
    """Wait until some node answers as the quorum's leader."""
    connections = [WireConnection(view.address, CONTROLLER_PORT, "test") for view in hosts.views.values()]
    try:
        async with asyncio.timeout(20):
            while not any([await _leads(connection) for connection in connections]):
                await asyncio.sleep(0.05)
    finally:
        for connection in connections:
            await connection.close()


async def _leads(connection: WireConnection) -> bool:
    try:
        return (await describe_quorum(connection, 1000)).error is None
    except PeerFailure:
        return False


def test_nothing_runs_on_after_the_controller_was_killed_and_healing_twice_removes_the_rest(label, tmp_path):
    argv = [sys.executable, str(SCENES), str(tmp_path), label]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}) as controller:
        servers = json.loads(controller.stdout.readline())["servers"]
        assert all(Path(f"/proc/{server}").exists() for server in servers)
        controller.kill()
    wait_until(lambda: not any(Path(f"/proc/{server}").exists() for server in servers), "the servers are gone")
    docker_engine.heal(label)
    assert held_by(label) == []
    docker_engine.heal(label)


def test_two_runs_side_by_side_have_networks_of_their_own(label, tmp_path):
    async def scene():
        async with (
            DockerHosts.up(tmp_path / "one", 1, label) as one,
            DockerHosts.up(tmp_path / "other", 1, f"{label}-other") as other,
        ):
            assert one.views[1].address != other.views[1].address
        assert held_by(f"{label}-other") == []

    asyncio.run(scene())


def test_what_fails_on_the_way_up_leaves_nothing(label, tmp_path):
    async def scene():
        async with DockerHosts.up(tmp_path, 2, label, image="splitbrain-no-such:image"):
            raise AssertionError("there is no such image")

    assert "splitbrain-no-such" in asyncio.run(refusal(scene()))
    assert held_by(label) == []


@pytest.mark.parametrize("wrong", ["", "../up", "a b", "a;b", "$(id)", "a\nb", "-a"])
def test_a_label_that_is_no_plain_name_is_refused(wrong, tmp_path):
    async def scene():
        async with DockerHosts.up(tmp_path, 1, wrong):
            raise AssertionError("the label was taken")

    assert asyncio.run(refusal(scene())).startswith("a run's label: expected letters, digits")
    with pytest.raises(BadInput, match="a run's label"):
        docker_engine.heal(wrong)


def test_where_no_engine_answers_one_line_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(EnvironmentFailure, match=r"none answers at unix://.*/no.sock; as root: apt-get install"):
        docker_engine.heal("some-run")
