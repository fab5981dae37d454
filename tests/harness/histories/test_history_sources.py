"""Where histories come from, and which format a text has: by its content, or else by its name."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from harness.histories import sources
from harness.histories.importing import import_histories, listed
from harness.histories.texts import format_of
from tests.support.command import environment

FS = ("read", "write", "cas")
LINE = '{"process": 0, "type": "invoke", "f": "write", "value": 3}'
OTHER = '{"process": 1, "type": "invoke", "f": "read"}'
EDN = "{:process 0, :type :invoke, :f :write, :value 3}\n{:process 1, :type :invoke, :f :read}\n"
LOG = "INFO  jepsen.util - 0\t:invoke\t:write\t3\nINFO  jepsen.util - 1\t:invoke\t:read\tnil\n"
LINES = f"{LINE}\n{OTHER}\n"
ARRAY = f"[\n  {LINE},\n  {OTHER}\n]\n"


def read(path: Path) -> tuple[str | None, list[tuple[int, str, str]]]:
    """Why a path is refused, and the process, f and value of its rows."""
    with import_histories(listed([path]), FS, False) as imported:
        (history,) = imported.histories
        rows = parquet.read_table(imported.common).to_pylist() if imported.common else []
    return history.refusal, [(row["process"], row["f"], row["value"]) for row in rows]


ROWS = [(0, "write", "3"), (1, "read", None)]
READ = {
    "a JSON array": ("h.json", ARRAY.encode()),
    "a JSON array on one line": ("h.json", f"[{LINE},{OTHER}]".encode()),
    "JSON lines called .json": ("h.json", LINES.encode()),
    "JSON lines called .edn": ("h.edn", LINES.encode()),
    "EDN called .jsonl": ("h.jsonl", EDN.encode()),
    "a log called .edn": ("h.edn", LOG.encode()),
    "an unknown suffix": ("h.ops", EDN.encode()),
    "no suffix": ("history", ARRAY.encode()),
    "a byte-order mark": ("h.jsonl", b"\xef\xbb\xbf" + LINES.encode()),
    "a byte-order mark before an array": ("h.json", b"\xef\xbb\xbf" + ARRAY.encode()),
    "gzip": ("h.jsonl.gz", gzip.compress(LINES.encode())),
    "gzip of EDN with a mark": ("h.edn.gz", gzip.compress(b"\xef\xbb\xbf" + EDN.encode())),
    "gzip without its suffix": ("h.edn", gzip.compress(EDN.encode())),
    "plain text with gzip's suffix": ("h.jsonl.gz", LINES.encode()),
    "Windows line ends": ("h.jsonl", LINES.replace("\n", "\r\n").encode()),
}


@pytest.mark.parametrize(("name", "content"), READ.values(), ids=READ)
def test_a_history_is_read_whatever_its_name_and_compression(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert read(path) == (None, ROWS)


REFUSED = {
    "an array with a bad member": ("h.json", f"[\n{LINE},\n{{]".encode(), ":3: expected JSON at column 2, found ]"),
    "an array without commas": (
        "h.json", f"[\n{LINE}\n{OTHER}]".encode(), f":3: expected , or ] after an operation, found {OTHER[:40]}",
    ),
    "an array that does not end": ("h.json", f"[\n{LINE},\n".encode(), ":3: expected JSON at column 1, found the end"),
    "text after an array": ("h.json", f"[{LINE}]\n\nmore".encode(), ":3: expected nothing after the array, found more"),
    "an empty array": ("h.json", b" [ ] ", ": expected operations, found none"),
    "nested JSON lines": ("h.jsonl", b"[" * 100_000, ":1: expected values nested at most 100 deep"),
    "a nested array": ("h.json", b"[" * 100_000, ":1: expected values nested at most 100 deep"),
    "nested EDN": ("h.edn", b"[" * 100_000, ":1: expected forms nested at most 100 deep"),
    "nested tags": ("h.edn", b"#a " * 100_000, ":1: expected forms nested at most 100 deep"),
    "a nested value": (
        "h.jsonl", LINE.replace("3", "[" * 200 + "]" * 200).encode(), ":1: expected values nested at most 100 deep",
    ),
    "NaN as the time": (
        "h.jsonl", (LINES + LINE[:-1] + ', "time": NaN}').encode(), ":3: expected a finite number, found NaN",
    ),
    "Infinity as the time": (
        "h.jsonl", (LINE[:-1] + ', "time": Infinity}').encode(), ":1: expected a finite number, found Infinity",
    ),
    "a negative time": (
        "h.jsonl", (LINE[:-1] + ', "time": -1}').encode(), ":1: expected time to be nanoseconds from 0 on, found -1",
    ),
    "a negative time in EDN": (
        "h.edn", EDN.replace("3}", "3, :time -1}").encode(), ":1: expected time to be nanoseconds from 0 on, found -1",
    ),
    "infinity in EDN": ("h.edn", EDN.replace("3}", "##Inf}").encode(), ":1: expected a finite number, found ##Inf"),
    "a number of many digits": (
        "h.jsonl", LINE.replace("3", "9" * 5000).encode(), ":1: expected numbers of at most 4,300 digits",
    ),
    "half a character": (
        "h.jsonl", LINE.replace("3", r'"\ud800"').encode(), ":1: expected whole characters, found half of one (a sur",
    ),
    "unclosed string after spaces": ("h.edn", b"{:a" + b" " * 5000 + b'"b', ":1: expected a form of EDN"),
    "half a gzip file": (
        "h.jsonl.gz", gzip.compress(LINES.encode() * 9)[:-12], ": expected a whole gzip file, found one that is dam",
    ),
    "Parquet in gzip": (
        "h.parquet.gz", gzip.compress(b"PAR1..."), ": expected text, found Parquet; give the path of an uncompressed",
    ),
    "UTF-16": ("h.jsonl", LINES.encode("utf-16"), ": expected text in UTF-8, found byte 0xff at offset 0"),
    "another kind of file": ("h.csv", b"process,f\n0,read\n", ": expected a history in EDN, JSON lines, a JSON array,"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_a_history_is_refused_with_file_and_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    began = time.monotonic()
    refusal, _ = read(path)
    assert refusal is not None
    assert refusal.startswith(f"{path}{message}")
    assert "\n" not in refusal
    assert time.monotonic() - began < 5


def test_a_device_a_pipe_and_a_socket_are_refused_unopened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    expected = "expected a regular file, a folder, or - for standard input, found"
    assert read(tmp_path / "fifo")[0] == f"{tmp_path / 'fifo'}: {expected} a pipe"
    assert read(Path("/dev/zero"))[0] == f"/dev/zero: {expected} a device"


def test_a_file_in_a_folder_of_unknown_names_gets_a_hint(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("nothing")
    (tmp_path / "h.ops").write_text(LINES)
    refusal, _ = read(tmp_path)
    assert refusal is not None
    assert refusal.endswith(", found none; h.ops looks like JSON lines: expected a name that ends in .jsonl")


def test_compressed_files_of_a_folder_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(LINES.encode()))
    (tmp_path / "b.edn").write_text(EDN)
    assert [history.path.name for history in listed([tmp_path])] == ["a.jsonl.gz", "b.edn"]


def test_a_text_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BYTES_MAX", 100_000)
    (tmp_path / "h.jsonl.gz").write_bytes(gzip.compress(LINES.encode() * 1_000))
    refusal, _ = read(tmp_path / "h.jsonl.gz")
    assert refusal is not None
    assert "GiB of text; larger histories are read as Parquet" in refusal


def test_edn_with_strings_as_keys_is_not_taken_for_json() -> None:
    found = [format_of(".edn", text) for text in ('{"process" 0}', '{"type" :ok}', '[{"f" :read}]')]
    assert [each and each.name for each in found] == ["EDN"] * 3


STANDARD_INPUT = """
from pathlib import Path
from harness.histories.importing import import_histories, listed
with import_histories(listed([Path("-")]), ("read", "write", "cas"), False) as imported:
    print(imported.histories[0].refusal or imported.histories[0].rows)
