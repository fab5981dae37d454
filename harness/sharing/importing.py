"""Reads an archive of a run into the store. Nothing in it is trusted.

    run = import_bundle(Path("run.splitbrain.tar.gz"), store)

Only regular files with the names of harness.sharing.contents are taken, up to limits that are counted while they are
unpacked, so neither a path, a link nor a small file that grows can do harm. Plan, status and tables are read before the
run appears in the store; the verdict and the report are made anew by `splitbrain check`. A refused archive leaves
nothing.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import zlib
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any, Final

from harness.chunks import chunk_files
from harness.model import BadInput
from harness.model.errors import reason_of
from harness.model.shown_values import shown
from harness.planning.plan import Plan
from harness.sharing.contents import BYTES_MAX, FILES_MAX, FORMAT, MANIFEST, TEXT_BYTES_MAX, is_table, is_text
from results.files import write_json
from results.store import RunDirectory
from results.tables import tables_of

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
BLOCK: Final = 1 << 20
MANIFEST_BYTES_MAX: Final = 1 << 16
UNREADABLE: Final = (tarfile.TarError, EOFError, zlib.error, UnicodeError, ValueError)


def import_bundle(archive: Path, store: Path) -> RunDirectory:
    """The imported run, recorded and not yet checked. Raises BadInput for anything that is not an archive of a run."""
    try:
        store.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(prefix=".import-", dir=store))
    except OSError as error:
        raise BadInput(f"{store}: expected a folder in which runs can be created: {reason_of(error)}") from error
    try:
        manifest = _unpacked(archive, folder)
        run = RunDirectory(folder)
        _settle(run, archive, manifest)
        target = store / manifest["run"]
        if target.exists():
            raise BadInput(f"{archive}: the store has a run named {target.name} already")
        folder.chmod(0o755)
        folder.rename(target)
        return RunDirectory(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpacked(archive: Path, folder: Path) -> dict[str, Any]:
    """Unpack the files into the folder; returns the manifest, which comes first."""
    try:
        with archive.open("rb") as file, tarfile.open(fileobj=file, mode="r|gz") as members:
            manifest: dict[str, Any] | None = None
            left = BYTES_MAX
            for number, member in enumerate(members):
                if number >= FILES_MAX:
                    raise BadInput(f"{archive}: expected at most {FILES_MAX} files, found more")
                content = _content_of(members, member, archive)
                if manifest is None:
                    manifest = _manifest(member, content, archive)
                    continue
                left -= _copied(content, folder, member.name, min(left, _limit(member.name)), archive)
    except OSError as error:
        raise BadInput(f"{archive}: expected an archive of a run: {reason_of(error)}") from error
    except UNREADABLE as error:
        raise BadInput(f"{archive}: expected an archive of a run, found a file that cannot be unpacked") from error
    if manifest is None:
        raise BadInput(f"{archive}: expected an archive of a run, found an empty one")
    return manifest


def _content_of(members: tarfile.TarFile, member: tarfile.TarInfo, archive: Path) -> IO[bytes]:
    name = member.name
    is_known = name == MANIFEST or is_text(name) or is_table(name)
    if not member.isreg() or not is_known:
        raise BadInput(f"{archive}: expected files of a run only, found {shown(name)}")
    content = members.extractfile(member)
    assert content is not None, "a regular file has content"
    return content


def _manifest(member: tarfile.TarInfo, content: IO[bytes], archive: Path) -> dict[str, Any]:
    """The manifest. Raises BadInput unless it is the first file and names the run."""
    if member.name != MANIFEST:
        raise BadInput(f"{archive}: expected {MANIFEST} first, found {shown(member.name)}")
    try:
        manifest = json.loads(content.read(MANIFEST_BYTES_MAX))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{archive}: {MANIFEST}: expected JSON") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BadInput(f"{archive}: {MANIFEST}: expected format {FORMAT}")
    if not isinstance(manifest.get("run"), str) or not NAME.fullmatch(manifest["run"]) or manifest["run"] == "latest":
        raise BadInput(f"{archive}: {MANIFEST}: expected the name of a run, found {shown(manifest.get('run'))}")
    return manifest


def _limit(name: str) -> int:
    return TEXT_BYTES_MAX if is_text(name) else BYTES_MAX


def _copied(content: IO[bytes], folder: Path, name: str, limit: int, archive: Path) -> int:
    """Copy at most limit bytes into a new file of the folder; returns how many."""
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    copied = 0
    try:
        with target.open("xb") as file:
            while block := content.read(BLOCK):
                copied += len(block)
                if copied > limit:
                    raise BadInput(f"{archive}: {name}: expected at most {limit >> 20} MiB, found more")
                file.write(block)
    except FileExistsError as error:
        raise BadInput(f"{archive}: {name}: expected each file once") from error
    return copied


def _settle(run: RunDirectory, archive: Path, manifest: dict[str, Any]) -> None:
    """Check what was unpacked, and record that it is a run of another machine that has ended."""
    try:
        if run.kind != manifest.get("kind"):
            raise BadInput(f"expected a status of kind {shown(manifest.get('kind'))}")
        parts = run.own_runs()
        for part in parts:
            Plan.read(part.plan)
            for table, schema in tables_of(part):
                chunk_files(table, schema)
        for each in {run.path: run, **{part.path: part for part in parts}}.values():
            _end(each)
    except BadInput as error:
        text = str(error).replace(f"{run.path}/", "")
        raise BadInput(f"{archive}: {text}") from error


def _end(run: RunDirectory) -> None:
    """Record the status of a run that nobody has to heal: what it was, without verdict."""
    ended = "interrupted" if "interrupted" in run.times else "recorded"
    times = {"created": "", **run.times}
    times.pop("judged", None)
    write_json(
        run.status_file,
        {"kind": run.kind, "status": ended, "times": times, "imported": datetime.now(UTC).isoformat()},
    )
