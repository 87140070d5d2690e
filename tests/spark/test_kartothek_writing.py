"""Kartothek datasets written by Spark: tasks write partitions, the driver commits once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pilum
from pilum import kartothek
from pilum import spark as ps


def test_a_data_frame_becomes_partitions_in_one_commit(spark: Any, tmp_path: Path) -> None:
    df = spark.range(0, 100, 1, 4).selectExpr("id", "id % 3 AS p", "concat('t', id % 5) AS t")
    k = ps.write_kartothek(df, tmp_path, "sales", partition_on="p", secondary_indices=["t"], metadata={"by": "spark"})
    assert (k.version, k.partition_keys, k.metadata["by"]) == (1, ["p"], "spark")
    assert sorted(k.to_table()["id"].to_pylist()) == list(range(100))
    assert k.to_table(predicates=[[("t", "==", "t2"), ("p", "==", 1)]]).num_rows == 7
    k = ps.write_kartothek(df.limit(10), tmp_path, "sales", delete_scope=[{"p": 0}])
    assert k.version == 2
    assert k.count_rows() == 100 - 34 + 10
    read = ps.read_kartothek(spark, tmp_path, "sales", predicates=[[("t", "==", "t2")]])
    assert read.count() == k.to_table(predicates=[[("t", "==", "t2")]]).num_rows
    with pytest.raises(pilum.AlreadyExistsError):
        ps.write_kartothek(df, tmp_path, "sales", mode="create")
    with pytest.raises(pilum.InvalidInputError, match="index on `t`"):
        ps.write_kartothek(df.drop("t"), tmp_path, "sales")
    assert kartothek.dataset(tmp_path, "sales").version == 2
    assert k.garbage_collect(dry_run=True, keep_versions=9).keys == ()
    empty = ps.write_kartothek(df.filter("id < 0"), tmp_path, "none", partition_on="p")
    assert empty.schema().names == ["p", "id", "t"]
    assert empty.count_rows() == 0
