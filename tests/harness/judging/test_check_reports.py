"""The reports on external histories: which files there are, and what they show."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.judging.check_folders import new_folder
from harness.judging.imported import check_files
from harness.judging.verdicts import FileVerdict, HeldTo, Refused
from results.run_verdict import read_verdict
from tests.support.command import COMMAND, environment

FILES = {"report.html", "verdict.json", "findings.json", "junit.xml"}


def jsonl(*rows: tuple[int, str, str, object], times: bool = False) -> str:
    """JSON lines of `process, type, f, value`; times are a second apart."""
    names = ("process", "type", "f", "value")
    forms = [dict(zip(names, row, strict=True)) for row in rows]
    timed = [form | {"time": (5 + at) * 10**9} if times else form for at, form in enumerate(forms)]
    return "".join(json.dumps(form) + "\n" for form in timed)


WRITES = [row for value in (1, 2) for row in ((0, "invoke", "write", value), (0, "ok", "write", value))]
STALE = [*WRITES, (1, "invoke", "read", None), (1, "ok", "read", 1)]
# The concurrent writes of a repeated value need a search, whose evidence is an order.
SEARCHED = [
    *((process, "invoke", "write", 7) for process in (0, 1)),
    *((process, "ok", "write", 7) for process in (0, 1)),
    (2, "invoke", "write", 8),
    (2, "ok", "write", 8),
    (3, "invoke", "read", None),
    (3, "ok", "read", 7),
]


def check(folder: Path, *paths: Path) -> list[FileVerdict | Refused]:
    return list(check_files(paths, HeldTo("register"), None, lambda _: None, folder))


@pytest.fixture
def stale(tmp_path: Path) -> Path:
    path = tmp_path / "stale.jsonl"
    path.write_text(jsonl(*STALE, times=True))
    return path


@pytest.mark.spark
def test_an_invalid_history_has_the_files_of_a_run_and_a_picture(stale: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    (verdict,) = check(folder, stale)
    assert isinstance(verdict, FileVerdict)
    assert {file.name for file in folder.iterdir()} == FILES
    page = (folder / "report.html").read_text()
    assert verdict.report == str(folder / "report.html")
    assert re.search(r"Invalid\.</span> non-linearizable: 1 finding, among 3 operations\.", page)
    assert '<g class="backdrop"' in page
    assert "the value is 1 throughout" in page
    assert "Latency of client operations" in page
    assert "6.000 s" not in page  # times are from the first row on
    assert f"splitbrain check --model register {stale}" in page
    assert read_verdict(folder / "verdict.json").findings == verdict.findings
    assert ET.parse(folder / "junit.xml").getroot().find(".//failure") is not None


@pytest.mark.spark
def test_a_longest_order_is_drawn_and_a_history_without_times_shows_indexes(tmp_path: Path) -> None:
    path = tmp_path / "searched.jsonl"
    path.write_text(jsonl(*SEARCHED))
    check(tmp_path / "reports", path)
    page = (tmp_path / "reports" / "report.html").read_text()
    assert "Numbers are positions in the longest order" in page
    assert "order-number" in page.split("</style>")[1]
    assert "0.000 s" not in re.sub(r"<(title|desc)>.*?</\1>", "", page)
    assert "Latency of client operations" not in page


@pytest.mark.spark
def test_several_histories_have_an_overview_that_also_names_the_refused_one(stale: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    valid = tmp_path / "other" / stale.name
    valid.write_text(jsonl(*WRITES))
    torn = tmp_path / "torn.jsonl"
    torn.write_text('{"process"\n')
    folder = tmp_path / "reports"
    checked = check(folder, stale, torn, valid)
    assert [type(each) for each in checked] == [FileVerdict, Refused, FileVerdict]
    assert {each.name for each in folder.iterdir()} == {"report.html", "junit.xml", "stale.jsonl", "stale.jsonl-2"}
    page = (folder / "report.html").read_text()
    assert "1 invalid, 1 refused, 1 valid." in page
    assert '<a href="stale.jsonl-2/report.html">' in page
    assert f"{torn}:1: expected" in page
    assert len(ET.parse(folder / "junit.xml").getroot().findall("testsuite")) == 2


@pytest.mark.spark
def test_a_report_that_cannot_be_written_costs_no_verdict(stale: Path) -> None:
    reported: list[str] = []
    (verdict,) = check_files([stale], HeldTo("register"), None, reported.append, Path("/proc/reports"))
    assert isinstance(verdict, FileVerdict)
    assert (verdict.verdict.value, verdict.report) == ("invalid", None)
    assert reported[-1].startswith("no report: /proc/reports: ")


def test_a_refused_history_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    (refused,) = check(folder, tmp_path / "nothing.edn")
    assert isinstance(refused, Refused)
    assert not folder.exists()


def test_a_folder_is_named_by_the_time_and_the_file_and_is_new(tmp_path: Path) -> None:
    now = datetime(2026, 11, 22, 6, 14, 5, tzinfo=UTC)
    store = tmp_path / "runs"
    first = new_folder(store, [Path("a/etcd.log")], now)
    assert first == tmp_path / "checks" / "20261122T061405Z-etcd.log"
    first.mkdir(parents=True)
    assert new_folder(store, [Path("a/etcd.log")], now).name == "20261122T061405Z-etcd.log-2"
    assert new_folder(store, [Path("-")], now).name == "20261122T061405Z-standard-input"
    assert new_folder(store, [Path("a"), Path("b")], now).name == "20261122T061405Z-2-histories"


@pytest.mark.spark
def test_the_command_reads_standard_input_and_names_its_report(stale: Path, tmp_path: Path) -> None:
    def run(*options: str) -> subprocess.CompletedProcess[str]:
        argv = [COMMAND, "check", "--model", "register", "-", *options]
        extra = environment(SPLITBRAIN_STORE=str(tmp_path / "runs"))
        with stale.open() as history:
            return subprocess.run(argv, stdin=history, env=extra, capture_output=True, text=True, check=False)

    piped = run("--json")
    assert (piped.returncode, json.loads(piped.stdout)["report"]) == (1, None)
    assert not (tmp_path / "checks").exists()
    shown = run()
    (report,) = (tmp_path / "checks").glob("*-standard-input/report.html")
    assert shown.returncode == 1
    assert shown.stdout.startswith("-: INVALID (3 operations, 1 key; ")
    assert shown.stdout.endswith(f"\n\nReport: {report}\n")
