"""External histories from file to verdict, and the export and reimport of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from harness.histories.exporting import export_lines
from harness.histories.importing import import_histories, listed
from harness.judging.imported import FileVerdict, HeldTo, Refused, check_files
from harness.model import Verdict
from harness.model.records.tables import HISTORY
from tests.support.command import splitbrain, splitbrain_here

pytestmark = pytest.mark.spark


def log(*rows: str) -> str:
    """A log as Jepsen writes it, from `process type f value`."""
    return "".join("INFO  jepsen.util - {}\t:{}\t:{}\t{}\n".format(*row.split(" ", 3)) for row in rows)


def edn(*rows: str) -> str:
    """EDN, one operation per line, from `process type f value`."""
    line = "{{:process {}, :type :{}, :f :{}, :value {}}}\n"
    return "".join(line.format(*row.split(" ", 3)) for row in rows)


WRITTEN = ("0 invoke write 3", "0 ok write 3")
REFUSED = ("1 invoke cas [3 4]", "1 fail cas [3 4]")

# name: the file's text, and the verdicts by strict and by Knossos's semantics, both with the initial value nil.
REGISTERS = {
    "valid.log": (log("0 invoke read nil", "0 ok read nil", *WRITTEN, "0 invoke read nil", "0 ok read 3"), "VV"),
    "stale.log": (log(*WRITTEN, "0 invoke write 4", "0 ok write 4", "1 invoke read nil", "1 ok read 3"), "II"),
    "refused_wrongly.log": (log(*WRITTEN, *REFUSED), "IV"),
    "nil_after_a_write.edn": (f"[{edn(*WRITTEN, '1 invoke read nil', '1 ok read nil')}]", "IV"),
    "timed_out_then_seen.log": (
        log("0 invoke write 3", "0 info write :timed-out", "1 invoke read nil", "1 ok read 3"), "VV",
    ),
    "failed_then_seen.edn": (edn("0 invoke write 3", "0 fail write 3", "1 invoke read nil", "1 ok read 3"), "II"),
    "independent.edn": (
        edn('0 invoke write ["a" 3]', '0 ok write ["a" 3]', '0 invoke read ["b" nil]', '0 ok read ["b" nil]'), "VV",
    ),
    "independent_stale.edn": (
        edn('0 invoke write ["a" 3]', '0 ok write ["a" 3]', '0 invoke read ["a" nil]', '0 ok read ["a" 4]'), "II",
    ),
    "never_returned.edn": (edn("0 invoke write 3", "1 invoke read nil", "1 ok read 3"), "VV"),
    "repeated.edn": (
        edn(*WRITTEN, *WRITTEN, "0 invoke write 5", "0 ok write 5", "1 invoke read nil", "1 ok read 3"), "II",
    ),
}  # fmt: skip


def verdicts_of(paths: Sequence[Path], model: str, **options: object) -> list[FileVerdict]:
    """The verdicts on histories of which none is refused."""
    checked = list(check_files(paths, HeldTo(model, **options), None, lambda _: None))  # type: ignore[arg-type]
    assert [each for each in checked if isinstance(each, Refused)] == []
    return [each for each in checked if isinstance(each, FileVerdict)]


@pytest.mark.parametrize(("column", "semantics"), [(0, "strict"), (1, "knossos")], ids=["strict", "knossos"])
def test_the_files_of_a_folder_have_separate_verdicts(tmp_path: Path, column: int, semantics: str) -> None:
    for name, (text, _) in REGISTERS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "README.md").write_text("not a history")
    verdicts = verdicts_of([tmp_path], "cas-register", semantics=semantics)
    letters = {Path(each.path).name: each.verdict.value[0].upper() for each in verdicts}
    assert letters == {name: expected[column] for name, (_, expected) in REGISTERS.items()}
    assert all(each.algorithm and each.ops and each.seconds >= 0 for each in verdicts)
    assert next(each.keys for each in verdicts if each.path.endswith("independent.edn")) == 2


def test_the_first_read_may_return_the_initial_value(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    path.write_text(edn("0 invoke read nil", "0 ok read 0", "0 invoke cas [0 2]", "0 ok cas [0 2]"))
    assert [each.verdict for each in verdicts_of([path], "cas-register", initial="0")] == [Verdict.VALID]
    assert [each.verdict for each in verdicts_of([path], "cas-register")] == [Verdict.INVALID]


KEY_VALUE = """\
{:process 0, :type :invoke, :f :put, :key "0", :value "x"}
{:process 1, :type :invoke, :f :append, :key "0", :value "y"}
{:process 1, :type :ok, :f :append, :key "0", :value "y"}
{:process 0, :type :ok, :f :put, :key "0", :value "x"}
{:process 1, :type :invoke, :f :get, :key "0", :value nil}
{:process 1, :type :ok, :f :get, :key "0", :value "%s"}
{:process 0, :type :invoke, :f :get, :key "1", :value nil}
{:process 0, :type :ok, :f :get, :key "1", :value ""}
"""


@pytest.mark.parametrize(("got", "verdict"), [("xy", "valid"), ("x", "valid"), ("yx", "invalid"), ("y", "invalid")])
def test_a_key_value_store_is_checked_by_key(tmp_path: Path, got: str, verdict: str) -> None:
    path = tmp_path / "kv.txt"
    path.write_text(KEY_VALUE % got)
    (found,) = verdicts_of([path], "kv")
    assert (found.verdict.value, found.ops, found.keys) == (verdict, 4, 2)


def test_a_skipped_row_leaves_the_verdict_unknown_and_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    path.write_text(edn(*WRITTEN) + "{:process 0, :type :inv\n")
    (found,) = verdicts_of([path], "register", skip_malformed=True)
    assert found.verdict is Verdict.UNKNOWN
    assert [(each.name, each.count) for each in found.findings] == [("malformed-rows", 1)]
    assert f"{path}:3: expected" in found.findings[0].message


def test_a_history_with_only_nemesis_operations_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    path.write_text(edn(":nemesis info start nil"))
    (found,) = verdicts_of([path], "register")
    assert [each.name for each in found.findings] == ["no-operations"]
    assert found.verdict is Verdict.UNKNOWN


def table_of(path: Path) -> pa.Table:
    """A text's rows as a history table."""
    with import_histories(listed([path]), ("read", "write", "cas"), False) as histories:
        assert histories.common is not None
        return parquet.read_table(histories.common).select(HISTORY.names)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's directory, with a history of two keys and a stale read of one."""
    source = tmp_path / "source.jsonl"
    rows = [("invoke", "write", "x", 1), ("ok", "write", "x", 1), ("invoke", "write", "y", [1, None, 'a "b"'])]
    rows += [("fail", "write", "y", None), ("invoke", "read", "x", None), ("ok", "read", "x", None)]
    forms = [{"process": 4, "type": kind, "f": f, "key": key, "value": value} for kind, f, key, value in rows]
    forms += [{"process": "nemesis", "type": "info", "f": "cut", "value": {"who": "leader"}}]
    forms[3]["error"] = "NOT_CONTROLLER"
    source.write_text("\n".join(map(json.dumps, forms)))
    (tmp_path / "run" / "history").mkdir(parents=True)
    parquet.write_table(table_of(source), tmp_path / "run" / "history" / "0.parquet")
    return tmp_path / "run"


