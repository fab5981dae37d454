"""The recorder: every operation and observation goes to disk, in order, at most about a second after it happened.

Rows are buffered; a thread writes what has gathered to the next numbered Parquet chunk of `history/` and
`observations/`. A chunk appears under its name whole and synced, or not at all, and chunks follow each other in index
order: whatever kills this process, what is on disk is a prefix of the history. When the disk refuses, the recorder
raises one EnvironmentFailure from the next record, observe or close; what was written stays readable.

    with Recorder(directory, clock) as recorder:
        invocation = recorder.record(Op("invoke", "read", process=3))

What may live here: the buffer and the thread. What may not: what the rows mean; how chunks are laid out (records.py).
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
"""A row waits at most this long before it is written; with the writing itself that keeps to the promised second."""
CHUNK_ROWS: Final = 50_000


class Recorder:
    """Numbers, times and stores rows. One thread may record and observe; close it, or use it in a `with`."""

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
        self._failure_told = False
        # A daemon, so that a run which dies without closing its recorder still dies.
        self._writer = threading.Thread(target=self._write_until_closed, name="recorder", daemon=True)
        self._writer.start()

    def record(self, op: Op) -> Op:
        """The operation with its index and time, as it goes to disk. Raises EnvironmentFailure if the disk refused."""
        self._check()
        row = Op(op.type, op.f, op.process, op.key, op.value, op.node, op.error, self._next_index, self._clock.now_ns())
        # Encoded now: the value may change later, and one that is not JSON must fail here, in its maker's hands.
        encoded = history_row(row)
        with self._lock:
            self._history.append(encoded)
        self._next_index += 1
        if self._next_index % CHUNK_ROWS == 0:
            self._wake.set()
        return row

    def observe(self, observation: Observation) -> None:
        """Store an observation; its time is its own. Raises EnvironmentFailure if the disk refused."""
        self._check()
        with self._lock:
            self._observations.append(observation_row(observation))

    def close(self) -> None:
        """Write what is left. Raises EnvironmentFailure if the disk refused and nobody was told yet."""
        self._closing = True
        self._wake.set()
        self._writer.join()
        if not self._failure_told:
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
            self._failure_told = True
            raise self._failure

    def _write_until_closed(self) -> None:
        number = 0
        while not self._failure:
            self._wake.wait(self._flush_interval_s)
            self._wake.clear()
            last = self._closing  # read before the swap: what is recorded after close has begun is nobody's
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
                    f"{path}: cannot record {len(rows)} rows: {error.strerror}; what was recorded before is kept"
                )
            # A row that its schema does not admit is a defect: it goes to whoever records next, never lost in a thread.
            except Exception as error:  # noqa: BLE001
                self._failure = error
