"""The types of tables in Spark: which Arrow type Spark gets for each type of a table, and back.

The Arrow reader of Spark takes one type for each kind of value and does not widen. A type that is not listed here is refused by
column before a task runs. Every field is nullable at every level, because Spark compares nullability too.

| in the table | handed to Spark | Spark type |
|---|---|---|
| bool, int8 … int64, float32, float64 | the same | boolean, tinyint … bigint, float, double |
| uint8, uint16, uint32 | int16, int32, int64 | smallint, int, bigint |
| uint64 | decimal128(20, 0) | decimal(20,0) |
| float16 | float32 | float |
| string, large_string, string_view | string | string |
| binary, large_binary, binary_view, fixed_size_binary | binary | binary |
| decimal up to 38 digits, any width | decimal128 | decimal(p,s) |
| date32, date64 of whole days | date32 | date |
| time32, time64 | time64[ns], which Spark keeps to the nanosecond | time(6) |
| timestamp with a zone, whole microseconds | timestamp[us, UTC]: the same instant | timestamp |
| timestamp without, whole microseconds | timestamp[us] | timestamp_ntz |
| duration of whole microseconds | duration[us] | interval day to second |
| list, large_list, list_view, fixed_size_list | list | array |
| fixed_size_list of numbers, `vectors="binary"` | binary, little endian | binary |
| struct, map | the same, of coerced children | struct, map |
| dictionary, run-end encoded, extension | its values, storage | of these |
| null | null | void |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pilum.arguments import checked, shown
from pilum.exceptions import InvalidInputError, UnsupportedError
from pilum.spark.conform import vector_byte_width

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Vectors = Literal["list", "array", "binary"]

DECIMAL128_DIGITS = 38

_LEAVES: list[tuple[Any, pa.DataType]] = [
    (pa.types.is_boolean, pa.bool_()),
    (pa.types.is_int8, pa.int8()),
    (pa.types.is_int16, pa.int16()),
    (pa.types.is_int32, pa.int32()),
    (pa.types.is_int64, pa.int64()),
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20, 0)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_float32, pa.float32()),
    (pa.types.is_float64, pa.float64()),
    (pa.types.is_string, pa.string()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary, pa.binary()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date, pa.date32()),
    (pa.types.is_time, pa.time64("ns")),
    (pa.types.is_duration, pa.duration("us")),
    (pa.types.is_null, pa.null()),
]


def spark_safe(schema: pa.Schema, vectors: Vectors = "list") -> pa.Schema:
    """Return the schema in which Spark takes the columns of `schema`.

    Raises:
        UnsupportedError: A column has no lossless way into Spark; the message names it.
    """
    return pa.schema([pa.field(f.name, _safe(f.type, vectors, f"column {f.name!r}")) for f in schema])


def _safe(type_: pa.DataType, vectors: Vectors, where: str) -> pa.DataType:  # noqa: C901 - the table above
    if isinstance(type_, pa.BaseExtensionType):
        return _safe(type_.storage_type, vectors, where)
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return _safe(type_.value_type, vectors, where)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", None if type_.tz is None else "UTC")
    if pa.types.is_decimal(type_):
        return _safe_decimal(type_, where)
    if pa.types.is_fixed_size_list(type_) and vectors == "binary" and vector_byte_width(type_) is not None:
        return pa.binary()
    if any(
        is_list(type_)
        for is_list in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    ):
        # A list of vectors stays a list of lists: bytes are for a column of them.
        return pa.list_(pa.field("item", _safe(type_.value_type, "list", f"{where} (items)")))
    if pa.types.is_map(type_):
        return pa.map_(
            _safe(type_.key_type, "list", f"{where} (keys)"), _safe(type_.item_type, "list", f"{where} (values)")
        )
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _safe(f.type, vectors, f"{where}.{f.name}")) for f in type_])
    for test, safe in _LEAVES:
        if test(type_):
            return safe
    raise UnsupportedError(f"{where}: Spark has no type for {type_}: leave it out with columns=")


def _safe_decimal(type_: pa.DataType, where: str) -> pa.DataType:
    # Spark's scale lies between zero and the precision.
    digits, scale = type_.precision, type_.scale
    if scale < 0:
        digits, scale = digits - scale, 0
    digits = max(digits, scale)
    if digits > DECIMAL128_DIGITS:
        raise UnsupportedError(f"{where}: {type_} needs {digits} digits and Spark has 38: leave it out with columns=")
    return pa.decimal128(digits, scale)


def _arrow_schema(name: str, value: Any) -> None:
    """Accept a schema of pyarrow."""
    if not isinstance(value, pa.Schema):
        raise InvalidInputError(f"{name}: pass a pyarrow.Schema, not {shown(value)}")


def _spark_schema(name: str, value: Any) -> None:
    """Accept a schema of Spark."""
    if not hasattr(value, "fields"):
        raise InvalidInputError(f"{name}: pass a StructType of Spark, not {shown(value)}")


@checked(schema=_arrow_schema)
def to_spark_schema(schema: pa.Schema, *, vectors: Vectors = "list") -> StructType:
    """Return the Spark schema of a table's columns.

    Args:
        schema: The columns, as `Dataset.schema` tells them.
        vectors: `"binary"` hands fixed-size lists of numbers over as bytes.

    Raises:
        UnsupportedError: A column has no lossless way into Spark; the message names it.
    """
    from pyspark.sql import types as t

    safe = spark_safe(schema, vectors)
    return t.StructType([t.StructField(f.name, _to_spark(f.type, f"column {f.name!r}"), True) for f in safe])


def _to_spark(type_: pa.DataType, where: str) -> DataType:
    from pyspark.sql import types as t

    plain: dict[pa.DataType, DataType] = {
        pa.bool_(): t.BooleanType(),
        pa.int8(): t.ByteType(),
        pa.int16(): t.ShortType(),
        pa.int32(): t.IntegerType(),
        pa.int64(): t.LongType(),
        pa.float32(): t.FloatType(),
        pa.float64(): t.DoubleType(),
        pa.string(): t.StringType(),
        pa.binary(): t.BinaryType(),
        pa.date32(): t.DateType(),
        pa.timestamp("us", "UTC"): t.TimestampType(),
        pa.timestamp("us"): t.TimestampNTZType(),
        pa.duration("us"): t.DayTimeIntervalType(),
        pa.null(): t.NullType(),
    }
    if type_ in plain:
        return plain[type_]
    if pa.types.is_time64(type_):
        time_type = getattr(t, "TimeType", None)
        if time_type is None:
            raise UnsupportedError(f"{where}: times of day need PySpark 4.1: leave the column out with columns=")
        spark_time: DataType = time_type()
        return spark_time
    if pa.types.is_decimal(type_):
        return t.DecimalType(type_.precision, type_.scale)
    if pa.types.is_list(type_):
        return t.ArrayType(_to_spark(type_.value_type, where), True)
    if pa.types.is_map(type_):
        return t.MapType(_to_spark(type_.key_type, where), _to_spark(type_.item_type, where), True)
    return t.StructType([t.StructField(f.name, _to_spark(f.type, f"{where}.{f.name}"), True) for f in type_])


@checked(schema=_spark_schema)
def from_spark_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which the rows of a DataFrame are stored: canonical names, everything nullable.

    Raises:
        UnsupportedError: A column's type cannot be stored; the message names it.
    """
    return pa.schema([pa.field(f.name, _from_spark(f.dataType, f"column {f.name!r}")) for f in schema.fields])


