"""The tables that benchmarks write, and the consumer that reads every value of what they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

SEED = 7
BATCH_ROWS = 65_536


def mixed(rows: int) -> pa.Table:
    """Return seven columns as an event log has them: two keys, two measures, a time, a unique text and a repeated one."""
    random = np.random.default_rng(SEED)
    hexadecimal = np.array([f"{n:016x}" for n in random.integers(0, 2**63, rows)])
    cities = np.array([f"city {n:04d} of a thousand" for n in range(1000)])
    return pa.table(
        {
            "id": pa.array(np.arange(rows, dtype=np.int64)),
            "v": pa.array(random.integers(0, 1000, rows, dtype=np.int64)),
            "f": pa.array(random.random(rows)),
            "g": pa.array(random.random(rows, dtype=np.float32)),
            "at": pa.array(1_700_000_000_000_000 + np.cumsum(random.integers(0, 10**6, rows))).cast(pa.timestamp("us")),
            "s": pa.array(hexadecimal),
            "city": pa.array(cities[random.integers(0, 1000, rows)]),
        }
    )


def vectors(rows: int, width: int = 256) -> pa.Table:
    """Return embeddings: a key and `width` float32 in each row."""
    random = np.random.default_rng(SEED)
    values = pa.array(random.random(rows * width, dtype=np.float32))
    return pa.table({"id": np.arange(rows, dtype=np.int64), "v": pa.FixedSizeListArray.from_arrays(values, width)})


def reader(table: pa.Table) -> pa.RecordBatchReader:
    """Return the table as every store gets it: a stream of batches of 65,536 rows."""
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=BATCH_ROWS))


def repeated(table: pa.Table, least_bytes: int) -> pa.RecordBatchReader:
    """Return a stream that repeats the rows of the table until it has at least so many bytes."""
    batches = table.to_batches(max_chunksize=BATCH_ROWS)
    times = -(-least_bytes // table.nbytes)

    def again() -> Iterator[pa.RecordBatch]:
        for _ in range(times):
            yield from batches

    return pa.RecordBatchReader.from_batches(table.schema, again())


def consume(batches: Iterable[pa.RecordBatch]) -> int:
    """Read every byte of every value and return the number of rows: the same work for every store.

    Numbers are summed as machine words; of text, the offsets and the bytes are. Nothing is decoded further.
    """
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for column in batch.columns:
            _words(column)
    return rows


def _words(column: pa.Array) -> np.uint64:
    type_ = column.type
    if pa.types.is_fixed_size_list(type_) or pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _words(column.flatten())
    if pa.types.is_string(type_) or pa.types.is_string_view(type_) or pa.types.is_large_string(type_):
        if pa.types.is_string_view(type_):
            column = column.cast(pa.string())
        _, offsets, data = column.buffers()
        width = 8 if pa.types.is_large_string(type_) else 4
        ends = np.frombuffer(offsets, f"<i{width}")[column.offset : column.offset + len(column) + 1]
        if not len(ends) or data is None:
            return np.uint64(0)
        return _sum(np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]) + np.uint64(ends[-1] - ends[0])
    width = type_.bit_width // 8
    raw = np.frombuffer(column.buffers()[1], np.uint8)
    return _sum(raw[column.offset * width : (column.offset + len(column)) * width])


def _sum(raw: np.ndarray) -> np.uint64:
    whole = len(raw) // 8 * 8
    words = np.frombuffer(raw[:whole], "<u8")
    with np.errstate(over="ignore"):
        return np.add.reduce(words, dtype=np.uint64) + np.add.reduce(raw[whole:], dtype=np.uint64)
