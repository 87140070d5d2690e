"""Conditions written in Python, turned into the SQL text that the engine parses.

There is one language of conditions, SQL with its three-valued logic, and one parser, in Rust. What is here only spells it:
`col("qty") > 3`, tuples in disjunctive normal form, and Python values as typed literals.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pilum import _pilum
from pilum.exceptions import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

_COMPARISONS = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    """A condition or value over the columns of a table. Combine with comparisons, `& | ~`, `+ - * /`.

    Comparing makes a new expression and no truth value, so `and`, `or`, `not` and `if` refuse.
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
    """Return a column's path as SQL, every part quoted, so that no name can be mistaken for a keyword.

    Args:
        name: The path; a dot leads into a struct.
        whole: The name is one part, dots and all.
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


def condition(value: Any, columns: Callable[[], pa.Schema] | None = None) -> str | None:
    """Return any way of writing a condition as SQL text.

    Args:
        value: SQL text, an `Expr`, tuples in disjunctive normal form (`[[("a", ">", 1), ("b", "in", [2])], [...]]`, or one
            flat list of tuples, which all must hold), a `pyarrow.compute.Expression`, `bytes` of a Substrait
            `ExtendedExpression`, or None.
        columns: Gives the columns that the condition is about.

    Raises:
        InvalidInputError: It is none of these.
        UnsupportedError: A pyarrow expression calls a function that there is not; the message names it.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Expr):
        return value.sql
    if isinstance(value, bytes):
        return _pilum.substrait_sql(value)
    if isinstance(value, (list, tuple)):
        return _disjunction(value).sql
    from pilum import pyarrow_expr

    if pyarrow_expr.is_pyarrow_expression(value):
        return pyarrow_expr.sql(value, columns)
    raise InvalidInputError(
        f"a condition is SQL text, pilum.col(..), a pyarrow expression, or a list of (column, operator, value) tuples, not a "
        f"{type(value).__module__}.{type(value).__name__}"
    )


def _disjunction(groups: Sequence[Any]) -> Expr:
    if not groups:
        raise InvalidInputError("an empty list is no condition: pass None to read everything")
    if all(isinstance(group, tuple) for group in groups):
        groups = [groups]
    alternatives = [_conjunction(group) for group in groups]
    return Expr("(" + " OR ".join(alternatives) + ")")


def _conjunction(terms: Any) -> str:
    if not isinstance(terms, (list, tuple)) or not terms:
        raise InvalidInputError(f"{terms!r} is no list of (column, operator, value) tuples")
    return "(" + " AND ".join(_term(term) for term in terms) + ")"


def _term(term: Any) -> str:
    if not isinstance(term, tuple) or len(term) != 3 or not isinstance(term[0], str):
        raise InvalidInputError(f"{term!r} is no (column, operator, value) tuple")
    name, operator, value = term
    column = col(name)
    spelled = " ".join(str(operator).lower().split())
    if spelled in _COMPARISONS:
        return Expr(f"({column.sql} {_COMPARISONS[spelled]} {literal(value)})").sql
    if spelled in {"in", "not in"}:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise InvalidInputError(f"{term!r}: {spelled!r} needs a list of values")
        inside = column.isin(value)
        return inside.sql if spelled == "in" else (~inside).sql
    raise InvalidInputError(
        f"{term!r}: {operator!r} is no operator; there are {', '.join(sorted(_COMPARISONS))}, 'in' and 'not in'"
    )
