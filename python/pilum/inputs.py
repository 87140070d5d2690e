"""Input of users that is no Arrow stream by itself, opened as one: lazy frames, datasets, lists, dicts, pandas frames.

`opened` is the one entry; `pilum.exchange` calls it before anything else. What it does not know it returns unchanged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pilum.exceptions import InvalidInputError
from pilum.python_values import check_kinds

if TYPE_CHECKING:
    import pyarrow as pa

Raised = list[BaseException]
"""Receives the exception that an input raises while it is pulled: an Arrow stream carries only the text of it."""


def opened(data: Any, schema: pa.Schema | None = None, raised: Raised | None = None) -> Any:
    """Return `data` as a table, a reader or an iterator of record batches if it is one of the inputs of this module.

    Args:
        data: Anything that a user passes as rows. A Polars LazyFrame runs, and a dataset is scanned, batch by batch while the
            rows are written.
        schema: The schema that the user asks for. It decides the type of a column of dicts only where none can be inferred.
        raised: Receives the exception that the input raises while it is pulled.

    Raises:
        InvalidInputError: The values of a list of dicts have no common type (the message names the key and the row), or the
            input is of a kind that has no columns.
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
        return _of_dataset(data, raised)
    if _is_a(data, "pyarrow.dataset", "Scanner"):
        return data.to_reader()
    if _is_a(data, "pandas", "DataFrame"):
        return without_index(data)
    if isinstance(data, (list, tuple)) and data:
        return _of_dicts(data, schema) if isinstance(data[0], dict) else _flat(data)
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


def _is_a(data: Any, module: str, name: str) -> bool:
    """Return whether `data` is of a class of an optional package; the package is not loaded for that."""
    loaded = sys.modules.get(module)
    kind = None if loaded is None else getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(data, kind)


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


# -- Datasets of pyarrow and pylance -----------------------------------------------------------------------------------------


def _of_dataset(data: Any, raised: Raised) -> Any:
    """Return a reader over a dataset.

    pyarrow reads up to 1 GiB ahead of a slow consumer. Its files are therefore read one after the other, and those of Parquet a
    row group at a time. Other libraries, such as pylance, scan their datasets in their own way.
    """
    own = type(data).__module__.startswith("pyarrow")
    if not own or getattr(data, "_scan_options", None):
        return data.scanner().to_reader()
    schema = data.schema

    def batches() -> Iterator[pa.RecordBatch]:
        for fragment in data.get_fragments():
            split = getattr(fragment, "split_by_row_group", None)
            for part in [fragment] if split is None else split():
                yield from part.to_batches(schema=schema)

    return _reader(schema, batches(), raised)


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


def _of_dicts(rows: Sequence[Any], schema: pa.Schema | None) -> pa.Table:
    """Return dicts as a table. Its columns are all keys in the order in which they appear; a missing key is a null."""
    import pyarrow as pa

    keys: dict[str, None] = {}
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InvalidInputError(f"row {place} of the list is a {type(row).__name__}: every row must be a dict")
        for key in row:
            if not isinstance(key, str):
                raise InvalidInputError(f"row {place}: the key {key!r} is no text: keys are names of columns")
        keys.update(dict.fromkeys(row))
    if not keys:
        raise InvalidInputError(f"none of the {len(rows)} rows has a key: a row without values is a dict of None")
    return pa.table({key: _column(key, [row.get(key) for row in rows], schema) for key in keys})


def _column(key: str, values: list[Any], schema: pa.Schema | None) -> pa.Array:
    import pyarrow as pa

    refused = (pa.ArrowException, OverflowError, TypeError, ValueError)
    has_nanoseconds = check_kinds(key, values)
    try:
        array = pa.array(values)
    except refused as error:
        field = None if schema is None or schema.get_field_index(key) < 0 else schema.field(key)
        if field is not None:
            with suppress(*refused):
                array = pa.array(values, field.type)
                if array.to_pylist() == values:
                    return array
        row = _first_refused(values, refused)
        shown = repr(values[row])
        raise InvalidInputError(
            f"column {key!r}, row {row}: the value {shown if len(shown) <= 80 else shown[:79] + '…'} does not fit the rows "
            f"before it: {error}; convert the values to one type, or pass a table of pyarrow"
        ) from None
    return _in_nanoseconds(key, values, array.type) if has_nanoseconds else array


def _in_nanoseconds(key: str, values: list[Any], inferred: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_timestamp(inferred):
        return pa.array(values, pa.timestamp("ns", inferred.tz))
    if pa.types.is_duration(inferred):
        return pa.array(values, pa.duration("ns"))
    raise InvalidInputError(
        f"column {key!r}: values inside lists or dicts have nanoseconds, which would be lost: pass a table of pyarrow"
    )


def _first_refused(values: list[Any], refused: tuple[type[Exception], ...]) -> int:
    """Return the place of the first value with which the values up to it have no common type."""
    import pyarrow as pa

    fits, fails = 0, len(values)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        try:
            pa.array(values[:middle])
        except refused:
            fails = middle
        else:
            fits = middle
    return fails - 1


# -- pandas -----------------------------------------------------------------------------------------------------------------


def indexed(data: Any, index: bool | None) -> Any:
    """Return a pandas frame as a table with or without its index; `index=None` and other data are left to `opened`.

    Raises:
        InvalidInputError: `index=True`, and the data has no index, or the index has no name, or the name of a column.
    """
    if index is None:
        return data
    if not _is_a(data, "pandas", "DataFrame"):
        if index:
            raise InvalidInputError(f"index: a {type(data).__name__} has no index; only frames of pandas have one")
        return data
    if not index:
        return without_index(data, silent=True)
    names = list(data.index.names)
    if None in names:
        raise InvalidInputError(
            "index: the index of the frame has no name, so its column would have none: name it with "
            "frame.rename_axis('name'), or leave it out with index=False"
        )
    for name in names:
        if name in data.columns:
            raise InvalidInputError(
                f"index: the frame has an index and a column of the name {name!r}: rename one of them"
            )
    return without_index(data.reset_index(), silent=True)


def without_index(frame: Any, *, silent: bool = False) -> pa.Table:
    """Return the columns of a pandas frame as a table; an index that has a name is mentioned in the log."""
    import logging

    import pyarrow as pa

    names = [name for name in frame.index.names if name is not None]
    if names and not silent:
        logging.getLogger("pilum.inputs").warning(
            "the index %s of the pandas frame is not written: pass index=True to keep it as columns, or index=False",
            ", ".join(map(repr, names)),
        )
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if column.dtype != object or _is_plain(column):
            continue
        if check_kinds(str(name), column):
            raise InvalidInputError(
                f"column {name!r}: values of an object column have nanoseconds, which would be lost: convert the column with "
                "pandas.to_datetime or pandas.to_timedelta"
            )
    return pa.Table.from_pandas(frame, preserve_index=False)


def _is_plain(column: Any) -> bool:
    """Return whether pandas knows that all values are of one kind that pyarrow keeps."""
    from pandas.api.types import infer_dtype

    return infer_dtype(column, skipna=True) in {"string", "bytes", "integer", "floating", "boolean", "decimal", "empty"}
