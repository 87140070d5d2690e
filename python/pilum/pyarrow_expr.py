"""Conditions of `pyarrow.compute` as SQL text.

pyarrow exports conditions as Substrait, with types and names resolved, and the engine reads that. Some conditions it cannot
export: `LIKE`, lists with null, text of a dictionary, and implicit conversions of a column (`pc.field("a") == 1.5` of
integers). It pickles all conditions as a record batch: the tree in the metadata of the schema, in prefix order with repeated
keys, the constants in the columns. Conditions that pyarrow cannot export are read from there.

A condition keeps the rows that pyarrow keeps, with three exceptions. Integers never wrap around: a result beyond 64 bits is an
error, and a result beyond a narrower type keeps its value. -0.0 is in a list that contains 0.0, because they are equal. Where
pyarrow refuses a value, such as an integer that no float equals, the exact values are compared.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import TYPE_CHECKING, Any

from pilum import _pilum
from pilum.exceptions import UnsupportedError
from pilum.expr import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

_COMPARISONS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}

_BINARY = {
    "xor": "<>",
    "and_kleene": "AND",
    "or_kleene": "OR",
    "add": "+",
    "add_checked": "+",
    "subtract": "-",
    "subtract_checked": "-",
    "multiply": "*",
    "multiply_checked": "*",
}

_NAN = "CAST('NaN' AS DOUBLE)"

_NO_NUMBERS = ("'", "X'", "DATE ", "TIME ", "TIMESTAMP ", "TRUE", "FALSE")
"""Literals that begin like this cannot be compared with floats."""

_FUNCTIONS = {
    "divide": "DIVIDE",  # whole of integers, which `/` is not
    "divide_checked": "DIVIDE",
    "utf8_length": "LENGTH",
    "utf8_lower": "LOWER",
    "utf8_upper": "UPPER",
    "abs": "ABS",
    "abs_checked": "ABS",
    "year": "YEAR",
    "month": "MONTH",
    "day": "DAY",
    "hour": "HOUR",
    "minute": "MINUTE",
    "second": "SECOND",
    "coalesce": "COALESCE",
}

_PATTERNS = {"starts_with": "STARTS_WITH", "ends_with": "ENDS_WITH", "match_substring": "CONTAINS"}

_TYPES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "LARGE_VARCHAR",
    "date32[day]": "DATE",
}


class _ArrowSchema(ctypes.Structure):
    """The C data interface's schema, down to the metadata."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def is_pyarrow_expression(value: Any) -> bool:
    """Return whether `value` is a `pyarrow.compute.Expression`, without loading pyarrow."""
    return type(value).__name__ == "Expression" and type(value).__module__.startswith("pyarrow")


def sql(expression: Any, columns: Callable[[], pa.Schema] | None = None) -> str:
    """Return a `pyarrow.compute.Expression` as SQL text.

    Args:
        expression: The condition or value.
        columns: Returns the columns of the table. Without them, Substrait is not tried.

    Raises:
        UnsupportedError: It calls a function that conditions of pilum do not have; the message names it.
    """
    import pyarrow as pa

    if columns is not None:
        try:
            return _pilum.substrait_sql(bytes(expression.to_substrait(_told(columns()))))
        except (pa.ArrowException, UnsupportedError):
            pass  # The pickled tree has it, or names the function that is not supported.
    _, (pickled, *_) = expression.__reduce__()
    batch = pa.ipc.open_file(pickled).get_batch(0)
    return _Tree(iter(_metadata(batch.schema)), batch, str(expression)).next()


def _told(schema: pa.Schema) -> pa.Schema:
    """Return the columns with types that Substrait has, each at its place."""
    import pyarrow as pa

    return pa.schema([field.with_type(_type_told(field.type)) for field in schema])


@functools.cache
def _type_told(type_: pa.DataType) -> pa.DataType:
    """Return the type of the values, or null if Substrait has no such type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(type_, pa.DictionaryType):
        return _type_told(type_.value_type)
    if type_ in {pa.string_view(), pa.binary_view()}:
        return pa.string() if type_ == pa.string_view() else pa.binary()
    try:
        pc.scalar(True).to_substrait(pa.schema([("x", type_)]))
    except pa.ArrowException:
        return pa.null()
    return type_


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the metadata with its repeated keys, of which a dict would keep one."""
    import pyarrow as pa

    exported = _ArrowSchema()
    address = ctypes.addressof(exported)
    schema._export_to_c(address)  # noqa: SLF001 - the way of pyarrow into the C data interface
    try:
        place = exported.metadata or 0

        def integer() -> int:
            nonlocal place
            value = ctypes.c_int32.from_address(place).value
            place += 4
            return value

        def text() -> str:
            nonlocal place
            length = integer()
            value = ctypes.string_at(place, length)
            place += length
            return value.decode()

        return [(text(), text()) for _ in range(integer())]
    finally:
        pa.Schema._import_from_c(address)  # noqa: SLF001 - importing the structure releases it


