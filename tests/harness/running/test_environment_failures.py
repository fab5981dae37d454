"""Failures of the environment: a missing tool, a full disk, a damaged file, an interrupt. Each is one line."""

from __future__ import annotations

import signal
import subprocess
from datetime import UTC, datetime

import pytest

from harness.engine.clock import RunClock
from harness.engine.recorder import Recorder
from harness.engine.records import read_history
from harness.model import Observation, Op
from harness.model.errors import EXIT_INTERNAL, EXIT_USAGE, EXIT_VALID
from harness.planning.plan import Plan
from nemesis.journal import pending
from nodes.hosts.sandbox import Privilege, enclose
from results.store import new_run, runs
from tests.support.command import COMMAND, environment, processes_naming, splitbrain, start_splitbrain, wait_until

RUN = ["run", "--workload", "register", "--faults", "partition,kill", "--interval", "2", "--time-limit", "60"]
INTERRUPTED = 130


@pytest.mark.netns
@pytest.mark.parametrize("missing", ["nft", "nsenter"])
@pytest.mark.parametrize("arguments", [RUN, ["reproduce", "PV-01"]], ids=["run", "reproduce"])
def test_missing_tool_is_reported_with_its_package_before_anything_starts(store, missing, arguments):
    """The tool is hidden by a file that is not executable, in a separate mount namespace."""
    hide = f'mount --bind /dev/null "$(command -v {missing})" && exec "$@"'
    argv = ["sh", "-c", hide, "hide", COMMAND, *arguments, "--store", str(store)]
    enclosed = enclose(argv, Privilege.detect())
    result = subprocess.run(enclosed, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert result.returncode == EXIT_INTERNAL
    assert result.stderr == (
        f"splitbrain: creating namespaces: {missing} not on the path; "
        "as root: apt-get install -y util-linux iproute2 nftables (or use --hosts local)\n"
    )
    assert not store.exists()


@pytest.mark.parametrize(
    "arguments", [RUN, ["reproduce", "PV-01"], ["simulate", "--seeds", "1"]], ids=["run", "reproduce", "simulate"]
)
def test_store_that_cannot_be_created_is_reported_in_one_line(arguments):
    result = splitbrain(*arguments, "--store", "/proc/no-such-store")
    assert result.code == EXIT_USAGE
    assert result.messages[-1].startswith("splitbrain: /proc/no-such-store: expected a folder in which runs can be cr")


@pytest.mark.netns
def test_fault_that_the_hosts_do_not_support_is_refused_before_the_story_starts(store):
    result = splitbrain("run", "--hosts", "local", "--faults", "packets", "--seed", "1", "--store", store)
    assert result.code == EXIT_USAGE
    assert result.messages[-1].startswith("splitbrain: story: action packets: ")
    (run,) = runs(store)
    assert (run.status, list(read_history(run.history))) == ("interrupted", [])


WAITS = """
nodes = 3
story = [
    { f = "await", value = { condition = { name = "all_follow_leader" }, within_seconds = 60 } },
    { f = "await", value = { condition = { name = "is_candidate", node = 1 }, within_seconds = 600 } },
]
"""


def filled(tmp_path, chunk, *arguments):
    """A run whose store is a file system that is filled once this chunk exists; its result, and a copy of the run."""
    full, kept = tmp_path / "full", tmp_path / "kept"
    full.mkdir()
    script = (
        'full=$1 command=$2 kept=$3 chunk=$4; shift 4; mount -t tmpfs -o size=160m none "$full" && '
        '{ "$command" run "$@" --store "$full/runs" & pid=$!; '
        'until ls "$full"/runs/*/$chunk; do kill -0 $pid || break; sleep 0.1; done >/dev/null 2>&1; '
        'dd if=/dev/zero of="$full/filler" bs=64k 2>/dev/null; wait $pid; code=$?; cp -r "$full/runs" "$kept"; '
        "exit $code; }"
    )
    argv = ["sh", "-c", script, "fill", str(full), COMMAND, str(kept), chunk, *arguments]
    enclosed = enclose(argv, Privilege.detect())
    result = subprocess.run(enclosed, capture_output=True, text=True, timeout=180, env=environment(), check=False)
    (run,) = runs(kept)
    return result, run


def assert_no_space(result):
    """One line says that the disk is full."""
    *_, last = result.stderr.splitlines()
    assert result.returncode == EXIT_INTERNAL, result.stderr
    assert last.startswith("splitbrain: ")
    assert "No space left on device" in last
    assert "Traceback" not in result.stderr


@pytest.mark.netns
def test_full_disk_ends_the_run_in_one_line_and_the_recorded_history_is_readable(tmp_path):
    flags = ("--workload", "register", "--faults", "none", "--rate", "1000", "--time-limit", "60")
    result, run = filled(tmp_path, "history/00000005.parquet", *flags)
    assert_no_space(result)
    ops = list(read_history(run.history))
    assert [op.index for op in ops] == list(range(len(ops)))
    assert len(ops) > 100


@pytest.mark.netns
def test_full_disk_is_noticed_while_a_story_waits(tmp_path):
    (tmp_path / "waits.toml").write_text(WAITS)
    result, run = filled(tmp_path, "history/*.parquet", "--plan", str(tmp_path / "waits.toml"))
    assert_no_space(result)
    assert [op.f for op in read_history(run.history)][-1] == "await"


@pytest.mark.netns
def test_store_without_room_is_refused_before_anything_is_created(tmp_path):
    script = (
        'mount -t tmpfs -o size=400k none "$1" && '
        '{ "$2" run --faults none --store "$1/runs"; code=$?; ls "$1" >&2; exit $code; }'
    )
    argv = enclose(["sh", "-c", script, "fill", str(tmp_path), COMMAND], Privilege.detect())
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert result.returncode == EXIT_INTERNAL, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"splitbrain: {tmp_path}/runs: expected at least 128 MiB of free space, found 0 MiB")


