"""`spark.write` keeps every value or refuses it, by the same rules as every other write."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

import pilum
from pilum import spark as ps
from support import exact_values as model
from support.exact_values import EITHER, REFUSED

JOBS = 6 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
COLUMNS = 40

SOURCES = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.decimal128(38, 18),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.list_(pa.int64()),
    pa.struct([("x", pa.int32()), ("y", pa.float64())]),
]
TARGETS = {
    pa.list_(pa.int64()): [
        pa.large_list(pa.int8()),
        pa.list_(pa.field("element", pa.float32())),
        pa.list_(pa.int64(), 2),
    ],
    pa.struct([("x", pa.int32()), ("y", pa.float64())]): [
        pa.struct([("y", pa.float32()), ("z", pa.string()), ("x", pa.int64())])
    ],
}
"""Types of the table, as Spark's own types come into it."""


def instant(type_: pa.DataType, value: object) -> bool:
    """Return whether Python's datetime, through which Spark passes, has this value."""
    if value is None or not pa.types.is_temporal(type_):
        return True
    return abs(value) < 250 * 365 * model.DAY  # type: ignore[arg-type]


def drawn(r: random.Random) -> tuple[pa.DataType, pa.DataType, list[object], list[object]]:
    """Return a type of Spark, a type of the table, and values with what becomes of them."""
    while True:
        source = r.choice(SOURCES)
        target = r.choice(TARGETS.get(source, model.LEAVES))
        if source not in TARGETS and not model.goes(source, target):
            continue
        values = [None if r.random() < 0.2 else model.drawn(source, r) for _ in range(6)]
        values = [value for value in values if instant(source, value)]
        wanted = [model.expected(source, target, value) for value in values]
        if not any(it is EITHER for it in wanted):
            return source, target, values, wanted


def table_of(cases: list[tuple[pa.DataType, pa.DataType, list[object]]]) -> tuple[pa.Table, pa.Schema]:
    """Return the columns, all of six rows, behind their row numbers, and those of the table."""
    columns = {"row": pa.array(range(6), pa.int64())}
    for at, (source, _, values) in enumerate(cases):
        columns[f"c{at}"] = model.made(source, [*values, *[None] * (6 - len(values))])
    schema = pa.schema([("row", pa.int64()), *[(f"c{at}", target) for at, (_, target, _) in enumerate(cases)]])
    return pa.table(columns), schema


@pytest.mark.parametrize("seed", range(JOBS))
def test_values_of_spark_come_back_equal(spark, tmp_path, seed):
    r = random.Random(f"spark {seed}")
    cases = []
    while len(cases) < COLUMNS:
        source, target, values, wanted = drawn(r)
        kept = [(value, want) for value, want in zip(values, wanted, strict=True) if want is not REFUSED]
        cases.append((source, target, [value for value, _ in kept], [want for _, want in kept]))
    table, schema = table_of([case[:3] for case in cases])
    uri = str(tmp_path / "t")
    # In another order than the table's, which has one column more.
    pilum.write_dataset(pa.schema([pa.field("more", pa.int8()), *schema]).empty_table(), uri)
    turned = table.select(table.column_names[::-1])
    # In one partition the rows keep their order.
    ds = ps.write(spark.createDataFrame(turned, ps.to_spark_schema(turned.schema)).coalesce(1), uri)
    got = ds.to_table()
    assert got["row"].to_pylist() == list(range(6))
    assert got["more"].null_count == 6
    for at, (source, target, values, wanted) in enumerate(cases):
        back = model.read(got[f"c{at}"].combine_chunks())
        assert back[: len(wanted)] == wanted, f"{source} -> {target}: {values} came back as {back}"


@pytest.mark.parametrize("seed", range(JOBS))
def test_a_value_that_spark_would_lose_is_refused(spark, tmp_path, seed):
    r = random.Random(f"spark refused {seed}")
    while True:
        source, target, values, wanted = drawn(r)
        if any(it is REFUSED for it in wanted):
            break
    table, schema = table_of([(source, target, values)])
    uri = str(tmp_path / "t")
    pilum.write_dataset(schema.empty_table(), uri)
    with pytest.raises(Exception, match=r"column `c0[^`]*`, row \d+"):
        ps.write(spark.createDataFrame(table, ps.to_spark_schema(table.schema)).coalesce(1), uri)
    assert pilum.dataset(uri).version == 1


def test_types_that_do_not_go_together_are_told_before_a_task_starts(spark, tmp_path):
    uri = str(tmp_path / "t")
    pilum.write_dataset(pa.table({"a": [1], "b": ["x"], "d": pa.array([0], pa.date32())}), uri)
    df = spark.sql("SELECT 'text' AS a, 1 AS b, 2 AS c, timestamp '2026-01-01 00:00:00' AS d")
    with pytest.raises(pilum.InvalidInputError) as refused:
        ps.write(df, uri)
    for name in "abcd":
        assert f"column `{name}`" in str(refused.value)
    assert uri in str(refused.value)
    with pytest.raises(pilum.InvalidInputError, match="column `a` is missing"):
        ps.write(spark.sql("SELECT 'y' AS b"), uri, missing="error")
    got = ps.write(spark.sql("SELECT 'y' AS b, 7 AS other"), uri, extra="ignore").to_table()
    assert got.to_pylist()[1] == {"a": None, "b": "y", "d": None}
    lossy = ps.write(spark.sql("SELECT CAST(2.5 AS DOUBLE) AS a"), uri, cast="lossy").to_table()
    assert lossy["a"].to_pylist()[2] == 2