def _from_spark(type_: DataType, where: str) -> pa.DataType:
    from pyspark.sql import types as t

    plain: dict[type[DataType], pa.DataType] = {
        t.BooleanType: pa.bool_(),
        t.ByteType: pa.int8(),
        t.ShortType: pa.int16(),
        t.IntegerType: pa.int32(),
        t.LongType: pa.int64(),
        t.FloatType: pa.float32(),
        t.DoubleType: pa.float64(),
        t.StringType: pa.string(),
        t.CharType: pa.string(),
        t.VarcharType: pa.string(),
        t.BinaryType: pa.binary(),
        t.DateType: pa.date32(),
        t.TimestampType: pa.timestamp("us", "UTC"),
        t.TimestampNTZType: pa.timestamp("us"),
        t.DayTimeIntervalType: pa.duration("us"),
        t.NullType: pa.null(),
    }
    if type(type_) in plain:
        return plain[type(type_)]
    if type(type_).__name__ == "TimeType":
        return pa.time64("ns")
    if isinstance(type_, t.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, t.ArrayType):
        return pa.list_(pa.field("item", _from_spark(type_.elementType, f"{where} (items)")))
    if isinstance(type_, t.MapType):
        return pa.map_(_from_spark(type_.keyType, f"{where} (keys)"), _from_spark(type_.valueType, f"{where} (values)"))
    if isinstance(type_, t.StructType):
        return pa.struct([pa.field(f.name, _from_spark(f.dataType, f"{where}.{f.name}")) for f in type_.fields])
    if isinstance(type_, t.UserDefinedType):
        return _from_spark(type_.sqlType(), where)
    raise UnsupportedError(f"{where}: Spark's {type_.simpleString()} cannot be stored: cast the column first")
