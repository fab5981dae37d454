"""Shows the progress of a check in one line on a terminal.

    with shown(spark.sparkContext.statusTracker(), "judging register"):
        findings.collect()

    judging register: 5 of 8 tasks

Contains that line. Nothing depends on it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Protocol, TextIO

EVERY_S = 0.5
CLEAR = "\r\x1b[K"


class Stage(Protocol):
    """Spark's information about a stage."""

    @property
    def numTasks(self) -> int: ...  # noqa: N802 - Spark's name
    @property
    def numCompletedTasks(self) -> int: ...  # noqa: N802 - Spark's name


class Tracker(Protocol):
    """Spark's status tracker."""

    def getActiveStageIds(self) -> Sequence[int]: ...  # noqa: N802 - Spark's name
    def getStageInfo(self, stageId: int) -> Stage | None: ...  # noqa: N802, N803 - Spark's names


@contextmanager
def shown(tracker: Tracker, what: str, stream: TextIO | None = None, every_s: float = EVERY_S) -> Iterator[None]:
    """While the block runs, show how many tasks of Spark's active stages are done, if the stream is a terminal.

    The stream is standard error by default.
    """
    stream = stream or sys.stderr
    if not stream.isatty():
        yield
        return
    is_done = Event()

    def rewrite() -> None:
        while not is_done.wait(every_s):
            stream.write(CLEAR + line(tracker, what))
            stream.flush()

    writer = Thread(target=rewrite, daemon=True)
    writer.start()
    try:
        yield
    finally:
        is_done.set()
        writer.join()
        stream.write(CLEAR)
        stream.flush()


def line(tracker: Tracker, what: str) -> str:
    """The line: what is done, and how many tasks of the active stages are."""
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
    done, tasks = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
    return f"{what}: {done} of {tasks} tasks" if tasks else f"{what} …"
