"""Filters that Spark pushes, as conditions of the engine.

A condition that the source takes is removed from Spark's plan, so it must keep exactly the rows that Spark would keep.
Spark and the engine agree on null (three-valued logic), on NaN (all are equal, and greater than every number), on -0.0
(equal to 0.0), on text (compared by bytes of UTF-8) and on instants. Columns whose values change on the way to Spark are
left to Spark.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pilum.expr import Expr, col

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.datasource import Filter


class NotExactError(Exception):
    """The engine has no condition that is exactly this filter."""


def condition(filter: Filter, schema: pa.Schema) -> Expr | None:  # noqa: A002 - the word of Spark
    """Return the condition that is exactly this filter, or None if Spark has to apply it.

    Args:
        filter: As `pushFilters` gets it.
        schema: The columns of the table, in the table's types.
    """
    try:
        return _condition(filter, schema)
    except NotExactError:
        return None


def _condition(filter: Any, schema: pa.Schema) -> Expr:  # noqa: A002 - the word of Spark
    kind = type(filter).__name__
    if kind == "Not":
        return ~_condition(filter.child, schema)
    column, type_ = _column(filter.attribute, schema)
    if kind == "IsNull" or (kind == "EqualNullSafe" and filter.value is None):
        return column.is_null()
    if kind == "IsNotNull":
        return column.is_not_null()
    if kind == "In":
        return column.isin([_literal(value, type_) for value in filter.value])
    if kind in _COMPARISONS:
        return _COMPARISONS[kind](column, _literal(filter.value, type_))
    if kind in _MATCHES and _is_text(type_) and isinstance(filter.value, str):
        return _MATCHES[kind](column, filter.value)
    raise NotExactError


# The keys are names of classes, because PySpark 4.0 has the Data Source but no classes of filters to import.
_COMPARISONS: dict[str, Callable[[Expr, Any], Expr]] = {
    "EqualTo": lambda column, value: column == value,
    "EqualNullSafe": lambda column, value: ~column.is_distinct_from(value),
    "GreaterThan": lambda column, value: column > value,
    "GreaterThanOrEqual": lambda column, value: column >= value,
    "LessThan": lambda column, value: column < value,
    "LessThanOrEqual": lambda column, value: column <= value,
}
_MATCHES: dict[str, Callable[[Expr, str], Expr]] = {
    "StringStartsWith": lambda column, part: column.starts_with(part),
    "StringEndsWith": lambda column, part: column.ends_with(part),
    "StringContains": lambda column, part: column.contains(part),
}


def _column(path: tuple[str, ...], schema: pa.Schema) -> tuple[Expr, pa.DataType]:
    """Return a column, or a member of structs, with its type in the table."""
    place = schema.get_field_index(path[0])
    if place < 0 or "." in path[0]:
        raise NotExactError
    type_ = schema.field(place).type
    column = col(path[0])
    for name in path[1:]:
        if not pa.types.is_struct(type_) or type_.get_field_index(name) < 0:
            raise NotExactError
        type_ = type_.field(name).type
        column = column[name]
    return column, type_


def _is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _literal(value: Any, type_: pa.DataType) -> pa.Scalar:  # noqa: C901 - a branch for each type
    """Return a value of Spark as a literal that compares with the column as Spark compares."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value is None:
        raise NotExactError
    if pa.types.is_boolean(type_) and isinstance(value, bool):
        return pa.scalar(value, pa.bool_())
    if pa.types.is_integer(type_) and not pa.types.is_uint64(type_) and is_number:
        return pa.scalar(value, pa.int64())
    if pa.types.is_float32(type_) and isinstance(value, float):
        return pa.scalar(value, pa.float32())
    if pa.types.is_float64(type_) and isinstance(value, float):
        return pa.scalar(value, pa.float64())
    if _is_text(type_) and isinstance(value, str):
        return pa.scalar(value, pa.string())
    if (pa.types.is_binary(type_) or pa.types.is_large_binary(type_)) and isinstance(value, (bytes, bytearray)):
        return pa.scalar(bytes(value), pa.binary())
    if pa.types.is_date32(type_) and type(value) is dt.date:
        return pa.scalar(value, pa.date32())
    if pa.types.is_timestamp(type_) and isinstance(value, dt.datetime):
        if (type_.tz is None) != (value.tzinfo is None):
            raise NotExactError
        return pa.scalar(value, pa.timestamp("us", None if type_.tz is None else "UTC"))
    if pa.types.is_decimal128(type_) and isinstance(value, Decimal) and value.is_finite():
        # Without an exponent: Arrow would make a negative scale of it.
        return pa.scalar(Decimal(format(value, "f")))
    raise NotExactError
