"""Why a server ended, from its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.observe.last_error import ERROR_CHARACTERS_MAX, last_error, size_of

FATAL = """\
[2026-11-22 08:38:04,828] INFO [RaftManager id=1] Completed transition to Leader(…) (org.apache.kafka.raft.QuorumState)
[2026-11-22 08:38:09,100] ERROR Encountered fatal fault: Unexpected error in raft IO thread (org.apache.kafka.Handler)
java.lang.IllegalArgumentException: Unexpected acknowledgement from non-voter 2
\tat org.apache.kafka.raft.LeaderState.ensureValidVoter(LeaderState.java:1)
[2026-11-22 08:38:09,200] INFO shut down (kafka.Server)
"""
CAUSED = """\
java.util.concurrent.ExecutionException: outer
\tat x.Y.z(Y.java:1)
Caused by: java.io.IOException: No space left on device
\tat x.Y.z(Y.java:2)
"""
PLAIN = "[2026-11-22 08:38:09,100] ERROR the disk is full (x.Y)\n[2026-11-22 08:38:09,101] INFO bye (x.Y)\n"
PYTHON = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nKeyError: 7\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FATAL, "java.lang.IllegalArgumentException: Unexpected acknowledgement from non-voter 2"),
        (FATAL + CAUSED, "java.io.IOException: No space left on device"),
        (PLAIN, "the disk is full (x.Y)"),
        (PYTHON, "KeyError: 7"),
        ("[2026-11-22 08:38:09,101] INFO no Exception: here (x.Y)\n", None),
        ("[2026-11-22 08:38:09,101] INFO up (x.Y)\nthe log is damaged\n", "the log is damaged"),
        ("the log is damaged\n[2026-11-22 08:38:09,101] INFO up (x.Y)\n", None),
        ("", None),
        ("\udcff\n" + PLAIN, "the disk is full (x.Y)"),
        ("java.lang.Error: " + "x" * 2000, ("java.lang.Error: " + "x" * 2000)[:ERROR_CHARACTERS_MAX]),
    ],
    ids=[
        "exception",
        "last cause",
        "error line",
        "python",
        "no error",
        "own words",
        "words before the log",
        "empty",
        "not a text",
        "long",
    ],
)
def test_last_error_is_the_last_exception_or_error_line(tmp_path: Path, text: str, expected: str | None) -> None:
    log = tmp_path / "server.log"
    log.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert last_error(log) == expected


def test_errors_of_earlier_incarnations_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert (size_of(log), last_error(log)) == (0, None)
    log.write_text(FATAL)
    begin = size_of(log)
    log.write_text(FATAL + PLAIN)
    assert last_error(log, begin) == "the disk is full (x.Y)"
    log.write_text(FATAL)
    assert last_error(log, begin) is None
