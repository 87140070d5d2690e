"""Expressions written with Python's operators, and Python values as typed SQL literals.

There is one language of conditions, SQL with three-valued logic, and one parser, in Rust: `col("qty") > 3` becomes SQL text.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pilum.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    """A condition or value over the columns of a table, combined with comparisons, `& | ~`, `+ - * /`.

    A comparison is an expression and has no truth value: `and`, `or`, `not` and `if` raise `TypeError`.
    """

    sql: str

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        """Return the condition that both are equal; null when either is null."""
        return self._binary("=", other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self._binary("<>", other)

    def __lt__(self, other: object) -> Expr:
        return self._binary("<", other)

    def __le__(self, other: object) -> Expr:
        return self._binary("<=", other)

    def __gt__(self, other: object) -> Expr:
        return self._binary(">", other)

    def __ge__(self, other: object) -> Expr:
        return self._binary(">=", other)

    def __add__(self, other: object) -> Expr:
        return self._binary("+", other)

    def __sub__(self, other: object) -> Expr:
        return self._binary("-", other)

    def __mul__(self, other: object) -> Expr:
        return self._binary("*", other)

    def __truediv__(self, other: object) -> Expr:
        return self._binary("/", other)

    def __and__(self, other: object) -> Expr:
        return self._binary("AND", other)

    def __or__(self, other: object) -> Expr:
        return self._binary("OR", other)

    def __invert__(self) -> Expr:
        return Expr(f"(NOT {self.sql})")

    def __bool__(self) -> bool:
        raise TypeError("a condition has no truth value before it meets rows: combine with & | ~, not and / or / not")

    __hash__ = None  # type: ignore[assignment]

    def isin(self, values: Iterable[object]) -> Expr:
        """Return the condition that the value is one of `values`."""
        listed = list(values)
        if not listed:
            return Expr("FALSE")
        return Expr(f"({self.sql} IN ({', '.join(literal(value) for value in listed)}))")

    def is_null(self) -> Expr:
        """Return the condition that there is no value."""
        return Expr(f"({self.sql} IS NULL)")

    def is_not_null(self) -> Expr:
        """Return the condition that there is a value."""
        return Expr(f"({self.sql} IS NOT NULL)")

    def between(self, low: object, high: object) -> Expr:
        """Return the condition that the value lies in `low..=high`."""
        return Expr(f"({self.sql} BETWEEN {literal(low)} AND {literal(high)})")

    def like(self, pattern: str) -> Expr:
        """Return the condition that the text matches `pattern` (`%` any run, `_` any one character)."""
        return Expr(f"({self.sql} LIKE {literal(pattern)})")

    def _binary(self, operator: str, other: object) -> Expr:
        return Expr(f"({self.sql} {operator} {literal(other)})")


def col(name: str) -> Expr:
    """Return the column `name`; a path such as `"a.b"` names a field inside a struct."""
    return Expr(quoted(name))


def lit(value: object) -> Expr:
    """Return `value` as an expression."""
    return Expr(literal(value))


def quoted(name: str, *, whole: bool = False) -> str:
    """Return the path of a column as SQL, every part quoted, so that no name is read as a keyword.

    Args:
        name: The path. A dot separates a struct from its member.
        whole: The name is one part, even if it contains dots.
    """
    if not name:
        raise InvalidInputError("a column's name is empty")
    parts = [name] if whole else name.split(".")
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(value: Any) -> str:  # noqa: C901 - one line for each type of value
    """Return a Python, numpy or pyarrow value as a typed SQL literal.

    Raises:
        InvalidInputError: The type of `value` has no literal.
    """
    if isinstance(value, Expr):
        return value.sql
    for unwrap in ("as_py", "item"):  # pyarrow scalars, numpy scalars
        if hasattr(value, unwrap):
            return literal(getattr(value, unwrap)())
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case float():
            return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case dt.time():
            return f"TIME '{value.isoformat()}'"
        case dt.timedelta():
            micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
            return f"INTERVAL '{micros} microseconds'"
    raise InvalidInputError(f"a {type(value).__name__} cannot be compared with a column: {value!r}")