@pytest.mark.parametrize("independent", [False, True], ids=["key", "tuple"])
@pytest.mark.parametrize("as_edn", [True, False], ids=["edn", "jsonl"])
def test_an_exported_history_is_imported_unchanged(run: Path, as_edn: bool, independent: bool) -> None:
    path = run.with_name("exported.edn" if as_edn else "exported.jsonl")
    path.write_text("\n".join(export_lines(run, as_edn, independent)))
    assert table_of(path).equals(parquet.read_table(run / "history" / "0.parquet"))


def test_parquet_is_checked_in_place(run: Path) -> None:
    for path in (run, run / "history", run / "history" / "0.parquet"):
        (found,) = verdicts_of([path], "register")
        assert (found.verdict, found.ops, found.keys) == (Verdict.INVALID, 3, 2)


def test_parquet_of_another_model_is_refused(run: Path) -> None:
    (refused,) = check_files([run], HeldTo("fifo-queue"), None, lambda _: None)
    assert isinstance(refused, Refused)
    assert re.search(r'0\.parquet: expected f to be one of dequeue, enqueue, found "(read|write)"', refused.error)


@pytest.mark.usefixtures("spark")
def test_the_command_prints_one_object_per_file_and_a_malformed_one_hides_no_verdict(tmp_path: Path) -> None:
    for name in ("valid.log", "stale.log"):
        (tmp_path / name).write_text(REGISTERS[name][0])
    (tmp_path / "torn.jsonl").write_text('{"process": 0, "ty')
    reports = tmp_path / "reports"
    result = splitbrain_here("check", tmp_path, "--model", "cas-register", "--report", reports, "--format", "json")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert (result.code, [line["verdict"] for line in lines]) == (254, ["invalid", None, "valid"])
    assert result.messages[-1] == f"splitbrain: {lines[1]['error']}"
    assert lines[1]["error"] == f'{tmp_path}/torn.jsonl:1: expected JSON at column 16, found "ty'
    assert set(lines[0]) == {
        "path", "model", "semantics", "verdict", "algorithm", "ops", "keys", "seconds", "findings", "report",
    }  # fmt: skip
    assert lines[0]["report"] == str(reports / "stale.log" / "report.html")


USAGE = {
    "unknown model": (("--model", "tape"), "--model tape: expected one of cas-register, counter, fifo-queue, kv, "),
    "misspelled model": (("--model", "regster"), "unique-ids; did you mean register?"),
    "initial value that is not JSON": (
        ("--model", "register", "--initial", "{bad"),
        "--initial {bad: expected JSON at column 2, found bad",
    ),
    "initial value that is not a number": (
        ("--model", "register", "--initial", "NaN"),
        "--initial NaN: expected a finite number, found NaN",
    ),
    "initial value of a set that is no list": (
        ("--model", "set", "--initial", "5"),
        "--initial 5: expected a read's value to be a list of the set's elements, found 5",
    ),
    "initial value of a counter that is no number": (
        ("--model", "counter", "--initial", "x"),
        '--initial x: expected a counter\'s value to be a whole number up to 1,000,000,000,000, found "x"',
    ),
    "report that is a file": (
        ("--model", "register", "--report", "/dev/null"),
        "--report /dev/null: expected a folder, fo",
    ),
    "no model": (("--semantics", "knossos"), "--semantics, --initial, --skip-malformed and --report need"),
    "initial value of a mutex": (
        ("--model", "mutex", "--initial", "3"),
        "--initial 3: not supported: the initial state of a mutex is fixed",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE)
def test_the_command_refuses_invalid_options(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    path = tmp_path / "h.log"
    path.write_text(REGISTERS["valid.log"][0])
    result = splitbrain("check", path, *arguments)
    assert result.code == 254
    assert message in result.messages[-1]
