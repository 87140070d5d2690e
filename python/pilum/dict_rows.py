"""Rows as dicts: a list of them is one table, an iterator of them becomes batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pilum.exceptions import InvalidInputError
from pilum.python_values import check_kinds

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 10_000
"""Rows of an iterator that are held as dicts at once. The columns of an iterator without a schema are those of so many rows."""


def batches_of_dicts(rows: Iterator[Any], schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return an iterator of dicts as a schema and batches.

    Args:
        rows: The dicts; there is at least one.
        schema: The columns. Without it the first 10,000 rows decide: later rows must fit them.

    Raises:
        InvalidInputError: As for a list; and for a later row that has another key, or a value of another type.
    """
    import pyarrow as pa

    first = table_of_dicts(list(itertools.islice(rows, BATCH_ROWS)), schema)
    columns = first.schema
    if schema is not None:
        # A type of the schema that keeps the first rows is that of all batches; the engine converts the other columns.
        wanted = [field if _keeps(first, field) else columns.field(field.name) for field in schema]
        columns = pa.schema([*wanted, *(field for field in columns if field.name not in schema.names)])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from _in_columns(first, columns, 0)
        place = len(first)
        while taken := list(itertools.islice(rows, BATCH_ROWS)):
            yield from _in_columns(table_of_dicts(taken, columns, place), columns, place)
            place += len(taken)

    return columns, batches()


def _in_columns(table: pa.Table, columns: pa.Schema, place: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table in the columns of the first rows."""
    import pyarrow as pa

    for name in table.column_names:
        if name not in columns.names:
            raise InvalidInputError(
                f"column {name!r} is in rows {place} to {place + len(table) - 1} and not in the first {BATCH_ROWS}: pass "
                "schema= with all columns"
            )
    arrays = []
    for field in columns:
        column = pa.nulls(len(table), field.type) if field.name not in table.column_names else table.column(field.name)
        if column.type != field.type:
            column = _converted(column, field, place)
        arrays.append(column)
    yield from pa.table(arrays, schema=columns).to_batches()


def _keeps(first: pa.Table, field: pa.Field) -> bool:
    return field.name not in first.column_names or _same(first.column(field.name), field.type) is not None


def _same(column: Any, kind: pa.DataType) -> Any:
    """Return a column in another type, or None if a value would not stay the same."""
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    with suppress(pa.ArrowException, ValueError):
        converted = column.cast(kind)
        if converted.cast(column.type).equals(column) and converted.to_pylist() == column.to_pylist():
            return converted
    return None


def _converted(column: Any, field: pa.Field, place: int) -> Any:
    converted = _same(column, field.type)
    if converted is None:
        raise InvalidInputError(
            f"column {field.name!r} is {field.type} in the first rows and {column.type} in rows {place} to "
            f"{place + len(column) - 1}: pass schema= with its type"
        )
    return converted


def table_of_dicts(rows: Sequence[Any], schema: pa.Schema | None, place: int = 0) -> pa.Table:
    """Return dicts as a table. Its columns are all keys in the order in which they appear; a missing key is a null.

    `place` is the number of the first row, for messages.
    """
    import pyarrow as pa

    keys: dict[str, None] = {}
    for number, row in enumerate(rows, place):
        if not isinstance(row, dict):
            raise InvalidInputError(f"row {number} of the list is a {type(row).__name__}: every row must be a dict")
        for key in row:
            if not isinstance(key, str):
                raise InvalidInputError(f"row {number}: the key {key!r} is no text: keys are names of columns")
        keys.update(dict.fromkeys(row))
    if not keys:
        raise InvalidInputError(f"none of the {len(rows)} rows has a key: a row without values is a dict of None")
    return pa.table({key: _column(key, [row.get(key) for row in rows], schema, place) for key in keys})


def _column(key: str, values: list[Any], schema: pa.Schema | None, place: int) -> pa.Array:
    import pyarrow as pa

    refused = (pa.ArrowException, OverflowError, TypeError, ValueError)
    has_nanoseconds = check_kinds(key, values, place)
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
        shown = shown if len(shown) <= 80 else f"{shown[:79]}…"
        raise InvalidInputError(
            f"column {key!r}, row {place + row}: the value {shown} does not fit the rows before it: {error}; convert the "
            "values to one type, or pass a table of pyarrow"
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


def with_equal_keys(rows: Any) -> Any:
    """Return rows in which every dict has the same keys: in a merge, a missing key would turn a stored value into null.

    Rows that are no dicts are returned as they are. The dicts of an iterator are checked when they are pulled.

    Raises:
        InvalidInputError: A dict lacks a key that another one has; the message names the row and the key.
    """
    if isinstance(rows, Iterator) and not hasattr(rows, "__arrow_c_stream__"):
        return _with_keys_of_the_first(rows)
    if isinstance(rows, (list, tuple)) and rows and all(isinstance(row, dict) for row in rows):
        keys = {key: place for place, row in reversed(list(enumerate(rows))) for key in row}
        for place, row in enumerate(rows):
            for key in keys:
                if key not in row:
                    raise _lacks(place, key, keys[key])
    return rows


def _with_keys_of_the_first(rows: Iterator[Any]) -> Iterator[Any]:
    first: dict[Any, Any] | None = None
    for place, row in enumerate(rows):
        if isinstance(row, dict):
            first = row if first is None else first
            for key in first.keys() - row.keys():
                raise _lacks(place, key, 0)
            for key in row.keys() - first.keys():
                raise _lacks(0, key, place)
        yield row


def _lacks(place: int, key: Any, holder: int) -> InvalidInputError:
    return InvalidInputError(
        f"row {place} of the source lacks the key {key!r}, which row {holder} has: give every row the same keys, or make the "
        'values of such rows null with missing="null"'
    )
