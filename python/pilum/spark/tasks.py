"""Scans of a table as tasks of Spark: planned once on the driver, run by workers. `mapInArrow` and the Data Source use both.

Reading:

    planned = plan(uri, columns, filter, version=3)    # driver: pins one version, cuts the table by bytes
    planned.splits                                     # one per Spark task: fragment ids, a few bytes each
    read_task(planned.scan, planned.splits[0])         # worker: an iterator of record batches in `planned.schema`

`planned.scan` holds what all tasks share, so it is shipped once; `planned.splits[i]` is all that one task needs beside it. Both
can be pickled. `planned.schema` is the Arrow schema of the batches, in types that Spark takes, all nullable; it belongs to
`planned.spark_schema()`. A plan of an empty table, or with `limit=0`, has no splits.

Writing is in `pilum.spark.staging`: `prepare`, `write_task`, `commit`, `discard`.

No function here needs a session of Spark.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pilum.dataset import dataset
from pilum.location import Location, StorageOptions
from pilum.scanner import ScanOptions, ScanTask, contiguous
from pilum.spark.conform import conform_batches
from pilum.spark.types import Vectors, spark_safe, to_spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pilum.scanner import Scanner

BATCH_ROWS = 8192
"""Rows in a batch handed to Spark: its throughput is flat from 2,000 up, and larger ones make LIMIT waste more."""

BATCH_BYTES = 8 << 20
"""Bytes in a batch, for rows that are wide: both processes hold a few of them."""

TASK_BYTES = 128 << 20
"""Bytes on disk that one task of a large scan reads."""

SMALL_TASK_BYTES = 32 << 20
"""Bytes on disk that one task of a small scan reads: a task costs some 50 ms whatever it does."""

SMALL_TASKS = 8
"""Up to so many tasks are small ones, so that a small table keeps several cores busy."""

_TEXT_WIDTH = 24
_ITEMS = 8
"""Bytes of a text and items of a list that the plan assumes, because a manifest does not say them by column."""


class Split(NamedTuple):
    """The part of a scan that one task reads."""

    fragments: tuple[int, ...]
    """Ids of the fragments, in row order."""
    offset: int | None = None
    """Rows of these fragments that other tasks read, before the first row of this one."""
    limit: int | None = None
    """Rows at most."""


@dataclass(frozen=True, slots=True)
class SharedScan:
    """What all tasks of a scan have in common: it can be pickled, and it is shipped once."""

    uri: str
    version: int
    options: ScanOptions
    schema: pa.Schema
    storage_options: StorageOptions | None = field(default=None, repr=False)
    verify_checksums: bool = True


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan of one version, cut into tasks."""

    scan: SharedScan
    splits: tuple[Split, ...]
    source_schema: pa.Schema
    """The columns in the types of the table."""
    vectors: Vectors = "list"

    @property
    def schema(self) -> pa.Schema:
        """The columns in the types in which Spark takes them: those of the batches."""
        return self.scan.schema

    @property
    def version(self) -> int:
        """The version that all tasks read."""
        return self.scan.version

    def spark_schema(self) -> StructType:
        """Return the columns in Spark's types."""
        return to_spark_schema(self.source_schema, vectors=self.vectors)


def plan(
    uri: str,
    columns: Sequence[str] | None = None,
    filter: Any = None,  # noqa: A002 - the word that users know
    *,
    version: int | str | None = None,
    asof: dt.datetime | None = None,
    limit: int | None = None,
    tasks: int | None = None,
    task_bytes: int | None = None,
    fragments: Sequence[int] | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    vectors: Vectors = "list",
    batch_rows: int = BATCH_ROWS,
    storage_options: StorageOptions | None = None,
    verify_checksums: bool = True,
) -> ScanPlan:
    """Pin one version of a table and cut a scan of it into tasks of about equal bytes.

    Only the manifest is read. A fragment that is larger than a task is divided by rows, unless there is a filter.

    Args:
        uri: The table.
        columns: Names to read, in this order, or a dict name -> expression. None reads all columns.
        filter: A condition in any of its forms.
        version: A version's number or tag. None pins the newest.
        asof: Pin the newest version that is not younger than this.
        limit: Rows at most. Each task ends after so many; with several splits the caller applies the limit again.
        tasks: The number of splits at most.
        task_bytes: Bytes on disk of a split; by default 128 MiB, and 32 MiB for up to 8 splits.
        fragments: Ids of the only fragments to read.
        with_row_id: Add `_rowid` (int64).
        with_row_address: Add `_rowaddr` (int64).
        vectors: `"binary"` yields fixed-size lists of numbers as little-endian bytes.
        batch_rows: Rows of a batch at most.
        storage_options: Credentials and settings of the store; the tasks get them.
        verify_checksums: Whether driver and tasks compare what they read with its checksums.

    Raises:
        NotFoundError: There is no table, or no such version or tag.
        UnsupportedError: A column has no lossless way into Spark; the message names it.
        InvalidInputError: There is no such column, or the condition does not fit the schema.
    """
    where = Location.of(uri, storage_options)
    pinned = dataset(
        where.uri, version=version, asof=asof, storage_options=storage_options, verify_checksums=verify_checksums
    )
    options = ScanOptions.of(
        columns,
        filter,
        limit=limit,
        batch_rows=batch_rows,
        batch_bytes=BATCH_BYTES,
        with_row_id=with_row_id,
        with_row_address=with_row_address,
        fragments=fragments,
        schema=lambda: pinned.schema,
    )
    scanner = pinned.scanner(
        columns,
        filter,
        limit=limit,
        batch_rows=batch_rows,
        batch_bytes=BATCH_BYTES,
        with_row_id=with_row_id,
        with_row_address=with_row_address,
        fragments=fragments,
    )
    source_schema = _signed_row_numbers(scanner)
    scan = SharedScan(
        where.uri,
        pinned.version,
        replace(options, limit=None, fragments=None),
        spark_safe(source_schema, vectors),
        where.storage_options,
        verify_checksums,
    )
    pieces = _pieces(pinned, fragments, _share(pinned.schema, source_schema))
    splits = _splits(pieces, tasks, task_bytes, can_divide=options.filter is None)
    if limit is not None:
        splits = _limited(splits, limit, {it.id: it.num_rows for it in pieces}, has_filter=options.filter is not None)
    return ScanPlan(scan, tuple(splits), source_schema, vectors)


