"""Rows of a table as Spark takes them: the engine's schema adapter, and vectors as bytes.

Spark has fewer types than a table, and its names and nullability differ. The engine brings columns to other types by name and
without loss, as in every write. What only Spark asks for is here: fixed-size lists of numbers as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pilum import _pilum
from pilum.exceptions import InvalidInputError

INT32_MAX = 2**31 - 1


def conform_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema, origin: str) -> Iterator[pa.RecordBatch]:
    """Yield batches with exactly the columns of `schema`, matched by name at every level. Other columns are left out.

    Args:
        batches: Record batches, of any types that have a lossless way to those of `schema`.
        schema: The columns to yield, in order.
        origin: What a message calls the source of the rows.

    Raises:
        InvalidInputError: A column is missing, or a value has no equal in its type.
    """
    first_row = 0
    for batch in batches:
        yield conform_batch(batch, schema, origin, first_row)
        first_row += batch.num_rows


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema, origin: str, first_row: int = 0) -> pa.RecordBatch:
    """Return one batch with the columns of `schema`; `first_row` is the number of its first row, for messages."""
    columns: dict[str, pa.Array] = {}
    given: dict[str, pa.Array] = {}
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        if place < 0:
            raise InvalidInputError(f"{origin}: there is no column {field.name!r}; there are {batch.schema.names}")
        column = batch.column(place)
        if column.type == field.type:
            columns[field.name] = column
        else:
            given[field.name] = _with_bytes(column, field.type, f"{origin}: column {field.name!r}", first_row)
    if given:
        wanted = pa.schema([schema.field(name) for name in given])
        try:
            fitted = _pilum.fit_batch(pa.record_batch(given), wanted, first_row=first_row)
        except InvalidInputError as error:
            raise InvalidInputError(f"{origin}: {error}") from None
        columns.update(zip(given, pa.record_batch(fitted).columns, strict=True))
    return pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)


def _with_bytes(array: pa.Array, target: pa.DataType, where: str, first_row: int) -> pa.Array:
    """Return the array with bytes for each vector that the target has as binary; all other values stay as they are."""
    if isinstance(array, pa.ExtensionArray):
        storage = _with_bytes(array.storage, target, where, first_row)
        return array if storage is array.storage or storage.type == array.type.storage_type else storage
    if pa.types.is_fixed_size_list(array.type) and pa.types.is_binary(target):
        return _vector_bytes(array, where, first_row)
    if pa.types.is_struct(array.type) and pa.types.is_struct(target):
        members = [array.field(at) for at in range(array.type.num_fields)]
        made = []
        for field, member in zip(array.type, members, strict=True):
            place = target.get_field_index(field.name)
            path = f"{where}.{field.name}"
            made.append(member if place < 0 else _with_bytes(member, target.field(place).type, path, first_row))
        if any(new is not old for new, old in zip(made, members, strict=True)):
            fields = [
                pa.field(field.name, new.type, field.nullable) for field, new in zip(array.type, made, strict=True)
            ]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(made, fields=fields, mask=mask)
    return array


def _refuse_beyond_int32(items: int, where: str, first_row: int) -> None:
    if items > INT32_MAX:
        raise InvalidInputError(
            f"{where}, from row {first_row}: {items} items in one batch: read with smaller batch_rows"
        )


def _vector_bytes(array: pa.Array, where: str, first_row: int) -> pa.Array:
    """Return fixed-size vectors as their bytes, little endian: Spark copies one value for each instead of hundreds."""
    width = vector_byte_width(array.type)
    if width is None:
        raise InvalidInputError(f"{where}: {array.type} is no vector of numbers: read it as a list")
    items = array.flatten()
    if items.null_count:
        row = int(np.flatnonzero(~items.is_valid().to_numpy(zero_copy_only=False))[0]) // array.type.list_size
        raise InvalidInputError(
            f"{where}, row {first_row + row}: a missing item cannot be told in bytes: read with vectors='list'"
        )
    lengths = array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64) * (width * array.type.list_size)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    _refuse_beyond_int32(int(ends[-1]), where, first_row)
    _, values = items.buffers()
    start = items.offset * width
    data = values.slice(start, len(items) * width) if values is not None else pa.py_buffer(b"")
    offsets = pa.py_buffer(ends.astype(np.int32))
    validity = _validity(array)
    return pa.Array.from_buffers(pa.binary(), len(array), [validity, offsets, data], array.null_count)


def vector_byte_width(type_: pa.DataType) -> int | None:
    """Return the bytes of one item of a vector of numbers, or None if the items are no numbers."""
    item = type_.value_type
    if pa.types.is_integer(item) or pa.types.is_floating(item):
        return int(item.bit_width) // 8
    return None


def _validity(array: pa.Array) -> Any:
    if not array.null_count:
        return None
    # The values of a boolean array have the layout of a validity bitmap.
    return array.is_valid().buffers()[1]
