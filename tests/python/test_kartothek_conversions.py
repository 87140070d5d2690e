"""Conversions of Kartothek datasets to tables and Parquet files, and back: rows, keys, indices, nulls, texts, progress."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pilum
from pilum import kartothek

ROWS = pa.table(
    {
        "rid": pa.array(range(6), pa.int64()),
        "city": ["São Paulo", "日本", "a/b", "", "São Paulo", "100%"],
        "day": pa.array([dt.date(2020, 2, 28 + n % 2) for n in range(6)], pa.date32()),
        "item": pa.array([7, None, 8, 7, 2**40, None], pa.int64()),
        "name": [None, "ü", "", "x", None, "'\""],
        "price": pa.array([1.5, None, -0.0, float("inf"), 2.0, 1e300]),
        "tags": pa.array([[1, 2], None, [], [3], [None], [4]], pa.list_(pa.int64())),
    }
)
KEYS = ["city", "day"]
INDICES = ["item", "name"]


def sorted_rows(rows: Any) -> list[dict[str, Any]]:
    return pa.table(rows).select(ROWS.column_names).sort_by("rid").to_pylist()


@pytest.fixture(params=["rows", "empty"])
def rows(request: pytest.FixtureRequest) -> pa.Table:
    return ROWS if request.param == "rows" else ROWS.slice(0, 0)


def assert_has_rows_keys_and_indices(k: kartothek.Dataset, rows: pa.Table) -> None:
    assert k.partition_keys == KEYS
    assert sorted(k.indices) == INDICES
    assert sorted_rows(k) == rows.to_pylist()
    assert sorted(k.schema().names) == sorted(ROWS.column_names)
    for column in INDICES:
        found = {row[column]: len(row["partition"]) for row in k.indices[column].to_arrow().to_pylist()}
        values = [row for row in rows.select([*KEYS, column]).to_pylist() if row[column] is not None]
        assert found == {
            value: len({(it["city"], it["day"]) for it in values if it[column] == value})
            for value in {it[column] for it in values}
        }
    if rows.num_rows:
        assert k.to_table(predicates=[[("city", "==", "a/b")]])["rid"].to_pylist() == [2]
        assert sorted(k.to_table(predicates=[[("item", "==", 7)]])["rid"].to_pylist()) == [0, 3]
        assert sorted(k.to_table(predicates=[[("item", "==", None)]])["rid"].to_pylist()) == [1, 5]


@pytest.mark.parametrize("source", ["table", "address", "parquet"])
def test_rows_become_a_dataset_with_keys_and_indices(rows: pa.Table, source: str, tmp_path: Path) -> None:
    pilum.write_dataset(rows, tmp_path / "t.pilum")
    pq.write_table(rows, tmp_path / "rows.parquet")
    sources: dict[str, Any] = {
        "table": pilum.dataset(tmp_path / "t.pilum"),
        "address": tmp_path / "t.pilum",
        "parquet": pilum.parquet.dataset(tmp_path / "rows.parquet"),
    }
    reported: list[tuple[int, int | None]] = []
    copied = kartothek.from_pilum(
        sources[source],
        tmp_path / "store",
        "made",
        partition_on=KEYS,
        secondary_indices=INDICES,
        metadata={"owner": "ü"},
        progress=lambda done, total: reported.append((done, total)),
    )
    assert_has_rows_keys_and_indices(copied.dataset, rows)
    assert (copied.rows, copied.partitions) == (rows.num_rows, len(copied.dataset.labels))
    assert copied.partitions == len({(it["city"], it["day"]) for it in rows.to_pylist()})
    assert copied.dataset.metadata["owner"] == "ü"
    assert reported == ([(6, 6)] if rows.num_rows else [])
    with pytest.raises(pilum.AlreadyExistsError, match="overwrite"):
        kartothek.from_pilum(sources[source], tmp_path / "store", "made")
    again = kartothek.from_pilum(sources[source], tmp_path / "store", "made", overwrite=True)
    assert again.dataset.partition_keys == []


def test_only_the_chosen_columns_and_the_rows_of_the_filter_are_copied(tmp_path: Path) -> None:
    pilum.write_dataset(ROWS, tmp_path / "t.pilum")
    copied = kartothek.from_pilum(tmp_path / "t.pilum", tmp_path, "some", columns=["rid", "name"], filter="item = 7")
    assert copied.rows == 2
    assert copied.dataset.to_table().to_pylist() == [{"name": None, "rid": 0}, {"name": "x", "rid": 3}]


def test_an_error_of_the_source_keeps_its_class_and_nothing_is_written(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet", compression="none", use_dictionary=False, write_page_checksum=True)
    opened = pilum.parquet.dataset(tmp_path / "rows.parquet")
    content = bytearray((tmp_path / "rows.parquet").read_bytes())
    content[content.index("São Paulo".encode())] ^= 1
    (tmp_path / "rows.parquet").write_bytes(content)
    with pytest.raises(pilum.CorruptError, match=r"rows\.parquet"):
        kartothek.from_pilum(opened, tmp_path / "store", "made")
    with pytest.raises(pilum.NotFoundError):
        kartothek.dataset(tmp_path / "store", "made")
    with pytest.raises(pilum.InvalidInputError, match="write"):
        kartothek.from_pilum(ROWS, tmp_path / "store", "made")


def test_the_command_line_converts_in_every_direction(rows: pa.Table, tmp_path: Path) -> None:
    def convert(*words: str) -> int:
        command = [sys.executable, "-m", "pilum", "convert", *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        num_rows: int = json.loads(done.stdout)["rows"]
        return num_rows

    layout = [word for key in KEYS for word in ("--partition-on", key)]
    layout += [word for column in INDICES for word in ("--index", column)]
    table, file, store = str(tmp_path / "t.pilum"), str(tmp_path / "rows.parquet"), str(tmp_path / "store")
    pilum.write_dataset(rows, table)
    document = f"{store}/{{}}.by-dataset-metadata.json"
    assert convert(table, document.format("from-table"), *layout) == rows.num_rows
    assert_has_rows_keys_and_indices(kartothek.dataset(store, "from-table"), rows)
    assert convert(document.format("from-table"), file) == rows.num_rows
    assert sorted_rows(pq.read_table(file)) == rows.to_pylist()
    assert convert(file, document.format("from-file"), *layout) == rows.num_rows
    assert_has_rows_keys_and_indices(kartothek.dataset(store, "from-file"), rows)
    assert convert(f"{store}/from-file", str(tmp_path / "again.pilum")) == rows.num_rows
    assert sorted_rows(pilum.dataset(tmp_path / "again.pilum").to_table()) == rows.to_pylist()
    assert convert(document.format("from-file"), document.format("copy")) == rows.num_rows
    assert_has_rows_keys_and_indices(kartothek.dataset(store, "copy"), rows)


def test_the_command_line_refuses_conversions_that_it_does_not_have(tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        command = [sys.executable, "-m", "pilum", "convert", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in {1, 2}
        return done.stderr

    pilum.write_dataset(ROWS, tmp_path / "t.pilum")
    made = f"{tmp_path}/made.by-dataset-metadata.json"
    assert "--partition-on" in refused(f"{tmp_path}/t.pilum", f"{tmp_path}/x.parquet", "--partition-on", "city")
    kartothek.from_pilum(tmp_path / "t.pilum", tmp_path, "made")
    assert "made" in refused(f"{tmp_path}/t.pilum", made)
    assert "--index" in refused(made, f"{tmp_path}/other.by-dataset-metadata.json", "--index", "item")
    assert "Kartothek" in refused(made, f"{tmp_path}/rows.arrow")
