"""The keys of a reference set and their bytes as a DataFrame; chunks are fetched by the tasks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pilum.arguments import checked, flag, members, positive, word
from pilum.references.chunks import ChunkDecoder, chunk_decoders, decoded
from pilum.references.opened import References, open_set
from pilum.references.options import string, strings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pilum.references.options import Mode

SCHEMA = "key string, data binary"
BATCH_BYTES = 32 << 20
"""Bytes that a task holds at once, unless one value has more."""
BATCH_ROWS = 4096


@checked(
    prefix=string,
    tasks=positive,
    decode=flag,
    mode=word("union", "simple", "full"),
    allow=strings,
    storage_options=members,
    target_options=members,
)
def read_references(
    spark: SparkSession,
    source: References | str | os.PathLike[str] | Mapping[str, Any],
    *,
    prefix: str = "",
    tasks: int | None = None,
    decode: bool = False,
    mode: Mode = "union",
    allow: Iterable[str] = (),
    storage_options: Mapping[str, str] | None = None,
    target_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return one row per key: `key` and `data`, its bytes.

    The driver opens the set. Keys of one file go to one task, which reads neighbouring ranges together.

    Args:
        spark: The session.
        source: An opened set, an address, or a document as a mapping.
        prefix: The keys to read: those that begin with this.
        tasks: The number of tasks; one per file, at most as many as `spark.sql.shuffle.partitions` says.
        decode: Whether chunks of arrays of zarr version 2 are decoded: `data` is then the values of the whole chunk in C order,
            as the array's `dtype` says. Other keys stay as they are. It needs numcodecs.
        mode: As in `pilum.references.open`.
        allow: As in `pilum.references.open`; it holds in the tasks too.
        storage_options: Options of the store of the set.
        target_options: Options of the stores of the targets; `storage_options`.

    Raises:
        ReferenceNotReachable: In a task: a target could not be read.
        UnsupportedError: numcodecs is not installed, or an array has objects as values.
    """
    refs = source
    if not isinstance(refs, References):
        refs = open_set(refs, mode=mode, allow=allow, storage_options=storage_options, target_options=target_options)
    arrays = chunk_decoders(refs) if decode else {}
    table = refs.to_arrow(prefix)
    columns = [column.cast("string") if name == "path" else column for name, column in _columns(table)]
    plain = table.from_arrays(columns, names=table.column_names)
    if tasks is None:
        files = len(plain.column("path").unique())
        tasks = max(1, min(files, int(spark.conf.get("spark.sql.shuffle.partitions") or 200)))
    rows = spark.createDataFrame(plain).repartition(tasks, "path")
    location, opening = refs.location, refs.opening

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _loaded(batch, location, opening, arrays)

    return rows.mapInArrow(load, SCHEMA)


def _columns(table: pa.Table) -> list[tuple[str, Any]]:
    return list(zip(table.column_names, table.columns, strict=True))


def _loaded(
    batch: pa.RecordBatch, location: str | None, opening: dict[str, Any], arrays: dict[str, ChunkDecoder]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    refs = References.of_rows(batch, location, opening)
    sizes = [size or 0 for size in batch.column("size").to_pylist()]
    group: list[str] = []
    taken = 0
    for key, size in zip(batch.column("key").to_pylist(), sizes, strict=True):
        if group and (taken + size > BATCH_BYTES or len(group) >= BATCH_ROWS):
            yield pa.record_batch({"key": group, "data": _data(refs, group, arrays)})
            group, taken = [], 0
        group.append(key)
        taken += size
    if group:
        yield pa.record_batch({"key": group, "data": _data(refs, group, arrays)})


def _data(refs: References, keys: list[str], arrays: dict[str, ChunkDecoder]) -> pa.Array:
    import pyarrow as pa

    found = refs.get_many(keys)
    values = [decoded(key, value, arrays) for key, value in found.items()] if arrays else list(found.values())
    return pa.array(values, pa.binary())
