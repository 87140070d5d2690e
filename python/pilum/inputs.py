"""Input of users that is no Arrow stream by itself, opened as one: lazy frames, datasets, lists, dicts, pandas frames.

`opened` is the one entry; `pilum.exchange` calls it before anything else. What it does not know it returns unchanged. Dicts,
pandas frames and datasets of pyarrow have modules of their own: `dict_rows`, `pandas_frames`, `file_datasets`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from pilum.dict_rows import batches_of_dicts, table_of_dicts
from pilum.exceptions import InvalidInputError
from pilum.file_datasets import batches_of_dataset
from pilum.pandas_frames import is_a as _is_a
from pilum.pandas_frames import without_index

if TYPE_CHECKING:
    import pyarrow as pa

Raised = list[BaseException]
"""Receives the exception that an input raises while it is pulled: an Arrow stream carries only the text of it."""


def opened(data: Any, schema: pa.Schema | None = None, raised: Raised | None = None, missing: str | None = None) -> Any:
    """Return `data` as a table, a reader or an iterator of record batches if it is one of the inputs of this module.

    Args:
        data: Anything that a user passes as rows. A Polars LazyFrame runs, and a dataset is scanned, batch by batch while the
            rows are written.
        schema: The schema that the user asks for. It decides the type of a column of dicts only where none can be inferred.
        raised: Receives the exception that the input raises while it is pulled.
        missing: `"error"` refuses files of a dataset that lack one of its columns.

    Raises:
        InvalidInputError: The values of dicts have no common type (the message names the key and the row), the files of a
            dataset do not fit each other, or the input is of a kind that has no columns.
    """
    raised = [] if raised is None else raised
    if _is_a(data, "polars", "DataFrame"):
        _refuse_objects(data.schema)
    if _is_a(data, "polars", "LazyFrame"):
        _refuse_objects(data.collect_schema())
        return _reader(*_of_lazy_frame(data), raised)
    if _is_a(data, "polars", "DataFrame") and _has_null_type(data):
        import pyarrow as pa

        # Polars exports a buffer that columns of type null do not have; pyarrow ignores it.
        return pa.RecordBatchReader.from_stream(data)
    if _is_a(data, "pyarrow.dataset", "Dataset"):
        batches = batches_of_dataset(data, missing)
        return data.scanner().to_reader() if batches is None else _reader(data.schema, batches, raised)
    if _is_a(data, "pyarrow.dataset", "Scanner"):
        return data.to_reader()
    if _is_a(data, "pandas", "DataFrame"):
        return without_index(data)
    if isinstance(data, (list, tuple)) and data:
        return table_of_dicts(data, schema) if isinstance(data[0], dict) else _flat(data)
    if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__"):
        return _of_iterator(data, schema, raised)
    hint = _hint(data)
    if hint is not None:
        raise InvalidInputError(f"the rows are of class {type(data).__name__}, which is no table: {hint}")
    return data


def _refuse_objects(schema: Any) -> None:
    """Refuse columns of Polars that hold objects of Python: they export the addresses of the objects as values."""
    for name, of in schema.items():
        if "Object" in str(of):
            raise InvalidInputError(
                f"column {name!r} is of type {of}: objects of Python cannot be stored; convert the column"
            )


def _hint(data: Any) -> str | None:
    """Return what to do with an input that is often tried, and that has no columns."""
    if isinstance(data, dict):
        return "pass pyarrow.table(..) of a dict of columns, or a list with one dict for each row"
    if isinstance(data, (str, bytes, os.PathLike)):
        return "a file is opened first, for example by pyarrow.dataset.dataset(path) or polars.scan_parquet(path)"
    if _is_a(data, "numpy", "ndarray"):
        return "give its columns names: pyarrow.table({'name': array})"
    if _is_a(data, "pandas", "Series") or _is_a(data, "polars", "Series"):
        return "a column alone is made a frame by to_frame()"
    return None


def _reader(schema: pa.Schema, batches: Iterator[Any], raised: Raised) -> pa.RecordBatchReader:
    import pyarrow as pa

    def recorded() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except GeneratorExit:
            raise
        except BaseException as error:
            raised.append(error)
            raise

    return pa.RecordBatchReader.from_batches(schema, recorded())


# -- Polars ---------------------------------------------------------------------------------------------------------------


def _of_lazy_frame(frame: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import polars as pl
    import pyarrow as pa

    empty = pl.DataFrame(schema=frame.collect_schema())
    schema = pa.RecordBatchReader.from_stream(empty).schema

    def batches() -> Iterator[pa.RecordBatch]:
        if hasattr(frame, "collect_batches"):
            frames = frame.collect_batches(maintain_order=True, lazy=True)
        else:
            # Releases before 1.34 hold the whole result.
            frames = iter([frame.collect()])
        try:
            for each in frames:
                yield from pa.RecordBatchReader.from_stream(each)
        finally:
            # A query that nobody reads any more runs to its end otherwise.
            stop = getattr(frames, "stop", None)
            if stop is not None:
                with suppress(Exception):
                    stop()

    return schema, batches()


def _has_null_type(frame: Any) -> bool:
    import polars as pl

    def within(kind: Any) -> bool:
        if kind == pl.Null:
            return True
        fields = getattr(kind, "fields", None)
        if fields is not None and not callable(fields):
            return any(within(field.dtype) for field in fields)
        inner = getattr(kind, "inner", None)
        return inner is not None and within(inner)

    return any(map(within, frame.schema.values()))


# -- Lists ------------------------------------------------------------------------------------------------------------------


def _flat(items: Sequence[Any]) -> Iterator[Any]:
    """Yield the record batches of a list of tables, frames, readers and batches; other items are yielded as they are."""
    import pyarrow as pa

    for item in items:
        if hasattr(item, "__arrow_c_array__") or not hasattr(item, "__arrow_c_stream__"):
            yield item
            continue
        reader = pa.RecordBatchReader.from_stream(item)
        empty = True
        for batch in reader:
            empty = False
            yield batch
        if empty:
            # The columns of a table without rows count too.
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)


def _of_iterator(items: Iterator[Any], schema: pa.Schema | None, raised: Raised) -> Any:
    """Return an iterator of dicts as a reader, in batches of a bounded number of rows; other iterators as they are."""
    try:
        first = next(items, None)
    except BaseException as error:
        raised.append(error)
        raise
    if first is None:
        return iter(())
    if not isinstance(first, dict):
        return chain([first], items)
    columns, batches = batches_of_dicts(chain([first], items), schema)
    return _reader(columns, batches, raised)
