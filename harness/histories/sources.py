"""Finds histories: in files, in folders and on standard input, also compressed with gzip.

    for path in paths:
        for source in sources_at(path): source.path, source.chunks
    text, format_ = text_of(path)

A folder means the files in it whose names end as a history's do, or, if it contains Parquet, one history in chunks; a
run's directory means its history. Only regular files are opened: a device never ends, and a pipe may never begin.

Contains where bytes come from and what bounds them. Does not contain what a text means.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from harness.histories.texts import BY_SUFFIX, START_CHARACTERS, Format, format_of
from harness.model import BadInput
from harness.model.errors import reason_of

STANDARD_INPUT: Final = Path("-")
GZIP: Final = b"\x1f\x8b"
PARQUET: Final = b"PAR1"
BYTES_MAX: Final = 1 << 30
"""The largest text that is read: its operations are in memory at once. Parquet has no limit."""

ENDINGS: Final = ", ".join(sorted({*BY_SUFFIX, ".parquet"}))
KINDS: Final = {
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A history: the path to name it by, and its Parquet chunks; without chunks it is a text."""

    path: Path
    chunks: tuple[Path, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The size of its files; 0 for standard input."""
        files = self.chunks or (() if self.path == STANDARD_INPUT else (self.path,))
        return sum(file.stat().st_size for file in files)


def sources_at(path: Path) -> Iterator[Source]:
    """The histories at a path. Raises BadInput if there is none."""
    if path == STANDARD_INPUT:
        yield Source(path)
        return
    try:
        mode = path.stat().st_mode
    except OSError as error:
        found = "nothing" if isinstance(error, FileNotFoundError) else reason_of(error)
        raise BadInput(f"{path}: expected a file or folder of histories, found {found}") from error
    if stat.S_ISDIR(mode):
        yield from _sources_in(path)
    elif not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "a special file")
        raise BadInput(f"{path}: expected a regular file, a folder, or - for standard input, found {kind}")
    else:
        yield Source(path, (path,) if _is_parquet(path) else ())


def _sources_in(folder: Path) -> Iterator[Source]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise BadInput(f"{folder}: expected a folder of histories: {reason_of(error)}") from error
    chunks = _chunks(folder / "history") or _chunks(folder)
    files = [folder / name for name in names if not name.startswith(".") and (folder / name).is_file()]
    texts = [file for file in files if suffix_of(file) in BY_SUFFIX]
    if chunks:
        yield Source(folder, chunks)
    elif texts:
        yield from map(Source, texts)
    else:
        hints = (hint for file in files if (hint := _hint(file)))
        raise BadInput(f"{folder}: expected files ending in {ENDINGS}, found none{next(hints, '')}")


def _chunks(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("[!.]*.parquet")))


def _hint(file: Path) -> str:
    """What a file with another name looks like; "" for one that does not look like a history."""
    try:
        with _opened(file) as stream:
            start = stream.read(START_CHARACTERS).decode("utf-8-sig", errors="replace")
    except BadInput:
        return ""
    looks = format_of("", start)
    return f"; {file.name} looks like {looks.name}: expected a name that ends in {looks.suffix}" if looks else ""


def suffix_of(path: Path) -> str:
    """The end of a file's name without that of its compression."""
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def text_of(path: Path) -> tuple[str, Format]:
    """A file's text, or that of standard input, and its format. Raises BadInput if it is not a history's."""
    with _opened(path) as stream:
        start = stream.read(START_CHARACTERS)
        format_ = _format_of(path, start)
        rest = stream.read(BYTES_MAX - len(start) + 1)
    if len(start) + len(rest) > BYTES_MAX:
        raise BadInput(f"{path}: expected at most {BYTES_MAX >> 30} GiB of text; larger histories are read as Parquet")
    try:
        return (start + rest).decode("utf-8-sig"), format_
    except UnicodeDecodeError as error:
        found = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise BadInput(f"{path}: expected text in UTF-8, found {found}") from error


def _format_of(path: Path, start: bytes) -> Format:
    """The format of a text that starts like this. Raises BadInput if it cannot be told."""
    if not start:
        raise BadInput(f"{path}: expected operations, found none")
    if start.startswith(PARQUET):
        raise BadInput(f"{path}: expected text, found Parquet; give the path of an uncompressed file")
    text = start.decode("utf-8-sig", errors="replace")
    format_ = format_of(suffix_of(path), text)
    if format_ is None:
        found = text.lstrip().partition("\n")[0][:40].encode("unicode_escape").decode()
        expected = "expected a history in EDN, JSON lines, a JSON array, a Jepsen log or Parquet"
        raise BadInput(f"{path}: {expected}, or a name ending in {ENDINGS}, found {found or 'nothing'}")
    return format_


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file or of standard input, decompressed. Raises BadInput for what cannot be read."""
    try:
        with open(0 if path == STANDARD_INPUT else path, "rb", closefd=path != STANDARD_INPUT) as file:
            assert isinstance(file, io.BufferedReader)
            is_compressed = file.peek(len(GZIP)).startswith(GZIP)
            yield gzip.GzipFile(fileobj=file) if is_compressed else file  # type: ignore[misc]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: expected a whole gzip file, found one that is damaged or cut short") from error
    except OSError as error:
        raise BadInput(f"{path}: expected a readable file: {reason_of(error)}") from error
    except MemoryError as error:
        raise BadInput(f"{path}: expected a text that fits into memory; larger ones are read as Parquet") from error


def _is_parquet(path: Path) -> bool:
    if path.suffix == ".parquet":
        return True
    with _opened(path) as stream:
        return stream.read(len(PARQUET)) == PARQUET and path.suffix != ".gz"
