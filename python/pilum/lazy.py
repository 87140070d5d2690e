"""A version of a table as a Polars LazyFrame: columns, predicates and the number of rows are pushed into the scan.

Polars calls `_batches` with what its optimiser pushed down. The parts of the predicate that are known exactly are given to the
engine, which leaves out pages and rows; then Polars evaluates the whole predicate on what remains. So a pushed condition
need only keep every row that the predicate keeps: where Polars says true, it is true; where Polars says false, it is false, so
that it can be negated. Where Polars says null, it may be anything.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pilum.exceptions import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from pilum.dataset import Dataset

MAX_LIST = 1000
"""Values of `is_in` that are pushed as they are. Of a longer list, the smallest and the largest value are pushed."""

MAX_PREDICATE_BYTES = 64 << 20
"""The size of a serialised predicate that is looked at; a larger one is evaluated by Polars alone."""

RUN_BYTES = 4 << 20
"""Bytes of batches that are given to Polars as one frame; a larger batch is a frame of its own."""

MAX_RUN = 64
"""Batches of one frame at most."""

_COMPARISONS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_SWAPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CLOSED = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_EXACT_FLOAT = 2**53
_TICKS = {"Milliseconds": 1_000, "Microseconds": 1_000_000, "Nanoseconds": 1_000_000_000}
"""Ticks of a second, by the name of the unit in a serialised predicate."""

_DAYS = (dt.date.min.toordinal() - 719_163, dt.date.max.toordinal() - 719_163)
"""Days since 1970 of the first and the last date that have a literal."""


def lazy_frame(table: Dataset, columns: Sequence[str] | None = None) -> pl.LazyFrame:
    """Return the LazyFrame that reads a version of a table, or some of its columns.

    Raises:
        UnsupportedError: Polars cannot hold a column; the message has its name and type.
        InvalidInputError: There is no such column.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    names = None if columns is None else list(columns)
    found = table.schema if names is None else table.scanner(names).schema
    refuse_foreign(found, table.uri, "ds.lazy(columns=[..])")
    empty = pl.from_arrow(found.empty_table())
    schema = dict(empty.schema) if isinstance(empty, pl.DataFrame) else {}
    return register_io_source(functools.partial(_batches, table, names), schema=schema, is_pure=True)


