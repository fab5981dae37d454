"""How far a judgement is, in one line on the terminal that is rewritten: nothing where nobody looks.

    with shown(spark.sparkContext.statusTracker(), "judging register"):
        findings.collect()

    judging register: 5 of 8 tasks

What may live here: that line. What may not: anything that a judgement depends on.
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
    """What Spark tells of a stage."""

    @property
    def numTasks(self) -> int: ...  # noqa: N802 - Spark's name
    @property
    def numCompletedTasks(self) -> int: ...  # noqa: N802 - Spark's name


class Tracker(Protocol):
    """What Spark tells of itself."""

    def getActiveStageIds(self) -> Sequence[int]: ...  # noqa: N802 - Spark's name
    def getStageInfo(self, stageId: int) -> Stage | None: ...  # noqa: N802, N803 - Spark's names


@contextmanager
def shown(tracker: Tracker, what: str, stream: TextIO | None = None, every_s: float = EVERY_S) -> Iterator[None]:
    """Show how many tasks of Spark's active stages are done while the block runs, if the stream is a terminal.

    The stream is standard error unless another is given.
    """
    stream = stream or sys.stderr
    if not stream.isatty():
        yield
        return
    is_done = Event()

    def tell() -> None:
        while not is_done.wait(every_s):
            stream.write(CLEAR + line(tracker, what))
            stream.flush()

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_done.set()
        teller.join()
        stream.write(CLEAR)
        stream.flush()


def line(tracker: Tracker, what: str) -> str:
    """What, and how many tasks of the active stages are done."""
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
    done, tasks = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
    return f"{what}: {done} of {tasks} tasks" if tasks else f"{what} …"
