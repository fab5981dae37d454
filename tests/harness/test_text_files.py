"""A file that a user names is read if it is a regular file of text; anything else is refused at once, in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.model import BadInput
from harness.text_files import read_json, read_text, read_toml

BYTES_MAX = 1 << 20
CONTENTS = {
    # case: content, part of the message
    "invalid TOML": (b"a = = 3", "line 1, column 5: expected a plan: Invalid value"),
    "an end too early": (b"a = [", "expected a plan: Invalid value"),
    "another encoding": ("ü = 3".encode("latin-1"), "expected a plan as UTF-8 text, found byte 0xfc at position 0"),
    "100,000 nested lists": (b"a = " + b"[" * 100_000, "expected a plan, found values that are nested too deeply"),
    "a number of 10,000 digits": (b"a = " + b"9" * 10_000, "expected a plan, found a number of too many digits"),
    "a file of 9 MiB": (b"#" * (9 << 20), "expected a plan of at most 8 MiB, found more"),
}


@pytest.mark.parametrize(("content", "problem"), CONTENTS.values(), ids=CONTENTS)
def test_content_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_bytes(content)
    with pytest.raises(BadInput) as refused:
        read_toml(path, "a plan")
    assert str(refused.value).startswith(f"{path}: ")
    assert problem in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "expected a plan, found an empty file"),
        (b'{"a": }', "line 1, column 7: expected a plan, found text that is not valid JSON"),
        (b"[" * 100_000, "found values that are nested too deeply"),
        (b"9" * 10_000, "found a number of too many digits"),
    ],
    ids=["empty", "invalid", "nested", "digits"],
)
def test_json_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(BadInput) as refused:
        read_json(path, "a plan")
    assert problem in str(refused.value)


def test_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_bytes(b"\xef\xbb\xbfnodes = 3\n")
    assert read_toml(path, "a plan") == {"nodes": 3}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["a device", "a pipe", "a folder", "no such file"])
def test_what_is_not_a_regular_file_is_refused_without_reading(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/zero") if kind == "a device" else tmp_path / "plan"
    if kind == "a pipe":
        os.mkfifo(path)
    if kind == "a folder":
        path.mkdir()
    with pytest.raises(BadInput, match=f"expected a plan, found {kind}"):
        read_text(path, "a plan")


def test_content_up_to_the_limit_is_read_in_full(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a" * BYTES_MAX)
    assert len(read_text(path, "a text", BYTES_MAX)) == BYTES_MAX
