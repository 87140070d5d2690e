"""Statistics of tables that pylance wrote: bounds where its files say too little, exact where the rows are read."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

import pilum


def test_statistics_of_files_of_pylance_are_bounds_until_the_rows_are_read(tmp_path: Path) -> None:
    table = pa.table(
        {"id": [3, 1, 2], "x": ["a", "b", None], "s": [{"a": 1.5}, {"a": 2.5}, {"a": 3.5}], "l": [[1], [], [2]]}
    )
    lance.write_dataset(table, tmp_path / "t", data_storage_version="legacy")
    ds = pilum.dataset(tmp_path / "t")
    bounds = {it["column"]: it for it in ds.statistics().to_pylist()}
    assert (bounds["id"]["min"], bounds["id"]["max"], bounds["id"]["bytes"]) == ("1", "3", 24)
    assert not any(it["exact"] for it in bounds.values())
    assert bounds["x"]["bytes"] is None
    exact = {it["column"]: it for it in ds.statistics(exact=True, typed=True).to_pylist()}
    assert all(it["exact"] for it in exact.values())
    assert (exact["x"]["null_count"], exact["x"]["min"], exact["x"]["max"]) == (1, "a", "b")
    assert (exact["s.a"]["min"], exact["s.a"]["max"], exact["l"]["null_count"]) == (1.5, 3.5, 0)
    mixed = ds.append(pa.table({"id": [9], "x": ["z"], "s": [{"a": 0.5}], "l": [[7]]}))
    bounds = {it["column"]: it for it in mixed.statistics().to_pylist()}
    assert (bounds["id"]["max"], bounds["x"]["max"], bounds["id"]["null_count"]) == ("9", "z", None)
