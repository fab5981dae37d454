"""Writes a run as one archive for a colleague, without what is private.

    write_bundle(run, Path("run.splitbrain.tar.gz"))

The home directory, the store's path and the user's name in paths are replaced by `~`, `store` and `user`, in texts and
in tables alike. What an archive contains is in harness.sharing.contents.
"""

from __future__ import annotations

import io
import json
import os
import pwd
import tarfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from harness.model import BadInput
from harness.model.errors import reason_of
from harness.sharing.contents import FORMAT, MANIFEST, is_table, is_text
from results.store import RunDirectory

NAME_LENGTH_MIN: Final = 3
"""A shorter user name may be a part of any word; it is replaced in paths only."""


def write_bundle(run: RunDirectory, target: Path) -> int:
    """Write the archive; returns its size in bytes. Raises BadInput if it exists, or the run has nothing to judge."""
    run_path = run.path.absolute()
    if not run.status_file.exists() or run.status in ("created", "running"):
        raise BadInput(f"{run.path}: expected a run that has ended")
    private = private_words(run_path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists():
            raise BadInput(f"{target}: expected a file that does not exist yet")
        with tarfile.open(unfinished, "w:gz") as archive:
            manifest = {"format": FORMAT, "run": run.name, "kind": run.kind, "splitbrain": version("splitbrain")}
            _add(archive, MANIFEST, (json.dumps(manifest) + "\n").encode())
            for name, content in _contents(run_path, private):
                _add(archive, name, content)
        unfinished.replace(target)
    except OSError as error:
        raise BadInput(f"{target}: expected a file that can be written: {reason_of(error)}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return target.stat().st_size


def _contents(run: Path, private: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_symlink() or not path.is_file():
            continue
        if is_text(name):
            text = path.read_text(errors="replace")
            yield name, without(text, private).encode()
        elif is_table(name):
            yield name, table_without(path, private)


def private_words(run: Path) -> dict[str, str]:
    """What is replaced by what, in this order: the store and the home directory, the longer first; then the user."""
    user = pwd.getpwuid(os.getuid())
    home = os.environ.get("HOME", user.pw_dir).rstrip("/")
    words = {str(run.parent): "store", str(run.parent.resolve()): "store"}
    for path in (home, user.pw_dir.rstrip("/")):
        if len(path) > 1:
            words[path] = "~"
    paths = dict(sorted(words.items(), key=lambda item: -len(item[0])))
    names = {f"/{user.pw_name}/": "/user/", f"{user.pw_name}@": "user@"}
    return paths | (names if len(user.pw_name) >= NAME_LENGTH_MIN else {})


def without(text: str, private: Mapping[str, str]) -> str:
    """The text with every private word replaced."""
    for word, replacement in private.items():
        text = text.replace(word, replacement)
    return text


def table_without(path: Path, private: Mapping[str, str]) -> bytes:
    """The chunk with every private word of its texts replaced. Raises BadInput for a damaged one."""
    try:
        table = parquet.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise BadInput(f"{path}: expected a Parquet file, found one that cannot be read") from error
    for at, column in enumerate(table.schema):
        if pa.types.is_string(column.type):
            texts = table.column(at)
            for word, replacement in private.items():
                texts = pc.replace_substring(texts, word, replacement)
            table = table.set_column(at, column, texts)
    content = pa.BufferOutputStream()
    parquet.write_table(table, content)
    return content.getvalue().to_pybytes()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file without owner, mode or time of this machine."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mtime = int(datetime.now(UTC).timestamp())
    archive.addfile(info, io.BytesIO(content))