def _batches(
    table: Dataset,
    chosen: list[str] | None,
    columns: list[str] | None,
    predicate: pl.Expr | None,
    num_rows: int | None,
    batch_rows: int | None,
) -> Iterator[pl.DataFrame]:
    """Yield the rows that Polars asks for: of the first `num_rows` of the table those that satisfy `predicate`."""
    import polars as pl
    import pyarrow as pa

    schema = table.schema
    columns = chosen if columns is None else columns
    read = columns
    if read is not None and predicate is not None:
        read = [*read, *(name for name in dict.fromkeys(predicate.meta.root_names()) if name not in read)]
    # A limit counts rows before the predicate, so with a limit the engine must not leave out rows.
    pushed = None if predicate is None or num_rows is not None else condition(predicate, schema)
    options: dict[str, Any] = {"limit": num_rows, "batch_rows": batch_rows or None}
    try:
        scan = table.scanner(read, pushed, **options)
    except (InvalidInputError, UnsupportedError):
        if pushed is None:
            raise
        scan = table.scanner(read, **options)
    for batches in _gathered(scan.to_batches()):
        rows = pl.DataFrame(pa.Table.from_batches(batches, scan.schema))
        if predicate is not None:
            rows = rows.filter(predicate)
        yield rows if columns is None else rows.select(columns)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield runs of batches: each twice as many as before, as long as they are small.

    A filter of Polars costs half a millisecond for any frame, and the engine returns a batch for each page with matching rows.
    The first run is one batch, so that a query which needs few rows ends early. Without any batch there is one empty run,
    because Polars needs a frame to show errors of a predicate.
    """
    wanted, run, size, any_run = 1, [], 0, False
    for batch in batches:
        run.append(batch)
        size += batch.nbytes
        if len(run) >= wanted or size >= RUN_BYTES:
            yield run
            wanted, run, size, any_run = min(2 * wanted, MAX_RUN), [], 0, True
    if run or not any_run:
        yield run


def condition(predicate: pl.Expr, schema: pa.Schema) -> str | None:
    """Return SQL that is true for every row for which a predicate of Polars is true, or None if nothing is known."""
    try:
        text = predicate.meta.serialize(format="json")
    except Exception:  # noqa: BLE001 - Polars cannot serialise some predicates; it evaluates them itself
        return None
    if len(text) > MAX_PREDICATE_BYTES:
        return None
    return _Translation(schema).implied(json.loads(text))


class _Translation:
    """Serialised predicates of Polars as SQL. Every method returns None for what it does not know exactly."""

    def __init__(self, schema: pa.Schema) -> None:
        self._families = {field.name: family for field in schema if (family := _family(field.type)) is not None}

    def implied(self, node: Any) -> str | None:
        """Return SQL that is true wherever the node is true."""
        operator, sides = _operation(node)
        if operator not in {"And", "LogicalAnd"}:
            return self._exact(node) or self._range(node)
        known = [text for side in sides if (text := self.implied(side)) is not None]
        return f"({' AND '.join(known)})" if known else None

    def _exact(self, node: Any) -> str | None:
        """Return SQL that is true where the node is true, and false where the node is false."""
        operator, sides = _operation(node)
        if operator in {"And", "LogicalAnd", "Or", "LogicalOr"}:
            both = [self._exact(side) for side in sides]
            word = "AND" if operator.endswith("And") else "OR"
            return None if None in both else f"({both[0]} {word} {both[1]})"
        if operator is not None:
            return self._comparison(operator, *sides)
        name = _column(node)
        if name is not None:
            return _quoted(name) if self._families.get(name) is _boolean else None
        match node:
            case {"Function": {"input": [inner], "function": {"Boolean": "Not"}}}:
                negated = self._exact(inner)
                return None if negated is None else f"(NOT {negated})"
            case {"Function": {"input": [inner], "function": {"Boolean": "IsNull" | "IsNotNull" as test}}}:
                name = _column(inner)
                words = "IS NULL" if test == "IsNull" else "IS NOT NULL"
                return None if name not in self._families else f"({_quoted(name)} {words})"
            case {
                "Function": {"input": [inner, low, high], "function": {"Boolean": {"IsBetween": {"closed": closed}}}}
            }:
                above, below = _CLOSED.get(closed, (None, None))
                parts = [self._compared(inner, above, low), self._compared(inner, below, high)]
                return None if None in parts else f"({parts[0]} AND {parts[1]})"
            case {"Function": {"input": [inner, values], "function": {"Boolean": {"IsIn": {"nulls_equal": nulls}}}}}:
                return self._is_in(inner, values, nulls)
            case {"Function": {"input": [inner, pattern], "function": {"StringExpr": "StartsWith"}}}:
                name, prefix = _column(inner), _scalar(pattern)
                known = self._families.get(name) is _text and prefix is not None and prefix[0] == "String"
                return f"STARTS_WITH({_quoted(name)}, {_text(*prefix)})" if known and prefix else None
        return None

    def _comparison(self, operator: str, left: Any, right: Any) -> str | None:
        if operator in _COMPARISONS:
            word = _COMPARISONS[operator]
            return self._compared(left, word, right) or self._compared(right, _SWAPPED[word], left)
        if operator in {"EqValidity", "NotEqValidity"}:
            equal = self._compared(left, "=", right)
            name = _column(left)
            if equal is None or name is None:
                return None
            found = f"({_quoted(name)} IS NOT NULL AND {equal})"
            return found if operator == "EqValidity" else f"(NOT {found})"
        return None

    def _compared(self, left: Any, word: str | None, right: Any) -> str | None:
        """Return the comparison of a column with a literal."""
        value = _scalar(right)
        if value is None or word is None:
            return None
        match left:
            case {"Cast": {"expr": inner, "dtype": {"Literal": target}}}:
                return self._of_cast(_column(inner), target, word, value)
        name = _column(left)
        family = self._families.get(name)
        literal = None if family is None else family(*value)
        if name is None or literal is None or (family is _category and word not in {"=", "<>"}):
            return None
        return f"({_quoted(name)} {word} {literal})"

    def _of_cast(self, name: str | None, target: Any, word: str, value: tuple[str, Any]) -> str | None:
        """Return the comparison of a column that Polars widens first, as one of the column with a value of its own type."""
        family = self._families.get(name)
        kind, payload = value
        if family is _integer and target == kind == "Float64" and isinstance(payload, (int, float)):
            # Beyond 2^53 not every integer is a float: the comparison is exact only with a value below.
            exact = abs(payload) < _EXACT_FLOAT
            whole, rest = math.floor(payload) if exact else 0, payload % 1 if exact else 0
            literal = _integer("Int64", whole)
        elif family is _date and isinstance(target, dict) and kind == "Datetime" and payload[2] is None:
            whole, rest = divmod(payload[0], 86_400 * _TICKS.get(payload[1], 1))
            # Days whose midnight the unit cannot count are null in Polars, and pass or fail here: both are allowed.
            exact, literal = payload[1] in _TICKS, _date("Date", whole)
        else:
            return None
        if not exact or literal is None or name is None:
            return None
        if rest:
            # The value lies between `whole` and the next one.
            if word in {"=", "<>"}:
                return None
            word = ">" if word in {">", ">="} else "<="
        return f"({_quoted(name)} {word} {literal})"

    def _is_in(self, inner: Any, values: Any, nulls_equal: bool) -> str | None:
        name, listed = _column(inner), _listed(values)
        if name is None or listed is None or len(listed) > MAX_LIST:
            return None
        texts = self._literals(name, listed)
        if texts is None:
            return None
        column = _quoted(name)
        found = f"{column} IN ({', '.join(texts)})" if texts else "FALSE"
        if not nulls_equal:
            return f"({found})"
        if listed.null_count:
            return f"({column} IS NULL OR {found})"
        return f"({column} IS NOT NULL AND {found})"

    def _range(self, node: Any) -> str | None:
        """Return the range of a list of values that is too long to be pushed."""
        match node:
            case {"Function": {"input": [inner, values], "function": {"Boolean": {"IsIn": {"nulls_equal": nulls}}}}}:
                name, listed = _column(inner), _listed(values)
                if name is None or listed is None or len(listed) <= MAX_LIST or (listed.null_count and nulls):
                    return None
                family = self._families.get(name)
                if family not in {_integer, _text, _date, _datetime}:
                    return None
                import pyarrow.compute as pc

                least = pc.min_max(listed)
                ends = self._literals(name, least.values() if hasattr(least, "values") else [])
                column = _quoted(name)
                return f"({column} BETWEEN {ends[0]} AND {ends[1]})" if ends and len(ends) == 2 else None
        return None

    def _literals(self, name: str, values: Any) -> list[str] | None:
        """Return the values that are not null as literals, or None if one of them has none."""
        family = self._families.get(name)
        if family is None:
            return None
        texts = []
        for value in values:
            if value.is_valid:
                plain = _plain(value)
                text = None if plain is None else family(*plain)
                if text is None:
                    return None
                texts.append(text)
        return texts


# -- Nodes ----------------------------------------------------------------------------------------------------------------


def _quoted(name: str | None) -> str:
    return "`" + str(name).replace("`", "``") + "`"


def _operation(node: Any) -> tuple[str | None, Sequence[Any]]:
    match node:
        case {"BinaryExpr": {"left": left, "op": str(operator), "right": right}}:
            return operator, (left, right)
    return None, ()


def _column(node: Any) -> str | None:
    match node:
        case {"Column": str(name)}:
            return name
    return None


def _scalar(node: Any) -> tuple[str, Any] | None:
    """Return the name of a literal's type in Polars, and its value."""
    match node:
        case {"Literal": {"Scalar": dict(scalar)}} if len(scalar) == 1:
            ((kind, value),) = scalar.items()
            return None if value is None else (kind, value)
    return None


