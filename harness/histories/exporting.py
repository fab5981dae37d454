"""`splitbrain export RUN`: a run's history as EDN or JSON lines, for Knossos, Elle, Porcupine and others.

    {:index 4, :time 81250, :process 3, :type :ok, :f :write, :key "k1", :value 7}

Jepsen's checkers do not know :key; for independent keys, an operation has the value [key value] instead. Importing an
exported history gives the same history.

Contains the conversion of rows to lines. Does not contain checks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.chunks import finished_chunks, read_chunks
from harness.histories.edn import Keyword, to_edn
from harness.model import NEMESIS, BadInput
from harness.model.records.tables import HISTORY
from harness.model.shown_values import shown

BATCH_ROWS = 65_536
"""How many rows are Python values at once."""


def export_lines(run: Path, as_edn: bool, independent: bool) -> Iterator[str]:
    """The run's history, one line per operation. Raises BadInput if it has none."""
    if not finished_chunks(run / "history"):
        raise BadInput(f"{run}: expected a run directory with history/*.parquet, found none")
    for chunk in read_chunks(run / "history", HISTORY):
        for batch in chunk.to_batches(max_chunksize=BATCH_ROWS):
            for row in batch.to_pylist():
                form = form_of(row, independent)
                yield edn_line(form) if as_edn else json.dumps(form, ensure_ascii=False)


def form_of(row: dict[str, Any], independent: bool) -> dict[str, Any]:
    """A row as a form; nulls are left out, except for the value."""
    value = _value_of(row)
    key = row["key"]
    if independent and row["process"] != NEMESIS:
        key, value = None, [key, value]
    form = {
        "index": row["index"],
        "time": row["time_ns"],
        "process": "nemesis" if row["process"] == NEMESIS else row["process"],
        "type": row["type"],
        "f": row["f"],
        "key": key,
        "value": value,
        "node": row["node"],
        "error": row["error"],
    }
    return {name: value for name, value in form.items() if value is not None or name == "value"}


def _value_of(row: dict[str, Any]) -> Any:
    """The value of a row. Raises BadInput where a damaged chunk has something else than JSON."""
    try:
        return None if row["value"] is None else json.loads(row["value"])
    except (ValueError, RecursionError) as error:
        text = shown(row["value"])
        raise BadInput(f"history row {row['index']}: expected a value in JSON, found {text}") from error


def edn_line(form: dict[str, Any]) -> str:
    """A form as EDN, with keywords where Jepsen has them."""
    keywords = {name: Keyword(form[name]) for name in ("type", "f")}
    if form["process"] == "nemesis":
        keywords["process"] = Keyword("nemesis")
    return to_edn({Keyword(name): value for name, value in (form | keywords).items()})
