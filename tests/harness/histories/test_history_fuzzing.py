"""Every reader of histories against generated bad input: imported, or refused in one line that names the place."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.histories.importing import import_histories, listed
from harness.model.records.tables import HISTORY

FS = {
    "register": ("read", "write", "cas"),
    "counter": ("read", "add", "increment", "decrement"),
    "set": ("read", "add"),
}
MANY = settings(max_examples=250, deadline=None)

VALID = {
    ".jsonl": '{"process": 0, "type": "invoke", "f": "write", "key": "a", "value": 1, "time": 7}\n'
    '{"process": 0, "type": "ok", "f": "write", "key": "a", "value": 1, "time": 9}\n',
    ".json": '[{"process": 0, "type": "invoke", "f": "add", "value": 1},\n {"process": 0, "type": "info", "f": "add"}]',
    ".edn": "{:process 0, :type :invoke, :f :cas, :value [1 2], :time 7}\n"
    "{:process 0, :type :fail, :f :cas, :error :no}\n",
    ".txt": "[{:process 0, :type :invoke, :f :read, :value nil}\n {:process 0, :type :ok, :f :read, :value #{1}}]\n",
    ".log": "INFO  jepsen.util - 0\t:invoke\t:write\t3\nINFO  jepsen.util - 0\t:ok\t:write\t3\n",
}
NASTY = [
    *("NaN", "-Infinity", "1e999", "##Inf", "-1", "9" * 30, "9" * 5000, "1.5", "true", "null", "nil", '"\\ud800"'),
    *(
        "[" * 300,
        "{" * 300,
        '{"a":' * 300,
        "#a " * 300,
        "#_" * 300,
        '"',
        "\\",
        "]",
        "}",
        ")",
        ",",
        ":",
        "\n",
        "\r",
        "\x00",
    ),
    *("\ufeff", "\u2028", "é", ";", " " * 50, '"f": ["x"]', ":process :nemesis", '"process": "nemesis"', "²"),
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["invoke", "ok", "read", "add"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
rows = st.fixed_dictionaries(
    {},
    optional={
        "process": st.integers(-2, 3) | json_values,
        "type": st.sampled_from(["invoke", "ok", "fail", "info"]) | json_values,
        "f": st.sampled_from(["read", "write", "cas", "add"]) | json_values,
        "key": json_values,
        "value": json_values,
        "time": json_values,
        "node": json_values,
        "error": json_values,
    },
)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A valid text with a few parts replaced by nasty ones, and its suffix."""
    suffix = draw(st.sampled_from(sorted(VALID)))
    text = VALID[suffix]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + draw(st.sampled_from(NASTY) | st.text(max_size=5)) + text[end:]
    return suffix, text.encode(errors="surrogatepass")


def assert_imported_or_refused(name: str, content: bytes, model: str, skip_malformed: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        with import_histories(listed([path]), FS[model], skip_malformed) as imported:
            (history,) = imported.histories
            if history.refusal is None:
                tables = history.tables or (imported.common,)
                for row in parquet.read_table(tables[0]).to_pylist():
                    assert row["time_ns"] >= 0
                    assert row["value"] is None or json.dumps(json.loads(row["value"]), allow_nan=False)
                return
        place, _, message = history.refusal.removeprefix(str(path)).partition(": ")
        assert re.fullmatch(r"(:\d+)?", place), history.refusal
        assert re.match(r"expected |the value at index \d+: expected ", message), history.refusal
        assert "\n" not in history.refusal
        said = message.partition(", found ")[0]
        assert not re.search(r"Error|Traceback|<class|line \d+ column|char \d+|codec can't", said)
        history.refusal.encode()


models = st.sampled_from(sorted(FS))


@MANY
@given(damaged(), models, st.booleans())
def test_a_damaged_text(case: tuple[str, bytes], model: str, skip_malformed: bool) -> None:
    suffix, content = case
    assert_imported_or_refused(f"h{suffix}", content, model, skip_malformed)


@MANY
@given(st.lists(rows, min_size=1, max_size=3), st.sampled_from([".jsonl", ".json"]), models, st.booleans())
def test_objects_of_any_values(forms: list[dict], suffix: str, model: str, skip_malformed: bool) -> None:
    lines = "\n".join(map(json.dumps, forms)) if suffix == ".jsonl" else json.dumps(forms, indent=1)
    assert_imported_or_refused(f"h{suffix}", lines.encode(), model, skip_malformed)


@MANY
@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode), st.sampled_from([*VALID, ".parquet", ".gz", ""]))
def test_any_bytes(content: bytes, suffix: str) -> None:
    assert_imported_or_refused(f"h{suffix}", content, "register", False)


def history_bytes(key: str = "a", compression: str = "snappy") -> bytes:
    """A Parquet history of one write."""
    names = ("index", "time_ns", "process", "type", "f", "key", "value", "node", "error")
    values = [(0, 5, 0, "invoke", "write", key, "1", 1, None), (1, 9, 0, "ok", "write", key, "1", 1, None)]
    target = io.BytesIO()
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in values], HISTORY)
    parquet.write_table(table, target, compression=compression)
    return target.getvalue()


def test_parquet_with_a_damaged_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    path.write_bytes(history_bytes(key="sentinel", compression="none").replace(b"sentinel", b"\x80entinel"))
    with import_histories(listed([path]), FS["register"], False) as imported:
        assert (imported.histories[0].refusal or "").startswith(f"{path}: expected whole Parquet files, but one cannot")


@MANY
@given(st.data())
def test_damaged_parquet(data: st.DataObject) -> None:
    content = bytearray(history_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(content)) | st.just(len(content)))
    assert_imported_or_refused("h.parquet", bytes(content[:end]), "register", False)


UNUSABLE = {
    "a missing process": ({"process": None}, "expected process in every row, found a row without it"),
    "a negative time": ({"time_ns": -5}, "expected time_ns from 0 on, found a negative one at index 0"),
    "a value beyond all floats": ({"value": "1e999"}, "the value at index 0: expected a finite number, found 1e999"),
    "a value that is not JSON": ({"value": "{1"}, "the value at index 0: expected JSON at column 2, found 1"),
    "a value that is not a number": ({"value": "NaN"}, "the value at index 0: expected a finite number, found NaN"),
}


@pytest.mark.parametrize(("change", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_parquet_with_unusable_fields_is_refused(tmp_path: Path, change: dict, message: str) -> None:
    path = tmp_path / "h.parquet"
    row = {"index": 0, "time_ns": 5, "process": 0, "type": "invoke", "f": "write", "value": "1"} | change
    parquet.write_table(pa.Table.from_pylist([row], HISTORY), path)
    with import_histories(listed([path]), FS["register"], False) as imported:
        assert imported.histories[0].refusal == f"{path}: {message}"
