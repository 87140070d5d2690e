"""The schema adapter between Spark and a table: Arrow arrays converted to another Arrow type, without loss.

Spark has fewer types than a table (no unsigned integers, no fixed-size lists, one unit of time), and its names and nullability
differ. Both directions use the same conversion, at every level of nesting. A value that the target type cannot hold is an error
that names the column and the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pilum.exceptions import InvalidInputError

INT32_MAX = 2**31 - 1


def conform_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema, origin: str) -> Iterator[pa.RecordBatch]:
    """Yield batches with exactly the columns of `schema`, matched by name.

    Args:
        batches: Record batches, of any types that have a lossless way to those of `schema`.
        schema: The columns to yield, in order.
        origin: What a message calls the source of the rows.
    """
    first_row = 0
    for batch in batches:
        columns = []
        for field in schema:
            place = batch.schema.get_field_index(field.name)
            if place < 0:
                raise InvalidInputError(f"{origin}: there is no column {field.name!r}; there are {batch.schema.names}")
            columns.append(conform(batch.column(place), field.type, f"{origin}: column {field.name!r}", first_row))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        first_row += batch.num_rows


def conform(array: pa.Array, target: pa.DataType, where: str, first_row: int = 0) -> pa.Array:
    """Return the values of `array` in type `target`.

    Args:
        array: The values; slices and nulls at any level are fine.
        target: The type to return.
        where: What a message calls the column.
        first_row: The row number of the first value, for messages.

    Raises:
        InvalidInputError: A value has no equal in `target`, or there is no way between the types.
    """
    if array.type == target:
        return array
    if isinstance(array, pa.ExtensionArray):
        return conform(array.storage, target, where, first_row)
    if pa.types.is_dictionary(target):
        return _dictionary(array, target, where, first_row)
    if isinstance(array, pa.DictionaryArray):
        return conform(array.dictionary_decode(), target, where, first_row)
    if isinstance(array, pa.RunEndEncodedArray):
        return conform(pc.run_end_decode(array), target, where, first_row)
    if _is_list(target) and _is_list(array.type):
        return _list(array, target, where, first_row)
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _struct(array, target, where, first_row)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        return _map(array, target, where, first_row)
    if pa.types.is_binary(target) and pa.types.is_fixed_size_list(array.type):
        return _vector_bytes(array, where, first_row)
    return _leaf(array, target, where, first_row)


def _dictionary(array: pa.Array, target: pa.DataType, where: str, first_row: int) -> pa.Array:
    """Return values as keys into a new dictionary; the table joins it with the dictionaries of other batches."""
    encoded = conform(array, target.value_type, where, first_row).dictionary_encode()
    try:
        keys = encoded.indices.cast(target.index_type)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"{where}, from row {first_row}: {len(encoded.dictionary)} distinct values are more than "
            f"{target.index_type} keys count: use a wider key type, or store the column plain"
        ) from error
    return pa.DictionaryArray.from_arrays(keys, encoded.dictionary, ordered=target.ordered)


def _is_list(type_: pa.DataType) -> bool:
    return any(
        test(type_)
        for test in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )


def _leaf(array: pa.Array, target: pa.DataType, where: str, first_row: int) -> pa.Array:
    try:
        cast = _CASTS.get((array.type.id, target.id), _plain_cast)(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError) as error:
        row = _first_refused(array, target)
        place = "" if row is None else f", row {first_row + row}"
        raise InvalidInputError(f"{where}{place}: {array.type} has no lossless way to {target}: {error}") from error
    return cast


def _plain_cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    # Arrow's safe cast refuses overflow and truncation of integers, units of time and decimals.
    return pc.cast(array, target, safe=True)


def _exact(way: Callable[[pa.Array, pa.DataType], pa.Array]) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    """Return `way` with its result converted back and compared, for casts that Arrow calls safe although they lose values."""

    def there_and_back(array: pa.Array, target: pa.DataType) -> pa.Array:
        cast = way(array, target)
        if not pc.all(pc.equal(pc.cast(cast, array.type), array), min_count=0).as_py():
            raise pa.ArrowInvalid(f"a value would change as {target}")
        return cast

    return there_and_back


_CASTS: dict[tuple[int, int], Callable[[pa.Array, pa.DataType], pa.Array]] = {
    (pa.date64().id, pa.date32().id): _exact(_plain_cast),
    # Arrow calls these casts safe if the number is in range, even if they round.
    (pa.float64().id, pa.float32().id): _exact(_plain_cast),
    (pa.float64().id, pa.float16().id): _exact(_plain_cast),
    (pa.float32().id, pa.float16().id): _exact(_plain_cast),
}


def _first_refused(array: pa.Array, target: pa.DataType) -> int | None:
    """Return the first row that cannot be cast by itself, or None if the types alone are the reason."""
    way = _CASTS.get((array.type.id, target.id), _plain_cast)

    def fits(part: pa.Array) -> bool:
        try:
            way(part, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError):
            return False
        return True

    if fits(array.slice(0, 0)) is False:
        return None
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if not fits(array.slice(low, middle - low)) else (middle, high)
    return low


def _list(array: pa.Array, target: pa.DataType, where: str, first_row: int) -> pa.Array:
    if pa.types.is_fixed_size_list(array.type) and not array.null_count:
        # Offsets of equal distance: the values are not copied.
        size = array.type.list_size
        _refuse_beyond_int32(len(array) * size, where, first_row)
        offsets = pa.array(np.arange(len(array) + 1, dtype=np.int32) * np.int32(size))
    else:
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        _refuse_beyond_int32(int(ends[-1]), where, first_row)
        offsets = pa.array(ends.astype(np.int32))
    items = conform(array.flatten(), target.value_type, f"{where} (items)", first_row)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_large_list(target):
        return pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), items, type=target, mask=mask)
    if pa.types.is_fixed_size_list(target):
        return _fixed_size(array, items, offsets, target, where, first_row)
    return pa.ListArray.from_arrays(offsets, items, type=target, mask=mask)


def _fixed_size(
    array: pa.Array, items: pa.Array, offsets: pa.Array, target: pa.DataType, where: str, first_row: int
) -> pa.Array:
    lengths = np.diff(offsets.to_numpy())
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(valid & (lengths != target.list_size))
    if len(wrong):
        row = int(wrong[0])
        raise InvalidInputError(
            f"{where}, row {first_row + row}: a list of {lengths[row]} items has no lossless way to {target}"
        )
    if valid.all():
        return pa.FixedSizeListArray.from_arrays(items, type=target)
    # A null list of a fixed size has items too: they are null.
    places = np.repeat(np.cumsum(valid) - 1, target.list_size) * target.list_size
    places += np.tile(np.arange(target.list_size), len(array))
    filled = items.take(pa.array(places, mask=np.repeat(~valid, target.list_size)))
    return pa.FixedSizeListArray.from_arrays(filled, type=target, mask=pa.array(~valid))


def _refuse_beyond_int32(items: int, where: str, first_row: int) -> None:
    if items > INT32_MAX:
        raise InvalidInputError(
            f"{where}, from row {first_row}: {items} items in one batch: read with smaller batch_rows"
        )


def _struct(array: pa.Array, target: pa.DataType, where: str, first_row: int) -> pa.Array:
    children = []
    parts = array.flatten()
    for field in target:
        place = array.type.get_field_index(field.name)
        if place < 0:
            raise InvalidInputError(
                f"{where}: there is no field {field.name!r}; there are {[f.name for f in array.type]}"
            )
        children.append(conform(parts[place], field.type, f"{where}.{field.name}", first_row))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _map(array: pa.Array, target: pa.DataType, where: str, first_row: int) -> pa.Array:
    entries = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
    pairs = entries.flatten()
    lengths = pc.fill_null(pc.list_value_length(entries), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int32))
    keys = conform(pairs.field(0), target.key_type, f"{where} (keys)", first_row)
    items = conform(pairs.field(1), target.item_type, f"{where} (values)", first_row)
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)


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
