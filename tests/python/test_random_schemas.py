"""A thousand random schemas through the life of a table: written, appended to, deleted from, updated, compacted."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same, flat, picked
from support.random_schemas import DEPTH, PATTERNS, SIMPLE, depth_of, innermost, random_rows, random_schema

SCHEMAS = 1000 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
PER_TEST = 50
GROUPS = [range(start, start + PER_TEST) for start in range(0, SCHEMAS, PER_TEST)]
PAGE = 8
SIZES = [0, 1, 2, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 3 * PAGE + 1]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder in memory where there is one: thousands of small files are written."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="pilum-", dir=shared if shared.is_dir() else None) as path:
        yield Path(path)


def by_key(table: pa.Table) -> pa.Table:
    """Return the rows in the order of their keys: statements may move rows."""
    return picked(table, pa.compute.sort_indices(table["k"]).to_pylist())


def batches(table: pa.Table, r: random.Random) -> pa.RecordBatchReader:
    """Return the rows in slices that begin anywhere, some of them empty."""
    arrays = [flat(column) for column in table.columns]
    whole = pa.RecordBatch.from_arrays(arrays, schema=table.schema)
    made, start = [whole.slice(0, 0)], 0
    while start < table.num_rows:
        made.append(whole.slice(start, r.choice([0, 1, PAGE - 1, PAGE, table.num_rows])))
        start += made[-1].num_rows
    return pa.RecordBatchReader.from_batches(table.schema, made)


def lives(seed: int, uri: Path) -> None:
    """Lead one table through everything that rewrites rows, and compare after each step."""
    r = random.Random(f"life {seed}")
    columns = random_schema(seed)
    first, more = r.choice(SIZES), r.choice(SIZES)
    whole = random_rows(seed, columns, first + more, PAGE)
    what = f"seed {seed}, {first} + {more} rows of {whole.schema.to_string(show_field_metadata=False)}"

    def hold(got: pilum.Dataset, want: pa.Table, step: str) -> None:
        assert_same(by_key(got.to_table()), want, f"{step}: {what}")

    options = {
        "max_rows_per_page": PAGE,
        "max_rows_per_file": r.choice([PAGE, 2 * PAGE, 1000]),
        "durability": "none",
    }
    ds = pilum.write_dataset(batches(whole.slice(0, first), r), uri, stable_row_ids=seed % 2 == 0, **options)
    assert_same(ds.to_table(), whole.slice(0, first), f"first read: {what}")
    ds.append(batches(whole.slice(first), r), **options)
    ds = pilum.dataset(uri)
    assert_same(ds.to_table(), whole, f"append and reopen: {what}")
    left = [row for row in range(whole.num_rows) if row % 5 != 3]
    ds = ds.delete("k % 5 = 3", durability="none")
    kept = picked(whole, left)
    hold(ds, kept, "delete")
    keys = [row + 1000 if row % 4 == 1 else row for row in left]
    ds = ds.update({"k": "k + 1000"}, where="k % 4 = 1", durability="none")
    changed = by_key(kept.set_column(0, kept.schema.field("k"), pa.array(keys, pa.int64())))
    hold(ds, changed, "update")
    compacted = ds.compact(max_deleted_fraction=0.0, durability="none")
    ds = pilum.dataset(uri)
    assert ds.version == compacted.version, what
    hold(ds, changed, "compact")
    report = ds.verify()
    assert report.ok, f"{report.problems}: {what}"
    assert report.orphans == [], what
    assert_same(ds.checkout(1).to_table(), whole.slice(0, first), f"the first version, later: {what}")


@pytest.mark.parametrize("seeds", GROUPS, ids=lambda group: f"seeds-{group.start}-{group.stop - 1}")
def test_any_schema_survives_the_life_of_a_table(seeds: range, folder: Path) -> None:
    for seed in seeds:
        lives(seed, folder / str(seed))
        shutil.rmtree(folder / str(seed))


def test_the_schemas_are_of_every_type_depth_and_pattern() -> None:
    columns = [column for seed in range(SCHEMAS) for column in random_schema(seed)]
    assert {pattern for _, pattern in columns} == set(PATTERNS)
    assert {depth_of(field.type) for field, _ in columns} == set(range(DEPTH + 1))
    assert {type_ for field, _ in columns for type_ in innermost(field.type)} >= set(SIMPLE)
    assert {field.nullable for field, _ in columns} == {True, False}


@pytest.mark.parametrize("container", ["fixed_size_list", "map", "list_view", "large_list_view"])
def test_a_dictionary_inside_any_container_keeps_its_values(folder: Path, container: str) -> None:
    """Only lists and structs had their dictionaries looked for: the keys of others were stored without any values."""
    words = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array(["a", "b"]))
    starts, sizes = [0, 1, 2], [1, 1, 1]
    made = {
        "fixed_size_list": lambda: pa.FixedSizeListArray.from_arrays(words, 1),
        "map": lambda: pa.MapArray.from_arrays([*starts, 3], pa.array(["x", "y", "z"]), words),
        "list_view": lambda: pa.ListViewArray.from_arrays(starts, sizes, words),
        "large_list_view": lambda: pa.LargeListViewArray.from_arrays(starts, sizes, words),
    }[container]()
    table = pa.table({"c": made, "s": pa.StructArray.from_arrays([made], names=["c"])})
    ds = pilum.write_dataset(table, folder / "t").append(table)
    assert_same(pilum.dataset(folder / "t").to_table(), pa.concat_tables([table, table]))
    assert ds.verify().ok


def test_a_sound_file_verifies_when_nulls_lie_two_structs_up(folder: Path) -> None:
    """The zeros below a null struct are no values: verification held them against the statistics."""
    inner = pa.StructArray.from_arrays([pa.array([5, 6, 7])], names=["x"])
    outer = pa.StructArray.from_arrays([inner], names=["y"], mask=pa.array([False, True, False]))
    table = pa.table({"z": pa.StructArray.from_arrays([outer], names=["z"], mask=pa.array([True, False, False]))})
    ds = pilum.write_dataset(table, folder / "t")
    assert_same(ds.to_table(), table)
    assert ds.verify().problems == []
