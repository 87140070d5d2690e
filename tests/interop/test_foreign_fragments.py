"""Fragments as other writers leave them: without a live row, or without a column that was added later."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import ipc

import pilum


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def nested(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def add_to_manifest(uri: str, message: bytes) -> None:
    """Append fields to the newest manifest of a table: repeated fields get more elements."""
    version = lance.dataset(uri).version
    path = Path(f"{uri}/_versions/{2**64 - 1 - version:020}.manifest")
    path = path if path.exists() else Path(f"{uri}/_versions/{version}.manifest")
    stored = path.read_bytes()
    at = struct.unpack("<Q", stored[-16:-8])[0]
    length = struct.unpack("<I", stored[at : at + 4])[0]
    manifest = stored[at + 4 : at + 4 + length] + message
    path.write_bytes(stored[:at] + struct.pack("<I", len(manifest)) + manifest + stored[-16:])


def data_file(name: str) -> bytes:
    """The description of a data file with the fields 0 and 1."""
    return nested(2, nested(1, name.encode()) + nested(2, b"\0\1") + number(5, 2))


def table_of_pylance(uri: str) -> str:
    lance.write_dataset(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), uri, data_storage_version="legacy")
    lance.write_dataset(pa.table({"a": [4], "b": ["w"]}), uri, mode="append", data_storage_version="legacy")
    return uri


def with_a_fragment_without_file(uri: str) -> None:
    add_to_manifest(table_of_pylance(uri), nested(2, number(1, 7)) + number(11, 7))


def with_an_empty_file(uri: str) -> None:
    table_of_pylance(uri)
    metadata = nested(2, b"\0") + number(3, 8)  # one batch offset, 0; the page table has no row
    stored = b"\0" * 8 + struct.pack("<I", len(metadata)) + metadata + struct.pack("<QHH", 8, 0, 2) + b"LANC"
    Path(f"{uri}/data/empty.lance").write_bytes(stored)
    add_to_manifest(uri, nested(2, number(1, 7) + data_file("empty.lance")) + number(11, 7))


def with_all_rows_deleted(uri: str) -> None:
    table_of_pylance(uri)
    name = lance.dataset(uri).get_fragments()[0].metadata.files[0].path
    Path(f"{uri}/_deletions").mkdir(exist_ok=True)
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    with ipc.new_file(f"{uri}/_deletions/7-2-99.arrow", schema) as file:
        file.write_batch(pa.record_batch([pa.array([0, 1, 2], pa.uint32())], schema=schema))
    deletion = nested(3, number(2, 2) + number(3, 99) + number(4, 3))
    add_to_manifest(uri, nested(2, number(1, 7) + data_file(name) + deletion + number(4, 3)) + number(11, 7))


EMPTY = [with_a_fragment_without_file, with_an_empty_file, with_all_rows_deleted]
ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}, {"a": 4, "b": "w"}]
CALLS: dict[str, tuple[Callable[[pilum.Dataset], Any], list[dict[str, Any]]]] = {
    "add_columns": (lambda ds: ds.add_columns({"q": "a + 1"}), [{**row, "q": row["a"] + 1} for row in ROWS]),
    "add_columns_of_a_function": (
        lambda ds: ds.add_columns(lambda batch: pa.record_batch({"q": batch["a"]})),
        [{**row, "q": row["a"]} for row in ROWS],
    ),
    "add_columns_of_values": (
        lambda ds: ds.add_columns(pa.table({"q": [5, 6, 7, 8]})),
        [{**row, "q": row["a"] + 4} for row in ROWS],
    ),
    "alter_columns": (lambda ds: ds.alter_columns({"a": {"type": pa.int32()}}), ROWS),
    "nullable": (lambda ds: ds.alter_columns({"a": {"nullable": False}}), ROWS),
    "drop_columns": (lambda ds: ds.drop_columns(["b"]), [{"a": row["a"]} for row in ROWS]),
    "update": (lambda ds: ds.update({"a": "a + 1"}), [{**row, "a": row["a"] + 1} for row in ROWS]),
    "delete": (lambda ds: ds.delete("a = 2"), [row for row in ROWS if row["a"] != 2]),
    "merge": (lambda ds: ds.merge_insert("a", pa.table({"a": [4], "b": ["v"]})), [*ROWS[:3], {"a": 4, "b": "v"}]),
    "append": (lambda ds: ds.append(pa.table({"a": [5], "b": ["v"]})), [*ROWS, {"a": 5, "b": "v"}]),
    "compact": (lambda ds: ds.compact(), ROWS),
    "restore": (lambda ds: ds.restore(1), ROWS[:3]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("make", EMPTY, ids=lambda it: it.__name__)
def test_a_fragment_without_rows_is_dropped_by_the_next_call(
    make: Callable[[str], None], call: str, tmp_path: Any
) -> None:
    uri = str(tmp_path / "t")
    make(uri)
    ds = pilum.dataset(uri)
    assert ds.to_table().to_pylist() == ROWS
    assert [fragment.id for fragment in ds.fragments] == [0, 1]
    run, wanted = CALLS[call]
    after = run(ds).dataset
    assert sorted(after.to_table().to_pylist(), key=lambda row: row["a"]) == wanted
    assert all(fragment.num_rows > 0 for fragment in after.fragments)
    # The next fragment does not get the id of the one that is gone.
    assert after.append(after.head(1)).dataset.fragments[-1].id > 7
    assert lance.dataset(uri).count_rows() == len(wanted) + 1


@pytest.fixture
def lacking(tmp_path: Any) -> str:
    """A table of pylance whose column `c` was added to the schema alone; only its last fragment holds values of it."""
    uri = table_of_pylance(str(tmp_path / "t"))
    # name, id, no parent, type, nullable, plain encoding
    column = nested(2, b"c") + number(3, 2) + number(4, -1) + nested(5, b"int64") + number(6, 1) + number(7, 1)
    add_to_manifest(uri, nested(1, column))
    for value in (50, 60):
        rows = pa.table({"a": [value], "b": ["v"], "c": [value]})
        lance.write_dataset(rows, uri, mode="append", data_storage_version="legacy")
    return uri


def test_a_table_that_lacks_a_column_in_some_fragments_is_compacted_for_pylance(lacking: str) -> None:
    before = pilum.dataset(lacking)
    assert before.write_compat == "lance"
    rows = before.to_table().to_pylist()
    assert [row["c"] for row in rows] == [None] * 4 + [50, 60]
    compacted = before.compact().dataset
    assert compacted.to_table().to_pylist() == rows
    # Fragments with and without the column are not joined.
    assert [fragment.num_rows for fragment in compacted.fragments] == [4, 2]
    assert compacted.write_compat == "lance"
    assert lance.dataset(lacking).to_table().to_pylist() == rows
    assert compacted.verify().ok
    assert compacted.count_rows("c IS NULL") == 4
    assert compacted.compact().dataset.version == compacted.version


def test_columns_are_added_and_altered_beside_one_that_fragments_lack(lacking: str) -> None:
    other = lacking + "-altered"
    shutil.copytree(lacking, other)
    rows = pilum.dataset(lacking).to_table().to_pylist()
    added = pilum.dataset(lacking).add_columns({"d": "a * 2"}).dataset
    wanted = [{**row, "d": row["a"] * 2} for row in rows]
    assert added.to_table().to_pylist() == lance.dataset(lacking).to_table().to_pylist() == wanted
    assert added.compact().dataset.to_table().to_pylist() == wanted
    altered = pilum.dataset(other).alter_columns({"b": {"type": pa.large_string()}}).dataset
    assert altered.to_table().to_pylist() == lance.dataset(other).to_table().to_pylist() == rows
