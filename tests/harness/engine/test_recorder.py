"""The recorder under kills, full disks and damaged files, on real disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.chunks import finished_chunks
from harness.engine.clock import RunClock, VirtualClock
from harness.engine.recorder import FLUSH_INTERVAL_S, Recorder
from harness.engine.records import read_history, read_observations
from harness.model import BadInput, EnvironmentFailure, Observation, Op


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"waiting for {what}: not so after 20 s"
        time.sleep(0.01)


def chunks(directory: Path) -> list[Path]:
    return sorted((directory / "history").glob("[!.]*.parquet"))


def test_recorded_operations_are_read_back_with_index_and_time(tmp_path: Path) -> None:
    clock = VirtualClock(7)
    ops = [
        Op("invoke", "write", 3, "k1", {"offset": 4, "text": "ü"}, node=2),
        Op("info", "write", 3, "k1", [1, None], error="no answer"),
        Op("invoke", "read", 4),
    ]
    with Recorder(tmp_path, clock) as recorder:
        recorded = []
        for op in ops:
            recorded.append(recorder.record(op))
            clock.time_ns += 5
    assert [(op.index, op.time_ns) for op in recorded] == [(0, 7), (1, 12), (2, 17)]
    assert list(read_history(tmp_path / "history")) == recorded


def test_observations_are_read_back(tmp_path: Path) -> None:
    observation = Observation(9, 1, "log", "transition", state="Leader", previous="Candidate", epoch=4, leader=1)
    with Recorder(tmp_path, VirtualClock()) as recorder:
        recorder.observe(observation)
    assert list(read_observations(tmp_path / "observations")) == [observation]


def test_a_later_change_of_a_value_is_not_recorded(tmp_path: Path) -> None:
    value = [1]
    with Recorder(tmp_path, VirtualClock()) as recorder:
        recorder.record(Op("invoke", "write", value=value))
        value.append(2)
    assert [op.value for op in read_history(tmp_path / "history")] == [[1]]


def test_rows_are_written_within_a_second_while_the_recorder_is_open(tmp_path: Path) -> None:
    with Recorder(tmp_path, RunClock.started_now()) as recorder:
        recorder.record(Op("invoke", "read"))
        start = time.monotonic()
        wait_until(lambda: len(chunks(tmp_path)) == 1, "the first chunk")
        assert time.monotonic() - start < 1.5


def test_consecutive_chunks_have_no_gap(tmp_path: Path) -> None:
    with Recorder(tmp_path, VirtualClock(), flush_interval_s=0.01) as recorder:
        for number in range(3):
            for _ in range(1000):
                recorder.record(Op("invoke", "read"))
            wait_until(lambda: len(chunks(tmp_path)) > number, "another chunk")  # noqa: B023
    assert [op.index for op in read_history(tmp_path / "history")] == list(range(3000))
    assert len(chunks(tmp_path)) >= 3


def test_a_value_that_is_not_json_is_refused_by_record(tmp_path: Path) -> None:
    with Recorder(tmp_path, VirtualClock()) as recorder, pytest.raises(TypeError, match="not JSON serializable"):
        recorder.record(Op("invoke", "write", value=object()))


def test_a_row_that_violates_its_schema_is_raised(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, VirtualClock())
    recorder.record(Op("invoke", "read", process=2**40))
    with pytest.raises(ValueError, match="too large"):
        recorder.close()


KILLED = """
import sys, time
from pathlib import Path
from harness.engine.clock import RunClock
from harness.engine.recorder import Recorder
from harness.model import Op
recorder = Recorder(Path(sys.argv[1]), RunClock.started_now())
while True:
    op = recorder.record(Op("invoke", "write", value="x" * 50))
    if op.index % 10 == 0:
        print(op.index, flush=True)
    time.sleep(0.001)