"""
INPUTS = {
    "EDN": (EDN.encode(), "2"),
    "gzip": (gzip.compress(LINES.encode()), "2"),
    "malformed": (f"{LINE}\n{LINE[:9]}\n".encode(), '-:2: expected JSON at column 2, found "process'),
    "nothing": (b"", "-: expected operations, found none"),
}


@pytest.mark.parametrize(("content", "expected"), INPUTS.values(), ids=INPUTS)
def test_standard_input_is_read(content: bytes, expected: str) -> None:
    argv = [sys.executable, "-c", STANDARD_INPUT]
    result = subprocess.run(argv, input=content, env=environment(), capture_output=True, check=True)
    assert result.stdout.decode().strip() == expected


def test_an_endless_standard_input_that_is_no_history_is_refused_at_once() -> None:
    with open("/dev/zero", "rb") as zeros:
        argv = [sys.executable, "-c", STANDARD_INPUT]
        result = subprocess.run(argv, stdin=zeros, env=environment(), capture_output=True, check=True, timeout=30)
    assert result.stdout.decode().startswith("-: expected a history in EDN, JSON lines, a JSON array, a Jepsen log")


def test_standard_input_is_read_once() -> None:
    assert listed([Path("-"), Path("-")])[1].refusal == "-: expected standard input once, found it again"