def _listed(node: Any) -> pa.Array | None:
    """Return the values of a list literal, which Polars serialises as an Arrow stream."""
    import pyarrow as pa

    value = _scalar(node)
    if value is None or value[0] != "List":
        return None
    try:
        with pa.ipc.open_stream(bytes(value[1])) as stream:
            column = stream.read_all().column(0)
    except (pa.ArrowException, ValueError, TypeError):
        return None
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _plain(value: pa.Scalar) -> tuple[str, Any] | None:
    """Return a value of a list as a literal of its type would be serialised."""
    import pyarrow as pa

    kind = value.type
    if pa.types.is_timestamp(kind):
        units = {"ms": "Milliseconds", "us": "Microseconds", "ns": "Nanoseconds"}
        zone = None if kind.tz is None else {"inner": kind.tz}
        return ("Datetime", [value.value, units[kind.unit], zone]) if kind.unit in units else None
    if pa.types.is_date32(kind):
        return "Date", value.value
    if pa.types.is_integer(kind):
        return "Int64", value.as_py()
    if pa.types.is_floating(kind):
        return ("Float64" if kind == pa.float64() else "Float32"), value.as_py()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return "String", value.as_py()
    return None


# -- Literals of the types of columns. Each takes the type and the value of a literal of Polars. ------------------------------


