"""Edges of values at every door: negative zero, overflow to infinity, times before 1970, narrow floats and decimals, JSON."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import pickle
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum

FLOATS = [pa.float16(), pa.float32(), pa.float64()]
INFINITE = float("inf")
_numbers = itertools.count()


def written(columns: dict[str, Any] | pa.Table, **options: Any) -> pilum.Dataset:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    return pilum.write_dataset(table, f"memory://edges/{next(_numbers)}", **options).dataset


def bits(column: pa.ChunkedArray) -> list[str | None]:
    """The bits of floats, which tell -0.0 from 0.0."""
    values = [None if it is None else float(it) for it in column.to_pylist()]
    return [None if it is None else struct.pack(">d", it).hex() for it in values]


MINUS_ZERO = struct.pack(">d", -0.0).hex()
ZERO = struct.pack(">d", 0.0).hex()
SPELLINGS: list[Any] = [
    -0.0,
    "-0.0",
    "-0.00",
    "-0e0",
    "-(0.0)",
    pilum.lit(-0.0),
    -pilum.lit(0.0),
    np.float64(-0.0),
    np.float32(-0.0),
    np.float16(-0.0),
    pa.scalar(-0.0),
    pa.scalar(-0.0, pa.float32()),
    pilum.coalesce(None, -0.0),
    pilum.case_when((pilum.col("k") > 0, -0.0), otherwise=1.5),
    pilum.case_when((pilum.col("k") < 0, 1.5), otherwise=-0.0),
    "CASE WHEN k > 0 THEN -0.0 ELSE 2 END",
    "CAST(k AS DOUBLE) * -0e0",
]


@pytest.mark.parametrize("type_", FLOATS, ids=str)
@pytest.mark.parametrize("spelling", SPELLINGS, ids=repr)
def test_negative_zero_keeps_its_sign_in_an_update(type_: pa.DataType, spelling: Any) -> None:
    ds = written({"k": [1], "h": pa.array([np.float16(1)], pa.float16()).cast(type_)})
    assert bits(ds.update({"h": spelling}).dataset.to_table()["h"]) == [MINUS_ZERO]


def test_negative_zero_keeps_its_sign_in_added_columns_and_projections() -> None:
    ds = written({"k": [1]})
    added = ds.add_columns({"a": -0.0, "b": "-0.0", "c": pilum.lit(-0.0)}).dataset
    table = added.to_table()
    assert [bits(table[name]) for name in "abc"] == [[MINUS_ZERO]] * 3
    assert bits(ds.to_table(columns={"x": pilum.lit(-0.0)})["x"]) == [MINUS_ZERO]


def test_negative_zero_survives_a_pickle_and_its_text() -> None:
    expr = pilum.lit(-0.0)
    again = pickle.loads(pickle.dumps(expr))
    assert repr(again) == repr(expr) == "Expr('-0.0')"
    ds = written({"h": [1.0]})
    for spelled in (again, expr.sql):
        assert bits(ds.update({"h": spelled}).dataset.to_table()["h"]) == [MINUS_ZERO]


def test_negative_zero_equals_zero_in_every_comparison_and_type() -> None:
    ds = written(
        {
            "i": [0, 1],
            "d": pa.array([Decimal("0.00"), Decimal("1.00")], pa.decimal128(5, 2)),
            "h": pa.array([np.float16(0), np.float16(1)], pa.float16()),
            "f": pa.array([-0.0, 1], pa.float32()),
            "g": [0.0, 1.0],
        }
    )
    for name in "idhfg":
        column = pilum.col(name)
        for condition in (
            column == -0.0,
            column <= -0.0,
            column.isin([-0.0, 7.5]),
            f"{name} = -0.0",
            [(name, "=", -0.0)],
        ):
            assert ds.count_rows(condition) == 1, (name, condition)
        assert ds.count_rows(column < -0.0) == 0
    # Beside -0.0, the literal 0.1 still means the nearest float of the column.
    narrow = written({"f": pa.array([0.1], pa.float32())})
    assert narrow.count_rows("f BETWEEN -0.0 AND 0.1") == 1
    assert narrow.count_rows(pilum.col("f").isin([-0.0, 0.1])) == 1
    # An integer has no negative zero: it becomes 0.
    assert ds.update({"i": -0.0}).dataset.to_table()["i"].to_pylist() == [0, 0]


def test_negative_zero_as_an_operand_keeps_the_types_of_the_other() -> None:
    ds = written(
        {"f": pa.array([1.0], pa.float32()), "d": pa.array([Decimal("1.5")], pa.decimal128(5, 2)), "g": [-1.0]}
    )
    table = ds.to_table(
        columns={"f": "f * -0.0", "d": "d + -0.0", "g": "g * -0.0", "c": "CASE WHEN g < 0 THEN f ELSE -0.0 END"}
    )
    assert [str(table.schema.field(name).type)[:7] for name in "fdgc"] == ["float", "decimal", "double", "float"]
    assert (bits(table["f"]), bits(table["g"])) == ([MINUS_ZERO], [ZERO])


BEYOND = [
    (pa.array([1e40]), pa.float32(), "FLOAT"),
    (pa.array([-1e40]), pa.float32(), "FLOAT"),
    (pa.array([70_000.0]), pa.float16(), "HALF"),
    (pa.array([70_000.0], pa.float32()), pa.float16(), "HALF"),
    (pa.array([70_000]), pa.float16(), "HALF"),
    (pa.array(["1e400"]), pa.float64(), "DOUBLE"),
    (pa.array(["1e40"]), pa.float32(), "FLOAT"),
    (pa.array([Decimal(10) ** 60], pa.decimal256(70, 0)), pa.float32(), "FLOAT"),
    (pa.array([1e30]), pa.int64(), "BIGINT"),
    (pa.array([float("nan")]), pa.int64(), "BIGINT"),
    (pa.array([1e30]), pa.decimal128(10, 2), "DECIMAL(10, 2)"),
    (pa.array([Decimal("99999.99")], pa.decimal128(9, 2)), pa.decimal128(5, 2), "DECIMAL(5, 2)"),
    (pa.array([2**62], pa.timestamp("s")), pa.timestamp("ns"), "TIMESTAMP_NS"),
    (pa.array([2**30], pa.int32()).view(pa.date32()), pa.timestamp("ns"), "TIMESTAMP_NS"),
    (pa.array([2**62], pa.timestamp("s")), pa.date32(), "DATE"),
]


@pytest.mark.parametrize(("values", "target", "name"), BEYOND, ids=lambda it: str(it)[:40])
def test_a_value_out_of_range_is_refused_by_lossy_writes_and_cast_and_null_in_try_cast(
    values: pa.Array, target: pa.DataType, name: str
) -> None:
    ds = written({"t": pa.array([], target)})
    with pytest.raises(pilum.InvalidInputError, match="column `t`, row 0"):
        ds.append(pa.table({"t": values}), cast="lossy")
    with pytest.raises(pilum.InvalidInputError):
        written({"t": values}, schema=pa.schema([("t", target)]), cast="lossy")
    source = written({"v": values})
    with pytest.raises(pilum.InvalidInputError):
        source.to_table(columns={"t": f"CAST(v AS {name})"})
    with pytest.raises(pilum.InvalidInputError):
        source.to_table(columns={"t": pilum.col("v").cast(target)})
    for tried in (f"TRY_CAST(v AS {name})", pilum.col("v").try_cast(target)):
        assert source.to_table(columns={"t": tried})["t"].to_pylist() == [None]


@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_infinity_and_nan_pass_every_cast_of_floats(target: pa.DataType) -> None:
    source = written({"v": [INFINITE, -INFINITE, float("nan"), None], "s": ["inf", "-Infinity", "NaN", None]})
    for name in "vs":
        cast = source.to_table(columns={"t": pilum.col(name).cast(target)})["t"].to_pylist()
        assert [float(it) for it in cast[:2]] == [INFINITE, -INFINITE]
        assert math.isnan(cast[2])
        assert cast[3] is None
    ds = written({"t": pa.array([], target)})
    assert ds.append(pa.table({"t": source.to_table()["v"]}), cast="lossy").rows == 4


def test_lossy_floats_round_to_the_nearest() -> None:
    ds = written({"t": pa.array([], pa.float32())})
    ds = ds.append(pa.table({"t": [0.1, 1e-60, 3.4028235e38]}), cast="lossy").dataset
    assert ds.to_table()["t"].to_pylist() == [float(np.float32(0.1)), 0.0, float(np.float32(3.4028235e38))]


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("zone", [None, "UTC", "+05:30"])
@pytest.mark.parametrize(("fine", "coarse"), [(f, c) for f in UNITS for c in UNITS if UNITS[f] > UNITS[c]])
def test_timestamps_are_cut_downwards_before_1970_too(fine: str, coarse: str, zone: str | None) -> None:
    step = UNITS[fine] // UNITS[coarse]
    raw = [-1, -step, -step - 1, 0, 1, step - 1, -(2**50) + 1, None]
    values = pa.array(raw, pa.timestamp(fine, zone))
    wanted = [None if it is None else it // step for it in raw]
    target = pa.timestamp(coarse, zone)
    ds = written({"t": pa.array([], target)}).append(pa.table({"t": values}), cast="lossy").dataset
    assert ds.to_table()["t"].cast(pa.int64()).to_pylist() == wanted
    computed = written({"t": values}).to_table(columns={"t": pilum.col("t").cast(target)})
    assert computed["t"].cast(pa.int64()).to_pylist() == wanted


@pytest.mark.parametrize("unit", UNITS)
def test_days_and_times_of_timestamps_before_1970_go_down(unit: str) -> None:
    steps = UNITS[unit]
    raw = [-1, -86_400 * steps, -86_400 * steps - 1, 0, 86_400 * steps - 1, None]
    ds = written({"t": pa.array(raw, pa.timestamp(unit))})
    days = [None if it is None else it // (86_400 * steps) for it in raw]
    table = ds.to_table(columns={"d": "CAST(t AS DATE)", "e": "CAST(t AS DATE64)", "c": "CAST(t AS TIME_S)"})
    assert table["d"].cast(pa.int32()).to_pylist() == days
    assert [None if it is None else it // 86_400_000 for it in table["e"].cast(pa.int64()).to_pylist()] == days
    seconds = [None if it is None else it % (86_400 * steps) // steps for it in raw]
    assert table["c"].cast(pa.int32()).to_pylist() == seconds
    assert ds.count_rows("CAST(CAST(t AS DATE) AS TIMESTAMP) = DATE_TRUNC('day', t)") == len(raw) - 1


def test_casts_of_fixed_offsets_use_their_clocks() -> None:
    at = dt.datetime(1969, 12, 31, 20, 0, tzinfo=dt.UTC)  # 01:30 of the next day at +05:30
    ds = written({"t": pa.array([at], pa.timestamp("us", "+05:30")), "u": pa.array([at], pa.timestamp("us", "UTC"))})
    table = ds.to_table(columns={"d": "CAST(t AS DATE)", "c": "CAST(t AS TIME)", "e": "CAST(u AS DATE)"})
    assert table.to_pylist() == [{"d": dt.date(1970, 1, 1), "c": dt.time(1, 30), "e": dt.date(1969, 12, 31)}]


TYPED = [
    (np.float32(0.1), pa.float32()),
    (np.float16(0.1), pa.float16()),
    (pa.scalar(0.1, pa.float32()), pa.float32()),
    (pa.scalar(np.float16(0.1), pa.float16()), pa.float16()),
]


@pytest.mark.parametrize(("value", "type_"), TYPED, ids=lambda it: repr(it)[:40])
def test_scalars_of_narrow_floats_keep_their_type(value: Any, type_: pa.DataType) -> None:
    exact = float(value.as_py() if hasattr(value, "as_py") else value)
    ds = written({"h": pa.array([np.float16(1)], pa.float16()).cast(type_), "g": [exact], "d": [Decimal("0.10")]})
    assert ds.update({"h": value}).dataset.to_table()["h"].to_pylist() == [exact]
    assert ds.update({"g": value}).dataset.to_table()["g"].to_pylist() == [exact]
    assert ds.add_columns({"a": value}).dataset.schema.field("a").type == type_
    assert ds.count_rows(pilum.col("g") == value) == 1
    assert ds.count_rows(pilum.col("g").isin([value])) == 1
    assert ds.count_rows([("g", "=", value)]) == 1
    stored = ds.update({"h": value}).dataset
    assert stored.count_rows(pilum.col("h") == value) == 1
    assert stored.count_rows(pilum.col("h").isin([value, value])) == 1
    assert pickle.loads(pickle.dumps(pilum.lit(value))).sql == pilum.lit(value).sql


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_a_decimal_literal_beside_any_float_is_the_nearest_one(type_: pa.DataType) -> None:
    values = [0.1, 0.25, 65_504.0, float("nan"), INFINITE]
    ds = written(
        {
            "x": pa.array([np.float16(it) for it in values], pa.float16())
            if type_ == pa.float16()
            else pa.array(values, type_)
        }
    )
    column = pilum.col("x")
    for condition in (
        "x = 0.1",
        column == 0.1,
        [("x", "=", 0.1)],
        column.isin([0.1]),
        column == Decimal("0.1"),
        "x IN (0.1, 7.5)",
        "x BETWEEN 0.1 AND 0.1",
        column.isin([0.1] * 1001),
    ):
        assert ds.count_rows(condition) == 1, condition
    assert ds.count_rows(column >= 0.1) == 5
    assert ds.count_rows("x = 1e-1") == (1 if type_ == pa.float64() else 0)
    # A number beyond the halves equals none of them, infinity neither.
    if type_ == pa.float16():
        assert ds.count_rows("x = 70000.0") == ds.count_rows("x = 70000") == 0
        assert ds.count_rows("x < 70000.0") == ds.count_rows("x < 70000") == 3
        assert ds.count_rows("x > -70000.5") == 5


@pytest.mark.parametrize(
    "type_", [pa.decimal32(7, 2), pa.decimal64(12, 2), pa.decimal128(20, 2), pa.decimal256(50, 2)], ids=str
)
def test_decimals_of_every_width_compare_exactly(type_: pa.DataType) -> None:
    ds = written(
        {"d": pa.array([Decimal("1.50"), Decimal("-2.25"), None, Decimal("3.00")], type_), "f": [1.5, -2.0, 0.0, 3.0]}
    )
    column = pilum.col("d")
    for condition in (
        "d = 1.5",
        column == 1.5,
        column == Decimal("1.500"),
        [("d", "=", 1.5)],
        "d IN (1.5, 8.125)",
        "d > 1.499 AND d < 1.501",
        column.isin([1.5, 7.0]),
        pc.field("d") == pa.scalar(Decimal("1.50"), type_),
    ):
        assert ds.count_rows(condition) == 1, condition
    assert ds.count_rows("d = 3") == ds.count_rows("d > 2") == 1
    assert ds.count_rows("d < 1e30") == 3
    assert ds.count_rows("d > 99999999999") == 0
    assert ds.count_rows("d = f") == 2
    assert ds.count_rows("d = d") == 3
    assert ds.count_rows("d + 1 = 2.5") == ds.count_rows("-d = 2.25") == ds.count_rows("ABS(d) = 2.25") == 1
    assert ds.update({"d": "d * 2"}, where="d = 1.5").dataset.count_rows("d = 3") == 2


def test_a_float_of_python_adds_a_column_of_doubles_and_constants_may_be_null() -> None:
    ds = written({"k": [1, 2]})
    ds = ds.add_columns(
        {"a": 1.5, "b": 2, "c": pilum.lit("x"), "d": True, "e": np.float64(2.5), "f": "CAST(1.5 AS FLOAT)"}
    ).dataset
    types = [str(ds.schema.field(name).type) for name in "abcdef"]
    assert types == ["double", "int64", "string", "bool", "double", "float"]
    assert all(ds.schema.field(name).nullable for name in "abcdef")
    ds = ds.append(pa.table({"k": [3]})).dataset
    assert ds.to_table()["a"].to_pylist() == [1.5, 1.5, None]


UNPRINTED = [
    (pa.array([2**62], pa.timestamp("s")), pa.timestamp("ns"), f"{2**62} s since 1970-01-01 "),
    (pa.array([2**62], pa.timestamp("s", "UTC")), pa.timestamp("ns", "UTC"), f"{2**62} s since 1970-01-01 "),
    (pa.array([2**30], pa.int32()).view(pa.date32()), pa.timestamp("ns"), f"{2**30} days since 1970-01-01 "),
    (pa.array([2**62]).view(pa.duration("s")), pa.duration("ns"), f"{2**62} s "),
    (pa.array([90_000], pa.int32()).view(pa.time32("s")), pa.time64("ns"), "90000 s since midnight "),
    (pa.array([-5]).view(pa.time64("ns")), pa.time64("ns"), "-5 ns since midnight "),
    (pa.array([dt.datetime(2026, 1, 1, 1, 2, 3, 4)], pa.timestamp("us", "Europe/Berlin")), pa.timestamp("s", "UTC"),
     r"2026-01-01T01:02:03.000004Z "),
]  # fmt: skip


@pytest.mark.parametrize(("values", "target", "shown"), UNPRINTED, ids=lambda it: str(it)[:30])
def test_a_refusal_shows_values_that_no_calendar_has(values: pa.Array, target: pa.DataType, shown: str) -> None:
    with pytest.raises(pilum.InvalidInputError, match=f"row 0: {shown}"):
        written({"t": values}, schema=pa.schema([("t", target)]))


JSON = {"ARROW:extension:name": "arrow.json"}
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("stored", TEXTS, ids=str)
@pytest.mark.parametrize("given", [*TEXTS, pa.binary(), "json"], ids=str)
def test_json_is_checked_whatever_type_it_comes_from(given: Any, stored: pa.DataType) -> None:
    def column(texts: list[str | None]) -> pa.Array:
        plain = pa.array(texts)
        if given == "json":
            return pa.ExtensionArray.from_storage(pa.json_(), plain)
        return plain.dictionary_encode() if pa.types.is_dictionary(given) else plain.cast(given)

    schema = pa.schema([pa.field("j", stored, metadata=JSON)])
    good, bad = ['{"a": 1}', None, "7"], ["7", None, "{nope"]
    if given == "json" and stored != pa.string():
        schema = pa.schema([pa.field("j", stored, metadata={**JSON, "ARROW:extension:metadata": ""})])
    ds = written({"j": column(good)}, schema=schema)
    assert ds.append(pa.table({"j": column(good)})).rows == 3
    for refused in (
        lambda: ds.append(pa.table({"j": column(bad)})),
        lambda: written({"j": column(bad)}, schema=schema),
    ):
        with pytest.raises(pilum.InvalidInputError, match=r"column `j`, row 2.*not valid JSON"):
            refused()


def test_json_inside_of_lists_and_structs_is_checked() -> None:
    member = pa.field("m", pa.string(), metadata=JSON)
    schema = pa.schema([pa.field("l", pa.list_(member)), pa.field("s", pa.struct([member]))])
    with pytest.raises(pilum.InvalidInputError, match=r"`l\.m`, row 1, item 0.*not valid JSON"):
        written({"l": [["1"], ["{"]], "s": [{"m": "1"}] * 2}, schema=schema)
    with pytest.raises(pilum.InvalidInputError, match=r"`s\.m`, row 1.*not valid JSON"):
        written({"l": [["1"], []], "s": [{"m": "1"}, {"m": "{"}]}, schema=schema)


def test_a_struct_with_two_members_of_one_name_is_refused_by_its_path() -> None:
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    nested = pa.StructArray.from_arrays([twice], ["in"])
    listed = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), twice)
    for column, path in ((twice, "s.x"), (nested, "s.in.x"), (listed, "s.item.x")):
        with pytest.raises(pilum.InvalidInputError, match=rf"`{path}`"):
            written({"s": column})
        with pytest.raises(pilum.InvalidInputError, match=rf"`{path}`"):
            written({"k": [1]}).add_columns(pa.table({"s": column}))
        with pytest.raises(pilum.InvalidInputError, match=rf"`{path}`"):
            written({"k": [1]}).overwrite(pa.table({"s": column}))


def test_a_merge_of_dicts_with_different_keys_is_refused_unless_nulls_are_asked_for() -> None:
    ds = written({"id": [1, 2], "a": [10, 20], "b": ["x", "y"]})
    rows = [{"id": 1, "a": 11, "b": "z"}, {"id": 2, "a": 21}]
    with pytest.raises(pilum.InvalidInputError, match=r"row 1 .*key 'b'.*missing=\"null\"") as error:
        ds.merge_insert("id", rows)
    assert ds.latest_version() == 1, error
    merged = ds.merge_insert("id", rows, missing="null").dataset
    assert merged.to_table().sort_by("id").to_pylist() == [{"id": 1, "a": 11, "b": "z"}, {"id": 2, "a": 21, "b": None}]
    # A key that no row has is a column that the source lacks: stored values stay.
    kept = merged.merge_insert("id", [{"id": 1, "a": 12}, {"id": 2, "a": 22}]).dataset
    assert kept.to_table().sort_by("id").to_pylist() == [{"id": 1, "a": 12, "b": "z"}, {"id": 2, "a": 22, "b": None}]


def test_an_expression_of_pyarrow_with_bytes_of_a_view_is_taken() -> None:
    views = pa.array([b"\xff", b"a"], pa.binary_view())
    assert written({"x": views}).count_rows(pc.field("x") == pc.scalar(views[0])) == 1


@pytest.mark.parametrize(
    "value", [1e23, 1e22, 5e-324, 1.7976931348623157e308, 9007199254740993.0, 0.1, 1 / 3, 123456.789e-20]
)
def test_every_float_of_python_is_stored_as_it_is(value: float) -> None:
    ds = written({"x": [1.0]})
    for spelled in (value, -value, pilum.lit(value), np.float64(value), pa.scalar(value)):
        stored = ds.update({"x": spelled}).dataset.to_table()["x"].to_pylist()
        assert stored in ([value], [-value]), spelled
    assert ds.update({"x": value}).dataset.count_rows(pilum.col("x") == value) == 1
    assert ds.add_columns({"y": value}).dataset.to_table()["y"].to_pylist() == [value]


@pytest.mark.parametrize("type_", [pa.float16(), pa.float32()], ids=str)
@pytest.mark.parametrize("raw", [1, 1023, 1024, 0x0BCD, 0x2E66, 0x7BFF], ids=hex)
def test_a_float_of_python_that_a_narrow_float_holds_is_assigned_to_it(type_: pa.DataType, raw: int) -> None:
    value = float(np.array([raw], np.uint16).view(np.float16)[0])
    if type_ == pa.float32():
        value = float(np.float32(value) / 3)
    ds = written({"x": pa.array([np.float16(1)], pa.float16()).cast(type_)})
    for spelled in (value, repr(value), pilum.lit(value)):
        assert ds.update({"x": spelled}).dataset.to_table()["x"].to_pylist() == [value]
    with pytest.raises(pilum.InvalidInputError, match="cannot become"):
        ds.update({"x": math.nextafter(value, 7)})
