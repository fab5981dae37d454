"""Spark in the background: a session that is waited for, and a process that ends without waiting."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.judging import spark
from harness.judging.spark import start_spark
from tests.support.command import environment, processes_naming, wait_until

pytestmark = pytest.mark.spark

START = """
import sys, time
from harness.judging.spark import start_spark
starting = start_spark(meanwhile=())
time.sleep(float(sys.argv[1]))
sys.exit(254)
"""
EXIT_SECONDS_MAX = 30.0
"""No exit waits longer, however busy the machine is."""


@pytest.mark.parametrize("after_seconds", [0, 0.4, 0.8, 1.6])
def test_a_process_that_exits_meanwhile_leaves_nothing(tmp_path: Path, after_seconds: float) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    argv = [sys.executable, "-c", START, str(after_seconds)]
    began = time.monotonic()
    extra = environment(TMPDIR=str(temporary), JAVA_TOOL_OPTIONS=f"-Djava.io.tmpdir={temporary}")
    result = subprocess.run(argv, cwd=tmp_path, env=extra, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (254, "")
    assert time.monotonic() - began < after_seconds + EXIT_SECONDS_MAX
    wait_until(lambda: not processes_naming(tmp_path), "Java has ended", timeout_seconds=5)
    assert list(temporary.glob("[!h]*")) == []  # Java keeps an empty hsperfdata


UP = """
from harness.judging.spark import start_spark
start_spark(meanwhile=()).result()
"""


def test_java_that_is_up_removes_its_directory_when_it_ends(tmp_path: Path) -> None:
    temporary = tmp_path / "with a space"
    temporary.mkdir()
    subprocess.run([sys.executable, "-c", UP], env=environment(TMPDIR=str(temporary)), check=True)
    wait_until(lambda: list(temporary.iterdir()) == [], "Java has ended", timeout_seconds=10)


def test_a_running_session_is_the_result(spark: SparkSession) -> None:
    assert start_spark().result(60).sparkContext.applicationId == spark.sparkContext.applicationId


FAILS = """
from harness.judging.spark import start_spark
from harness.model import EnvironmentFailure
try:
    start_spark(meanwhile=()).result()
except EnvironmentFailure as failure:
    print(failure)
"""


def test_java_that_does_not_start_is_reported_where_the_session_is_needed(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho no java here >&2\nexit 3\n")
    java.chmod(0o755)
    extra = environment(JAVA_HOME=str(tmp_path))
    result = subprocess.run([sys.executable, "-c", FAILS], env=extra, capture_output=True, text=True, check=False)
    assert result.stdout.startswith("Spark needs Java 17 or newer, and it did not start: "), result.stderr
    assert result.stdout.count("\n") == 1


def test_spark_starts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    masters: list[str | None] = []
    session: Future[str] = Future()
    session.set_result("session")
    monkeypatch.setattr(spark, "start_spark", lambda master: masters.append(master) or session)
    later = spark.SparkLater("local[2]")
    assert masters == []
    later.start()
    assert later.session() == "session"
    assert masters == ["local[2]"]
