"""A long check shows its progress on a terminal, and nothing on other streams."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

import pytest
from pyspark.sql import SparkSession

from checkers.framework.progress import CLEAR, line, shown


@dataclass(frozen=True, slots=True)
class StageAtWork:
    numTasks: int  # noqa: N815 - Spark's name
    numCompletedTasks: int  # noqa: N815 - Spark's name


class TrackerOfTwoStages:
    """The third stage ended between the two calls."""

    def getActiveStageIds(self) -> Sequence[int]:  # noqa: N802 - Spark's name
        return [1, 2, 3]

    def getStageInfo(self, stageId: int) -> StageAtWork | None:  # noqa: N802, N803 - Spark's names
        return {1: StageAtWork(8, 5), 2: StageAtWork(4, 0)}.get(stageId)


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.written = Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.written.set()


def test_tasks_of_all_active_stages_are_counted() -> None:
    assert line(TrackerOfTwoStages(), "judging register") == "judging register: 5 of 12 tasks"


def test_one_line_is_rewritten_and_cleared_at_the_end() -> None:
    terminal = Terminal()
    with shown(TrackerOfTwoStages(), "judging register", terminal, every_s=0.001):
        assert terminal.written.wait(30)
    lines = terminal.getvalue()
    assert lines.startswith(f"{CLEAR}judging register: 5 of 12 tasks")
    assert lines.endswith(CLEAR)
    assert "\n" not in lines


def test_nothing_is_written_to_a_file() -> None:
    file = io.StringIO()
    with shown(TrackerOfTwoStages(), "judging register", file, every_s=0.001):
        pass
    assert file.getvalue() == ""


@pytest.mark.spark
def test_sparks_own_tracker_has_the_interface(spark: SparkSession) -> None:
    assert re.fullmatch(r"judging( …|: \d+ of \d+ tasks)", line(spark.sparkContext.statusTracker(), "judging"))
