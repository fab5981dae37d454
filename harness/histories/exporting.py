"""`splitbrain export RUN`: a run's history as EDN or JSON lines, for Knossos, Elle, Porcupine and whoever reads them.

    {:index 4, :time 81250, :process 3, :type :ok, :f :write, :key "k1", :value 7}

Jepsen's own checkers know no :key: with independent keys an operation has the value [key value] instead. What the
import reads back is what was exported.

What may live here: rows to lines. What may not: a judgement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.chunks import finished_chunks, read_chunks
from harness.histories.edn import Keyword, written
from harness.model import NEMESIS, BadInput
from harness.model.records.tables import HISTORY

BATCH_ROWS = 65_536
"""How many rows are Python values at once."""


def exported(run: Path, as_edn: bool, independent: bool) -> Iterator[str]:
    """The run's history, a line an operation. Raises BadInput where there is none."""
    if not finished_chunks(run / "history"):
        raise BadInput(f"{run}: expected a run directory with history/*.parquet, found none")
    for chunk in read_chunks(run / "history", HISTORY):
        for batch in chunk.to_batches(max_chunksize=BATCH_ROWS):
            for row in batch.to_pylist():
                form = form_of(row, independent)
                yield edn_line(form) if as_edn else json.dumps(form, ensure_ascii=False)


def form_of(row: dict[str, Any], independent: bool) -> dict[str, Any]:
    """A row as its reader knows it; what is null is left out, but for the value."""
    value = None if row["value"] is None else json.loads(row["value"])
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
    return {name: held for name, held in form.items() if held is not None or name == "value"}


def edn_line(form: dict[str, Any]) -> str:
    """A form with keywords where Jepsen has them."""
    words = {name: Keyword(form[name]) for name in ("type", "f")}
    if form["process"] == "nemesis":
        words["process"] = Keyword("nemesis")
    return written({Keyword(name): held for name, held in (form | words).items()})
