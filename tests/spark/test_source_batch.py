"""`format("pilum")`: batches read and written through the DataFrame API, with the options that the guide lists."""

from __future__ import annotations

import datetime as dt
import string
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as t

import pilum
from pilum import spark as ps
from support.comparing import assert_same


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t")


def write(df, uri, mode="append", **options):
    df.write.format("pilum").mode(mode).options(**options).save(uri)
    return pilum.dataset(uri)


def read(spark, uri, **options):
    return spark.read.format("pilum").options(**options).load(uri)


def numbers(spark, first=0, rows=1000, partitions=4):
    return spark.range(first, first + rows, 1, partitions).selectExpr("id", "cast(id as string) as s")


# -- Reading ----------------------------------------------------------------------------------------------------------------


def test_spark_finds_the_format_by_itself_and_pins_the_version(spark, uri):
    ds = write(numbers(spark), uri)
    df = read(spark, uri)
    assert df.schema.simpleString() == "struct<id:bigint,s:string>"
    ds.append(pa.table({"id": [5000], "s": ["x"]}))
    # The version was pinned when the DataFrame was made: each action sees the same rows.
    assert df.count() == 1000
    assert df.agg(F.max("id")).collect()[0][0] == 999
    assert read(spark, uri).count() == 1001
    assert read(spark, uri, version=1).count() == 1000
    pilum.dataset(uri).tags.create("first", 1)
    assert read(spark, uri, version="first").count() == 1000
    moment = pilum.dataset(uri).versions()[0].timestamp + dt.timedelta(microseconds=1)
    assert read(spark, uri, asof=moment.isoformat()).count() == 1000


def test_options_choose_columns_rows_and_tasks(spark, uri):
    write(numbers(spark, partitions=8), uri)
    df = read(spark, uri, columns="s,id", filter="id % 100 = 7", tasks=3)
    assert df.columns == ["s", "id"]
    assert sorted(row.id for row in df.collect()) == list(range(7, 1000, 100))
    assert df.rdd.getNumPartitions() == 3
    assert read(spark, uri, columns='["id"]').columns == ["id"]
    assert read(spark, uri, limit=17).count() == 17
    assert read(spark, uri, limit=17, filter="id >= 500", tasks=5).agg(F.min("id")).collect()[0][0] >= 500
    assert read(spark, uri, limit=17, filter="id >= 500", tasks=5).count() == 17
    assert read(spark, uri, filter="id < 0").count() == 0
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING pilum OPTIONS (path '{uri}', filter 'id < 10')")
    assert spark.sql("SELECT count(*) AS n FROM v WHERE s <> '3'").collect()[0].n == 9


def test_a_table_without_rows_has_columns(spark, uri):
    pilum.write_dataset(pa.table({"a": pa.array([], pa.int32())}), uri)
    assert read(spark, uri).schema.simpleString() == "struct<a:int>"
    assert read(spark, uri).collect() == []


def test_vectors_types_and_nulls_come_through(spark, uri):
    table = pa.table(
        {
            "v": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
            "u": pa.array([1, None, 255], pa.uint8()),
            "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None, None], pa.timestamp("ms", "Europe/Berlin")),
            "d": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)),
            "st": pa.array([{"x": 1, "l": ["a", None]}, None, {"x": None, "l": None}]),
            "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        }
    )
    pilum.write_dataset(table, uri)
    assert_same(read(spark, uri).toArrow(), ps.read(spark, uri).toArrow())
    assert read(spark, uri, vectors="binary", columns="v").schema.simpleString() == "struct<v:binary>"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"verison": "3"}, "no option 'verison': did you mean 'version'"),
        ({"startingVersion": "1"}, "'startingVersion' is one of a streaming read"),
        ({"maxRowsPerFile": "1"}, "'maxRowsPerFile' is one of a write"),
        ({"storage": "x"}, "it takes .*, storage.<name>"),
        ({"version": "1", "asof": "2026-01-01"}, "both choose a version"),
        ({"asof": "yesterday"}, "'asof': pass a moment"),
        ({"limit": "-1"}, "'limit': pass an integer from 0 on"),
        ({"pushFilters": "true"}, "'pushFilters': pass 'once' for a DataFrame that one query uses once"),
        ({"columns": "a,,b"}, "'columns': pass names"),
        ({"columns": "nope"}, "nope"),
        ({"filter": "nope > 3"}, "nope"),
        ({"version": "99"}, "99"),
    ],
)
def test_wrong_read_options_are_refused_by_name(spark, uri, options, said):
    pilum.write_dataset(pa.table({"a": [1]}), uri)
    with pytest.raises(Exception, match=said):
        read(spark, uri, **options).collect()


def test_a_schema_of_the_user_is_a_projection_whose_types_are_checked(spark, uri):
    write(numbers(spark), uri)
    df = spark.read.format("pilum").schema("s string").load(uri)
    assert df.count() == 1000
    with pytest.raises(Exception, match="column 'id' is bigint, and the schema that was given says int"):
        spark.read.format("pilum").schema("id int").load(uri).collect()


# -- Writing ----------------------------------------------------------------------------------------------------------------


def test_append_overwrite_and_the_first_write(spark, uri):
    assert write(numbers(spark), uri).version == 1
    assert write(numbers(spark, 1000), uri).count_rows() == 2000
    ds = write(numbers(spark, 0, 10).selectExpr("id as other"), uri, "overwrite")
    assert (ds.version, ds.count_rows(), ds.schema.names) == (3, 10, ["other"])
    assert pilum.dataset(uri, version=2).count_rows() == 2000
    # A write without rows: nothing to append, and a table without rows.
    assert write(ds_empty(spark), uri).version == 3
    assert write(ds_empty(spark), uri, "overwrite").count_rows() == 0