"""


def test_a_killed_recorder_leaves_a_prefix_that_ends_with_the_last_flush(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while len(finished_chunks(tmp_path / "history")) < 3:
            recorded = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
    history = list(read_history(tmp_path / "history"))
    assert [op.index for op in history] == list(range(len(history)))
    assert recorded > 10, "rows were recorded all the time"
    assert len(history) > 10
    assert history[-1].value == "x" * 50
    assert FLUSH_INTERVAL_S <= 1, "rows wait no longer for the next flush"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    directory = tmp_path / "small"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "splitbrain-test", str(directory)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a tmpfs needs root; the test with a file size limit covers this")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


def fill(directory: Path) -> tuple[EnvironmentFailure, int]:
    """Record until the disk refuses; returns the failure and the number of accepted rows."""
    recorder = Recorder(directory, RunClock.started_now(), flush_interval_s=0.01)
    accepted = 0
    try:
        while accepted < 2_000_000:
            before = len(chunks(directory))
            for _ in range(100):
                recorder.record(Op("invoke", "write", value=os.urandom(500).hex()))
                accepted += 1
            wait_until(lambda: len(chunks(directory)) > before or recorder._failure is not None, "a flush")  # noqa: B023
    except EnvironmentFailure as failure:
        recorder.close()
        return failure, accepted
    raise AssertionError("the disk accepted all rows")


def test_a_full_disk_is_reported_once_and_earlier_chunks_stay_readable(small_disk: Path) -> None:
    failure, accepted = fill(small_disk)
    assert "No space left on device" in str(failure)
    assert str(small_disk / "history") in str(failure)
    history = list(read_history(small_disk / "history"))
    assert [op.index for op in history] == list(range(len(history)))
    assert accepted - 200 <= len(history) < accepted
    assert not list((small_disk / "history").glob(".*"))


LIMITED = """
import resource, sys
from pathlib import Path
from harness.engine.clock import VirtualClock
from harness.engine.recorder import Recorder
from harness.model import EnvironmentFailure, Op
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
recorder = Recorder(Path(sys.argv[1]), VirtualClock(), flush_interval_s=0.01)
recorder.record(Op("invoke", "small"))
while not list(Path(sys.argv[1], "history").glob("[!.]*")):
    pass
recorder.record(Op("invoke", "large", value=bytes(range(256)).hex() * 1000 + "".join(map(str, range(20_000)))))
try:
    recorder.close()
except EnvironmentFailure as failure:
    print(failure)
"""


def test_a_refused_write_is_reported_by_close(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert "cannot record 1 rows: File too large; earlier rows are kept" in done.stdout
    assert [op.f for op in read_history(tmp_path / "history")] == ["small"]


def recorded(directory: Path, rows: int) -> Path:
    """The history folder of a recording with one chunk."""
    with Recorder(directory, VirtualClock()) as recorder:
        for _ in range(rows):
            recorder.record(Op("invoke", "read"))
    return directory / "history"


def test_a_truncated_chunk_is_refused_with_its_name(tmp_path: Path) -> None:
    folder = recorded(tmp_path, 100)
    [chunk] = chunks(tmp_path)
    chunk.write_bytes(chunk.read_bytes()[:-20])
    with pytest.raises(BadInput, match=r"00000001\.parquet: expected a whole Parquet file"):
        list(read_history(folder))


def test_a_missing_chunk_is_refused(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "a", 100)
    longer = recorded(tmp_path / "b", 200)
    next(longer.iterdir()).rename(folder / "00000003.parquet")
    with pytest.raises(BadInput, match="expected the operation with index 100, got 0"):
        list(read_history(folder))


def test_an_incomplete_chunk_is_ignored(tmp_path: Path) -> None:
    folder = recorded(tmp_path, 2)
    (folder / ".00000002.parquet").write_bytes(b"PAR1 half")
    assert len(list(read_history(folder))) == 2


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="expected a folder of Parquet chunks, found none"):
        list(read_history(tmp_path / "history"))
