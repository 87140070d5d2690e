"""Filters that Spark pushes into `format("pilum")` keep exactly the rows that Spark would keep."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from decimal import Decimal

import pyarrow as pa
import pytest

import pilum
from pilum import spark as ps

SCALE = int(os.environ.get("PILUM_TEST_SCALE", "1"))
FILTERS = 16 * SCALE


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t")


def read(spark, uri, **options):
    return spark.read.format("pilum").options(**options).load(uri)


NAN = float("nan")
COLUMNS = {
    "b": (pa.bool_(), [True, False]),
    "i": (pa.int32(), [-(2**31), -3, -1, 0, 1, 2, 2**31 - 1]),
    "u": (pa.uint16(), [0, 1, 2, 65535]),
    "f": (pa.float32(), [NAN, float("inf"), -float("inf"), -0.0, 0.0, 0.5, -1.5, 16777216.0]),
    "g": (pa.float64(), [NAN, float("inf"), -float("inf"), -0.0, 0.0, 0.1, -1.5, 5e-324]),
    "s": (pa.string(), ["", "a", "A", "ab", "b%", "ä", "Ω", "\U0001f600", "a_b", "zz", "\uffff"]),
    "y": (pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff\x00"]),
    "d": (pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 2, 28), dt.date(1582, 10, 4)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2026, 3, 29, hour, 30, tzinfo=dt.UTC) for hour in range(4)]
        + [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)],
    ),
    "n": (pa.timestamp("us"), [dt.datetime(2026, 3, 29, hour, 30) for hour in range(4)]),
    "q": (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("1.20"), Decimal("9999999.99")]),
}
LITERALS = {
    "b": lambda v: str(v).lower(),
    "i": str,
    "u": str,
    "f": lambda v: f"float('{spelled(v)}')",
    "g": lambda v: f"double('{spelled(v)}')",
    "s": lambda v: "'" + v.replace("'", "''") + "'",
    "y": lambda v: f"X'{v.hex()}'",
    "d": lambda v: f"DATE '{v}'",
    "at": lambda v: f"TIMESTAMP '{v.isoformat()}'",
    "n": lambda v: f"TIMESTAMP_NTZ '{v.isoformat()}'",
    "q": lambda v: f"{v}BD",
}


def spelled(v):
    return "NaN" if math.isnan(v) else "Infinity" if v == math.inf else "-Infinity" if v == -math.inf else repr(v)


def drawn_filter(r: random.Random) -> str:
    name = r.choice([*COLUMNS, "s", "f"])
    values = COLUMNS[name][1]
    shape = r.randrange(8)
    literal = LITERALS[name]
    path = r.choice([name, f"st.{name}"])
    if shape == 0:
        return f"{path} IS {r.choice(['', 'NOT '])}NULL"
    if shape == 1:
        return f"{path} <=> {r.choice([literal(r.choice(values)), 'NULL'])}"
    if shape == 2:
        chosen = [literal(it) for it in r.sample(values, r.randint(1, len(values)))] + r.choice([[], ["NULL"]])
        return f"{path} {r.choice(['', 'NOT '])}IN ({', '.join(chosen)})"
    if shape == 3 and name == "s":
        part = r.choice(["a", "b", "", "ä", "Ω", "_", "A"]).replace("_", "\\_").replace("%", "\\%")
        return f"{path} {r.choice(['', 'NOT '])}LIKE r'{r.choice(['', '%'])}{part}%'".replace("r'", "'").replace(
            "\\", "\\\\"
        )
    operator = r.choice(["=", "<>", "<", "<=", ">", ">="])
    negation = r.choice(["", "", "NOT "])
    return f"{negation}({path} {operator} {literal(r.choice(values))})"


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_pushed_filters_keep_the_rows_that_spark_would_keep(spark, uri, zone):
    seed = random.randrange(2**32)
    r = random.Random(seed)
    rows = 200
    data = {
        name: pa.array([r.choice([*values, None]) for _ in range(rows)], type_)
        for name, (type_, values) in COLUMNS.items()
    }
    members = [pa.array([r.choice([*values, None]) for _ in range(rows)], type_) for type_, values in COLUMNS.values()]
    struct = pa.StructArray.from_arrays(
        members, names=list(COLUMNS), mask=pa.array([r.random() < 0.1 for _ in range(rows)])
    )
    pilum.write_dataset(pa.table({"id": range(rows), **data, "st": struct}), uri)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        plain = ps.read(spark, uri).cache()
        for _ in range(FILTERS // 2):
            text = " AND ".join(drawn_filter(r) for _ in range(r.randint(1, 3)))
            if r.random() < 0.2:
                text = f"({text}) OR id = 3"
            expected = sorted(row.id for row in plain.where(text).select("id").collect())
            pushed = read(spark, uri, pushFilters="once")
            got = sorted(row.id for row in pushed.where(text).select("id").collect())
            assert got == expected, f"seed {seed}: {text}"
        plain.unpersist()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_pushed_filter_is_removed_from_the_plan_and_others_stay(spark, uri):
    pilum.write_dataset(pa.table({"a": [1, 2, 3], "s": ["x", "y", None]}), uri)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        df = read(spark, uri, pushFilters="once", filter="a > 1").where("a < 3 AND length(s) = 1")
        assert [row.a for row in df.collect()] == [2]
        plan = df._jdf.queryExecution().executedPlan().toString()
        assert "length(s" in plan
        assert "a#" in plan
        assert "< 3" not in plan
        # A limit counts before the filters of Spark.
        assert read(spark, uri, pushFilters="once", limit=1).where("a > 1").count() == 0
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_spark_keeps_pushed_filters_for_other_queries_of_a_dataframe(spark, uri):
    """This is why the option is called `once`. If it fails, Spark has mended it: then `true` can be allowed."""
    pilum.write_dataset(pa.table({"a": range(100)}), uri)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        df = read(spark, uri, pushFilters="once")
        assert df.where("a >= 90").count() == 10
        assert df.where("a >= 90 OR a < 5").count() == 10
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    # Without pushed filters a DataFrame has no memory.
    df = read(spark, uri)
    assert [df.where(it).count() for it in ("a >= 90", "a >= 90 OR a < 5")] == [10, 15]
