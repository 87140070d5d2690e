"""Conditions of `pyarrow.compute` as expressions of the engine.

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
import datetime as dt
import functools
import operator
from typing import TYPE_CHECKING, Any

from pilum import _pilum
from pilum.exceptions import UnsupportedError
from pilum.expr import Expr, case_when, coalesce, lit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

_COMPARISONS: dict[str, Callable[[Any, Any], Expr]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}

_BINARY: dict[str, Callable[[Any, Any], Expr]] = {
    "xor": operator.ne,
    "and_kleene": operator.and_,
    "or_kleene": operator.or_,
    "add": operator.add,
    "add_checked": operator.add,
    "subtract": operator.sub,
    "subtract_checked": operator.sub,
    "multiply": operator.mul,
    "multiply_checked": operator.mul,
    "divide": _pilum.divide,  # whole of integers, which `/` is not
    "divide_checked": _pilum.divide,
}

_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "invert": operator.inv,
    "negate": operator.neg,
    "negate_checked": operator.neg,
    "utf8_length": Expr.length,
    "utf8_lower": Expr.lower,
    "utf8_upper": Expr.upper,
    "binary_length": lambda argument: argument.cast("BINARY").length(),
    "abs": Expr.abs,
    "abs_checked": Expr.abs,
    "year": Expr.year,
    "month": Expr.month,
    "day": Expr.day,
    "hour": Expr.hour,
    "minute": Expr.minute,
    "second": Expr.second,
    "is_nan": Expr.is_nan,
    "is_finite": Expr.is_finite,
    "is_inf": Expr.is_inf,
    "is_valid": Expr.is_not_null,
    "list_value_length": Expr.length,
    "floor": Expr.floor,
    "ceil": Expr.ceil,
    "trunc": Expr.trunc,
}

_PATTERNS: dict[str, Callable[[Expr, Any], Expr]] = {
    "starts_with": Expr.starts_with,
    "ends_with": Expr.ends_with,
    "match_substring": Expr.contains,
}

_NO_FLOATS = (str, bytes, bool, dt.date, dt.time)
"""Values of these types cannot be compared with floats."""

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


def expression(given: Any, columns: Callable[[], pa.Schema] | None = None) -> Expr:
    """Return a `pyarrow.compute.Expression` as an expression of the engine.

    Args:
        given: The condition or value.
        columns: Returns the columns of the table. Without them, Substrait is not tried.

    Raises:
        UnsupportedError: It calls a function that conditions of pilum do not have; the message names it.
    """
    import pyarrow as pa

    if columns is not None:
        try:
            return _pilum.substrait(bytes(given.to_substrait(_told(columns()))))
        except (pa.ArrowException, UnsupportedError):
            pass  # The pickled tree has it, or names the function that is not supported.
    _, (pickled, *_) = given.__reduce__()
    batch = pa.ipc.open_file(pickled).get_batch(0)
    return _Tree(iter(_metadata(batch.schema)), batch, _printed(given)).next()


def _printed(given: Any) -> str:
    """Return an expression as text for messages. pyarrow cannot print bytes of views that are no UTF-8."""
    try:
        return str(given)
    except UnicodeDecodeError:
        return "an expression with binary values"


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

    def next(self) -> Expr:
        """Return the next node and all below it."""
        return self._node(*next(self._nodes))

    def _node(self, kind: str, value: str) -> Expr:
        match kind:
            case "literal":
                return lit(_exact(self._constants.column(int(value))[0]))
            case "field_ref":
                return _pilum.column([value])
            case "nested_field_ref":
                return _pilum.column([self._name(*next(self._nodes)) for _ in range(int(value))])
            case "call":
                return self._call(value)
        raise self._unsupported(f"a reference of kind {kind!r}")

    def _name(self, kind: str, value: str) -> str:
        if kind != "field_ref":
            raise self._unsupported(f"a reference of kind {kind!r}")
        return value

    def _call(self, name: str) -> Expr:
        arguments: list[Expr] = []
        literals: list[Any] = []
        options: Any = None
        for kind, value in self._nodes:
            if kind == "end":
                break
            if kind == "options":
                options = self._constants.column(int(value))[0]
                continue
            literals.append(self._constants.column(int(value))[0].as_py() if kind == "literal" else None)
            arguments.append(self._node(kind, value))
        if name in _COMPARISONS:
            compared = _COMPARISONS[name](*arguments)
            return compared if isinstance(literals[1], _NO_FLOATS) else _pilum.ieee(compared)
        if name in _BINARY:
            return _BINARY[name](*arguments)
        if name in _UNARY:
            return _UNARY[name](*arguments)
        special: dict[str, Callable[[], Expr]] = {
            "coalesce": lambda: coalesce(*arguments),
            "and_not_kleene": lambda: arguments[0] & ~arguments[1],
            "if_else": lambda: _chosen(*arguments),
            "list_element": lambda: arguments[0][arguments[1]],
            "is_null": lambda: self._is_null(arguments[0], options),
            "is_in": lambda: self._is_in(arguments[0], options),
            "match_like": lambda: self._like(arguments[0], options),
            "match_substring_regex": lambda: self._regular(arguments[0], options),
            "cast": lambda: self._cast(arguments[0], options),
        }
        if name in special:
            return special[name]()
        if name in _PATTERNS and not options["ignore_case"].as_py():
            return _PATTERNS[name](arguments[0], _text(options["pattern"]))
        raise self._unsupported(f"the function {name!r}")

    @staticmethod
    def _is_null(argument: Expr, options: Any) -> Expr:
        missing = argument.is_null()
        if options is not None and options["nan_is_null"].as_py():
            return missing | argument.is_nan()
        return missing

    def _is_in(self, argument: Expr, options: Any) -> Expr:
        """Return `IN` with the meaning of pyarrow: a null is in a list that contains null, unless nulls are skipped."""
        values = options["value_set"].values
        found = values.drop_null()
        inside = coalesce(argument.isin(found), False) if len(found) else lit(False)
        match options["null_matching_behavior"].as_py():
            case 0 if len(found) < len(values):
                return argument.is_null() | inside
            case 0 | 1:
                return inside
        raise self._unsupported("is_in that answers null")

    def _like(self, argument: Expr, options: Any) -> Expr:
        pattern = _text(options["pattern"])
        return argument.ilike(pattern) if options["ignore_case"].as_py() else argument.like(pattern)

    def _regular(self, argument: Expr, options: Any) -> Expr:
        pattern = _text(options["pattern"])
        return argument.regexp_matches(f"(?i){pattern}" if options["ignore_case"].as_py() else pattern)

    def _cast(self, argument: Expr, options: Any) -> Expr:
        target = str(options["to_type"].type)
        if target not in _TYPES:
            raise self._unsupported(f"a cast to {target}")
        if options["allow_float_truncate"].as_py() or options["allow_int_overflow"].as_py():
            raise self._unsupported("a cast that cuts off what does not fit (safe=False)")
        return argument.cast(_TYPES[target])

    def _unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what} in {self._told} is not supported in conditions: write the condition as SQL text"
        )


def _chosen(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """Return a choice that is null where its condition is null."""
    return case_when((condition, then), (~condition, otherwise))


def _exact(scalar: Any) -> Any:
    """Return a constant whose float keeps its exact value; a Python float is the decimal number that it is written as."""
    value = scalar.as_py()
    return _pilum.exact(value) if isinstance(value, float) else scalar


def _text(value: Any) -> str:
    text = value.as_py()
    return text.decode() if isinstance(text, bytes) else str(text)
