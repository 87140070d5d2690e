"""Frames of Spark without nulls are tables that pylance reads, and tables of pylance stay so when Spark writes to them."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

import pilum
from pilum import spark as ps

FRAME = """SELECT id, concat('text ', id) AS s, array(id, id + 1) AS l, array(concat('a', id)) AS t,
    named_struct('a', id, 'm', array(array('x', 'y'))) AS p, cast(id AS decimal(9, 2)) AS d, date'2026-01-02' AS day
    FROM range(0, 6, 1, 2)"""


def test_a_frame_without_nulls_is_read_by_pylance(spark, tmp_path):
    uri = str(tmp_path / "t")
    frame = spark.sql(FRAME)
    ds = ps.write(frame, uri)
    assert (ds.compat, ds.write_compat) == ("lance", "lossless")
    rows = ds.to_table().to_pylist()
    assert [row["id"] for row in rows] == list(range(6))
    assert lance.dataset(uri).to_table().to_pylist() == rows
    ps.write(frame, uri, mode="append")
    assert lance.dataset(uri).count_rows() == 12
    assert ps.read(spark, uri).exceptAll(frame).count() == 6


def test_nulls_enter_a_table_of_pylance_only_by_an_explicit_call(spark, tmp_path):
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": pa.array([1], pa.int64())}), uri, data_storage_version="legacy")
    nulls = spark.sql("SELECT CASE WHEN id > 0 THEN id END AS id FROM range(0, 2, 1, 1)")
    with pytest.raises(Exception, match="column `id`: Lance v1 cannot hold null"):
        ps.write(nulls, uri)
    assert lance.dataset(uri).version == 1
    ds = ps.write(nulls, uri, compat="lossless")
    assert (ds.compat, ds.write_compat) == ("lossless", "lossless")
    assert pilum.dataset(uri).to_table()["id"].to_pylist() == [1, None, 1]
