"""Expressions over the columns of a table: names and values, which operators and methods combine.

The objects are those of the engine: an operator builds its tree, and no text is made or parsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pilum._pilum import Expr, case, column, expr_from_message, first_valid, value
from pilum.arguments import checked, shown, text
from pilum.exceptions import InvalidInputError

__all__ = ["Expr", "case_when", "coalesce", "col", "from_message", "lit"]


def _one_letter(name: str, value: Any) -> None:
    """Accept text of one character."""
    if not isinstance(value, str) or len(value) != 1:
        raise InvalidInputError(f"{name}: pass one character, not {shown(value)}")


_RULES: dict[str, dict[str, Any]] = {
    "date_part": {"part": text},
    "date_trunc": {"unit": text},
    "ilike": {"escape": _one_letter},
    "like": {"escape": _one_letter},
}
"""Rules of the arguments that must be plain text, by method. All other arguments are values or expressions."""


def _check_methods() -> None:
    """Make the methods of the engine's class `Expr` refuse unknown arguments, as the functions of Python do."""
    for name, method in list(vars(Expr).items()):
        if not name.startswith("_") and callable(method):
            setattr(Expr, name, checked(**_RULES.get(name, {}))(method))


_check_methods()


@checked()
def col(name: str) -> Expr:
    """Return the column `name`; a path such as `"a.b"` names a field inside a struct.

    Example:
        `ds.to_table(filter=pilum.col("id") > 2)`

    Raises:
        InvalidInputError: The name is no text, or empty.
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"name: pass the name of a column, not {shown(name)}")
    if not name:
        raise InvalidInputError("a column's name is empty")
    return column(name.split("."))


@checked()
def lit(given: object) -> Expr:
    """Return a value as an expression. Text is a value here, not SQL.

    Args:
        given: A value of Python, numpy, pandas or pyarrow, or an expression, which is returned as it is.

    Example:
        `ds = ds.update({"x": pilum.lit("new")})`

    Raises:
        InvalidInputError: The value has no type that a table can hold.
    """
    return value(given)


@checked()
def coalesce(*values: object) -> Expr:
    """Return the first of some values that is not null.

    Example:
        `ds.to_table(columns={"x": pilum.coalesce(pilum.col("x"), pilum.lit("none"))})`

    Raises:
        InvalidInputError: There are no values.
    """
    if not values:
        raise InvalidInputError("coalesce needs a value")
    return first_valid(list(values))


@checked()
def case_when(*branches: tuple[Any, Any], otherwise: object = None) -> Expr:
    """Return the value of the first condition that is true, else `otherwise`.

    Args:
        branches: Conditions with their values: `case_when((pilum.col("a") > 0, "plus"), otherwise="minus")`.
        otherwise: The value where no condition is true; null by default.

    Raises:
        InvalidInputError: A branch is no pair, or there is none.

    Example:
        `ds.to_table({"size": pilum.case_when((pilum.col("id") > 1, "large"), otherwise="small")})`
    """
    for branch in branches:
        if not isinstance(branch, tuple) or len(branch) != 2:
            raise InvalidInputError(f"branches: pass pairs of a condition and a value, not {shown(branch)}")
    return case(list(branches), otherwise)


def from_message(message: bytes) -> Expr:
    """Return an expression from the bytes in its pickle.

    Raises:
        UnsupportedError: Another release wrote it, in a version that this one does not read.
        InvalidInputError: The bytes are not such a message.
    """
    return expr_from_message(message)


def arrow_values(values: Any) -> Any:
    """Return values that are an array of some library as a table of one column; None for other values, which are iterated.

    Types that the engine keeps no arrays of become a list of scalars of pyarrow.
    """
    if isinstance(values, (str, bytes)) or not (
        isinstance(values, Iterable) or hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")
    ):
        raise InvalidInputError(f"isin needs a list of values, not a {type(values).__name__}: {values!r}")
    is_arrow = hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")
    is_numpy = type(values).__module__ == "numpy" and getattr(getattr(values, "dtype", None), "kind", "") in "iufM"
    if not is_arrow and not is_numpy:
        return None
    series = values.to_frame() if hasattr(values, "to_frame") else None  # of Polars or pandas
    try:
        import pyarrow as pa
    except ImportError:
        return series
    if series is not None:
        column = pa.table(series).column(0)
    elif is_numpy or not hasattr(values, "__arrow_c_stream__"):
        column = pa.chunked_array([pa.array(values)])
    else:
        column = pa.chunked_array(values)
    of = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_time(of) or pa.types.is_duration(of) or (pa.types.is_decimal(of) and not pa.types.is_decimal128(of)):
        return list(column.cast(of))
    return pa.table({"values": column})
