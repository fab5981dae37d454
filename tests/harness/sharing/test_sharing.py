"""A run travels as one archive: nothing private leaves, and nothing hostile enters."""

from __future__ import annotations

import gzip
import io
import json
import os
import pwd
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from harness.chunks import read_table
from harness.model import BadInput
from harness.model.errors import EXIT_USAGE, EXIT_VALID
from harness.model.records.tables import HISTORY
from harness.sharing import importing
from harness.sharing.bundle import write_bundle
from harness.sharing.contents import MANIFEST
from harness.sharing.importing import import_bundle
from results.headline import SHOWN
from results.store import RunDirectory, runs
from tests.support.command import json_lines, splitbrain, splitbrain_here
from tests.support.stored_runs import failed_verdict, judged_run, register_plan, reproduction

HOME = os.environ["HOME"].rstrip("/")


def history(run: RunDirectory, error: str) -> None:
    """One row of history, with this error."""
    run.history.mkdir()
    columns = {name: [None] for name in HISTORY.names} | {
        "index": [0],
        "time_ns": [0],
        "process": [0],
        "type": ["invoke"],
    }
    parquet.write_table(pa.table(columns | {"f": ["read"], "error": [error]}, HISTORY), run.history / "a.parquet")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run with private paths in its plan, its log and its history."""
    store = tmp_path / "runs"
    made = judged_run(store, "run", register_plan(command=f"splitbrain run --plan {HOME}/x.toml"), failed_verdict())
    made.node(1).mkdir(parents=True)
    (made.node(1) / "server.log").write_text(f"started in {made.path} by {pwd.getpwuid(os.getuid()).pw_name}@here\n")
    (made.node(1) / "data").mkdir()
    (made.node(1) / "data" / "secret.key").write_text("key")
    (made.path / "journal.jsonl").write_text("")
    (made.path / "owner.json").write_text('{"pid": 1}')
    history(made, f"cannot read {HOME}/keys: {store}/x")
    return made


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        return {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]


def test_archive_has_what_judging_needs_and_nothing_private(run: RunDirectory, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    assert write_bundle(run, archive) == archive.stat().st_size
    found = members(archive)
    assert set(found) == {MANIFEST, "plan.json", "status.json", "nodes/n1/server.log", "history/a.parquet"}
    texts = b"".join(content for name, content in found.items() if not name.endswith(".parquet"))
    for private in (HOME, str(tmp_path)):
        assert private.encode() not in texts
    assert b"started in store/" in texts
    imported = import_bundle(archive, tmp_path / "other")
    (row,) = read_table(imported.history, HISTORY).to_pylist()
    assert row["error"] == "cannot read ~/keys: store/x"
    with tarfile.open(archive) as opened:
        assert {(member.uid, member.uname, member.mode & 0o7000) for member in opened} == {(0, "", 0)}


def test_imported_run_is_recorded_and_not_yet_judged(run: RunDirectory, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    write_bundle(run, archive)
    imported = import_bundle(archive, tmp_path / "other")
    assert (imported.name, imported.status) == (run.name, "recorded")
    assert not imported.verdict.exists()
    assert not imported.journal.exists(), "nothing of another machine can be healed here"
    with pytest.raises(BadInput, match="the store has a run named"):
        import_bundle(archive, tmp_path / "other")
    assert [each.name for each in runs(tmp_path / "other")] == [run.name]


def test_reproduction_keeps_its_runs(tmp_path: Path) -> None:
    whole = reproduction(tmp_path / "runs", {"bad": SHOWN, "good": "valid"})
    archive = tmp_path / "a.tar.gz"
    write_bundle(whole, archive)
    imported = import_bundle(archive, tmp_path / "other")
    assert [side.name for side in imported.sides()] == ["bad-1", "good-1"]
    assert {side.status for side in imported.sides()} == {"recorded"}


Member = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"{}") -> Member:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info, content


def link(name: str, target: str, kind: bytes) -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def manifest(**values: object) -> Member:
    return file(
        MANIFEST, json.dumps({"format": 1, "run": "20261120T020000Z-run-ab12", "kind": "run", **values}).encode()
    )


def status(**values: object) -> Member:
    document = {"kind": "run", "status": "judged", "times": {"created": "2026-11-20T02:00:00+00:00"}, **values}
    return file("status.json", json.dumps(document).encode())


PLAN = file("plan.json", register_plan().as_json().encode())
HOSTILE: dict[str, tuple[Callable[[], Iterator[Member]], str]] = {
    "a path that leads out": (lambda: iter([manifest(), file("../x")]), "expected files of a run only, found '../x'"),
    "an absolute path": (lambda: iter([manifest(), file("/etc/x")]), "expected files of a run only, found '/etc/x'"),
    "a path through a folder": (lambda: iter([manifest(), file("history/../../x.parquet")]), "files of a run only"),
    "a journal": (lambda: iter([manifest(), file("journal.jsonl")]), "files of a run only, found 'journal.jsonl'"),
    "a page": (
        lambda: iter([manifest(), file("report.html", b"<script>")]),
        "files of a run only, found 'report.html'",
    ),
    "control characters": (lambda: iter([manifest(), file("a\x1b[2J\n")]), "files of a run only, found 'a\\x1b[2J\\n'"),
    "a symbolic link": (
        lambda: iter([manifest(), link("plan.json", "/etc/passwd", tarfile.SYMTYPE)]),
        "files of a run only",
    ),
    "a hard link": (
        lambda: iter([manifest(), link("plan.json", "/etc/passwd", tarfile.LNKTYPE)]),
        "files of a run only",
    ),
    "a device": (lambda: iter([manifest(), link("plan.json", "", tarfile.CHRTYPE)]), "files of a run only"),
    "no manifest": (lambda: iter([PLAN]), "expected bundle.json first, found 'plan.json'"),
    "another format": (lambda: iter([manifest(format=2)]), "bundle.json: expected format 1"),
    "a name that is a path": (lambda: iter([manifest(run="../x")]), "expected the name of a run, found '../x'"),
    "the name of a link": (lambda: iter([manifest(run="latest")]), "expected the name of a run, found 'latest'"),
    "a file twice": (lambda: iter([manifest(), PLAN, PLAN]), "plan.json: expected each file once"),
    "no plan": (lambda: iter([manifest(), status()]), "plan.json: expected a run's plan, found no such file"),
    "a bad plan": (lambda: iter([manifest(), status(), file("plan.json", b"[]")]), "plan.json: expected a run's plan"),
    "no status": (lambda: iter([manifest(), PLAN]), "status.json: expected a JSON file, found no such file"),
    "a bad status": (lambda: iter([manifest(), PLAN, status(kind="x")]), "status.json: expected kind"),
    "another kind": (lambda: iter([manifest(kind="reproduction"), PLAN, status()]), "expected a status of kind"),
    "a damaged table": (
        lambda: iter([manifest(), PLAN, status(), file("history/a.parquet", b"PAR1")]),
        "a.parquet: expected",
    ),
    "nothing": (lambda: iter([]), "found an empty one"),
}


def written(path: Path, *content: Member) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, data in content:
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archive_is_refused_in_one_line_and_leaves_nothing(tmp_path: Path, case: str) -> None:
    content, problem = HOSTILE[case]
    archive = written(tmp_path / "a.tar.gz", *content())
    with pytest.raises(BadInput) as refusal:
        import_bundle(archive, tmp_path / "store")
    assert problem in str(refusal.value)
    assert str(refusal.value).isprintable()
    assert list((tmp_path / "store").iterdir()) == []


def test_small_archive_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "TEXT_BYTES_MAX", 1 << 20)
    bomb = written(tmp_path / "a.tar.gz", manifest(), PLAN, file("nodes/n1/server.log", bytes(8 << 20)))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(BadInput, match=r"server.log: expected at most 1 MiB, found more"):
        import_bundle(bomb, tmp_path / "store")
    monkeypatch.setattr(importing, "FILES_MAX", 3)
    many = written(tmp_path / "b.tar.gz", manifest(), *(file(f"history/{number}.parquet") for number in range(5)))
    with pytest.raises(BadInput, match="expected at most 3 files, found more"):
        import_bundle(many, tmp_path / "store")


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", gzip.compress(b"no tar"), gzip.compress(b"x" * 2000)[:-9]],
    ids=["empty", "zip", "no tar", "truncated"],
)
def test_file_that_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(BadInput, match="expected an archive of a run"):
        import_bundle(tmp_path / "a.tar.gz", tmp_path / "store")


def test_truncated_archive_is_refused_at_every_length(run: RunDirectory, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    write_bundle(run, archive)
    whole = archive.read_bytes()
    for length in range(0, len(whole) - 64, 97):
        archive.write_bytes(whole[:length])
        with pytest.raises(BadInput):
            import_bundle(archive, tmp_path / "store")
    assert [path.name for path in (tmp_path / "store").iterdir()] == []


def test_commands(run: RunDirectory, tmp_path: Path) -> None:
    archive = tmp_path / "mine.tar.gz"
    bundled = splitbrain("bundle", run.path, "--output", archive)
    assert (bundled.code, bundled.messages) == (EXIT_VALID, [])
    again = splitbrain("bundle", run.path, "--output", archive)
    assert (again.code, len(again.messages)) == (EXIT_USAGE, 1)
    assert "expected a file that does not exist yet" in again.messages[0]
    (imported,) = json_lines(splitbrain("import", archive, "--store", tmp_path / "other", "--json"))
    assert Path(imported["run"]).name == run.name
    missing = splitbrain("import", tmp_path / "no.tar.gz", "--store", tmp_path / "other")
    assert (missing.code, len(missing.messages)) == (EXIT_USAGE, 1)


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(200)
def test_imported_run_gets_the_same_verdict(tmp_path: Path) -> None:
    flags = ("--time-limit", "4", "--switch", "reference.mutant=half-is-a-majority", "--seed", "2")
    first = splitbrain_here("run", "--store", tmp_path / "runs", "--workload", "register", *flags, "--json")
    (verdict,) = json_lines(first)
    splitbrain("bundle", verdict["run"], "--output", tmp_path / "a.tar.gz")
    (imported,) = json_lines(splitbrain("import", tmp_path / "a.tar.gz", "--store", tmp_path / "other", "--json"))
    (checked,) = json_lines(splitbrain_here("check", imported["run"], "--json"))
    assert (checked["verdict"], checked["findings"]) == (verdict["verdict"], verdict["findings"])
    assert {each["name"]: each["value"] for each in checked["quantities"]} == {
        each["name"]: each["value"] for each in verdict["quantities"]
    }
    assert (Path(imported["run"]) / "report.html").is_file()