@pytest.mark.spark
def test_truncated_chunk_is_bad_input_that_names_the_file(store):
    run = new_run(store, "damaged", datetime.now(UTC))
    plan = Plan(name="damaged", seed=1, workload="register", story=[])
    run.plan.write_text(plan.model_dump_json())
    run.enter("running", datetime.now(UTC))
    with Recorder(run.path, RunClock.started_now()) as recorder:
        recorder.record(Op("invoke", "read", 0, "r1"))
        recorder.record(Op("ok", "read", 0, "r1"))
        recorder.observe(Observation(1, 1, "process", "started"))
    run.enter("recorded", datetime.now(UTC))
    (chunk,) = run.history.glob("*.parquet")
    chunk.write_bytes(chunk.read_bytes()[:-100])
    result = splitbrain("check", run.path)
    assert result.code == EXIT_USAGE, result
    assert result.messages[-1].startswith("splitbrain: ")
    assert str(chunk) in result.messages[-1]
    assert not [line for line in result.messages if "Traceback" in line]


@pytest.mark.netns
@pytest.mark.parametrize(
    ("moment", "number"),
    [("before the story", signal.SIGINT), ("under faults", signal.SIGINT), ("under faults", signal.SIGTERM)],
    ids=["Ctrl-C before the story", "Ctrl-C under faults", "SIGTERM to a background job under faults"],
)
def test_interrupt_heals_faults_and_ends_the_run(store, moment, number):
    command = start_splitbrain(*RUN, "--store", store, ignores_interrupts=number is signal.SIGTERM)
    wait_until(lambda: bool(list(store.glob("*/sandbox.json"))), "the run has a sandbox", command=command)
    (run,) = runs(store)
    if moment == "under faults":
        wait_until(lambda: bool(pending(run.journal)), "a fault is active")
    command.send_signal(number)
    _, messages = command.communicate(timeout=60)
    assert command.returncode == INTERRUPTED
    assert messages.splitlines()[-1] == "splitbrain: interrupted; what was recorded is kept"
    assert "Traceback" not in messages
    assert run.status == "interrupted"
    assert pending(run.journal) == []
    assert processes_naming(store) == []
    ops = list(read_history(run.history))
    assert {op.process for op in ops if op.type == "invoke"} <= {op.process for op in ops if op.type != "invoke"}
    assert splitbrain("heal", "--store", store).out == "nothing to heal\n"


def test_heal_and_runs_accept_that_there_is_no_store_yet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    healed, listed = splitbrain("heal"), splitbrain("runs")
    assert (healed.code, healed.out) == (EXIT_VALID, "nothing to heal\n")
    assert (listed.code, listed.messages) == (EXIT_VALID, [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["heal", "runs"])
@pytest.mark.parametrize(("store", "found"), [("/no/store", "no such folder"), ("/dev/null", "not a directory")])
def test_store_that_the_user_names_has_to_exist(command, store, found):
    result = splitbrain(command, "--store", store)
    assert result.code == EXIT_USAGE
    assert result.messages == [f"splitbrain: {store}: expected a folder of stored runs, found {found}"]
    assert result.out == ""
