"""The recorder: writes every operation and observation to disk, in order, within about a second.

Rows are buffered; a thread writes the buffers to the next numbered Parquet chunks of `history/` and `observations/`.
Chunks appear atomically, synced, and in index order, so that after any crash the rows on disk are a prefix of the
history. If the disk refuses a write, the next record, observe or close raises one EnvironmentFailure; earlier chunks
stay readable.

    with Recorder(directory, clock) as recorder:
        invocation = recorder.record(Op("invoke", "read", process=3))

Contains the buffers and the thread. Does not contain the format of chunks (records.py) or the meaning of rows.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from harness.engine.clock import Clock
from harness.engine.records import Row, history_row, observation_row, write_chunk
from harness.model import EnvironmentFailure, Observation, Op
from harness.model.records.tables import HISTORY, OBSERVATIONS

FLUSH_INTERVAL_S: Final = 0.5
"""How long a row is buffered at most; together with the write this stays within about a second."""
CHUNK_ROWS: Final = 50_000


class Recorder:
    """Numbers, timestamps and stores rows. Only one thread may use it; close it, or use it as a context manager."""

    def __init__(self, directory: Path, clock: Clock, flush_interval_s: float = FLUSH_INTERVAL_S) -> None:
        self._clock = clock
        self._flush_interval_s = flush_interval_s
        self._folders = {HISTORY: directory / "history", OBSERVATIONS: directory / "observations"}
        for folder in self._folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        self._next_index = 0
        self._lock = threading.Lock()  # guards _history and _observations against the writer's swap
        self._history: list[Row] = []
        self._observations: list[Row] = []
        self._wake = threading.Event()
        self._closing = False
        self._failure: Exception | None = None
        self._failure_raised = False
        # A daemon thread, so that a process that does not close its recorder can still exit.
        self._writer = threading.Thread(target=self._write_until_closed, name="recorder", daemon=True)
        self._writer.start()

    def record(self, op: Op) -> Op:
        """Store an operation; returns it with its index and time. Raises EnvironmentFailure after a failed write."""
        self._check()
        row = Op(op.type, op.f, op.process, op.key, op.value, op.node, op.error, self._next_index, self._clock.now_ns())
        # Encoded now, because the value may change later, and a value that is not JSON must fail in its caller.
        encoded = history_row(row)
        with self._lock:
            self._history.append(encoded)
        self._next_index += 1
        if self._next_index % CHUNK_ROWS == 0:
            self._wake.set()
        return row

    def observe(self, observation: Observation) -> None:
        """Store an observation, which has its own time. Raises EnvironmentFailure after a failed write."""
        self._check()
        with self._lock:
            self._observations.append(observation_row(observation))

    @property
    def has_failed(self) -> bool:
        """Whether the disk has refused a write."""
        return self._failure is not None

    def close(self) -> None:
        """Write the remaining rows. Raises EnvironmentFailure after a failed write, unless it was raised before."""
        self._closing = True
        self._wake.set()
        self._writer.join()
        if not self._failure_raised:
            self._raise_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        assert not self._closing, "the recorder is closed"
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure:
            self._failure_raised = True
            raise self._failure

    def _write_until_closed(self) -> None:
        number = 0
        while not self._failure:
            self._wake.wait(self._flush_interval_s)
            self._wake.clear()
            last = self._closing  # read before the swap: rows recorded during close are not written
            with self._lock:
                history, self._history = self._history, []
                observations, self._observations = self._observations, []
            number += 1
            self._write(number, history, observations)
            if last:
                return

    def _write(self, number: int, history: list[Row], observations: list[Row]) -> None:
        for schema, rows in ((HISTORY, history), (OBSERVATIONS, observations)):
            path = self._folders[schema] / f"{number:08}.parquet"
            try:
                if rows:
                    write_chunk(path, schema, rows)
            except OSError as error:
                self._failure = EnvironmentFailure(
                    f"{path}: cannot record {len(rows)} rows: {error.strerror}; earlier rows are kept"
                )
            # A row that violates its schema is a defect: raised to the next caller, not lost in the thread.
            except Exception as error:  # noqa: BLE001
                self._failure = error
