"""A standalone cluster, a master and two workers on loopback, has the same findings as local Spark."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from checkers.framework.contract import JudgeSettings
from checkers.linearizability import register
from harness.model import Op, Verdict
from harness.model.errors import EXIT_INVALID, EXIT_VALID
from results.run_verdict import read_verdict
from tests.support.checks.run_types import WriteRun
from tests.support.checks.small_histories import history, read, write
from tests.support.command import json_lines, splitbrain

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
WORKERS = 2
STARTING_S_MAX = 60
KEYS = 40
CONFIGURATION = "spark.executor.memory 512m\nspark.executorEnv.NUMBA_DISABLE_JIT 1\n"
"""Compiling the kernels anew, which every executor does, would take most of a minute."""

ON_THE_CLUSTER = """
import json, sys
from checkers.linearizability import register
from checkers.framework.contract import JudgeSettings
from checkers.framework.session import spark_session

def source(batches):
    import checkers.framework.keyed
    for batch in batches:
        yield batch.from_pydict({"path": [checkers.framework.keyed.__file__] * batch.num_rows})

spark = spark_session(master=sys.argv[1], memory="512m")
spark.conf.set("spark.sql.shuffle.partitions", "4")
history = spark.read.parquet(sys.argv[2])
findings = sorted(map(str, register.findings(history, history, JudgeSettings()).collect()))
paths = {row["path"] for row in spark.range(8).repartition(8).mapInArrow(source, "path string").collect()}
executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
print(json.dumps([findings, sorted(paths), len(executors) - 1]))
spark.stop()
"""


@contextmanager
def daemon(log: Path, *command: str) -> Iterator[None]:
    """One of Spark's daemons while the block runs, ended by its pid; its output goes to log."""
    environment = {**os.environ, "SPARK_DAEMON_MEMORY": "128m", "SPARK_NO_DAEMONIZE": "1"}
    environment.pop("PYTHONPATH", None)
    with log.open("w") as words:
        process = subprocess.Popen(
            [str(SPARK_CLASS), *command], cwd=log.parent, env=environment, stdout=words, stderr=words
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(log: Path, pattern: str) -> str:
    """Wait for the pattern in the log and return its group."""
    deadline = time.monotonic() + STARTING_S_MAX
    while time.monotonic() < deadline:
        if found := re.search(pattern, log.read_text()):
            return found.group(1)
        time.sleep(0.05)
    pytest.fail(f"{log.name} did not say {pattern!r} in {STARTING_S_MAX} s:\n{log.read_text()[-2000:]}")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    if shutil.which("java") is None:
        pytest.skip("Spark's daemons need Java")
    listening = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    log = tmp_path / "master.log"
    with daemon(log, "org.apache.spark.deploy.master.Master", *listening):
        address = wait_for(log, r"Starting Spark master at (spark://\S+)")
        small = ("--cores", "1", "--memory", "700M", "--work-dir", str(tmp_path / "work"))
        command = ("org.apache.spark.deploy.worker.Worker", *listening, *small, address)
        logs = [tmp_path / f"worker-{number}.log" for number in range(WORKERS)]
        with daemon(logs[0], *command), daemon(logs[1], *command):
            for each in logs:
                wait_for(each, r"Successfully registered with master (\S+)")
            yield address


def broken_and_whole() -> list[Op]:
    """Keys, every third with a stale read."""
    ops: list[Op] = []
    for which in range(KEYS):
        key, last = f"k{which}", 1 if which % 3 == 0 else 2
        ops += [*write(0, 1, key), *write(0, 2, key), *read(1, last, key)]
    return history(*ops)


@pytest.mark.slow
@pytest.mark.spark
def test_a_cluster_finds_the_same_with_the_sources_sent_to_it(
    master: str, spark: SparkSession, write_run: WriteRun, tmp_path: Path
) -> None:
    run = write_run(broken_and_whole())
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(CONFIGURATION)
    completed = subprocess.run(
        [sys.executable, "-c", ON_THE_CLUSTER, master, str(run / "history")],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path / "conf"), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    findings, paths, executors = json.loads(completed.stdout.splitlines()[-1])
    table = spark.read.parquet(str(run / "history"))
    assert findings == sorted(map(str, register.findings(table, table, JudgeSettings()).collect()))
    assert len(findings) == (KEYS + 2) // 3
    assert executors == WORKERS
    assert all(path.startswith(str(tmp_path / "work")) for path in paths), paths


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_store_is_checked_on_a_cluster_as_on_this_machine(master: str, tmp_path: Path) -> None:
    store, plan = tmp_path / "runs", tmp_path / "plan.toml"
    plan.write_text(
        'hosts = "simulation"\nswitch = { "reference.mutant" = "half-is-a-majority" }\nrate = 20\n'
        '[[story]]\nf = "await"\nvalue = { condition = { name = "all_follow_leader" }, within_seconds = 60 }\n'
        '[[story]]\nf = "cut"\nvalue = { who = "all", direction = "both" }\n[[story]]\nf = "sleep"\nvalue = 4\n'
    )
    for seed in ("3", "4"):
        done = splitbrain("run", "--plan", plan, "--seed", seed, "--store", store)
        assert done.code == EXIT_INVALID, done
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(CONFIGURATION)

    def found(*options: str) -> list[Any]:
        checked = splitbrain(
            "check", store, "--write", "--json", *options, timeout_seconds=200, SPARK_CONF_DIR=str(tmp_path / "conf")
        )
        assert checked.code == EXIT_VALID, checked.messages
        assert len(json_lines(checked)) == 2
        verdicts = [read_verdict(path) for path in sorted(store.glob("*/verdict.json"))]
        return [(each.verdict, sorted(map(str, each.findings)), sorted(map(str, each.quantities))) for each in verdicts]

    here = found()
    assert any(verdict is Verdict.INVALID for verdict, _, _ in here)
    assert found("--master", master) == here
