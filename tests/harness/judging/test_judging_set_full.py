"""External histories of models weaker than linearizability, from file to verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import splitbrain_here

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def lines(*rows: tuple[int, str, str, object]) -> str:
    """JSON lines, one operation per line."""
    names = ("process", "type", "f", "value")
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


def ok(process: int, f: str, argument: object, returned: object) -> list[tuple[int, str, str, object]]:
    return [(process, "invoke", f, argument), (process, "ok", f, returned)]


CASES = {
    "set-full": (
        [*ok(0, "add", 1, 1), *ok(1, "read", None, [1, 1]), *ok(1, "read", None, []), *ok(0, "add", 2, 2)],
        [("lost-element", "invalid"), ("duplicate-element", "invalid"), ("never-read", "unknown")],
    ),
    "counter": ([*ok(0, "add", 2, 2), *ok(1, "read", None, 3)], [("counter-out-of-bounds", "invalid")]),
    "unique-ids": ([*ok(0, "generate", None, "a"), *ok(1, "generate", None, "a")], [("duplicate-id", "invalid")]),
}


@pytest.mark.parametrize("model", CASES)
def test_the_command_reports_every_finding_of_a_history(model: str, tmp_path: Path) -> None:
    rows, expected = CASES[model]
    (tmp_path / "history.jsonl").write_text(lines(*rows))
    result = splitbrain_here(
        "check", tmp_path / "history.jsonl", "--model", model, "--report", tmp_path / "out", "--json"
    )
    [line] = [json.loads(each) for each in result.out.splitlines()]
    assert (result.code, line["verdict"], line["ops"]) == (1, "invalid", len(rows) // 2)
    assert sorted((each["name"], each["severity"]) for each in line["findings"]) == sorted(expected)


def test_a_counter_read_that_is_not_an_integer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text(lines(*ok(0, "add", 2, 2), *ok(1, "read", None, "three")))
    result = splitbrain_here("check", tmp_path / "history.jsonl", "--model", "counter")
    assert result.code == 254
    assert result.messages[-1].endswith(
        'expected a counter\'s value to be a whole number up to 1,000,000,000,000, found "three"'
    )
