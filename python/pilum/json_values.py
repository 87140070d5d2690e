"""Values of Arrow arrays as JSON: numbers, texts, lists and objects from which each value can be read back.

| Arrow | JSON |
|---|---|
| null, bool, integers | null, true and false, numbers of all digits |
| floats | numbers; the texts "nan", "inf" and "-inf" |
| decimals | texts with all digits of the scale |
| text, dictionaries | texts, their values |
| binary | texts in base64 |
| dates | "2026-01-31"; years beyond 9999 have a sign |
| times | "12:00:00", with 3, 6 or 9 digits where the fraction is not zero |
| timestamps | "2026-01-31T12:00:00"; with a zone the time in UTC, and "Z" at the end |
| durations, intervals | ISO 8601: "PT1.5S", "P1M2DT3S" |
| lists; maps; structs | lists; lists of [key, value]; objects |
"""

from __future__ import annotations

import binascii
import datetime as dt
import itertools
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAY_SECONDS = 86_400
_CYCLE_DAYS = 146_097
"""Days of 400 years, after which the calendar repeats."""


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as objects of JSON."""
    columns = [json_values(column) for column in table.columns]
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def json_values(array: Any) -> list[Any]:
    """Return the values of an array, or of a chunked one, as JSON has them; see the table of this module."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        return list(itertools.chain.from_iterable(map(json_values, array.chunks)))
    kind, types = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        return json_values(array.storage)
    if types.is_dictionary(kind):
        return json_values(array.dictionary_decode())
    if types.is_floating(kind):
        return [None if it is None else _float(float(it)) for it in array.to_pylist()]
    if types.is_decimal(kind):
        return [None if it is None else format(it, "f") for it in array.to_pylist()]
    if types.is_temporal(kind):
        return _temporal(array)
    if types.is_struct(kind):
        return _structs(array)
    if types.is_map(kind) or types.is_nested(kind):
        return _lists(array)
    values = array.to_pylist()
    if values and any(isinstance(it, (bytes, memoryview)) for it in values):
        return [None if it is None else binascii.b2a_base64(it, newline=False).decode() for it in values]
    return list(values)


def _float(value: float) -> Any:
    return value if math.isfinite(value) else str(value)


def _temporal(array: pa.Array) -> list[Any]:
    import pyarrow as pa

    kind, types = array.type, pa.types
    if types.is_interval(kind):
        return [None if it is None else _interval(*it) for it in array.to_pylist()]
    stored = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    if types.is_date32(kind):
        return [None if it is None else _date(it) for it in stored]
    if types.is_date64(kind):
        days = [None if it is None else divmod(it, 1000 * _DAY_SECONDS) for it in stored]
        return [
            None if it is None else _date(it[0]) if not it[1] else f"{_date(it[0])}T{_clock(it[1], 3)}" for it in days
        ]
    digits = _DIGITS[kind.unit]
    if types.is_time(kind):
        return [None if it is None else _clock(it, digits) for it in stored]
    if types.is_duration(kind):
        return [None if it is None else f"PT{_seconds(it, digits)}S" for it in stored]
    end = "" if kind.tz is None else "Z"
    return [None if it is None else _moment(it, digits) + end for it in stored]


def _moment(ticks: int, digits: int) -> str:
    days, rest = divmod(ticks, _DAY_SECONDS * 10**digits)
    return f"{_date(days)}T{_clock(rest, digits)}"


def _date(days: int) -> str:
    """Return the date so many days after 1970-01-01, in any year."""
    cycles, within = divmod(days, _CYCLE_DAYS)
    date = dt.date(1970, 1, 1) + dt.timedelta(days=within)
    year = date.year + 400 * cycles
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{shown}-{date.month:02}-{date.day:02}"


def _clock(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    rest = f".{fraction:0{digits}}" if fraction else ""
    return f"{hour:02}:{minute:02}:{second:02}{rest}"


def _seconds(ticks: int, digits: int) -> str:
    whole, fraction = divmod(abs(ticks), 10**digits)
    rest = f".{fraction:0{digits}}" if fraction else ""
    return f"{'-' if ticks < 0 else ''}{whole}{rest}"


def _interval(months: int, days: int, nanos: int) -> str:
    return f"P{months}M{days}DT{_seconds(nanos, 9)}S"


def _structs(array: pa.Array) -> list[Any]:
    names = [array.type.field(place).name for place in range(array.type.num_fields)]
    columns = [json_values(column) for column in array.flatten()]
    valid = array.is_valid().to_pylist()
    if not columns:
        return [{} if it else None for it in valid]
    rows = zip(*columns, strict=True)
    return [dict(zip(names, row, strict=True)) if it else None for it, row in zip(valid, rows, strict=True)]


def _lists(array: pa.Array) -> list[Any]:
    """Return lists of any kind, item by item; a map is a list of [key, value]."""
    import pyarrow as pa

    if pa.types.is_map(array.type):
        rows: list[Any] = []
        offsets = array.offsets.to_pylist()
        first, last = offsets[0], offsets[-1]
        keys = json_values(array.keys.slice(first, last - first))
        items = json_values(array.items.slice(first, last - first))
        for place, valid in enumerate(array.is_valid().to_pylist()):
            span = range(offsets[place] - first, offsets[place + 1] - first)
            rows.append([[keys[it], items[it]] for it in span] if valid else None)
        return rows
    # Lists that are null have no items here, whatever their offsets say.
    flat = iter(json_values(array.flatten()))
    return [list(itertools.islice(flat, len(it.values))) if it.is_valid else None for it in array]