def _integer(kind: str, value: Any) -> str | None:
    return str(value) if kind.startswith(("Int", "UInt")) and type(value) is int else None


def _double(kind: str, value: Any) -> str | None:
    return _float(value) if kind == "Float64" else None


def _single(kind: str, value: Any) -> str | None:
    if kind != "Float32" or type(value) not in {int, float}:
        return None
    # The text of the literal is the shortest that names this float of 32 bits; the engine compares floats of 64.
    return _float(struct.unpack("f", struct.pack("f", value))[0])


def _float(value: Any) -> str | None:
    # JSON has null for NaN and for the infinities, so they are not known here.
    if type(value) not in {int, float} or not math.isfinite(value):
        return None
    return f"{value!r}e0" if isinstance(value, int) or "e" not in repr(value) else repr(value)


def _boolean(kind: str, value: Any) -> str | None:
    return str(value).upper() if kind == "Boolean" and type(value) is bool else None


def _text(kind: str, value: Any) -> str | None:
    return "'" + value.replace("'", "''") + "'" if kind == "String" and "\0" not in value else None


def _category(kind: str, value: Any) -> str | None:
    return _text(kind, value)


def _bytes(kind: str, value: Any) -> str | None:
    return f"X'{bytes(value).hex()}'" if kind == "Binary" else None


def _date(kind: str, value: Any) -> str | None:
    if kind != "Date" or not _DAYS[0] <= value <= _DAYS[1]:
        return None
    return f"DATE '{dt.date.fromordinal(value + 719_163).isoformat()}'"


def _datetime(kind: str, value: Any) -> str | None:
    return _moment(value, "") if kind == "Datetime" and value[2] is None else None


def _instant(zone: str, kind: str, value: Any) -> str | None:
    # Polars refuses to compare times of two zones, so such a predicate is left to Polars.
    return _moment(value, "+00:00") if kind == "Datetime" and value[2] == {"inner": zone} else None


def _moment(value: Any, zone: str) -> str | None:
    count, unit, _ = value
    if unit not in _TICKS:
        return None
    second, tick = divmod(count, _TICKS[unit])
    day, second = divmod(second, 86_400)
    date = _date("Date", day)
    if date is None:
        return None
    return f"TIMESTAMP '{date[6:-1]} {_clock(second, tick * 1_000_000_000 // _TICKS[unit])}{zone}'"


