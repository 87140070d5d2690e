"""Statistics of columns are bounds, and exact where they say so, beside a model that reads the rows."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.json_values import json_values
from pilum.statistics import leaves

TYPES = {
    "i": pa.int64(),
    "u": pa.uint8(),
    "f": pa.float64(),
    "g": pa.float32(),
    "bo": pa.bool_(),
    "s": pa.string(),
    "b": pa.binary(),
    "m": pa.decimal128(9, 2),
    "day": pa.date32(),
    "st": pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))]),
    "l": pa.list_(pa.int64()),
    "ts": pa.timestamp("ns", "UTC"),
    "di": pa.dictionary(pa.int32(), pa.string()),
    "v": pa.string_view(),
    "n": pa.null(),
}


MAKERS = (
    (pa.types.is_uint8, lambda rng: rng.randrange(256)),
    (pa.types.is_integer, lambda rng: rng.randrange(-(2**31), 2**31)),
    (
        pa.types.is_floating,
        lambda rng: rng.choice([math.nan, 0.0, -0.0, math.inf, -math.inf, rng.randrange(-9, 9) / 4]),
    ),
    (pa.types.is_boolean, lambda rng: rng.random() < 0.5),
    (pa.types.is_decimal, lambda rng: Decimal(rng.randrange(-999_999, 999_999)) / 100),
    (pa.types.is_date32, lambda rng: dt.date.fromordinal(rng.randrange(1, 3_000_000))),
    (pa.types.is_timestamp, lambda rng: dt.datetime.fromtimestamp(rng.randrange(10**9), dt.UTC)),
    (pa.types.is_binary, lambda rng: rng.randbytes(rng.choice([0, 1, 64, 70]))),
    (pa.types.is_list, lambda rng: [1] * rng.randrange(3)),
    (lambda _: True, lambda rng: rng.choice(["", "a", "é" * 40, "z" * 70, "b\0", "p", "q", "zz", "p", "q"])),
)


def some(kind: pa.DataType, rng: random.Random) -> object:
    """Return a value of a type, or None."""
    if rng.random() < 0.2 or pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        return {kind.field(i).name: some(kind.field(i).type, rng) for i in range(kind.num_fields)}
    return next(make for is_a, make in MAKERS if is_a(kind))(rng)


def rows(rng: random.Random, count: int) -> pa.Table:
    return pa.table({name: pa.array([some(kind, rng) for _ in range(count)], kind) for name, kind in TYPES.items()})


def values_of(table: pa.Table, path: tuple[str, ...]) -> list[object]:
    found = table.column(path[0]).to_pylist()
    for name in path[1:]:
        found = [None if it is None else it[name] for it in found]
    return found


def check(ds: pilum.Dataset) -> None:
    """Compare what is said of each column with its rows."""
    table = ds.to_table()
    paths = leaves(table.schema)
    for exact in (False, True):
        found = ds.statistics(exact=exact, typed=True).to_pylist()
        assert [it["column"] for it in found] == [".".join(path) for path in paths]
        for path, it in zip(paths, found, strict=True):
            column = values_of(table, path)
            some_values = [v for v in column if v is not None and v == v]
            nulls = sum(v is None for v in column)
            has_order = not any(isinstance(v, list) for v in column)
            if it["null_count"] is not None:
                assert nulls <= it["null_count"], it
            if it["min"] is not None and some_values:
                assert it["min"] <= min(some_values), it
            if it["max"] is not None and some_values:
                assert it["max"] >= max(some_values), it
            if exact or it["exact"]:
                assert it["exact"]
                assert it["null_count"] == nulls, it
                if some_values and has_order:
                    assert (it["min"], it["max"]) == (min(some_values), max(some_values)), it
                elif not any(v is not None and v != v for v in column):
                    assert (it["min"], it["max"]) == (None, None), it


@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_holds_for_every_type_and_history(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    ds = pilum.write_dataset(
        rows(rng, 30), tmp_path / "t", max_rows_per_page=7, max_rows_per_file=16, durability="none"
    )
    check(ds)
    ds = ds.append(rows(rng, 9), durability="none")
    ds = ds.add_columns({"later": "i + 1"} if rng.random() < 0.5 else {"later": "u"}, durability="none")
    check(ds)
    ds = ds.append(rows(rng, 3), durability="none")
    check(ds)
    check(ds.delete("i < 0", durability="none"))


def test_exact_is_said_where_it_can_be_known(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [3, 1, None],
            "name": ["b", "a", "c"],
            "long": ["x", "y" * 70, "a"],
            "ts": pa.array([1, 2, 3], pa.time32("s")),
            "list": [[1], [2], [3]],
        }
    )
    ds = pilum.write_dataset(table, tmp_path / "t")
    found = {it["column"]: it for it in ds.statistics().to_pylist()}
    assert found["id"] == {
        "column": "id", "type": "int64", "null_count": 1, "min": "1", "max": "3", "exact": True, "bytes": found["id"]["bytes"],
    }  # fmt: skip
    assert (found["name"]["min"], found["name"]["max"], found["name"]["exact"]) == ("a", "c", True)
    assert (found["long"]["min"], found["long"]["exact"]) == ("a", False)
    assert found["long"]["max"] > "y" * 64
    assert (found["ts"]["null_count"], found["ts"]["min"], found["ts"]["exact"]) == (0, "00:00:01", True)
    assert (found["list"]["null_count"], found["list"]["min"], found["list"]["exact"]) == (None, None, False)
    deleted = ds.delete("id = 3")
    found = {it["column"]: it for it in deleted.statistics().to_pylist()}
    assert (found["id"]["max"], found["id"]["exact"]) == ("3", False)
    found = {it["column"]: it for it in deleted.statistics(exact=True).to_pylist()}
    assert (found["id"]["max"], found["id"]["exact"]) == ("1", True)
    assert (found["long"]["max"], found["ts"]["min"]) == ("y" * 70, "00:00:02")


def test_the_result_is_a_plain_table_that_other_libraries_take(tmp_path: Path) -> None:
    ds = pilum.write_dataset(pa.table({"a": [1.5, math.nan], "b": [True, None]}), tmp_path / "t")
    found = ds.statistics()
    names = ["column", "type", "null_count", "min", "max", "exact", "bytes"]
    assert (found.column_names, found.to_pandas()["min"].tolist()) == (names, ["1.5", "true"])
    # A page with NaN has no other bound than infinity.
    assert found["max"].to_pylist() == ["inf", "true"]
    assert found["exact"].to_pylist() == [False, True]
    assert ds.statistics(typed=True, exact=True).column("max").to_pylist() == [1.5, True]
    infinite = pilum.write_dataset(pa.table({"a": [1.5, math.inf]}), tmp_path / "infinite").statistics()
    assert (infinite["max"].to_pylist(), infinite["exact"].to_pylist()) == (["inf"], [True])
    nothing = pilum.write_dataset(found.slice(0, 0), tmp_path / "empty").statistics()
    assert nothing.column("null_count").to_pylist() == [0] * 7
    assert nothing.column("exact").to_pylist() == [True] * 7


def test_bytes_are_those_of_the_pages(tmp_path: Path) -> None:
    ds = pilum.write_dataset(pa.table({"a": list(range(1000)), "s": ["x" * 10] * 1000}), tmp_path / "t", compat="lance")
    a, s = ds.statistics().column("bytes").to_pylist()
    assert a == 8000
    assert 18_000 <= s <= 18_100
    ds = ds.append(pa.table({"a": [1], "s": ["y"]}))
    assert ds.statistics().column("bytes").to_pylist()[0] == 8008


JSON_CASES = [
    (pa.array([math.nan, math.inf, -math.inf, -0.0, 0.1, None]), ["nan", "inf", "-inf", -0.0, 0.1, None]),
    (pa.array([0.1], pa.float32()), [0.10000000149011612]),
    (pa.array([Decimal("1.20"), Decimal("-0.05")], pa.decimal256(50, 2)), ["1.20", "-0.05"]),
    (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
    (pa.array([b"\xff\0", b"", None]), ["/wA=", "", None]),
    (pa.array([b"ab"], pa.binary(2)), ["YWI="]),
    (pa.array([20_000, -719_163, 2**31 - 1, -(2**31)], pa.int32()).view(pa.date32()),
     ["2024-10-04", "0000-12-31", "+5881580-07-11", "-5877641-06-23"]),
    (pa.array([1, 0, None], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001", "1970-01-01T00:00:00", None]),
    (pa.array([-1], pa.timestamp("ns")), ["1969-12-31T23:59:59.999999999"]),
    (pa.array([1500], pa.timestamp("ms", "Europe/Berlin")), ["1970-01-01T00:00:01.500Z"]),
    (pa.array([2**62], pa.timestamp("s")), ["+146138514283-06-19T07:45:04"]),
    (pa.array([1, 86_399], pa.time32("s")), ["00:00:01", "23:59:59"]),
    (pa.array([1], pa.time64("ns")), ["00:00:00.000000001"]),
    (pa.array([-1, 90_061_000_000_001, 0], pa.duration("ns")), ["PT-0.000000001S", "PT90061.000000001S", "PT0S"]),
    (pa.array([(1, -2, 3)], pa.month_day_nano_interval()), ["P1M-2DT0.000000003S"]),
    (pa.array([[1, None], None, []]).slice(0, 3), [[1, None], None, []]),
    (pa.array([[0.5], [math.nan]], pa.list_(pa.float64(), 1)).slice(1), [["nan"]]),
    (pa.array([[(1, b"x")], None, [], [(2, None)]], pa.map_(pa.int64(), pa.binary())).slice(1), [None, [], [[2, None]]]),
    (pa.array([{"a": math.nan, "b": []}, None]), [{"a": "nan", "b": []}, None]),
    (pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
    (pa.chunked_array([[1], [None, 2]]), [1, None, 2]),
    (pa.nulls(2), [None, None]),
]  # fmt: skip


@pytest.mark.parametrize(("array", "wanted"), JSON_CASES, ids=lambda it: str(getattr(it, "type", "")))
def test_values_have_one_lossless_form_in_json(array: pa.Array, wanted: list[object]) -> None:
    found = json_values(array)
    assert json.dumps(found, allow_nan=False) == json.dumps(wanted)