def ds_empty(spark):
    return spark.createDataFrame([], "other bigint")


def test_a_commit_id_is_committed_once_and_computed_once(spark, uri):
    for _ in range(2):
        ds = write(numbers(spark), uri, commitId="day 7")
    assert (ds.version, ds.count_rows()) == (1, 1000)
    assert len(list((Path(uri) / "data").iterdir())) == 4


def test_existing_tables_can_be_refused_or_left_alone(spark, uri):
    write(numbers(spark), uri, ifExists="error")
    with pytest.raises(Exception, match="there is a table"):
        write(numbers(spark), uri, ifExists="error")
    assert write(numbers(spark), uri, ifExists="ignore").count_rows() == 1000
    # Spark itself refuses these modes for Data Sources in Python.
    for mode in ("error", "ignore"):
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            write(numbers(spark), uri, mode)
    assert pilum.dataset(uri).version == 1


def test_merge_schema_adds_columns_that_the_table_lacks(spark, uri):
    write(numbers(spark), uri)
    wider = numbers(spark, 1000, 10).withColumn("x", F.col("id") / 2).withColumn("l", F.array("id"))
    with pytest.raises(Exception, match=r"`x`|'x'"):
        write(wider, uri)
    ds = write(wider, uri, mergeSchema=True)
    assert ds.schema.names == ["id", "s", "x", "l"]
    assert ds.count_rows("x IS NULL") == 1000
    assert ds.count_rows("x >= 500") == 10
    # Rows with fewer columns still fit.
    assert write(numbers(spark, 2000, 5), uri, mergeSchema=True).count_rows("x IS NULL") == 1005


def test_write_options_are_those_of_every_write(spark, uri):
    options = {"maxRowsPerFile": 100, "properties": '{"job": "nightly"}', "compat": "lance", "stable_row_ids": "true"}
    ds = write(numbers(spark, partitions=1), uri, **options)
    assert len(ds.fragments) == 10
    assert ds.versions()[0].properties["job"] == "nightly"
    assert ds.write_compat == "lance"
    with pytest.raises(Exception, match=r"row|value"):
        write(spark.createDataFrame([(2**40, 7)], "id bigint, s int").selectExpr("id / 3 as id", "s"), uri)
    assert (
        write(spark.createDataFrame([("5", 7)], "id string, s int"), uri, cast="lossy").count_rows("id = 5 AND s = '7'")
        == 1
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"comitId": "x"}, "did you mean 'commitId'"),
        ({"onChange": "skip"}, "'onChange' is one of a streaming read"),
        ({"maxRowsPerFile": "0"}, "'maxRowsPerFile': pass an integer from 1 on"),
        ({"maxBytesPerFile": "64x"}, "'maxBytesPerFile': pass a number of bytes"),
        ({"properties": "[1]"}, "'properties': pass a JSON object"),
        ({"compat": "lanse"}, "'compat': pass 'lossless' or 'lance'"),
    ],
)
def test_wrong_write_options_are_refused_by_name(spark, uri, options, said):
    with pytest.raises(Exception, match=said):
        write(numbers(spark), uri, **options)
    assert not Path(uri).exists()


def test_a_failed_write_shows_nothing_and_cleanup_takes_its_files(spark, uri):
    write(numbers(spark), uri)

    @F.udf("long")
    def failing(n):
        if n == 990:
            raise ValueError("no")
        return n

    with pytest.raises(Exception, match="no"):
        write(numbers(spark).select(failing("id").alias("id"), "s"), uri)
    ds = pilum.dataset(uri)
    assert (ds.version, ds.count_rows()) == (1, 1000)
    now = dt.timedelta(0)
    ds.cleanup(older_than=now, unverified_older_than=now)
    assert len(list((Path(uri) / "data").iterdir())) == 4
    assert ds.verify().ok


def test_aborting_after_a_commit_that_landed_removes_nothing(spark, uri):
    from pilum.spark.source import DefaultSource

    schema = t.StructType([t.StructField("id", t.LongType())])
    writer = DefaultSource({"path": uri}).writer(schema, overwrite=False)
    message = writer.write(iter([pa.record_batch({"id": [1, 2, 3]})]))
    writer.commit([message])
    # Spark calls `abort` when the answer of a commit was lost, and may commit again.
    writer.abort([message])
    writer.commit([message])
    ds = pilum.dataset(uri)
    assert (ds.version, ds.count_rows()) == (1, 3)
    assert ds.verify().ok


def test_columns_of_one_name_are_refused_before_a_task_runs(spark, uri):
    df = spark.range(3).selectExpr("id", "id as ID")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        write(df, uri)
        with pytest.raises(Exception, match=r"(?i)duplicate|several columns"):
            write(spark.range(3).select("id", "id"), uri + "2")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_path_of_spark_is_the_path(spark, uri):
    write(numbers(spark), uri)
    assert read(spark, f"file:{uri}").count() == 1000
    assert read(spark, f"file://{uri}").count() == 1000
    names = string.ascii_lowercase[:2]
    with pytest.raises(Exception, match="takes one table"):
        spark.read.format("pilum").load([uri + name for name in names]).collect()
