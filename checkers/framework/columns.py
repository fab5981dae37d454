"""Packs rows into blocks of columns, in which they travel from worker to worker.

Spark can distribute and sort rows by key one row at a time, which takes most of a large check's time. Instead a worker
packs the rows that it reads into blocks of numeric columns, one block for each partition, and Spark carries a block as
one value. numpy sorts the rows where they arrive (checkers/framework/keyed.py).

A text that is a whole number, written as JSON writes it, becomes that number; a dictionary holds the others. The
largest key must fit into a worker's memory, so numbers take as few bytes as possible and each column has memory of its
own.

Contains columns and blocks. It does not know what rows mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.kernels.rows import PLACES_MAX, Place, Rows

BLOCK_ROWS = 1 << 20
"""How many rows a worker collects before it packs them, for all partitions together: a row group of pyarrow."""

BLOCKS = pa.schema([("partition", pa.int32()), ("block", pa.binary())])
"""A block of rows, and their partition."""

WIDTHS = (np.int8, np.int16, np.int32)
"""The integer types to try before 64 bits."""

COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
"""A decompressed block has a buffer for each column. The columns of a plain block are views of its bytes."""

SPARSE = 4
"""Numbers within a range of at most this many times the rows are their own codes; others get a dictionary."""


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as codes from 0 to size - 1, -1 for null: dictionary entries, or differences from the least number."""

    codes: Rows
    size: int
    dictionary: pa.Array | None = None
    least: int = 0

    def texts(self, codes: Rows) -> Texts:
        """The texts of these codes."""
        found = pa.array(codes + self.least) if self.dictionary is None else self.dictionary.take(pa.array(codes))
        return Texts(found)


@dataclass(frozen=True, slots=True)
class Texts(Sequence[str]):
    """Texts by number, each decoded on access: a large history has as many as it has writes."""

    known: pa.Array
    first: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.first) + len(self.known)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        if at < len(self.first):
            return self.first[at]
        return str(self.known[int(at) - len(self.first)].as_py())

    def listed(self) -> list[str]:
        """All texts as a list."""
        return [*self.first, *pc.cast(self.known, pa.string()).to_pylist()]


def packed(rows: pa.Table, partition: Rows) -> pa.RecordBatch:
    """Rows of BLOCKS: the blocks of compact rows, by the partition of each row."""
    order = np.argsort(partition.astype(np.int16), kind="stable")
    cuts = np.flatnonzero(np.diff(partition[order], prepend=-1, append=-1))
    ordered = rows.combine_chunks()
    ordered = ordered if len(cuts) <= 2 else ordered.take(pa.array(order))
    pieces = [ordered.slice(start, end - start) for start, end in pairwise(cuts.tolist())]
    blocks = [serialized(narrowed(piece)) for piece in pieces]
    present = partition[order[cuts[:-1]]]
    return pa.record_batch([pa.array(present, pa.int32()), pa.array(blocks, pa.binary())], schema=BLOCKS)


def collected_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches as tables of at least BLOCK_ROWS rows; the last may be smaller."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= BLOCK_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def compact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text column as whole numbers if every text is one as JSON writes it, else with a dictionary."""
    if pa.types.is_dictionary(column.type):
        whole = column.combine_chunks()
        numbers = whole_numbers(pa.chunked_array([whole.dictionary]))
        return column if numbers is None else numbers.take(whole.indices)
    numbers = whole_numbers(column)
    return column.dictionary_encode() if numbers is None else numbers


def whole_numbers(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The texts as numbers; None if any is not one as JSON writes it."""
    try:
        numbers = pc.cast(texts, pa.int64())
    except pa.ArrowInvalid:
        return None
    # Texts such as 007 and +1 are read as numbers too, which would make them the same values as 7 and 1.
    is_faithful = pc.all(pc.equal(pc.cast(numbers, pa.string()), texts)).as_py() is not False
    return numbers if is_faithful else None


def narrowed(rows: pa.Table) -> pa.Table:
    """Compact rows in the fewest bytes: narrow numbers, and dictionaries without texts that do not occur."""
    return pa.table({name: narrow(rows.column(name)) for name in rows.column_names})


def narrow(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in the smallest type that holds all its numbers, or with a dictionary of its own texts alone."""
    if pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).dictionary_encode()
    if not pa.types.is_integer(column.type):
        return column
    bounds = pc.min_max(column).as_py()
    least, most = bounds["min"] or 0, bounds["max"] or 0
    fits = (width for width in WIDTHS if np.iinfo(width).min <= least and most <= np.iinfo(width).max)
    return column.cast(pa.from_numpy_dtype(next(fits, np.int64)))


def serialized(table: pa.Table) -> bytes:
    """The table's bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=COMPRESSED) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(batches: Iterator[pa.RecordBatch]) -> dict[str, list[pa.Array]]:
    """The columns of all blocks, blocks ordered by their first index; empty without blocks."""
    blocks = [pa.ipc.open_stream(block.as_buffer()).read_all() for batch in batches for block in batch.column("block")]
    blocks.sort(key=lambda block: block.column("index")[0].as_py())
    names = blocks[0].column_names if blocks else []
    return {name: [chunk for block in blocks for chunk in block.column(name).chunks] for name in names}


def joined(chunks: list[pa.Array]) -> Rows:
    """A column without nulls as one array."""
    return np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in chunks])


def coded(chunks: list[pa.Array]) -> Coded:
    """A compact column's codes."""
    are_numbers = [pa.types.is_integer(chunk.type) for chunk in chunks]
    if all(are_numbers):
        return by_difference(chunks) or by_dictionary([chunk.cast(pa.int64()).dictionary_encode() for chunk in chunks])
    texts = [
        chunk.cast(pa.string()) if is_number else chunk for chunk, is_number in zip(chunks, are_numbers, strict=True)
    ]
    return by_dictionary([text if pa.types.is_dictionary(text.type) else text.dictionary_encode() for text in texts])


def by_difference(chunks: list[pa.Array]) -> Coded | None:
    """Codes of numbers within a narrow range; None for others."""
    bounds = [pc.min_max(chunk).as_py() for chunk in chunks]
    least = min((each["min"] for each in bounds if each["min"] is not None), default=0)
    most = max((each["max"] for each in bounds if each["max"] is not None), default=0)
    rows = sum(map(len, chunks))
    if most - least >= min(SPARSE * rows + 1000, PLACES_MAX) or least == np.iinfo(np.int64).min:
        return None
    codes = np.empty(rows, Place)
    end = 0
    for chunk in chunks:
        start, end = end, end + len(chunk)
        codes[start:end] = pc.fill_null(chunk.cast(pa.int64()), least - 1).to_numpy() - least
    return Coded(codes, most - least + 1, least=least)


def by_dictionary(chunks: list[pa.Array]) -> Coded:
    """Codes from dictionaries."""
    whole = pa.chunked_array(chunks).unify_dictionaries().combine_chunks()
    return Coded(whole.indices.fill_null(-1).to_numpy(), len(whole.dictionary), whole.dictionary)
