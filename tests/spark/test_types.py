"""The coercion table: lossless into Spark and back, or refused by column."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as t

import pilum
from pilum import spark as ps
from pilum.spark.conform import conform_batch
from pilum.spark.types import spark_safe
from support.comparing import arrow_of, assert_same, bits
from support.random_tables import Maker

D = decimal.Decimal

# What a table holds, and the Spark type that it becomes.
CASES = [
    (pa.array([True, None, False]), "boolean"),
    (pa.array([1, None, -128], pa.int8()), "tinyint"),
    (pa.array([1, None, 32767], pa.int16()), "smallint"),
    (pa.array([1, None, -(2**31)], pa.int32()), "int"),
    (pa.array([1, None, 2**63 - 1], pa.int64()), "bigint"),
    (pa.array([1, None, 255], pa.uint8()), "smallint"),
    (pa.array([1, None, 65535], pa.uint16()), "int"),
    (pa.array([1, None, 2**32 - 1], pa.uint32()), "bigint"),
    (pa.array([1, None, 2**64 - 1], pa.uint64()), "decimal(20,0)"),
    (pa.array([1.5, None, -0.0], pa.float16()), "float"),
    (pa.array([1.5, None, float("nan")], pa.float32()), "float"),
    (pa.array([1.5, None, float("-inf")], pa.float64()), "double"),
    (pa.array(["a", None, ""]), "string"),
    (pa.array(["a", None, "délai"], pa.large_string()), "string"),
    (pa.array(["a", None, "x" * 40], pa.string_view()), "string"),
    (pa.array([b"a", None, b""]), "binary"),
    (pa.array([b"a", None, b"\x00"], pa.large_binary()), "binary"),
    (pa.array([b"ab", None, b"\x00\xff"], pa.binary(2)), "binary"),
    (pa.array([dt.date(2020, 1, 2), None, dt.date(1, 1, 1)], pa.date32()), "date"),
    (pa.array([dt.date(2020, 1, 2), None], pa.date64()), "date"),
    (pa.array([1, None, -1], pa.timestamp("s")), "timestamp_ntz"),
    (pa.array([1, None, -1], pa.timestamp("ms")), "timestamp_ntz"),
    (pa.array([1, None, -1], pa.timestamp("us")), "timestamp_ntz"),
    (pa.array([1000, None, -3000], pa.timestamp("ns")), "timestamp_ntz"),
    (pa.array([1, None], pa.timestamp("us", "UTC")), "timestamp"),
    (pa.array([1, None], pa.timestamp("s", "Europe/Berlin")), "timestamp"),
    (pa.array([5, None, -5], pa.duration("s")), "interval day to second"),
    (pa.array([5000, None], pa.duration("ns")), "interval day to second"),
    (pa.array([D("1.25"), None], pa.decimal128(20, 2)), "decimal(20,2)"),
    (pa.array([D("1.25"), None], pa.decimal256(38, 2)), "decimal(38,2)"),
    (pa.array([D("1200"), None], pa.decimal128(5, -2)), "decimal(7,0)"),
    (pa.array([D("0.001"), None], pa.decimal32(3, 3)), "decimal(3,3)"),
    (pa.array([[1, None], None, []], pa.list_(pa.int32())), "array<int>"),
    (pa.array([[1, None], None, []], pa.large_list(pa.uint32())), "array<bigint>"),
    (pa.array([[1, 2], None, [3, None]], pa.list_(pa.float32(), 2)), "array<float>"),
    (pa.array([[[1, 2], [3, 4]], None], pa.list_(pa.list_(pa.int16(), 2), 2)), "array<array<smallint>>"),
    (pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}], pa.struct([("a", pa.uint8()), ("b", pa.large_string())])),
     "struct<a:smallint,b:string>"),
    (pa.array([[{"a": 1}], None, [None]], pa.list_(pa.struct([("a", pa.uint8())]))), "array<struct<a:smallint>>"),
    (pa.array([[("k", 1), ("l", None)], None, []], pa.map_(pa.string(), pa.uint8())), "map<string,smallint>"),
    (pa.array(["x", None, "y", "x"]).dictionary_encode(), "string"),
    (pa.array([["x"], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))), "array<string>"),
    (pa.nulls(3), "void"),
]  # fmt: skip

TIMES = [
    pa.array([dt.time(1, 2, 3), None], pa.time32("s")),
    pa.array([dt.time(1, 2, 3, 4000), None], pa.time32("ms")),
    pa.array([dt.time(1, 2, 3, 4), None], pa.time64("us")),
    pa.array([1, None, 86_399_999_999_999], pa.time64("ns")),
]
"""Times of day, for which Spark has a type from PySpark 4.1 on."""

HAS_TIMES = hasattr(t, "TimeType")
if HAS_TIMES:
    CASES += [(array, "time(6)") for array in TIMES]


def conform(array: pa.Array, target: pa.DataType, name: str, first_row: int = 0) -> pa.Array:
    """Return one column as Spark takes it."""
    batch = pa.RecordBatch.from_arrays([array], names=[name])
    return conform_batch(batch, pa.schema([(name, target)]), "a table", first_row).column(0)


@pytest.mark.parametrize(("array", "spark_type"), CASES, ids=[str(array.type) for array, _ in CASES])
def test_each_type_conforms_whatever_its_slices(array, spark_type):
    schema = pa.schema([pa.field("c", array.type, nullable=bool(array.null_count))])
    safe = spark_safe(schema).field(0)
    assert safe.nullable
    assert ps.to_spark_schema(schema).simpleString() == f"struct<c:{spark_type}>"
    assert ps.from_spark_schema(ps.to_spark_schema(schema)).field(0).type == safe.type
    for part in (array, array.slice(1), array.slice(0, 0), pa.concat_arrays([array, array]).slice(1, len(array))):
        out = conform(part, safe.type, "c")
        out.validate(full=True)
        assert out.type == safe.type
        if pa.types.is_time64(safe.type):
            # Python has no nanoseconds.
            out, part = out.cast(pa.int64()), part.cast(pa.time64("ns")).cast(pa.int64())
        assert [bits(value) for value in out.to_pylist()] == [bits(value) for value in part.to_pylist()]


def storable() -> pa.Table:
    """Return the cases as one table, all of one length."""
    rows = 3
    columns = {}
    for place, (array, _) in enumerate(CASES):
        index = pa.array([row if row < len(array) else None for row in range(rows)], pa.int64())
        # Arrow cannot take from views.
        columns[f"c{place}"] = array.slice(0, rows) if pa.types.is_string_view(array.type) else array.take(index)
    return pa.table(columns)


def test_the_whole_table_of_types_through_spark(spark, tmp_path):
    table = storable()
    pilum.write_dataset(table, tmp_path / "t")
    df = ps.read(spark, str(tmp_path / "t"))
    assert [field.dataType.simpleString() for field in df.schema] == [spark_type for _, spark_type in CASES]
    assert all(field.nullable for field in df.schema)
    got = arrow_of(df)
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        want = conform(column.combine_chunks(), spark_safe(table.schema).field(place).type, name)
        back = conform(got[name].combine_chunks(), want.type, name)
        if pa.types.is_time64(want.type):
            want, back = want.cast(pa.int64()), back.cast(pa.int64())
        assert repr(back.to_pylist()) == repr(want.to_pylist()), f"{name}: {column.type}"


def test_what_spark_has_no_type_for_is_refused_by_column(spark, tmp_path):
    table = pa.table({"fine": [1], "wide": pa.array([D(1)], pa.decimal256(60, 2))})
    pilum.write_dataset(table, tmp_path / "t")
    with pytest.raises(pilum.UnsupportedError, match="wide"):
        ps.read(spark, str(tmp_path / "t"))
    assert ps.read(spark, str(tmp_path / "t"), columns=["fine"]).collect()[0].fine == 1


@pytest.mark.parametrize(
    ("array", "row"),
    [
        (pa.array([1000, 2000, 2001], pa.timestamp("ns")), 2),
        (pa.array([0, 86_400_001], pa.date64()), 1),
        (pa.array([None, 2**62], pa.timestamp("s")), 1),
        (pa.array([1, 999], pa.duration("ns")), 0),
    ],
    ids=["ns", "date64", "beyond", "duration"],
)
def test_a_value_without_an_equal_is_refused_by_row(array, row):
    safe = spark_safe(pa.schema([("c", array.type)])).field(0).type
    with pytest.raises(pilum.InvalidInputError, match=f"row {100 + row}:"):
        conform(array, safe, "c", 100)


def test_vectors_can_be_handed_over_as_bytes(spark, tmp_path):
    table = pa.table({"v": pa.array([[1.5, 2.5], None, [3.5, -0.0]], pa.list_(pa.float32(), 2)), "n": [1, 2, 3]})
    pilum.write_dataset(table, tmp_path / "t")
    df = ps.read(spark, str(tmp_path / "t"), vectors="binary")
    assert df.schema.simpleString() == "struct<v:binary,n:bigint>"
    got = [None if row.v is None else np.frombuffer(row.v, "<f4").tolist() for row in df.orderBy("n").collect()]
    assert got == table["v"].to_pylist()
    missing = pa.array([[1, 2], [3, None]], pa.list_(pa.int32(), 2))
    with pytest.raises(pilum.InvalidInputError, match="row 1"):
        conform(missing, pa.binary(), "v")


@pytest.mark.parametrize("seed", range(20))
def test_random_tables_conform_or_are_refused(seed):
    table = Maker(seed, 50, lossless=True).table()
    for field, column in zip(table.schema, table.columns, strict=True):
        try:
            safe = spark_safe(pa.schema([field])).field(0).type
            out = conform(column.combine_chunks(), safe, field.name)
        except (pilum.UnsupportedError, pilum.InvalidInputError) as refusal:
            if field.name not in str(refusal):
                pytest.fail(f"{field.type}: the message names no column: {refusal}")
            continue
        out.validate(full=True)
        assert len(out) == 50
        assert out.null_count == column.combine_chunks().null_count or pa.types.is_dictionary(field.type)


@pytest.mark.parametrize("array", TIMES, ids=[str(array.type) for array in TIMES])
def test_a_time_of_day_is_a_type_of_spark_or_refused_by_column(array):
    schema = pa.schema([("start", array.type)])
    if HAS_TIMES:
        assert ps.to_spark_schema(schema).simpleString() == "struct<start:time(6)>"
    else:
        with pytest.raises(pilum.UnsupportedError, match=r"column 'start': times of day need PySpark 4\.1"):
            ps.to_spark_schema(schema)


# PySpark 3.5 has no variants.
@pytest.mark.parametrize("name", [it for it in ("YearMonthIntervalType", "VariantType") if hasattr(t, it)])
def test_a_spark_type_that_cannot_be_stored_is_refused_by_column(name):
    schema = t.StructType([t.StructField("id", t.LongType()), t.StructField("odd", getattr(t, name)())])
    with pytest.raises(pilum.UnsupportedError, match="column 'odd'"):
        ps.from_spark_schema(schema)


def test_a_projection_of_nothing_but_structs_keeps_nulls(spark, tmp_path):
    table = pa.table({"p": pa.array([{"x": None}, None, {"x": 3}], pa.struct([("x", pa.int64())]))})
    pilum.write_dataset(table, tmp_path / "t")
    got = arrow_of(ps.read(spark, str(tmp_path / "t")))
    assert_same(got, table, nullability=False)
