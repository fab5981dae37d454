"""The readers of all text formats, and their messages for invalid texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from harness.histories.edn import Keyword, NotEdn, forms, to_edn
from harness.histories.forms import Malformed, refuse_value
from harness.histories.importing import ImportedHistory, import_histories, listed

FS = ("read", "write", "cas")

FORMS = {
    "numbers": ("1 -2 3N 1.5 2e3 4.5M", [1, -2, 3, 1.5, 2000.0, 4.5]),
    "constants": ("nil true false", [None, True, False]),
    "strings": (r'"a b" "q\"uote" "tab\t" "é"', ["a b", 'q"uote', "tab\t", "é"]),
    "keywords and symbols": (":ok :timed-out foo/bar", ["ok", "timed-out", "foo/bar"]),
    "collections": ("{:a [1 (2 3)], :b #{4}}", [{"a": [1, [2, 3]], "b": [4]}]),
    "comments and discards": ("1 ; two\n #_ 3 #_[4 5] 6", [1, 6]),
    "tagged forms": ('#jepsen.history.Op{:f :read} #inst "2024"', [{"f": "read"}, "2024"]),
    "characters": (r"{:c \a}", [{"c": "a"}]),
    "in a vector": ("[{:f :read}\n {:f :write}]\n", [{"f": "read"}, {"f": "write"}]),
    "in a list": ("({:f :read} ; last\n)", [{"f": "read"}]),
    "only a comment": (" ; nothing\n", []),
}


@pytest.mark.parametrize(("text", "expected"), FORMS.values(), ids=FORMS)
def test_edn_is_read(text: str, expected: list[Any]) -> None:
    assert [form for _, form in forms(text)] == expected


NOT_EDN = {
    "unclosed map": ('{:a 1\n{:b "2"}\n', [(1, "} to close {"), (2, {"b": "2"})]),
    "map without a value": ("{:a}\n{:b 2}", [(1, "a map of scalar keys, each with a value"), (2, {"b": 2})]),
    "unclosed vector": ("[{:a 1}\n{:b 2}", [(1, {"a": 1}), (2, {"b": 2}), (2, "a form")]),
    "extra bracket": ("{:a 1}]\n{:b 2}", [(1, {"a": 1}), (1, "a form, found ]"), (2, {"b": 2})]),
    "unclosed string": ('{:a "b}\n{:c 1}', [(1, "a form of EDN"), (2, {"c": 1})]),
    "invalid number": ("12abc", [(1, "a form of EDN, found 12abc")]),
    "nested too deep": ("{:a " + "[" * 200, [(1, "forms nested at most 100 deep")]),
}


@pytest.mark.parametrize(("text", "expected"), NOT_EDN.values(), ids=NOT_EDN)
def test_invalid_edn_is_reported_by_line_and_the_next_line_is_read(text: str, expected: list) -> None:
    assert [(line, str(form) if isinstance(form, NotEdn) else form) for line, form in forms(text)] == expected


def test_written_edn_is_read_back() -> None:
    value = {Keyword("f"): Keyword("read"), Keyword("value"): [None, 1, 2.5, 'a "b"', [True], {Keyword("x"): []}]}
    assert [form for _, form in forms(to_edn(value))] == [value]


def imported(path: Path, skip_malformed: bool = False) -> tuple[ImportedHistory, list[dict[str, Any]]]:
    """The history of one file, and its rows."""
    with import_histories(listed([path]), FS, skip_malformed) as histories:
        (history,) = histories.histories
        tables = histories.common and parquet.read_table(histories.common)
    return history, tables.to_pylist() if tables else []


def rows_in(directory: Path, name: str, text: str | bytes) -> list[dict[str, Any]]:
    """The imported rows of one file."""
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    history, rows = imported(path)
    assert history.refusal is None
    return rows


def refusal_of(path: Path) -> str:
    """Why one file is refused, without its name."""
    history, _ = imported(path)
    assert history.refusal is not None
    assert history.refusal.startswith(str(path))
    assert "\n" not in history.refusal
    return history.refusal.removeprefix(str(path))


SAME_HISTORY = {
    "a log": (
        "h.log",
        "INFO  jepsen.core - Worker 0 starting\nINFO  jepsen.util - 0\t:invoke\t:write\t3\n"
        "INFO  jepsen.util - :nemesis\t:info\t:start\tnil\nINFO  jepsen.util - 0\t:ok\t:write\t3\n"
        "INFO  jepsen.util - 1\t:invoke\t:cas\t[3 4]\nINFO  jepsen.util - 1\t:info\t:cas\t:timed-out\n",
    ),
    "a log in a text file": (
        "h.txt",
        "INFO  jepsen.util - 0\t:invoke\t:write\t3\nINFO  jepsen.util - :nemesis\t:info\t:start\tnil\n"
        "INFO  jepsen.util - 0\t:ok\t:write\t3\n"
        "INFO  jepsen.util - 1\t:invoke\t:cas\t[3 4]\nINFO  jepsen.util - 1\t:info\t:cas\tnil\t:timed-out\n",
    ),
    "edn, one per line": (
        "h.edn",
        "{:process 0, :type :invoke, :f :write, :value 3}\n{:process :nemesis, :type :info, :f :start, :value nil}\n"
        "{:process 0, :type :ok, :f :write, :value 3}\n{:process 1, :type :invoke, :f :cas, :value [3 4]}\n"
        "{:process 1, :type :info, :f :cas, :error :timed-out}\n",
    ),
    "edn in a vector, with other keys": (
        "h.edn",
        "[{:index 7, :process 0, :type :invoke, :f :write, :value 3, :extra #{1}}\n ; a comment\n"
        "{:process :nemesis, :type :info, :f :start} {:process 0, :type :ok, :f :write, :value 3}"
        "{:process 1, :type :invoke, :f :cas, :value [3 4]} {:process 1, :type :info, :f :cas, :error :timed-out}]",
    ),
    "json lines": (
        "h.jsonl",
        '{"process": 0, "type": "invoke", "f": "write", "value": 3}\n\n'
        '{"process": "nemesis", "type": "info", "f": "start"}\n'
        '{"process": 0, "type": "ok", "f": "write", "value": 3}\n'
        '{"process": 1, "type": "invoke", "f": "cas", "value": [3, 4]}\n'
        '{"process": 1, "type": "info", "f": "cas", "error": "timed-out"}\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), SAME_HISTORY.values(), ids=SAME_HISTORY)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str, text: str) -> None:
    names = ("index", "process", "type", "f", "value", "error", "key")
    assert [tuple(row[each] for each in names) for row in rows_in(tmp_path, name, text)] == [
        (0, 0, "invoke", "write", "3", None, None),
        (1, -1, "info", "start", None, None, None),
        (2, 0, "ok", "write", "3", None, None),
        (3, 1, "invoke", "cas", "[3, 4]", None, None),
        (4, 1, "info", "cas", None, "timed-out", None),
    ]


KEYED = {
    "separate key": '{:process 0, :type :invoke, :f :write, :key "a", :value 3}',
    "jepsen's independent pair": '{:process 0, :type :invoke, :f :write, :value ["a" 3]}',
}


@pytest.mark.parametrize("line", KEYED.values(), ids=KEYED)
def test_keys_are_separated_from_values(tmp_path: Path, line: str) -> None:
    (row,) = rows_in(tmp_path, "h.edn", line)
    assert (row["key"], row["value"]) == ("a", "3")


def test_the_pair_of_a_compare_and_set_is_not_a_key(tmp_path: Path) -> None:
    (row,) = rows_in(tmp_path, "h.edn", "{:process 0, :type :invoke, :f :cas, :value [1 2]}")
    assert (row["key"], row["value"]) == (None, "[1, 2]")


OK = '{"process": 0, "type": "invoke", "f": "write", "value": 1}\n'
MALFORMED = {
    "not an object": (OK + "[1, 2]\n", '2: expected a map with process, type, f and value, found [1, 2]'),
    "torn line": (OK + '{"process": 0, "ty\n', '2: expected JSON at column 16, found "ty'),
    "no process": ('{"type": "ok", "f": "read"}\n' + OK, "1: expected process to be a number or nemesis, found no"),
    "process in words": ('{"process": "zero"}\n' + OK, '1: expected process to be a number or nemesis, found "ze'),
    "unknown type": (OK + '{"process": 1, "type": "done", "f": "read"}', "2: expected type to be one of invoke, ok"),
    "unknown f": (OK + '{"process": 1, "type": "ok", "f": "add"}', '2: expected f to be one of read, write, cas'),
    "completion without invocation": (
        OK + '{"process": 1, "type": "ok", "f": "read"}', "2: expected an open read of process 1 for its ok, fou",
    ),
    "compare-and-set of one value": (
        OK + '{"process": 1, "type": "invoke", "f": "cas", "value": 4}', "2: expected a cas value [old, new], found 4",
    ),
    "two invocations": (OK + OK, "2: expected process 0 to complete its write first"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_row_is_reported_in_one_line_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(text)
    assert refusal_of(path).startswith(f":{message}")


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED)
def test_skipped_malformed_rows_are_counted(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(text)
    history, _ = imported(path, skip_malformed=True)
    assert (history.rows, history.malformed) == (1, 1)
    assert message in history.first_malformed


NO_HISTORY = {
    "absent": (None, "expected a file or folder of histories, found nothing"),
    "empty": (b"", "expected operations, found none"),
    "not text": (b'{"process": "\xff"}', "expected text in UTF-8, found byte 0xff at offset 13"),
}


@pytest.mark.parametrize(("content", "message"), NO_HISTORY.values(), ids=NO_HISTORY)
def test_a_file_without_a_history_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / ("nothing" if content is None else "h.jsonl")
    if content is not None:
        path.write_bytes(content)
    assert refusal_of(path) == f": {message}"


def test_a_folder_without_histories_and_a_file_of_another_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("not a history")
    endings = ".edn, .json, .jsonl, .log, .parquet, .txt"
    assert refusal_of(tmp_path) == f": expected files ending in {endings}, found none"
    assert refusal_of(tmp_path / "notes.md").endswith(f"a name ending in {endings}, found not a history")


@pytest.mark.parametrize("value", [1.5, True, "1", 10**13, [1]])
def test_a_counter_has_whole_numbers_whose_sums_do_not_overflow(value: Any) -> None:
    row = {"type": "invoke", "f": "add", "value": value}
    with pytest.raises(Malformed, match="expected a counter's value to be a whole number up to 1,000,000,000,000"):
        refuse_value(row, ("read", "add", "increment", "decrement"))
