"""`verify_checksums=False` holds for everything that is reached through the handle it was given to.

One bit of a stored value is wrong: whoever compares checksums is refused, whoever does not reads the wrong value.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import pilum

ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "x": pa.array(range(1000), pa.int64())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = tmp_path / "t"
    pilum.write_dataset(ROWS, path, durability="none")
    (file,) = (path / "data").glob("*.lance")
    content = bytearray(file.read_bytes())
    content[0] ^= 1  # the first value of the first column: 0 becomes 1
    file.write_bytes(content)
    return str(path)


@pytest.fixture
def trusting(uri: str) -> pilum.Dataset:
    return pilum.dataset(uri, verify_checksums=False)


def test_the_damage_is_seen_by_those_who_compare_checksums(uri: str, trusting: pilum.Dataset) -> None:
    with pytest.raises(pilum.CorruptError, match="checksum"):
        pilum.dataset(uri).to_table()
    assert trusting.to_table()["id"][:2].to_pylist() == [1, 1]
    assert (trusting.verify_checksums, pilum.dataset(uri).verify_checksums) == (False, True)


STATEMENTS = {
    "append": lambda ds: ds.append(ROWS.slice(0, 3)),
    "delete": lambda ds: ds.delete("id = 77"),
    "update": lambda ds: ds.update({"x": "x + 1"}, "id = 77"),
    "merge": lambda ds: ds.merge_insert("id", ROWS.slice(77, 1)),
    "restore": lambda ds: ds.restore(),
    "checkout": lambda ds: ds.checkout(1),
    "add columns": lambda ds: ds.add_columns({"y": "x * 2"}),
    "add computed columns": lambda ds: ds.add_columns(lambda batch: pa.record_batch({"y": batch["x"]})),
    "drop columns": lambda ds: ds.drop_columns(["x"]),
    "alter columns": lambda ds: ds.alter_columns({"x": {"name": "z"}}),
    "config": lambda ds: ds.update_config({"a": "b"}),
    "pickle": lambda ds: pickle.loads(pickle.dumps(ds)),
    "pickle of a result": lambda ds: pickle.loads(pickle.dumps(ds.append(ROWS))),
    "the version of a result": lambda ds: ds.append(ROWS).dataset,
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_a_handle_returns_reads_as_the_handle_does(trusting: pilum.Dataset, statement: str) -> None:
    result = STATEMENTS[statement](trusting)
    assert not result.verify_checksums
    assert result.to_table()["id"][:2].to_pylist() == [1, 1]


def test_a_result_of_a_handle_that_compares_checksums_compares_them(uri: str) -> None:
    result = pilum.dataset(uri).append(ROWS)
    assert result.verify_checksums
    with pytest.raises(pilum.CorruptError, match="checksum"):
        pickle.loads(pickle.dumps(result)).to_table()


def test_a_compaction_reads_as_its_handle_does(uri: str, trusting: pilum.Dataset) -> None:
    trusting.append(ROWS)
    with pytest.raises(pilum.CorruptError, match="checksum"):
        pilum.dataset(uri).compact()
    assert trusting.compact().rows == 2000


def test_tasks_in_other_processes_read_as_the_scanner_does(uri: str, trusting: pilum.Dataset) -> None:
    (task,) = pickle.loads(pickle.dumps(trusting.scanner(["id"]).tasks()))
    assert task.to_reader().read_all()["id"][:2].to_pylist() == [1, 1]
    # The other handle is not served from what this process opened before.
    (task,) = pilum.dataset(uri).scanner(["id"]).tasks()
    with pytest.raises(pilum.CorruptError, match="checksum"):
        task.to_reader().read_all()