class _Tree:
    """The nodes of an expression, read one after the other."""

    def __init__(self, nodes: Iterator[tuple[str, str]], constants: pa.RecordBatch, told: str) -> None:
        self._nodes = nodes
        self._constants = constants
        self._told = told

    def next(self) -> str:
        """Return the next node and all below it as SQL."""
        return self._node(*next(self._nodes))

    def _node(self, kind: str, value: str) -> str:
        match kind:
            case "literal":
                return _literal(self._constants.column(int(value))[0].as_py())
            case "field_ref":
                return quoted(value, whole=True)
            case "nested_field_ref":
                return ".".join(self.next() for _ in range(int(value)))
            case "call":
                return self._call(value)
        raise self._unsupported(f"a reference of kind {kind!r}")

    def _call(self, name: str) -> str:
        arguments: list[str] = []
        options: Any = None
        for kind, value in self._nodes:
            if kind == "end":
                break
            if kind == "options":
                options = self._constants.column(int(value))[0]
            else:
                arguments.append(self._node(kind, value))
        if name in _COMPARISONS:
            return _compared(arguments[0], _COMPARISONS[name], arguments[1])
        if name in _BINARY:
            return f"({arguments[0]} {_BINARY[name]} {arguments[1]})"
        if name in _FUNCTIONS:
            return f"{_FUNCTIONS[name]}({', '.join(arguments)})"
        special: dict[str, Callable[[], str]] = {
            "invert": lambda: f"(NOT {arguments[0]})",
            "binary_length": lambda: f"LENGTH(CAST({arguments[0]} AS BINARY))",
            "negate": lambda: f"(- {arguments[0]})",
            "negate_checked": lambda: f"(- {arguments[0]})",
            "and_not_kleene": lambda: f"({arguments[0]} AND NOT {arguments[1]})",
            "if_else": lambda: _chosen(*arguments),
            "is_nan": lambda: f"({arguments[0]} = {_NAN})",
            "is_finite": lambda: f"(ABS(CAST({arguments[0]} AS DOUBLE)) < CAST('Infinity' AS DOUBLE))",
            "is_inf": lambda: f"(ABS(CAST({arguments[0]} AS DOUBLE)) = CAST('Infinity' AS DOUBLE))",
            "is_valid": lambda: f"({arguments[0]} IS NOT NULL)",
            "is_null": lambda: self._is_null(arguments[0], options),
            "is_in": lambda: self._is_in(arguments[0], options),
            "match_like": lambda: self._like(arguments[0], options),
            "cast": lambda: self._cast(arguments[0], options),
        }
        if name in special:
            return special[name]()
        if name in _PATTERNS and not options["ignore_case"].as_py():
            return f"{_PATTERNS[name]}({arguments[0]}, {literal(_text(options['pattern']))})"
        raise self._unsupported(f"the function {name!r}")

    @staticmethod
    def _is_null(argument: str, options: Any) -> str:
        missing = f"({argument} IS NULL)"
        if options is not None and options["nan_is_null"].as_py():
            return f"({missing} OR {argument} = {_NAN})"
        return missing

    def _is_in(self, argument: str, options: Any) -> str:
        """Return `IN` with the meaning of pyarrow: a null is in a list that contains null, unless nulls are skipped."""
        values = options["value_set"].as_py()
        found = [_literal(value) for value in values if value is not None]
        inside = f"COALESCE({argument} IN ({', '.join(found)}), FALSE)" if found else "FALSE"
        match options["null_matching_behavior"].as_py():
            case 0 if len(found) < len(values):
                return f"({argument} IS NULL OR {inside})"
            case 0 | 1:
                return inside
        raise self._unsupported("is_in that answers null")

    def _like(self, argument: str, options: Any) -> str:
        operator = "ILIKE" if options["ignore_case"].as_py() else "LIKE"
        return f"({argument} {operator} {literal(_text(options['pattern']))})"

    def _cast(self, argument: str, options: Any) -> str:
        target = str(options["to_type"].type)
        if target not in _TYPES:
            raise self._unsupported(f"a cast to {target}")
        if options["allow_float_truncate"].as_py() or options["allow_int_overflow"].as_py():
            raise self._unsupported("a cast that cuts off what does not fit (safe=False)")
        return f"CAST({argument} AS {_TYPES[target]})"

    def _unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what} in {self._told} is not supported in conditions: write the condition as SQL text"
        )


def _compared(left: str, operator: str, right: str) -> str:
    """Return a comparison that treats NaN as IEEE 754 does. The types of the operands are not known here."""
    # In SQL conditions, NaN is greater than every number and equal to itself.
    plain = right.startswith(_NO_NUMBERS) or (right[-1].isdigit() and operator not in {">", ">="})
    return f"{'' if plain else 'IEEE'}({left} {operator} {right})"


def _chosen(condition: str, then: str, otherwise: str) -> str:
    """Return a choice that is null where its condition is null."""
    return f"(CASE {condition} WHEN TRUE THEN {then} WHEN FALSE THEN {otherwise} END)"


def _literal(value: Any) -> str:
    """Return a constant as SQL. Floats get an exponent; without one they would be parsed as exact decimals."""
    text = literal(value)
    return f"{text}e0" if isinstance(value, float) and math.isfinite(value) and "e" not in text else text


def _text(value: Any) -> str:
    text = value.as_py()
    return text.decode() if isinstance(text, bytes) else str(text)
