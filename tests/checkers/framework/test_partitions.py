"""Findings do not depend on how rows are divided into files, batches and partitions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.framework import columns
from checkers.framework.contract import JudgeSettings
from checkers.framework.encoding import compacted, partitions_of
from checkers.framework.keyed import columns_of, keys_in, keys_of
from checkers.linearizability import promised_reads, register
from harness.model import Op
from tests.support.checks.small_histories import history, random_register, row
from tests.support.checks.ways_to_cut import WAYS, cut

SETTINGS = JudgeSettings(search_steps=5)


def many_keys(keys: int = 40) -> list[Op]:
    """Valid and invalid keys, one operation of each in turn; some written values are no numbers."""
    source = random.Random(5)
    histories = [
        iter(renamed(random_register(source, which % 3 > 0, which % 4 == 0, (0, 0.7), 16), which))
        for which in range(keys)
    ]
    ops: list[Op] = []
    while histories:
        chosen = source.choice(histories)
        op = next(chosen, None)
        if op is None:
            histories.remove(chosen)
        else:
            ops.append(replace(op, time_ns=-1))
    return history(*ops)


def renamed(ops: Sequence[Op], which: int) -> list[Op]:
    """The ops with a key and processes of their own; every fifth key has text values."""
    key = str(which) if which % 2 else f"key {which}"
    texts = which % 5 == 0
    return [
        replace(
            op,
            key=key,
            process=op.process + 100 * which,
            value=f"v{op.value}" if texts and isinstance(op.value, int) else op.value,
        )
        for op in ops
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("keys", "ways"),
    [(40, [*WAYS][::3]), pytest.param(150, [*WAYS], marks=pytest.mark.slow)],
    ids=["few keys, two ways", "many keys, all ways"],
)
def test_findings_are_the_same_however_rows_are_cut(
    keys: int, ways: Sequence[str], spark: SparkSession, tmp_path: Path
) -> None:
    found = {}
    for name, table in cut(spark, many_keys(keys), tmp_path, ways):
        numbered = table.withColumn("run", fn.lit(0))
        promised = promised_reads.findings(numbered, numbered, SETTINGS)
        read_by_workers = replace(SETTINGS, history_files=tuple(sorted((tmp_path / name).iterdir())))
        for reader, settings in (("Spark", SETTINGS), ("workers", read_by_workers)):
            strict = register.findings(numbered, numbered, settings)
            found[name, reader] = sorted(map(str, strict.unionAll(promised).collect()))
    expected = found["one partition", "Spark"]
    names = {one.partition("name='")[2].partition("'")[0] for one in expected}
    assert names >= {"non-linearizable", "undecided", "phantom-read", "values-not-unique"}
    assert len(expected) > keys / 4
    for way, its in found.items():
        assert its == expected, way


def test_rows_are_unchanged_by_packing_into_blocks() -> None:
    ops = many_keys()
    rows = {
        "index": pa.array([op.index for op in ops]),
        "kind": pa.array([0 if op.type == "invoke" else 1 for op in ops], pa.int8()),
        "f": pa.array([0 if op.f == "read" else 1 for op in ops], pa.int8()),
        "process": pa.array([op.process for op in ops], pa.int32()),
        "key": pa.array([op.key for op in ops]),
        "value": pa.array([row(op)["value"] for op in ops], pa.string()),
    }
    whole = pa.table(rows)
    blocks = []
    for start in range(0, len(whole), 50):
        part = whole.slice(start, 50)
        blocks.append(columns.packed(compacted(part, None), partitions_of(part.column("key"), 3)))
    assert sum(batch.num_rows for batch in blocks) > 2 * len(ops) / 50
    direct, carried = keys_of(whole), keys_in(columns.unpacked(iter(blocks[::-1])), ("read", "write"), None)
    assert sorted(direct.names) == sorted(carried.names)
    for name in direct.names:
        at, there = direct.names.index(name), carried.names.index(name)
        first_part, its = (slice(*keys.starts[which : which + 2]) for keys, which in ((direct, at), (carried, there)))
        for column in ("index", "kind", "f"):
            assert (getattr(direct, column)[first_part] == getattr(carried, column)[its]).all()
        values = (
            [keys.texts[each] for each in keys.value[part]] for keys, part in ((direct, first_part), (carried, its))
        )
        assert next(values) == next(values)


@pytest.mark.parametrize("texts", [["7", "007"], ["7", "+7"], ["0", "-0"], ["1", "1.0"], ["1", "0x1"], ["1", "a"]])
def test_texts_that_differ_are_different_values(texts: list[str]) -> None:
    column = columns.compact(pa.chunked_array([pa.array([*texts, None])]))
    first, second, nothing = columns.coded(column.chunks).codes.tolist()
    assert (first != second, nothing) == (True, -1)


def test_numbers_that_lie_far_apart_are_coded_by_a_dictionary() -> None:
    numbers = [2**62, -(2**62), None, 2**62]
    coded = columns.coded(
        columns.compact(pa.chunked_array([pa.array([None if n is None else str(n) for n in numbers])])).chunks
    )
    assert (coded.codes.tolist(), coded.size) == ([0, 1, -1, 0], 2)
    assert coded.texts(np.array([1])).listed() == [str(-(2**62))]


def test_no_rows_are_no_keys() -> None:
    assert columns_of(pa.table({})) == columns.unpacked(iter(())) == {}
