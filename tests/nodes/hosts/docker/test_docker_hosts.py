"""Container hosts on a real engine: addresses, files, commands, cuts, servers, leases and error messages.

`make test-docker` starts an engine for these tests if none is running; otherwise they are skipped without an engine.
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
from nodes.clocks.process_clocks import ProcessClocks
from nodes.hosts.docker import engine as docker_engine
from nodes.hosts.docker.hosts import DockerHosts
from nodes.hosts.docker.processes import DockerProcesses
from nodes.hosts.links import NamespaceLinks
from nodes.hosts.processes import resident_bytes
from nodes.proxy.rpcs import NamespaceRpcs
from nodes.reference.system import ReferenceSystem
from tests.support import SUPPORT
from tests.support.command import wait_until
from tests.support.nodes.host_cases import (
    CLOSED_PORT,
    FAILING,
    READY,
    STUBBORN,
    ShellServers,
    log_of,
    states_through_actions,
    until,
)
from tests.support.nodes.leaders import leader_of

CASES = SUPPORT / "nodes" / "docker_cases.py"
CLUSTER_ID = "9QAAAAAAAAAAAAAAAAAAAA"
HOUR_NS = 3_600_000_000_000


@pytest.fixture
def label(request):
    """A label for one test; everything that carries it is removed after the test."""
    request.getfixturevalue("docker_engine")  # the name is the module's, too
    label = f"test-{os.getpid()}-{abs(hash(request.node.name)) % 10**8}"
    yield label
    docker_engine.heal(label)


def resources(label: str) -> list[str]:
    """The containers and networks with a label."""
    with docker_engine.engine() as client:
        labelled = {"label": f"splitbrain={label}"}
        return [
            resource["Id"]
            for resource in (
                *client.api.containers(all=True, filters=labelled),
                *client.api.networks(filters=labelled),
            )
        ]


async def refusal(action) -> str:
    with pytest.raises((EnvironmentFailure, PeerFailure, BadInput)) as refused:
        await action
    return str(refused.value)


def test_each_container_has_its_own_address_and_name_and_is_removed_afterwards(label, tmp_path):
    async def scenario():
        async with DockerHosts.up(tmp_path, 3, label) as hosts:
            script = "hostname; hostname -I; pwd"
            identities = [(await hosts.host(node).run(["sh", "-c", script])).split() for node in hosts.views]
            assert identities == [[view.hostname, view.address, str(view.directory)] for view in hosts.views.values()]
            assert len(resources(label)) == 4
        assert resources(label) == []

    asyncio.run(scenario())


def test_files_are_the_same_on_both_sides_and_a_failed_command_is_reported_in_one_line(label, tmp_path):
    async def scenario():
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
            assert await refusal(host.run(["sleep", "60"], 0.3)) == "running sleep 60: timed out after 0.3 s"
            assert "sleep" not in await host.run(["ps", "-A", "-o", "comm"])
            assert "Read-only" in await refusal(host.run(["touch", str(Path(__file__).parent / "x")]))

    asyncio.run(scenario())


def test_cuts_have_a_direction_and_the_controller_reaches_partitioned_nodes(label, tmp_path):
    async def scenario():
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

    asyncio.run(scenario())


def test_the_state_of_a_server_is_what_the_kernel_reports_and_each_end_is_reported(label, tmp_path):
    events: list[tuple[int, str, str]] = []

    async def scenario():
        async with DockerHosts.up(tmp_path, 2, label) as hosts:
            servers = DockerProcesses(hosts, ShellServers((READY, FAILING)), lambda *event: events.append(event))
            states = await states_through_actions(hosts, servers)
            await servers.start(2)
            await until(lambda: (2, "exited", "exit 3") in events, "the end of n2 is reported")
            return states

    assert asyncio.run(scenario()) == ["gone", "running", "paused", "running", "gone", "running", "gone"]
    ends = [event for event in events if event[0] == 1]
    assert ends == [(1, "started", ""), (1, "stopped", "SIGTERM"), (1, "started", ""), (1, "stopped", "SIGKILL")]


def test_a_server_that_ignores_sigterm_and_a_crash_are_reported_and_a_paused_server_can_be_killed(label, tmp_path):
    events: list[tuple[int, str, str]] = []

    async def scenario():
        async with DockerHosts.up(tmp_path, 2, label) as hosts:
            servers = DockerProcesses(hosts, ShellServers((STUBBORN, READY)), lambda *event: events.append(event))
            await servers.start(1)
            await until(lambda: "ready" in log_of(hosts, 1), "n1 is ready")
            assert await refusal(servers.stop(1)) == "ending n1 with SIGTERM: still running after 0.3 s"
            await servers.pause(1)
            await servers.kill_all()
            await servers.start(2)
            await until(lambda: "ready" in log_of(hosts, 2), "n2 is ready")
            os.kill(servers.pid(2), 11)
            await until(lambda: len(events) == 4, "the crash is reported")
            assert await refusal(asyncio.to_thread(servers.pid, 2)) == "finding n2's process: it is gone"

    asyncio.run(scenario())
    assert events[1] == (1, "stopped", "SIGKILL")
    assert events[3] == (2, "exited", "SIGSEGV")


def test_a_server_runs_in_its_container(label, tmp_path):
    async def scenario():
        async with DockerHosts.up(tmp_path, 1, label) as hosts:
            servers = DockerProcesses(hosts, ShellServers((READY,)), lambda *_: None)
            await servers.start(1)
            server, first = f"/proc/{servers.pid(1)}", hosts.network_namespace(1).parents[1]
            for kind in ("net", "pid", "mnt", "uts"):
                assert os.readlink(f"{server}/ns/{kind}") == os.readlink(first / "ns" / kind)
                assert os.readlink(f"{server}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
            assert Path(server, "cgroup").read_text() == (first / "cgroup").read_text()
            assert resident_bytes(servers.pid(1)) > 0

    asyncio.run(scenario())


def test_a_reference_quorum_elects_a_leader_with_skewed_clocks_and_through_the_proxy(label, tmp_path):
    async def scenario():
        async with DockerHosts.up(tmp_path, 3, label) as hosts:
            system = ReferenceSystem({}, CLUSTER_ID, seed=7)
            for node, view in hosts.views.items():
                await system.prepare(hosts.host(view.node), hosts.views)
                assert not system.files(view).log.exists(), node
            servers = DockerProcesses(hosts, system, lambda *_: None)
            async with NamespaceRpcs.up(hosts) as rpcs:
                for node in hosts.views:
                    await servers.start(node)
                await leader_of(hosts.views)
                assert set((await rpcs.routes(permutations(hosts.views, 2))).values()) == {"proxied"}
                clocks = ProcessClocks(servers.pid)
                await clocks.skew(2, ["realtime"], HOUR_NS)
                assert (await clocks.read(2))["realtime"].offset_ns == pytest.approx(HOUR_NS, abs=10**9)
                await clocks.reset(2)
            await servers.kill_all()

    asyncio.run(scenario())


def test_no_server_survives_a_killed_controller_and_heal_removes_the_rest_and_can_be_repeated(label, tmp_path):
    argv = [sys.executable, str(CASES), str(tmp_path), label]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}) as controller:
        servers = json.loads(controller.stdout.readline())["servers"]
        assert all(Path(f"/proc/{server}").exists() for server in servers)
        controller.kill()
    wait_until(lambda: not any(Path(f"/proc/{server}").exists() for server in servers), "the servers are gone")
    docker_engine.heal(label)
    assert resources(label) == []
    docker_engine.heal(label)


def test_two_concurrent_runs_have_separate_networks(label, tmp_path):
    async def scenario():
        async with (
            DockerHosts.up(tmp_path / "one", 1, label) as one,
            DockerHosts.up(tmp_path / "other", 1, f"{label}-other") as other,
        ):
            assert one.views[1].address != other.views[1].address
        assert resources(f"{label}-other") == []

    asyncio.run(scenario())


def test_a_failed_start_leaves_nothing_behind(label, tmp_path):
    async def scenario():
        async with DockerHosts.up(tmp_path, 2, label, image="splitbrain-no-such:image"):
            raise AssertionError("there is no such image")

    assert "splitbrain-no-such" in asyncio.run(refusal(scenario()))
    assert resources(label) == []


@pytest.mark.parametrize("wrong", ["", "../up", "a b", "a;b", "$(id)", "a\nb", "-a"])
def test_a_label_that_is_not_a_plain_name_is_rejected(wrong, tmp_path):
    async def scenario():
        async with DockerHosts.up(tmp_path, 1, wrong):
            raise AssertionError("the label was accepted")

    assert asyncio.run(refusal(scenario())).startswith("a run's label: expected letters, digits")
    with pytest.raises(BadInput, match="a run's label"):
        docker_engine.heal(wrong)


def test_an_unreachable_engine_is_reported_in_one_line_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(EnvironmentFailure, match=r"no response at unix://.*/no.sock; as root: apt-get install"):
        docker_engine.heal("some-run")
