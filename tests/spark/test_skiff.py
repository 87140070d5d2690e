"""Skiff in Spark: partitions through a program, and one function under Spark and as a job."""

from __future__ import annotations

import io
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