def read_task(scan: SharedScan, split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one split as record batches in `scan.schema`.

    A worker keeps the tables that it opened, by address and version. Closing the iterator ends the scan.
    """
    options = replace(scan.options, offset=split.offset, limit=split.limit)
    task = ScanTask(scan.uri, scan.version, split.fragments, options, scan.storage_options, scan.verify_checksums)
    batches = task.to_batches()
    try:
        yield from conform_batches(batches, scan.schema, f"{Location.of(scan.uri).shown} version {scan.version}")
    finally:
        batches.close()  # type: ignore[attr-defined]


class _Piece(NamedTuple):
    """A fragment, with what the plan weighs."""

    id: int
    bytes: int
    num_rows: int


def _signed_row_numbers(scanner: Scanner) -> pa.Schema:
    """Return the columns of a scan, row ids and addresses as int64: Spark has no unsigned integers."""
    fields = [
        pa.field(it.name, pa.int64(), it.nullable) if it.name in {"_rowid", "_rowaddr"} else it for it in scanner.schema
    ]
    return pa.schema(fields)


def _width(type_: pa.DataType) -> float:
    """Return about how many bytes a value takes."""
    if isinstance(type_, pa.BaseExtensionType):
        return _width(type_.storage_type)
    if pa.types.is_struct(type_):
        return sum(_width(field.type) for field in type_)
    if pa.types.is_fixed_size_list(type_):
        return float(type_.list_size * _width(type_.value_type))
    if pa.types.is_map(type_):
        return _ITEMS * (_width(type_.key_type) + _width(type_.item_type))
    if pa.types.is_dictionary(type_):
        return _width(type_.index_type)
    if hasattr(type_, "value_type"):
        return _ITEMS * _width(type_.value_type)
    try:
        return float(type_.bit_width) / 8
    except ValueError:
        return _TEXT_WIDTH


def _share(all_columns: pa.Schema, read: pa.Schema) -> float:
    """Return about which part of the bytes of a table a scan of some columns reads."""
    whole = sum(_width(field.type) for field in all_columns)
    part = sum(_width(field.type) for field in read)
    return min(1.0, part / whole) if whole else 1.0


def _pieces(pinned: Any, fragments: Sequence[int] | None, share: float) -> list[_Piece]:
    wanted = None if fragments is None else set(fragments)
    return [
        _Piece(it.id, max(1, int((it.bytes or it.physical_rows * 64) * share)), it.num_rows)
        for it in pinned.fragments
        if wanted is None or it.id in wanted
    ]


def _splits(pieces: Sequence[_Piece], tasks: int | None, task_bytes: int | None, *, can_divide: bool) -> list[Split]:
    total = sum(it.bytes for it in pieces)
    if not pieces:
        return []
    if tasks is None:
        if task_bytes is None:
            tasks = max(min(SMALL_TASKS, -(-total // SMALL_TASK_BYTES)), -(-total // TASK_BYTES))
        else:
            tasks = -(-total // task_bytes)
        # Planned by bytes: a fragment that is much larger than a task is divided.
        target = -(-total // tasks)
        if can_divide and any(it.bytes > 2 * target and it.bytes > SMALL_TASK_BYTES for it in pieces):
            return _divided(pieces, target)
    return [Split(run) for run in contiguous([(it.id, it.bytes) for it in pieces], max(1, tasks))]


def _divided(pieces: Sequence[_Piece], target: int) -> list[Split]:
    """Return splits of about `target` bytes each; a fragment that has more is divided by rows."""
    splits: list[Split] = []
    run: list[int] = []
    taken = 0
    for piece in pieces:
        parts = min(round(piece.bytes / target), max(1, piece.num_rows))
        if run and (parts > 1 or taken + piece.bytes > target):
            splits.append(Split(tuple(run)))
            run, taken = [], 0
        if parts <= 1:
            run.append(piece.id)
            taken += piece.bytes
            continue
        rows = -(-piece.num_rows // parts)
        splits += [Split((piece.id,), first, rows) for first in range(0, piece.num_rows, rows)]
    return [*splits, Split(tuple(run))] if run else splits


def _limited(splits: Sequence[Split], limit: int, num_rows: dict[int, int], *, has_filter: bool) -> list[Split]:
    """Return the splits that a limit needs, each of which ends after so many rows."""
    needed: list[Split] = []
    left = limit
    for split in splits:
        if left <= 0:
            break
        needed.append(split._replace(limit=left if split.limit is None else min(split.limit, left)))
        if not has_filter:
            there = sum(num_rows[it] for it in split.fragments)
            left -= there if split.limit is None else max(0, min(split.limit, there - (split.offset or 0)))
    return needed
