"""The shell scripts of SSH hosts, run by this machine's sh: leases, servers, signals and mirrors."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nodes.hosts.ssh.scripts import HEAL, LEASE, MIRROR, RUN_SERVER, SIGNAL
from tests.support.command import wait_until

NO_TABLE = "splitbrain_test_none"
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}


@contextmanager
def running(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A running script, killed at the end of the block."""
    argv = ["sh", "-c", script, "script", *map(str, arguments)]
    with subprocess.Popen(argv, text=True, **PIPES) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def leased(directory: Path, silence_seconds: int) -> Iterator[subprocess.Popen[str]]:
    with running(LEASE, directory, NO_TABLE, silence_seconds, "") as lease:
        assert lease.stdout.readline() == "held\n"
        yield lease


@contextmanager
def serving(directory: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A running server script, and the pid of its server."""
    with running(RUN_SERVER, directory, "server.log", "sleep", "600") as script:
        server = int(script.stdout.readline().removeprefix("pid "))
        assert script.stdout.readline() == "running\n"
        try:
            yield script, server
        finally:
            with suppress(ProcessLookupError):
                os.kill(server, 9)


def test_a_lease_that_ends_kills_a_paused_server_and_removes_its_files(tmp_path):
    with leased(tmp_path, 60) as lease, serving(tmp_path) as (server_script, server):
        os.kill(server, 19)
        assert server_script.stdout.readline() == "paused\n"
        lease.stdin.close()
        assert lease.stdout.readline() == "undone\n"
        assert server_script.stdout.readline() == "ended 137\n"
    assert [path.name for path in tmp_path.iterdir()] == ["server.log"]


def test_a_silent_controller_is_considered_dead(tmp_path):
    with leased(tmp_path, 1) as lease, serving(tmp_path) as (server_script, _):
        assert lease.stdout.readline() == "undone\n"
        assert server_script.stdout.readline() == "ended 137\n"


def test_a_lease_that_receives_heartbeats_is_kept(tmp_path):
    with leased(tmp_path, 2) as lease:
        started = time.monotonic()
        while time.monotonic() < started + 3:
            lease.stdin.write("heartbeat\n")
            lease.stdin.flush()
            time.sleep(0.2)
        assert (tmp_path / "lease").exists()
        assert lease.poll() is None


def test_a_server_without_a_lease_does_not_start(tmp_path):
    with running(RUN_SERVER, tmp_path, "server.log", "touch", tmp_path / "started") as server_script:
        assert server_script.stdout.read().splitlines()[-1] == "ended 1"
    assert not (tmp_path / "started").exists()


def test_a_process_with_the_reused_pid_of_a_server_is_left_alone(tmp_path):
    with subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "server.pid").write_text(f"{other.pid} 1\n")
        for script, more in ((HEAL, (NO_TABLE, "")), (SIGNAL, ("KILL",))):
            (tmp_path / "server.pid").write_text(f"{other.pid} 1\n")
            subprocess.run(["sh", "-c", script, "script", tmp_path, *more], check=True)
        assert other.poll() is None
        assert not (tmp_path / "lease").exists()
        other.kill()


def test_heal_without_anything_to_undo_changes_nothing(tmp_path):
    (tmp_path / "lease").touch()
    subprocess.run(["sh", "-c", HEAL, "heal", tmp_path / "none", NO_TABLE, ""], check=True, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lease"]


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("KILL", 137), ("SEGV", 139)])
def test_the_exit_code_of_a_server_contains_the_signal(tmp_path, name, code):
    with leased(tmp_path, 60), serving(tmp_path) as (server_script, _):
        subprocess.run(["sh", "-c", SIGNAL, "signal", tmp_path, name], check=True)
        assert server_script.stdout.readline() == f"ended {code}\n"


def test_a_mirror_sends_the_growth_of_a_log_and_other_files_whole(tmp_path):
    (tmp_path / "server.log").write_text("one\n")
    with running(MIRROR, tmp_path, "server.log", "deep/state") as mirror:
        lines = (line.strip() for line in mirror.stdout)
        assert next(lines) == "server.log b25lCg=="
        with (tmp_path / "server.log").open("a") as log:
            log.write("two\n")
        assert next(lines) == "server.log dHdvCg=="
        (tmp_path / "deep").mkdir()
        for content, line in (("three", "deep/state dGhyZWU="), ("four", "deep/state Zm91cg==")):
            (tmp_path / "deep" / "new").write_text(content)
            (tmp_path / "deep" / "new").rename(tmp_path / "deep" / "state")
            assert next(lines) == line


def test_a_mirror_ends_with_its_input(tmp_path):
    with running(MIRROR, tmp_path, "server.log") as mirror:
        (tmp_path / "server.log").write_text("one\n")
        assert mirror.stdout.readline() == "server.log b25lCg==\n"
        assert mirror.poll() is None
        mirror.stdin.close()
        wait_until(lambda: mirror.poll() == 0, "the mirror has ended")
