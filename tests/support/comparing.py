"""Tables compared to the last bit: types, nullability, metadata, nulls, NaN, the sign of zero."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pyarrow as pa


def assert_same(got: pa.Table, want: pa.Table, what: str = "table", *, nullability: bool = True) -> None:
    """Fail with the first difference in words.

    Args:
        got: What was read.
        want: What should have been read.
        what: What a message calls it.
        nullability: Compare `nullable` of fields as well.
    """
    got, want = _storage(got), _storage(want)
    assert got.schema.names == want.schema.names, f"{what}: columns {got.schema.names}, expected {want.schema.names}"
    assert got.num_rows == want.num_rows, f"{what}: {got.num_rows} rows, expected {want.num_rows}"
    for mine, theirs in zip(got.schema, want.schema, strict=True):
        assert_same_field(mine, theirs, f"{what}: field {theirs.name!r}", nullability=nullability)
    assert (got.schema.metadata or {}) == (want.schema.metadata or {}), f"{what}: schema metadata differs"
    for name in want.schema.names:
        assert_same_column(got[name], want[name], f"{what}: column {name!r}")


def assert_same_field(got: pa.Field, want: pa.Field, what: str, *, nullability: bool = True) -> None:
    """Compare name, type, nullability and metadata, extension names aside: their storage is compared."""
    assert got.type == want.type, f"{what} is {got.type}, expected {want.type}"
    if nullability:
        assert got.nullable == want.nullable, f"{what}: nullable is {got.nullable}, expected {want.nullable}"
    assert _metadata(got) == _metadata(want), f"{what}: metadata {got.metadata}, expected {want.metadata}"


def assert_same_column(got: pa.ChunkedArray, want: pa.ChunkedArray, what: str) -> None:
    """Compare values bit by bit."""
    mine, theirs = flat(got), flat(want)
    if mine.equals(theirs) and not _has_floats(theirs.type):
        return
    left, right = [bits(value) for value in plain(mine)], [bits(value) for value in plain(theirs)]
    if left == right:
        return
    for row, (a, b) in enumerate(zip(left, right, strict=True)):
        assert a == b, f"{what}, row {row}: {a!r}, expected {b!r}"


def picked(table: pa.Table, rows: list[int]) -> pa.Table:
    """Return rows by position. pyarrow itself cannot take from views, and not always from maps, but it can slice them."""
    return pa.table([_picked(column, rows) for column in table.columns], schema=table.schema)


def _picked(column: pa.ChunkedArray, rows: list[int]) -> pa.ChunkedArray:
    try:
        return column.take(pa.array(rows, pa.int64()))
    except (pa.ArrowNotImplementedError, pa.ArrowIndexError):
        array = flat(column)
        return pa.chunked_array([array.slice(row, 1) for row in rows], column.type)


def flat(column: pa.ChunkedArray) -> pa.Array:
    """Return one array, whatever the chunks, dictionaries decoded to their values."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    return array


def plain(array: pa.Array) -> list[object]:
    """Return Python values; those of temporal type as integers, which cannot overflow. Nothing is computed by Arrow."""
    type_ = array.type
    if pa.types.is_dictionary(type_):
        values, keys = plain(array.dictionary), array.indices.to_pylist()
        return [None if key is None else values[key] for key in keys]
    if pa.types.is_temporal(type_) and not pa.types.is_interval(type_):
        return array.view(pa.int32() if type_.bit_width == 32 else pa.int64()).to_pylist()
    if not pa.types.is_nested(type_):
        return array.to_pylist()
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(type_):
        members = [plain(array.field(place)) for place in range(type_.num_fields)]
        names = [field.name for field in type_]
        rows: Any = zip(*members, strict=True) if members else ((),) * len(array)
        made: Any = (dict(zip(names, row, strict=True)) for row in rows)
    elif pa.types.is_map(type_):
        keys, items = plain(array.keys), plain(array.items)
        made = [list(zip(keys[start:end], items[start:end], strict=True)) for start, end in _extents(array)]
    else:
        items = plain(array.values)
        made = [items[start:end] for start, end in _extents(array)]
    return [value if is_there else None for value, is_there in zip(made, valid, strict=True)]


def _extents(array: pa.Array) -> list[tuple[int, int]]:
    """Return for each row where its items lie among the values; null rows have any extent."""
    type_ = array.type
    if pa.types.is_fixed_size_list(type_):
        size = type_.list_size
        return [((array.offset + row) * size, (array.offset + row + 1) * size) for row in range(len(array))]
    starts = array.offsets.to_pylist()
    if pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_):
        return [(start, start + size) for start, size in zip(starts, array.sizes.to_pylist(), strict=True)]
    return list(itertools.pairwise(starts)) if len(array) else []


def bits(value: object) -> object:
    """Return a value in which NaN equals NaN and -0.0 differs from 0.0."""
    if isinstance(value, float):
        return "float " + struct.pack(">d", value).hex() if value == value else "NaN"
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    return value


def _has_floats(type_: pa.DataType) -> bool:
    if pa.types.is_floating(type_):
        return True
    if pa.types.is_dictionary(type_):
        return _has_floats(type_.value_type)
    return any(_has_floats(type_.field(i).type) for i in range(type_.num_fields))


def _storage(table: pa.Table) -> pa.Table:
    """Extension columns as their storage, so that registered types do not matter."""
    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        kept = field
        if isinstance(field.type, pa.BaseExtensionType):
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], field.type.storage_type)
            kept = pa.field(field.name, field.type.storage_type, field.nullable, field.metadata)
        columns.append(column)
        fields.append(kept)
    return pa.table(columns, schema=pa.schema(fields, metadata=table.schema.metadata))


def _metadata(field: pa.Field) -> dict[bytes, bytes]:
    return {key: value for key, value in (field.metadata or {}).items() if not key.startswith(b"ARROW:extension")}


def arrow_of(df):
    """Return the rows of a DataFrame of Spark as an Arrow table; PySpark 3.5 has no public method `toArrow`."""
    return df.toArrow() if hasattr(df, "toArrow") else pa.Table.from_batches(df._collect_as_arrow())
