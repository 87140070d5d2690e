"""Values of Python before they become an Arrow array: what pyarrow would change in silence is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from pilum.exceptions import InvalidInputError

MAX_SHOWN = 80
"""Characters of a value that a message shows."""

_TOGETHER = ({"integer", "float"}, {"integer", "decimal"})
"""Kinds of values that one column may mix: pyarrow keeps each of them or refuses it."""


def check_kinds(column: str, values: Iterable[Any], place: int = 0) -> bool:
    """Check that the values of a column are of one kind, at every level of lists and dicts.

    pyarrow takes the type of a column from its first values, and cuts a datetime to a date, or drops a zone, where later values
    are of another kind.

    Args:
        column: The name of the column, for messages.
        values: Values of Python, pandas or numpy; None, NaN and NaT are missing.
        place: The number of the first row, for messages.

    Returns:
        Whether a value has nanoseconds, which pyarrow keeps only in types of this unit.

    Raises:
        InvalidInputError: A value is of another kind than those before it, or a time of day has a zone. The message names
            column, row and value.
    """
    kinds: dict[str, set[str]] = {}
    # Every value is checked, also after the first one with nanoseconds: `any` would stop there.
    return sum(_check(column, row, value, kinds) for row, value in enumerate(values, place)) > 0


def _check(path: str, row: int, value: Any, kinds: dict[str, set[str]]) -> bool:
    if isinstance(value, dict):
        return sum(_check(f"{path}.{key}", row, member, kinds) for key, member in value.items()) > 0
    if isinstance(value, (list, tuple)):
        return sum(_check(f"{path}[]", row, item, kinds) for item in value) > 0
    kind = _kind(value)
    if kind is None:
        return False
    if kind == "time with a zone":
        raise InvalidInputError(
            f"column {path!r}, row {row}: the value {_shown(value)} has a zone, and a time of day has none here; "
            "write it without the zone, or as text"
        )
    before = kinds.setdefault(path, set())
    if kind not in before:
        if before and not any(before | {kind} <= together for together in _TOGETHER):
            raise InvalidInputError(
                f"column {path!r}, row {row}: the value {_shown(value)} does not fit the rows before it: it is of kind "
                f"{kind}, they are of kind {' and '.join(sorted(before))}; convert the values to one type, or pass a table of "
                "pyarrow"
            )
        before.add(kind)
    return bool(getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0))


def _kind(value: Any) -> str | None:
    if value is None or isinstance(value, bytearray):
        return None
    if isinstance(value, (bool, int, float, Decimal, str, bytes)):
        return _plain_kind(value)
    if isinstance(value, dt.datetime):
        if value != value:  # NaT
            return None
        return "datetime" if value.tzinfo is None else "datetime with a zone"
    if isinstance(value, dt.date):
        return "date"
    if isinstance(value, dt.time):
        return "time" if value.tzinfo is None else "time with a zone"
    if isinstance(value, dt.timedelta):
        return None if value != value else "duration"
    return None


def _plain_kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        # NaN is what pandas writes for a missing value of any kind.
        return None if value != value else "float"
    if isinstance(value, Decimal):
        return "decimal"
    return "text" if isinstance(value, str) else "bytes"


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 1] + "…"
