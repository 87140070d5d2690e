"""Living with the real pylance in one table: it reads, it writes, it refuses where it would do damage."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same

PLAIN = pa.table({"n": pa.array(range(3000), pa.int64()), "s": [f"row {i}" for i in range(3000)]})
WITH_NULLS = pa.table({"n": pa.array([1, None, 3], pa.int64()), "s": ["a", "", None]})


def data_files(path) -> list[bytes]:
    return [file.read_bytes() for file in sorted((path / "data").iterdir())]


def test_a_table_with_more_than_v1_holds_is_refused_by_pylance(tmp_path):
    ds = pilum.write_dataset(WITH_NULLS, tmp_path / "t")
    assert ds.compat == "lossless"
    with pytest.raises(Exception, match=r"cannot be read|not supported|unsupported") as refusal:
        lance.dataset(str(tmp_path / "t")).to_table()
    assert "panic" not in str(refusal.value).lower()
    with pytest.raises(Exception, match=r"cannot be read|not supported|unsupported|written"):
        lance.write_dataset(WITH_NULLS, str(tmp_path / "t"), mode="append")
    assert_same(pilum.dataset(tmp_path / "t").to_table(), WITH_NULLS)


def test_the_flag_follows_the_version_and_not_the_table(tmp_path):
    pilum.write_dataset(PLAIN, tmp_path / "t")
    pilum.write_dataset(WITH_NULLS, tmp_path / "t", mode="append")
    assert pilum.dataset(tmp_path / "t", version=1).compat == "lance"
    assert_same(lance.dataset(str(tmp_path / "t"), version=1).to_table(), PLAIN)
    with pytest.raises(Exception, match=r"cannot be read|not supported|unsupported"):
        lance.dataset(str(tmp_path / "t"), version=2).to_table()
    pilum.write_dataset(PLAIN, tmp_path / "t", mode="overwrite")
    assert_same(lance.dataset(str(tmp_path / "t")).to_table(), PLAIN)


def test_compat_lance_refuses_what_would_be_lost_before_a_byte_is_written(tmp_path):
    for column, values, row in [("n", pa.array([1, None]), 1), ("e", pa.array(["a", "b", ""]), 2)]:
        with pytest.raises(pilum.PilumError) as refusal:
            pilum.write_dataset(pa.table({column: values}), tmp_path / "t", compat="lance")
        assert column in str(refusal.value)
        assert str(row) in str(refusal.value)
        assert not list((tmp_path / "t").rglob("*.lance"))
        assert not list((tmp_path / "t").rglob("*.manifest"))
    pilum.write_dataset(PLAIN, tmp_path / "t", compat="lance")
    assert_same(lance.dataset(str(tmp_path / "t")).to_table(), PLAIN)


def test_pylance_and_pilum_take_turns_in_one_table(tmp_path):
    path = str(tmp_path / "t")
    pilum.write_dataset(PLAIN, path, max_rows_per_file=1000)
    lance.write_dataset(PLAIN, path, mode="append")
    assert_same(pilum.dataset(path).to_table(), pa.concat_tables([PLAIN, PLAIN]))
    lance.dataset(path).delete("n % 7 = 3")
    kept = lance.dataset(path).to_table()
    assert_same(pilum.dataset(path).to_table(), kept)
    pilum.dataset(path).append(PLAIN)
    expected = pa.concat_tables([kept, PLAIN])
    assert_same(lance.dataset(path).to_table(), expected)
    lance.dataset(path).optimize.compact_files()
    assert_same(pilum.dataset(path).to_table(), expected)
    lance.dataset(path).update({"s": "'changed'"}, where="n = 5")
    assert_same(pilum.dataset(path).to_table(), lance.dataset(path).to_table())
    lance.dataset(path).add_columns({"double": "n * 2"})
    assert_same(pilum.dataset(path).to_table(), lance.dataset(path).to_table())
    lance.dataset(path).drop_columns(["s"])
    lance.dataset(path).validate()
    assert_same(pilum.dataset(path).to_table(), lance.dataset(path).to_table())
    for version in pilum.dataset(path).versions():
        want = lance.dataset(path, version=version.version).to_table()
        assert_same(pilum.dataset(path, version=version.version).to_table(), want, f"version {version.version}")


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_row_ids_are_those_that_pylance_sees(tmp_path, stable):
    path = str(tmp_path / "t")
    pilum.write_dataset(PLAIN, path, max_rows_per_file=1000, stable_row_ids=stable)
    pilum.dataset(path).append(PLAIN)
    lance.dataset(path).delete("n = 7")
    got = pilum.dataset(path).to_table(["n"], with_row_id=True, with_row_address=True)
    want = lance.dataset(path).to_table(["n"], with_row_id=True, with_row_address=True)
    assert_same(got.select(want.column_names), want, nullability=False)


@pytest.mark.parametrize("naming", ["V1", "V2"])
def test_the_naming_of_versions_is_kept(tmp_path, naming):
    path = str(tmp_path / "t")
    lance.write_dataset(PLAIN, path, data_storage_version="legacy", enable_v2_manifest_paths=naming == "V2")
    pilum.dataset(path).append(PLAIN)
    names = sorted(file.name for file in (tmp_path / "t" / "_versions").glob("*.manifest"))
    assert len(names) == 2
    assert all((len(name) == 29) == (naming == "V2") for name in names)
    assert lance.dataset(path).count_rows() == 6000


def test_history_of_pilum_is_told_by_pylance(tmp_path):
    path = str(tmp_path / "t")
    ds = pilum.write_dataset(PLAIN, path)
    ds = ds.append(PLAIN)
    ds.tags.create("before", 1)
    ds.checkout(1).restore()
    theirs = lance.dataset(path)
    assert [version["version"] for version in theirs.versions()] == [1, 2, 3]
    assert theirs.tags.list()["before"]["version"] == 1
    assert_same(theirs.to_table(), PLAIN)
    operations = [type(theirs.read_transaction(version).operation).__name__ for version in (1, 2, 3)]
    assert operations == ["Overwrite", "Append", "Restore"]


def test_a_newer_file_format_is_refused_by_name(tmp_path):
    lance.write_dataset(PLAIN, str(tmp_path / "t"), data_storage_version="stable")
    with pytest.raises(pilum.UnsupportedError) as refusal:
        pilum.dataset(tmp_path / "t").to_table()
    assert str(tmp_path / "t") in str(refusal.value)
    assert "2." in str(refusal.value)


def test_pylance_takes_part_in_a_table_whose_vectors_declare_their_items(tmp_path):
    vectors = pa.list_(pa.field("element", pa.float32(), nullable=False, metadata={"unit": "m"}), 2)
    table = pa.table({"k": [1, 2], "v": pa.array([[1.0, 2.0], [3.0, 4.0]], vectors)})
    ds = pilum.write_dataset(table, tmp_path / "t")
    assert ds.compat == "lance"
    path = str(tmp_path / "t")
    assert lance.dataset(path).to_table()["v"].to_pylist() == [[1.0, 2.0], [3.0, 4.0]]
    lance.write_dataset(lance.dataset(path).to_table(), path, mode="append")
    lance.dataset(path).delete("k = 1")
    lance.dataset(path).optimize.compact_files()
    rest = table.slice(1)
    assert_same(pilum.dataset(path).to_table(), pa.concat_tables([rest, rest]))


NOT_FOR_PYLANCE = {
    "lists of no item": pa.array([[], []], pa.list_(pa.int8(), 0)),
    "lists of lists of no item": pa.array([[[]], [[]]], pa.list_(pa.list_(pa.int8(), 0), 1)),
    "binaries of no byte": pa.array([b"", b""], pa.binary(0)),
    "json as text": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', "2"])),
    "json as long text, below": pa.StructArray.from_arrays(
        [pa.ExtensionArray.from_storage(pa.json_(pa.large_string()), pa.array(["1", "2"], pa.large_string()))],
        names=["j"],
    ),
}


@pytest.mark.parametrize("name", NOT_FOR_PYLANCE)
def test_what_pylance_cannot_open_or_takes_for_something_else_carries_the_flag(name, tmp_path):
    table = pa.table({"k": [1, 2], "c": NOT_FOR_PYLANCE[name]})
    with pytest.raises(pilum.UnsupportedError, match="column `c"):
        pilum.write_dataset(table, tmp_path / "plain", compat="lance")
    ds = pilum.write_dataset(table, tmp_path / "t")
    assert ds.compat == "lossless"
    assert_same(ds.to_table(), table)
    with pytest.raises(Exception, match="cannot be read by this version"):
        lance.dataset(str(tmp_path / "t")).to_table()
    ds = ds.drop_columns(["c"]).append(pa.table({"k": [3]}))
    assert ds.compact().dataset.compat == "lance"
    assert_same(lance.dataset(str(tmp_path / "t")).to_table(), pa.table({"k": [1, 2, 3]}))