def _time(kind: str, value: Any) -> str | None:
    return f"TIME '{_clock(*divmod(value, 1_000_000_000))}'" if kind == "Time" else None


def _clock(second: int, nanosecond: int) -> str:
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{nanosecond:09}"


def _decimal(kind: str, value: Any) -> str | None:
    if kind != "Decimal":
        return None
    digits, _, scale = value
    return format(Decimal(digits).scaleb(-scale) if abs(digits) < 10**28 else Decimal(f"{digits}e-{scale}"), "f")


_Family = Callable[[str, Any], "str | None"]


def _family(kind: pa.DataType) -> _Family | None:
    """Return how literals for a column of this type are written, or None if predicates on it are not pushed."""
    import pyarrow as pa

    is_a: Mapping[Any, _Family] = {
        pa.types.is_integer: _integer,
        pa.types.is_float64: _double,
        pa.types.is_float32: _single,
        pa.types.is_boolean: _boolean,
        pa.types.is_date32: _date,
        pa.types.is_time: _time,
        pa.types.is_decimal128: _decimal,
    }
    for test, family in is_a.items():
        if test(kind):
            return family
    if kind in {pa.string(), pa.large_string(), pa.string_view()}:
        return _text
    if kind in {pa.binary(), pa.large_binary(), pa.binary_view()}:
        return _bytes
    if pa.types.is_timestamp(kind):
        return _datetime if kind.tz is None else functools.partial(_instant, kind.tz)
    if pa.types.is_dictionary(kind) and kind.value_type in {pa.string(), pa.large_string(), pa.string_view()}:
        return _category
    return None


def refuse_foreign(schema: pa.Schema, where: str, instead: str) -> None:
    """Refuse columns that Polars cannot hold.

    Args:
        schema: The columns that Polars would get.
        where: The address of the table, for the message.
        instead: The call that reads other columns, for the message.

    Raises:
        UnsupportedError: There are such columns; the message has their names, their types and the reason.
    """
    found = {field.name: reason for field in schema if (reason := _reason(field.type)) is not None}
    if found:
        columns = "; ".join(f"{name!r} is {schema.field(name).type}: {reason}" for name, reason in found.items())
        raise UnsupportedError(
            f"{where}: Polars cannot hold {len(found)} of the columns: {columns}. Read the other columns with {instead}, "
            "convert these with CAST in ds.scanner({'name': 'CAST(name AS ..)'}), or read them with pyarrow: ds.to_table()"
        )


def _reason(kind: pa.DataType) -> str | None:
    """Return the reason why Polars cannot hold a type, for a message; None if Polars can hold it."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _reason(kind.storage_type)
    if pa.types.is_decimal256(kind):
        return "its decimals have 128 bits"
    if pa.types.is_decimal(kind) and kind.scale < 0:
        return "its decimals have no negative scale"
    if pa.types.is_interval(kind):
        return "it has no interval of months, days and nanoseconds"
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return "it has no list views"
    if pa.types.is_timestamp(kind) and kind.tz is not None and not _is_known(kind.tz):
        return f"it does not know the zone {kind.tz!r}, only names such as 'Asia/Kolkata'"
    if pa.types.is_dictionary(kind):
        return _reason(kind.value_type)
    if pa.types.is_map(kind):
        return _reason(kind.key_type) or _reason(kind.item_type)
    if pa.types.is_nested(kind):
        inner = (_reason(kind.field(place).type) for place in range(kind.num_fields))
        return next(filter(None, inner), None)
    return None


@functools.lru_cache(maxsize=256)
def _is_known(zone: str) -> bool:
    import polars as pl

    try:
        pl.Series([0]).cast(pl.Datetime("us", zone))
    except pl.exceptions.PolarsError:
        return False
    return True
