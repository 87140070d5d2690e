"""Conditions in any of the forms that users write, as expressions of the engine.

SQL text, `pilum.col(..)`, tuples in disjunctive normal form, expressions of pyarrow and Substrait messages all become one tree,
so that there is one evaluation, in Rust.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pilum import _pilum, pyarrow_expr
from pilum.exceptions import InvalidInputError
from pilum.expr import Expr, col, lit

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

_COMPARISONS = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def condition(value: Any, columns: Callable[[], pa.Schema] | None = None) -> Expr | str | None:
    """Return any way of writing a condition as an expression; SQL text as it is, which the engine parses.

    Args:
        value: SQL text, an `Expr`, tuples in disjunctive normal form (`[[("a", ">", 1), ("b", "in", [2])], [...]]`, or one
            flat list of tuples, which all must hold), a `pyarrow.compute.Expression`, `bytes` of a Substrait
            `ExtendedExpression`, or None.
        columns: Gives the columns that the condition is about.

    Raises:
        InvalidInputError: It is none of these.
        UnsupportedError: A pyarrow expression calls a function that there is not; the message names it.
    """
    if value is None or isinstance(value, (Expr, str)):
        return value
    if isinstance(value, bytes):
        return _pilum.substrait(value)
    if isinstance(value, (list, tuple)):
        if isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], str):
            raise InvalidInputError(f"one (column, operator, value) tuple is passed in a list: [{value!r}]")
        return _disjunction(value)
    if pyarrow_expr.is_pyarrow_expression(value):
        return pyarrow_expr.expression(value, columns)
    raise InvalidInputError(
        f"a condition is SQL text, pilum.col(..), a pyarrow expression, or a list of (column, operator, value) tuples, not a "
        f"{type(value).__module__}.{type(value).__name__}"
    )


def named(argument: str, value: Any, schema: Callable[[], pa.Schema] | None) -> Expr | str | None:
    """Return a condition or expression as the engine takes it.

    Raises:
        InvalidInputError: The value is no condition and no expression; the message has the name of the argument.
    """
    try:
        return condition(value, schema)
    except InvalidInputError as error:
        own = ""
        if type(value).__module__.startswith("polars"):
            own = "; a predicate of Polars filters ds.lazy(), or the frame that to_polars() returns"
        raise InvalidInputError(f"{argument}: {error}{own}") from None


def _disjunction(groups: Sequence[Any]) -> Expr:
    if not groups:
        raise InvalidInputError("an empty list is no condition: pass None to read everything")
    if all(isinstance(group, tuple) for group in groups):
        groups = [groups]
    return functools.reduce(operator.or_, [_conjunction(group) for group in groups])


def _conjunction(terms: Any) -> Expr:
    if not isinstance(terms, (list, tuple)) or not terms:
        raise InvalidInputError(f"{terms!r} is no list of (column, operator, value) tuples")
    return functools.reduce(operator.and_, [_term(term) for term in terms])


def _term(term: Any) -> Expr:
    if not isinstance(term, tuple) or len(term) != 3 or not isinstance(term[0], str):
        raise InvalidInputError(f"{term!r} is no (column, operator, value) tuple")
    name, given, value = term
    spelled = " ".join(str(given).lower().split())
    if spelled in _COMPARISONS:
        compared: Expr = _COMPARISONS[spelled](col(name), value)
        return compared
    if spelled in {"in", "not in"}:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise InvalidInputError(f"{term!r}: {spelled!r} needs a list of values")
        inside = col(name).isin(value)
        return inside if spelled == "in" else ~inside
    raise InvalidInputError(
        f"{term!r}: {given!r} is no operator; there are {', '.join(sorted(_COMPARISONS))}, 'in' and 'not in'"
    )


def expression(value: Any) -> Expr | str:
    """Return an expression in any of its forms; text is SQL, values of other types are literals."""
    if isinstance(value, str):
        return value
    if pyarrow_expr.is_pyarrow_expression(value):
        return pyarrow_expr.expression(value)
    return lit(value)


def expected(expect: Any) -> int | Expr | str | None:
    """Return a precondition as the engine takes it: a version, or a condition that must be true for no row."""
    if isinstance(expect, int) and not isinstance(expect, bool):
        if expect < 0 or expect >= 2**64:
            raise InvalidInputError(f"expect: there is no version {expect}: versions count from 1")
        return expect
    try:
        return condition(expect)
    except InvalidInputError as error:
        raise InvalidInputError(f"expect: pass the number of a version, or a condition: {error}") from None
