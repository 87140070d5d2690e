"""Random schemas before the real pylance: what it can read it reads and goes on with; the rest it refuses by itself."""

from __future__ import annotations

import os
import shutil

import lance
import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same, picked
from support.random_schemas import random_rows, random_schema
from support.random_tables import ordinary

SCHEMAS = 200 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
PER_TEST = 25
GROUPS = [range(start, start + PER_TEST) for start in range(0, SCHEMAS, PER_TEST)]
PAGE = 8
ROWS = 3 * PAGE + 1
REFUSAL = r"cannot be (read|written) by this version of Lance"


def ids(group: range) -> str:
    return f"seeds-{group.start}-{group.stop - 1}"


def files(path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def assert_refused(path, table: pa.Table, what: str) -> None:
    """Every door of pylance is shut by its own check of the flags, and nothing in the table is touched."""
    before = files(path)
    uri = str(path)
    doors = {
        "read": lambda: lance.dataset(uri).to_table(),
        "count": lambda: lance.dataset(uri).count_rows(),
        "take": lambda: lance.dataset(uri).take([0]),
        # The key alone: types that it does not know it refuses before it looks at the table.
        "append": lambda: lance.write_dataset(table.select(["k"]), uri, mode="append"),
        "delete": lambda: lance.dataset(uri).delete("k = 0"),
        "compact": lambda: lance.dataset(uri).optimize.compact_files(),
    }
    for door, knock in doors.items():
        with pytest.raises(Exception, match=REFUSAL) as refusal:
            knock()
        assert "panic" not in str(refusal.value).lower(), f"{door}: {what}"
    assert files(path) == before, what


def assert_shared(path, table: pa.Table, what: str) -> None:
    """Pylance reads the table, appends to it, deletes from it and compacts it, and pilum reads what that makes."""
    uri = str(path)
    assert_same(lance.dataset(uri).to_table(), table, f"read: {what}")
    lance.write_dataset(table, uri, mode="append", schema=lance.dataset(uri).schema)
    both = pa.concat_tables([table, table])
    assert_same(pilum.dataset(uri).to_table(), both, f"appended to: {what}")
    lance.dataset(uri).delete("k % 5 = 3")
    kept = picked(both, [row for row in range(both.num_rows) if row % table.num_rows % 5 != 3])
    assert_same(pilum.dataset(uri).to_table(), kept, f"deleted from: {what}")
    ds = pilum.dataset(uri).append(table, durability="none")
    assert ds.compat == "lance", what
    rows = pa.concat_tables([kept, table])
    assert_same(lance.dataset(uri).to_table(), rows, f"appended to by both: {what}")
    lance.dataset(uri).optimize.compact_files()
    assert_same(pilum.dataset(uri).to_table(), rows, f"compacted: {what}")
    lance.dataset(uri).validate()
    assert pilum.dataset(uri).verify().problems == [], what


def by_the_flag(table: pa.Table, folder, what: str) -> str:
    """Hold one table to its flag: set exactly where `compat="lance"` refuses; pylance reads without it, refuses with it."""
    path = folder / "t"
    options = {"max_rows_per_page": PAGE, "max_rows_per_file": 2 * PAGE, "durability": "none"}
    ds = pilum.write_dataset(table, path, **options)
    try:
        plain = pilum.write_dataset(table, folder / "plain", compat="lance", **options)
    except pilum.PilumError:
        assert ds.compat == "lossless", f"compat='lance' refuses what carries no flag: {what}"
        assert not list((folder / "plain").rglob("*.*")), f"a file was written before the refusal: {what}"
        assert_refused(path, table, what)
    else:
        assert ds.compat == "lance", f"compat='lance' takes what carries a flag: {what}"
        assert plain.compat == "lance", what
        assert_same(plain.to_table(), table, what)
        assert_shared(path, table, what)
    assert_same(pilum.dataset(path, version=1).to_table(), table, what)
    return ds.compat


@pytest.mark.parametrize("seeds", GROUPS, ids=ids)
def test_any_schema_is_shared_or_refused(seeds, tmp_path):
    for seed in seeds:
        table = random_rows(seed, random_schema(seed), ROWS, PAGE)
        folder = tmp_path / str(seed)
        by_the_flag(table, folder, f"seed {seed}: {table.schema}")
        shutil.rmtree(folder)


@pytest.mark.parametrize("seeds", GROUPS, ids=ids)
def test_an_ordinary_table_never_needs_the_flag(seeds, tmp_path):
    for seed in seeds:
        table = ordinary(seed).slice(0, ROWS)
        if not table.num_rows:
            continue
        table = table.add_column(0, pa.field("k", pa.int64(), False), [pa.array(range(table.num_rows), pa.int64())])
        folder = tmp_path / str(seed)
        assert by_the_flag(table, folder, f"seed {seed}: {table.schema}") == "lance"
        shutil.rmtree(folder)
