"""Skiff in Spark: partitions through a program, and one function under Spark and as a job."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import itertools
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from pilum import skiff
from pilum import spark as ps

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
ROWS = pa.table({"id": [*range(1000), None], "name": [*(f"n{i}" for i in range(1000)), None]}, schema=SCHEMA)

PROGRAM = """
import sys
from pilum import skiff
fmt = skiff.Format.from_json(sys.argv[1], strings="text")
skiff.encode((batch for _, batch in skiff.decode(sys.stdin.buffer, fmt)), sys.stdout.buffer, fmt)
"""


def shout(batches):
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pc.multiply(batch["id"], 2), pc.utf8_upper(batch["name"])], schema=SCHEMA)


def rows_of(df) -> list[tuple]:
    return sorted((tuple(row) for row in df.collect()), key=str)


def test_every_partition_goes_through_the_program(spark):
    fmt = skiff.Format.from_arrow(SCHEMA)
    df = spark.createDataFrame(ROWS).repartition(3)
    found = ps.pipe_skiff(df, [sys.executable, "-c", PROGRAM, fmt.to_json()], fmt, fmt)
    assert rows_of(found) == rows_of(df)


def test_a_program_that_fails_fails_its_task_with_its_words(spark):
    fmt = skiff.Format.from_arrow(SCHEMA)
    df = spark.createDataFrame(ROWS)
    with pytest.raises(Exception, match=r"(?s)exit code 7.*no such luck"):
        ps.pipe_skiff(df, "cat > /dev/null; echo no such luck >&2; exit 7", fmt, fmt).collect()


def test_one_function_gives_the_same_rows_under_spark_and_as_a_job(spark, tmp_path):
    uri = str(tmp_path / "t")
    pilum.write_dataset(ROWS, uri)
    under_spark = ps.read(spark, uri).mapInArrow(shout, "id bigint, name string")
    fmt = skiff.Format.from_arrow(SCHEMA)
    stdin, stdout = io.BytesIO(), io.BytesIO()
    skiff.encode(pilum.dataset(uri).to_reader(), stdin, fmt)
    skiff.run(shout, io.BytesIO(stdin.getvalue()), stdout, fmt, fmt)
    as_job = [tuple(row.values()) for _, batch in skiff.decode(stdout.getvalue(), fmt) for row in batch.to_pylist()]
    assert sorted(as_job, key=str) == rows_of(under_spark)


TYPES = pa.schema(
    [
        pa.field("key", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("data", pa.binary()),
        pa.field("x", pa.float64()),
        pa.field("small", pa.float32()),
        pa.field("flag", pa.bool_()),
        pa.field("byte", pa.int8()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("point", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float64()))])),
        pa.field("counts", pa.map_(pa.string(), pa.int64())),
    ]
)


def many_types(rows: int) -> pa.Table:
    """Rows of every kind of type, with nulls in all columns but the key, sorted by key."""

    def column(name: str, make) -> pa.Array:
        values = [None if row % 7 == 3 and name != "key" else make(row) for row in range(rows)]
        return pa.array(values, TYPES.field(name).type)

    epoch = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    makers = {
        "key": lambda row: row // 13,
        "text": lambda row: f"té{row}" * (row % 3),
        "data": lambda row: bytes([row % 256, 0, 255]),
        "x": lambda row: row / 3,
        "small": lambda row: row / 4,
        "flag": lambda row: row % 2 == 0,
        "byte": lambda row: row % 256 - 128,
        "day": lambda row: dt.date(1960, 1, 1) + dt.timedelta(row),
        "at": lambda row: epoch - dt.timedelta(microseconds=row),
        "price": lambda row: decimal.Decimal(row) / 100,
        "tags": lambda row: [f"t{row}", None, ""][: row % 4],
        "point": lambda row: {"x": row, "y": [row / 2] * (row % 3)},
        "counts": lambda row: [(f"k{number}", row) for number in range(row % 3)],
    }
    return pa.table([column(name, makers[name]) for name in TYPES.names], schema=TYPES)


def busy(batches):
    """Filters rows, changes some columns and leaves the others."""
    for batch in batches:
        kept = batch.filter(pc.not_equal(pc.bit_wise_and(batch["key"], 3), 1))
        kept = kept.set_column(0, TYPES.field("key"), pc.add(kept["key"], 1000))
        yield kept.set_column(1, TYPES.field("text"), pc.utf8_upper(kept["text"]))


SUMS = pa.schema([pa.field("key", pa.int64()), pa.field("rows", pa.int64()), pa.field("price", pa.decimal128(12, 2))])


def total(group: pa.Table) -> pa.Table:
    """One row of a key, from a table of its rows."""
    price = pc.sum(group["price"]).cast(pa.decimal128(12, 2))
    return pa.table({"key": [group["key"][0].as_py()], "rows": [group.num_rows], "price": [price.as_py()]}, schema=SUMS)


def as_rows(table: pa.Table, schema: pa.Schema) -> list[str]:
    return sorted(map(repr, table.cast(schema).to_pylist()))


def test_a_function_over_many_types_and_partitions_gives_the_rows_of_a_job(spark, tmp_path):
    uri = str(tmp_path / "t")
    rows = many_types(5_000)
    pilum.write_dataset(rows, uri, max_rows_per_file=1_000)
    df = ps.read(spark, uri, tasks=5)
    assert df.rdd.getNumPartitions() > 1
    under_spark = df.mapInArrow(busy, ps.to_spark_schema(TYPES)).toArrow()
    fmt = skiff.Format.from_arrow(TYPES)
    stdin, stdout = io.BytesIO(), io.BytesIO()
    skiff.encode(pilum.dataset(uri).to_reader(), stdin, fmt)
    ran = skiff.run(busy, stdin.getvalue(), stdout, fmt, fmt, batch_rows=700)
    as_job = pa.Table.from_batches([batch for _, batch in skiff.decode(stdout.getvalue(), fmt)], TYPES)
    assert ran.rows_in == 5_000
    assert ran.rows_out == [as_job.num_rows]
    assert as_rows(as_job, TYPES) == as_rows(under_spark, TYPES)
    # Through a program too, partition by partition.
    program = [sys.executable, "-c", PROGRAM_OF_TYPES, fmt.to_json(arrow_types=True)]
    piped = ps.pipe_skiff(df, program, fmt, fmt).toArrow()
    assert as_rows(piped, TYPES) == as_rows(rows, TYPES)


PROGRAM_OF_TYPES = """
import sys
from pilum import skiff
fmt = skiff.Format.from_json(sys.argv[1])
skiff.encode((batch for _, batch in skiff.decode(sys.stdin.buffer, fmt, batch_rows=99)), sys.stdout.buffer, fmt)
"""


def test_a_function_of_groups_gives_the_rows_of_a_reduce_job(spark, tmp_path):
    uri = str(tmp_path / "t")
    pilum.write_dataset(many_types(2_000), uri, max_rows_per_file=500)
    grouped = ps.read(spark, uri, columns=["key", "price"], tasks=4).groupBy("key")
    under_spark = grouped.applyInArrow(total, ps.to_spark_schema(SUMS)).toArrow()
    # A job is given the rows sorted by key, with the switches.
    table = pilum.dataset(uri).to_table(columns=["key", "price"])
    keys = table["key"].to_pylist()
    switches = [False] + [one != other for one, other in itertools.pairwise(keys)]
    field = pa.field("$key_switch", pa.bool_(), nullable=False)
    table = table.append_column(field, pa.array(switches))
    format_in, format_out = skiff.Format.from_arrow(table.schema), skiff.Format.from_arrow(SUMS)
    stdin, stdout = io.BytesIO(), io.BytesIO()
    skiff.encode(table, stdin, format_in)
    for batch_rows in (5, 1_000):
        stdout = io.BytesIO()
        ran = skiff.run(total, stdin.getvalue(), stdout, format_in, format_out, mode="reduce", batch_rows=batch_rows)
        assert ran == (2_000, [len(set(keys))])
        as_job = pa.Table.from_batches([batch for _, batch in skiff.decode(stdout.getvalue(), format_out)], SUMS)
        assert as_rows(as_job, SUMS) == as_rows(under_spark, SUMS)
