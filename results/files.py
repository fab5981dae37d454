"""Atomic writing of small text and JSON files, and reading of JSON with one-line errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import text_files
from harness.durable_files import replace_file

JSON_BYTES_MAX = 256 << 20
"""More than the findings of any run have."""


def write_text(path: Path, text: str) -> None:
    """Replace the file atomically: a reader sees the old or the new content, also after a crash."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file atomically, as write_text does."""
    replace_file(path, content)


def write_json(path: Path, value: Any) -> None:
    """Replace the file by value as indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The file's value. Raises BadInput if the file is missing or not JSON."""
    return text_files.read_json(path, "a JSON file", JSON_BYTES_MAX)
