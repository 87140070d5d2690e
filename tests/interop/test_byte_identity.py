"""A file written with pylance's layout is pylance's file, bit for bit, but for the name and version of the writer."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from pilum import _pilum
from pilum.exchange import as_stream
from support.comparing import assert_same
from support.data_file import DataFile
from support.golden import Golden
from support.random_tables import ordinary

GOLDEN = [
    "prims", "strings", "strings_all_null", "lists", "lists_all_empty", "structs", "temporal", "decimals", "bools",
    "fixed_size", "embeddings", "dicts", "non_nullable", "null_type", "one_row", "default_groups",
]  # fmt: skip


def plain(table: pa.Table) -> pa.Table:
    """Return the table without metadata: two entries of a map have no order that two writers would share."""
    return pa.table(table.columns, schema=pa.schema([field.remove_metadata() for field in table.schema]))


def write_as_pylance(table: pa.Table, path: str) -> None:
    _pilum.write_dataset(
        as_stream(table),
        path,
        mode="create",
        compat="lance",
        max_rows_per_file=1_048_576,
        max_rows_per_page=1024,
        max_bytes_per_file=None,
        stable_row_ids=False,
        durability="none",
        properties=None,
        commit_id=None,
        storage_options=None,
        progress=None,
        layout="pylance",
    )


def assert_identical(table: pa.Table, tmp_path, what: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write_as_pylance(table, str(ours))
    lance.write_dataset(table, str(theirs), data_storage_version="legacy", schema=table.schema)
    assert_same(lance.dataset(str(ours)).to_table(), table, what)
    (mine,) = (ours / "data").glob("*.lance")
    (peer,) = (theirs / "data").glob("*.lance")
    a, b = DataFile.of(mine), DataFile.of(peer)
    if a.pages != b.pages:
        at = next(
            (i for i, (x, y) in enumerate(zip(a.pages, b.pages, strict=False)) if x != y),
            min(len(a.pages), len(b.pages)),
        )
        pytest.fail(f"{what}: pages differ from byte {at}; {len(a.pages)} bytes against {len(b.pages)}\n{table.schema}")
    assert a.without_writer() == b.without_writer(), f"{what}: embedded manifest"
    assert a.metadata == b.metadata, f"{what}: metadata"
    assert a.versions == b.versions, f"{what}: footer"


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_input_makes_the_same_file(name, tmp_path):
    golden = Golden(name)
    # What pylance reads back holds nothing that v1 loses; the input may. Dictionary values that are missing are the exception.
    table = plain(golden.arrow("expected.arrow"))
    table = table.select([n for n in table.column_names if not has_missing_values(table[n])])
    # Taking copies: the peer does not survive buffers at the addresses that a file gives them.
    assert_identical(table.take(pa.array(range(table.num_rows), pa.int64())), tmp_path, name)


def has_missing_values(column: pa.ChunkedArray) -> bool:
    return pa.types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks)


SEEDS = [seed for seed in range(120) if ordinary(seed).num_rows][:80]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_table_makes_the_same_file(seed, tmp_path):
    assert_identical(plain(ordinary(seed)), tmp_path, f"seed {seed}")
