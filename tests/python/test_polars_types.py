"""Columns that Polars cannot hold are refused by name, and the others stay readable."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pilum

FOREIGN = {
    "decimal256": pa.array([Decimal("1.2")], pa.decimal256(50, 2)),
    "negative_scale": pa.array([Decimal(100)], pa.decimal128(10, -2)),
    "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "offset": pa.array([1], pa.timestamp("us", "+05:30")),
    "nested": pa.array([[{"x": Decimal("1.2")}]], pa.list_(pa.struct([("x", pa.decimal256(50, 2))]))),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.timestamp("s", "-03:30"))),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_column_that_polars_cannot_hold_is_refused_by_name(tmp_path: Path, name: str) -> None:
    table = pa.table({"id": [1], name: FOREIGN[name], "text": ["a"]})
    ds = pilum.write_dataset(table, tmp_path / "t")
    for read in (ds.lazy, ds.to_polars, ds.scanner().to_polars, lambda: ds.lazy(columns=["id", name])):
        with pytest.raises(pilum.UnsupportedError) as refusal:
            read()
        assert repr(name) in str(refusal.value)
        assert str(ds.schema.field(name).type) in str(refusal.value)
        assert "'id'" not in str(refusal.value)
    rows = ds.lazy(columns=["text", "id"])
    assert rows.collect().to_dicts() == [{"text": "a", "id": 1}]
    assert rows.filter(pl.col("id") > 0).select("id").collect().to_dicts() == [{"id": 1}]
    assert ds.to_polars(columns=["id"]).to_dicts() == [{"id": 1}]


def test_columns_of_parquet_files_that_polars_cannot_hold_are_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "wide": FOREIGN["decimal256"]}), tmp_path / "rows.parquet")
    files = pilum.parquet.dataset(tmp_path / "rows.parquet")
    for read in (files.to_polars, files.scanner().to_polars):
        with pytest.raises(pilum.UnsupportedError, match=r"rows\.parquet.*'wide' is decimal256") as refusal:
            read()
        assert "'id'" not in str(refusal.value)
    assert files.to_polars(columns=["id"]).to_dicts() == [{"id": 1}]


def test_what_polars_can_hold_is_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "d": pa.array([Decimal("1.20")], pa.decimal128(38, 2)),
            "small": pa.array([Decimal("1.20")], pa.decimal64(10, 2)),
            "whole_hours": pa.array([1], pa.timestamp("us", "-03:00")),
            "utc": pa.array([1], pa.timestamp("us", "+00:00")),
            "zone": pa.array([1], pa.timestamp("s", "Asia/Kolkata")),
            "half": pa.array([1.5], pa.float16()),
            "map": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())),
            "fixed": pa.array([b"ab"], pa.binary(2)),
        }
    )
    ds = pilum.write_dataset(table, tmp_path / "t")
    assert ds.lazy().collect().equals(ds.to_polars())
    assert ds.lazy().collect().height == 1


def test_the_columns_of_a_lazy_frame_are_names_of_the_table(tmp_path: Path) -> None:
    ds = pilum.write_dataset(pa.table({"a": [1], "b": [2]}), tmp_path / "t")
    for wrong in ("a", ["nope"], {"x": "a"}, [1]):
        with pytest.raises(pilum.InvalidInputError, match=r"columns|nope"):
            ds.lazy(columns=wrong)
    assert ds.lazy(columns=["b"]).collect().columns == ["b"]
