"""What SSH hosts' shells do, played by this machine's sh: the dead man's switch, and the lives of servers."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nodes.hosts.ssh.scripts import COPIES, HEAL, LEASE, LIFE, SIGNAL
from tests.support.command import wait_until

NO_TABLE = "splitbrain_test_none"
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}


@contextmanager
def begun(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A script that runs, until it ends or the block does."""
    argv = ["sh", "-c", script, "script", *map(str, arguments)]
    with subprocess.Popen(argv, text=True, **PIPES) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def leased(directory: Path, silence_seconds: int) -> Iterator[subprocess.Popen[str]]:
    with begun(LEASE, directory, NO_TABLE, silence_seconds, "") as lease:
        assert lease.stdout.readline() == "held\n"
        yield lease


@contextmanager
def serving(directory: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A life of a server that sleeps, and the server's pid."""
    with begun(LIFE, directory, "server.log", "sleep", "600") as life:
        server = int(life.stdout.readline().removeprefix("pid "))
        assert life.stdout.readline() == "running\n"
        try:
            yield life, server
        finally:
            with suppress(ProcessLookupError):
                os.kill(server, 9)


def test_a_lease_that_ends_kills_a_paused_server_and_removes_its_files(tmp_path):
    with leased(tmp_path, 60) as lease, serving(tmp_path) as (life, server):
        os.kill(server, 19)
        assert life.stdout.readline() == "paused\n"
        lease.stdin.close()
        assert lease.stdout.readline() == "undone\n"
        assert life.stdout.readline() == "ended 137\n"
    assert [path.name for path in tmp_path.iterdir()] == ["server.log"]


def test_a_controller_that_is_silent_is_taken_to_be_gone(tmp_path):
    with leased(tmp_path, 1) as lease, serving(tmp_path) as (life, _):
        assert lease.stdout.readline() == "undone\n"
        assert life.stdout.readline() == "ended 137\n"


def test_a_lease_that_hears_beats_outlives_its_silence(tmp_path):
    with leased(tmp_path, 2) as lease:
        began = time.monotonic()
        while time.monotonic() < began + 3:
            lease.stdin.write("beat\n")
            lease.stdin.flush()
            time.sleep(0.2)
        assert (tmp_path / "lease").exists()
        assert lease.poll() is None


def test_a_server_whose_lease_is_gone_does_not_begin(tmp_path):
    with begun(LIFE, tmp_path, "server.log", "touch", tmp_path / "begun") as life:
        assert life.stdout.read().splitlines()[-1] == "ended 1"
    assert not (tmp_path / "begun").exists()


def test_a_process_that_has_the_pid_of_a_server_that_ended_is_left_alone(tmp_path):
    with subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "server.pid").write_text(f"{other.pid} 1\n")
        for script, more in ((HEAL, (NO_TABLE, "")), (SIGNAL, ("KILL",))):
            (tmp_path / "server.pid").write_text(f"{other.pid} 1\n")
            subprocess.run(["sh", "-c", script, "script", tmp_path, *more], check=True)
        assert other.poll() is None
        assert not (tmp_path / "lease").exists()
        other.kill()


def test_healing_where_nothing_ever_was_touches_nothing(tmp_path):
    (tmp_path / "lease").touch()
    subprocess.run(["sh", "-c", HEAL, "heal", tmp_path / "none", NO_TABLE, ""], check=True, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lease"]


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("KILL", 137), ("SEGV", 139)])
def test_the_end_of_a_server_tells_the_signal(tmp_path, name, code):
    with leased(tmp_path, 60), serving(tmp_path) as (life, _):
        subprocess.run(["sh", "-c", SIGNAL, "signal", tmp_path, name], check=True)
        assert life.stdout.readline() == f"ended {code}\n"


def test_copies_tell_what_a_log_grew_by_and_all_of_any_other_file(tmp_path):
    (tmp_path / "server.log").write_text("one\n")
    with begun(COPIES, tmp_path, "server.log", "deep/state") as copies:
        told = (line.strip() for line in copies.stdout)
        assert next(told) == "server.log b25lCg=="
        with (tmp_path / "server.log").open("a") as log:
            log.write("two\n")
        assert next(told) == "server.log dHdvCg=="
        (tmp_path / "deep").mkdir()
        for content, line in (("three", "deep/state dGhyZWU="), ("four", "deep/state Zm91cg==")):
            (tmp_path / "deep" / "new").write_text(content)
            (tmp_path / "deep" / "new").rename(tmp_path / "deep" / "state")
            assert next(told) == line


def test_copies_end_when_their_input_does(tmp_path):
    with begun(COPIES, tmp_path, "server.log") as copies:
        (tmp_path / "server.log").write_text("one\n")
        assert copies.stdout.readline() == "server.log b25lCg==\n"
        assert copies.poll() is None
        copies.stdin.close()
        wait_until(lambda: copies.poll() == 0, "the copies have ended")
