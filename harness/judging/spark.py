"""Starts the Spark session of a command in the background, while the command does something else.

    starting = start_spark(master)          # returns at once
    …                                       # record a run, read histories
    spark = starting.result()               # waits for the rest of the start; raises EnvironmentFailure

A command that ends before Spark has started does not wait for it: Java is terminated, and no process is left.

Contains when Spark starts. Does not configure it (checkers/framework/session.py).
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from checkers.framework.session import SparkSession

StartingSpark: TypeAlias = "Future[SparkSession]"
"""A session that is starting; its result waits for it."""

JUDGES: Final = ("checkers.run_checks", "harness.judging.runs")
"""What judging a run imports."""

QUERIES: Final = ("checkers.store.samples",)
"""What the query of a comparison imports."""

EXIT_SECONDS_MAX: Final = 5.0
"""The longest that an exit waits for the thread that starts Spark; usually it is a moment."""


def start_spark(
    master: str | None = None, size_bytes: int = 0, meanwhile: Sequence[str] = JUDGES
) -> Future[SparkSession]:
    """Start the session in a daemon thread and return at once; the future has the session, or EnvironmentFailure.

    size_bytes is that of the tables to check. meanwhile are modules that the thread imports while Java starts; modules
    that need PySpark are imported by this thread alone until there is a result, since two threads that import them at
    once get incomplete ones. A session that is already running is the result. If the process exits before, whatever was
    started is ended.
    """
    starting: Future[SparkSession] = Future()
    is_exiting = threading.Event()

    wanted = (module for module in meanwhile if not is_exiting.is_set())

    def start() -> None:
        try:
            from checkers.framework.session import LARGE_BYTES, spark_session

            if not is_exiting.is_set():
                large = size_bytes > LARGE_BYTES
                starting.set_result(spark_session(master, large=large, meanwhile=wanted))
        except BaseException as error:  # noqa: BLE001 - it is raised where the session is needed
            starting.set_exception(error)

    thread = threading.Thread(target=start, name="spark-start", daemon=True)

    def leave() -> None:
        is_exiting.set()
        thread.join(EXIT_SECONDS_MAX)

    thread.start()
    atexit.register(leave)
    return starting


class SparkLater:
    """Starts Spark when it is told to, once; `session` starts it if nothing else has."""

    def __init__(self, master: str | None) -> None:
        self._master = master
        self._starting: Future[SparkSession] | None = None
        self._lock = threading.Lock()

    def start(self) -> Future[SparkSession]:
        """Start Spark, or return the start that is under way."""
        with self._lock:
            if self._starting is None:
                self._starting = start_spark(self._master)
            return self._starting

    def session(self) -> SparkSession:
        """Wait for the session. Raises EnvironmentFailure."""
        return self.start().result()
