"""Conditions in any of the forms that users write, turned into the SQL text that the engine parses.

SQL text, `pilum.col(..)`, tuples in disjunctive normal form, expressions of pyarrow and Substrait messages all become one
text, so that there is one parser and one evaluation, in Rust.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pilum import _pilum, pyarrow_expr
from pilum.exceptions import InvalidInputError
from pilum.expr import Expr, col, lit, literal

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

_COMPARISONS = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


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


def expression(value: Any) -> str:
    """Return an expression in any of its forms as SQL text; values of other types are literals."""
    if isinstance(value, str):
        return value
    if isinstance(value, Expr):
        return value.sql
    return lit(value).sql


def expected(expect: Any) -> int | str | None:
    """Return a precondition as the engine takes it: a version, or a condition that must be true for no row."""
    if isinstance(expect, int) and not isinstance(expect, bool):
        if expect < 0 or expect >= 2**64:
            raise InvalidInputError(f"expect: there is no version {expect}: versions count from 1")
        return expect
    try:
        return condition(expect)
    except InvalidInputError as error:
        raise InvalidInputError(f"expect: pass the number of a version, or a condition: {error}") from None
