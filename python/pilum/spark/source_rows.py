"""Rows of Spark as record batches, for releases of PySpark that hand a sink rows instead of Arrow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

BATCH_ROWS = 8192


def batches_of(rows: Iterable[Any], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows as record batches of some columns, matched by position."""
    stream = iter(rows)
    while batch := list(islice(stream, BATCH_ROWS)):
        arrays = [
            pa.array([_value(row[place], field.type) for row in batch], field.type)
            for place, field in enumerate(columns)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def _value(value: Any, type_: pa.DataType) -> Any:
    """Return a value of a row as pyarrow takes it for a type."""
    if value is None:
        return None
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        # Spark hands instants over as clocks of this process.
        return value.astimezone(dt.UTC)
    if pa.types.is_list(type_):
        return [_value(it, type_.value_type) for it in value]
    if pa.types.is_map(type_):
        return [(_value(key, type_.key_type), _value(it, type_.item_type)) for key, it in value.items()]
    if pa.types.is_struct(type_):
        return {field.name: _value(value[place], field.type) for place, field in enumerate(type_)}
    return bytes(value) if isinstance(value, bytearray) else value
