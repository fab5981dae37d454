"""What holds for every test: programs are found as the command finds them, for root and for ordinary users."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from harness.model.errors import EnvironmentFailure
from nodes.hosts.sandbox import widen_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

widen_path()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script's background jobs ignore Ctrl-C, and so would the commands that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("untimed", deadline=None)
settings.register_profile("thorough", settings.get_profile("untimed"), max_examples=200)
settings.load_profile("untimed")
"""An example may take as long as a busy machine needs; `make test-all` has twice as many."""

LONGEST_FIRST = ("kafka", "netns")
"""Marks of the tests that start servers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of the tests that compare traces."""
    parser.addoption("--rewrite", action="store_true", help="rewrite the transcripts with what the nodes do now")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that start servers first, so that no worker waits for another's last file.

    Servers share the machine with the other worker and may be starved for seconds. Such a test that fails is run once
    more; pytest's summary names it (RERUN), whatever the second result.
    """
    ranks: dict[Path, int] = {}
    for item in items:
        rank = next((at for at, mark in enumerate(LONGEST_FIRST) if item.get_closest_marker(mark)), len(LONGEST_FIRST))
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
        if rank < len(LONGEST_FIRST):
            item.add_marker(pytest.mark.flaky(reruns=1))
    items.sort(key=lambda item: ranks[item.path])


SSHD_PACKAGES = ("openssh-server", "libwrap0")


@pytest.fixture(scope="session")
def sshd(tmp_path_factory) -> dict[str, str]:
    """Settings that lead to an sshd: the machine's, or Debian's unpacked beside the tests and not installed."""
    if os.geteuid() != 0:
        pytest.skip("a real sshd needs root: it becomes other users")
    installed = shutil.which("sshd")
    if installed:
        return {"SPLITBRAIN_TEST_SSHD": installed}
    home = tmp_path_factory.mktemp("sshd")
    home.chmod(0o755)
    try:
        subprocess.run(["apt-get", "download", "-q", *SSHD_PACKAGES], cwd=home, check=True, capture_output=True)
        for package in home.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, home], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no sshd here and apt-get gives none; as root: apt-get install -y openssh-server")
    libraries = os.pathsep.join({str(path.parent) for path in home.rglob("libwrap.so*")})
    return {"SPLITBRAIN_TEST_SSHD": str(home / "usr/sbin/sshd"), "LD_LIBRARY_PATH": libraries}


@pytest.fixture(scope="session")
def docker_engine() -> None:
    """An engine whose containers' namespaces can be entered."""
    from nodes.hosts.docker.engine import engine  # only here: it loads the engine's whole client

    if os.geteuid() != 0:
        pytest.skip("entering containers' namespaces needs root")
    try:
        with engine():
            pass
    except EnvironmentFailure as failure:
        pytest.skip(f"{failure}; `make test-docker` starts one")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the test process. Code that starts a session of its own gets this one."""
    from checkers.framework.session import spark_session  # only here: most tests do without Spark

    session = spark_session(master="local[2]", memory="1g")
    yield session
    session.stop()
