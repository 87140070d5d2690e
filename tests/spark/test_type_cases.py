"""Every type that a table can hold goes through Spark and back into a table of the same types, or is refused by its path."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from pyspark.sql import types as t

import pilum
from pilum import spark as ps
from support import spark_types_page
from support.comparing import bits

D = decimal.Decimal
UTC = dt.UTC


def sample(type_: pa.DataType) -> pa.Array:  # noqa: C901 - one case for each kind of type
    """Return two values and a null of a type."""
    if isinstance(type_, pa.JsonType):
        return pa.ExtensionArray.from_storage(type_, pa.array(['{"a": 1}', None, "[]"], type_.storage_type))
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, sample(type_.storage_type))
    if pa.types.is_null(type_):
        return pa.nulls(3)
    if pa.types.is_boolean(type_):
        return pa.array([True, None, False])
    if pa.types.is_integer(type_):
        low = 0 if pa.types.is_unsigned_integer(type_) else -(1 << (type_.bit_width - 1))
        high = (1 << (type_.bit_width - (low < 0))) - 1
        return pa.array([low, None, high], type_)
    if pa.types.is_floating(type_):
        return pa.array([1.5, None, float("inf")], type_)
    if pa.types.is_decimal(type_):
        return pa.array([D(1).scaleb(-type_.scale), None, -D(7).scaleb(-type_.scale)], type_)
    if pa.types.is_date(type_):
        return pa.array([dt.date(1970, 1, 2), None, dt.date(1583, 1, 1)], type_)
    if pa.types.is_temporal(type_) and not pa.types.is_interval(type_):
        nanos = getattr(type_, "unit", "us") == "ns"
        return (
            pa.array([1000 if nanos else 1, None, 3_000_000 if nanos else 3000], pa.int64())
            .cast(pa.int32() if type_.bit_width == 32 else pa.int64())
            .view(type_)
        )
    if pa.types.is_interval(type_):
        return pa.array([(1, 2, 3), None, (0, 0, 0)], type_)
    if pa.types.is_fixed_size_binary(type_):
        return pa.array([b"\x00" * type_.byte_width, None, b"\xff" * type_.byte_width], type_)
    if pa.types.is_dictionary(type_):
        return sample(type_.value_type).dictionary_encode().cast(type_)
    if pa.types.is_run_end_encoded(type_):
        return pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], type_.run_end_type), sample(type_.value_type))
    if pa.types.is_map(type_):
        return pa.array([[("k", 1), ("l", 255)], None, []], type_)
    if pa.types.is_struct(type_):
        members = [sample(field.type).take(pa.array([0, 1, 2])) for field in type_]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=pa.array([False, True, False]))
    if hasattr(type_, "value_type"):
        item = [value for value in sample(type_.value_type).to_pylist() if value is not None]
        size = type_.list_size if pa.types.is_fixed_size_list(type_) else 2
        return pa.array([(item * 4)[:size], None, (item[::-1] * 4)[:size]], type_)
    return pa.array([b"a", None, b"\x00\xff"] if "binary" in str(type_) else ["a", None, "délai"], type_)


NESTED_LEAVES = [
    pa.bool_(), pa.uint16(), pa.uint64(), pa.float16(), pa.decimal128(9, 2), pa.large_string(), pa.binary(4), pa.date64(),
    pa.time32("ms"), pa.timestamp("ms"), pa.timestamp("ns", "UTC"), pa.duration("s"), pa.dictionary(pa.int8(), pa.string()),
]  # fmt: skip
CASES = [
    *spark_types_page.ARROW,
    *(pa.list_(leaf) for leaf in NESTED_LEAVES),
    *(pa.struct([("x", leaf), ("y", pa.list_(pa.struct([("z", leaf)])))]) for leaf in NESTED_LEAVES),
]


def test_there_are_eighty_cases():
    assert len(set(CASES)) >= 80


def stored(uri: str) -> dict[str, pa.Array]:
    """Write every case that a table can hold, and return their values."""
    columns = {}
    for number, type_ in enumerate(CASES):
        name = f"c{number}"
        try:
            pilum.write_dataset(pa.table({name: sample(type_)}), f"{uri}-{number}", durability="none")
        except pilum.UnsupportedError as error:
            assert name in str(error)  # noqa: PT017 - the message is what is tested
            continue
        columns[name] = sample(type_)
    return columns


def test_all_types_round_trip_or_are_refused_by_name(spark, tmp_path):
    there = stored(str(tmp_path / "one"))
    goes, refused = {}, []
    for name, column in there.items():
        try:
            ps.to_spark_schema(pa.schema([(name, column.type)]))
            goes[name] = column
        except pilum.UnsupportedError as error:
            assert name in str(error)  # noqa: PT017 - the message is what is tested
            refused.append(str(column.type))
    # Before PySpark 4.1 there is no type for times of day.
    times = [] if hasattr(t, "TimeType") else [it for it in refused if "time32" in it or "time64" in it]
    assert len(goes) + len(times) >= 70
    assert set(refused) - set(times) <= {"decimal256(39, 10)", "month_day_nano_interval"}
    table = pa.table({"row": pa.array([0, 1, 2], pa.int64()), **goes})
    uri, back = str(tmp_path / "t"), str(tmp_path / "back")
    ds = pilum.write_dataset(table, uri)
    pilum.write_dataset(ds.schema.empty_table(), back)
    df = ps.read(spark, uri)
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        # A timestamp with a zone is one point in time, whatever the time zone of the session is.
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        got = ps.write(df, back).to_table()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    want = ds.to_table()
    assert got.schema == want.schema
    assert got["row"].to_pylist() == [0, 1, 2]
    for name in goes:
        ours, theirs = ([bits(value) for value in it[name].combine_chunks().to_pylist()] for it in (got, want))
        assert ours == theirs, f"{name}: {goes[name].type}"


def test_a_refused_type_is_named_with_its_full_path():
    deep = pa.struct([("b", pa.list_(pa.struct([("c", pa.decimal256(60, 1))])))])
    with pytest.raises(pilum.UnsupportedError, match=r"column 'a'\.b \(items\)\.c: .*60"):
        ps.to_spark_schema(pa.schema([("a", deep)]))


def test_the_page_about_types_is_current():
    assert spark_types_page.PAGE.read_text() == spark_types_page.page(), "run: python tests/support/spark_types_page.py"
