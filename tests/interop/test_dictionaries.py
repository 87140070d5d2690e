"""Dictionaries that grow: new values come with an append, and pilum and the real pylance go on reading the same rows."""

from __future__ import annotations

import concurrent.futures
import multiprocessing

import lance
import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same


def rows(keys: list[int | None], values: list, *, nested: bool = False, nullable: bool = True) -> pa.Table:
    """Return a dictionary column `d`, plain or in lists, beside a number `k`."""
    d = pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), pa.array(values))
    if nested:
        d = pa.ListArray.from_arrays(list(range(len(keys) + 1)), d)
    fields = [pa.field("d", d.type, nullable), pa.field("k", pa.int64())]
    return pa.table([d, pa.array(range(len(keys)), pa.int64())], schema=pa.schema(fields))


AB = rows([0, 1, 0], ["a", "b"])
CA = rows([0, 1, 0], ["c", "a"])


def values(table: pa.Table) -> list:
    return table["d"].to_pylist()


def both(uri) -> list:
    """Return the column as pilum and as pylance read it, which is the same."""
    ds = pilum.dataset(uri)
    assert ds.compat == "lance"
    assert_same(lance.dataset(str(uri)).to_table(), ds.to_table())
    assert ds.verify().problems == []
    return values(ds.to_table())


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "in lists"])
@pytest.mark.parametrize(
    "kinds", [(["a", "b"], ["c", "a"]), ([5, -1], [9, 5]), ([b"a", b"\xff"], [b"c", b"a"])], ids=str
)
def test_an_append_brings_new_values(tmp_path, kinds, nested):
    first, more = kinds
    one, two = rows([0, 1, 0], first, nested=nested), rows([0, 1, 0], more, nested=nested)
    pilum.write_dataset(one, tmp_path / "t")
    pilum.dataset(tmp_path / "t").append(two)
    assert both(tmp_path / "t") == values(one) + values(two)
    assert_same(pilum.dataset(tmp_path / "t", version=1).to_table(), one)
    assert_same(lance.dataset(str(tmp_path / "t"), version=1).to_table(), one)
    pilum.dataset(tmp_path / "t").compact()
    assert both(tmp_path / "t") == values(one) + values(two)


def test_a_table_without_rows_takes_any_values(tmp_path):
    pilum.write_dataset(AB.slice(0, 0), tmp_path / "t")
    empty = rows([], pa.array([], pa.string()))
    pilum.write_dataset(empty, tmp_path / "u")
    for name in "tu":
        pilum.dataset(tmp_path / name).append(CA)
        assert both(tmp_path / name) == ["c", "a", "c"]


def test_pylance_goes_on_with_a_dictionary_that_grew(tmp_path):
    uri = str(tmp_path / "t")
    pilum.write_dataset(AB, uri)
    # These were opened before the dictionary grew, and are committed on top of it.
    stale = [lance.dataset(uri) for _ in range(3)]
    pilum.dataset(uri).append(CA)
    stale[0].delete("k = 2")
    # Worked out on the rows of then.
    assert both(uri) == ["a", "b", "c", "a", "c"]
    stale[1].insert(AB)
    assert both(uri) == ["a", "b", "c", "a", "c", "a", "b", "a"]
    stale[2].update({"k": "k + 10"}, where="k = 1")
    assert sorted(both(uri)) == sorted(["a", "b", "c", "a", "c", "a", "b", "a"])
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).add_columns({"double": "k * 2"})
    lance.dataset(uri).drop_columns(["double"])
    assert sorted(both(uri)) == sorted(["a", "b", "c", "a", "c", "a", "b", "a"])
    # Appending, it wants the dictionary as it is now, as always.
    lance.write_dataset(rows([2, 0], ["a", "b", "c"]), uri, mode="append")
    assert both(uri)[-2:] == ["c", "a"]
    lance.dataset(uri).validate()


def test_a_table_of_pylance_grows(tmp_path):
    uri = str(tmp_path / "t")
    lance.write_dataset(AB, uri, data_storage_version="legacy")
    pilum.dataset(uri).append(CA)
    assert both(uri) == ["a", "b", "a", "c", "a", "c"]


def test_nulls_are_kept_as_pylance_keeps_them(tmp_path):
    """Its nulls are null values of the dictionary: rows with nulls could not be appended at all."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows([0, 1, 0], [None, "b"]), uri, data_storage_version="legacy")
    pilum.dataset(uri).append(rows([0, None, 1], ["x", "b"]))
    assert both(uri) == [None, "b", None, "x", None, "b"]
    pilum.dataset(uri).compact()
    assert both(uri) == [None, "b", None, "x", None, "b"]
    with pytest.raises(pilum.InvalidInputError, match=r'column `d`.*compat="lossless"'):
        pilum.dataset(uri).append(rows([0, 1, None], ["", "x"]))
    ds = pilum.dataset(uri).append(rows([0, 1, None], ["", "x"]), compat="lossless")
    assert ds.compat == "lossless"
    assert values(ds.to_table()) == [None, "b", None, "x", None, "b", "", "x", None]
    assert ds.verify().problems == []
    with pytest.raises(Exception, match="cannot be read by this version"):
        lance.dataset(uri)
    assert values(lance.dataset(uri, version=2).to_table()) == [None, "b", None, "x", None, "b"]


def test_an_empty_value_beside_nulls_that_were_just_written_as_values_is_refused(tmp_path):
    uri = str(tmp_path / "t")
    lance.write_dataset(rows([0, 1], [None, "b"]), uri, data_storage_version="legacy")
    with pytest.raises(pilum.InvalidInputError, match="column `d`"):
        pilum.dataset(uri).append(rows([None, 0], ["", "b"]), compat="lossless")
    assert both(uri) == [None, "b"]


def test_an_empty_value_needs_the_flag_also_where_nothing_is_null(tmp_path):
    table = rows([0, 1], ["", "b"], nullable=False)
    with pytest.raises(pilum.InvalidInputError, match="column `d`"):
        pilum.write_dataset(table, tmp_path / "plain", compat="lance")
    ds = pilum.write_dataset(table, tmp_path / "t")
    assert ds.compat == "lossless"
    assert_same(ds.to_table(), table)
    with pytest.raises(pilum.InvalidInputError, match="column `d`"):
        pilum.write_dataset(AB, tmp_path / "u").append(rows([0], [""]), compat="lance")
    assert both(tmp_path / "u") == ["a", "b", "a"]


def test_an_update_brings_a_new_value(tmp_path):
    ds = pilum.write_dataset(AB, tmp_path / "t")
    ds.update({"d": "'new'"}, where="k = 1")
    assert sorted(both(tmp_path / "t")) == ["a", "a", "new"]


def test_more_values_than_keys_can_count_are_refused(tmp_path):
    ds = pilum.write_dataset(rows(list(range(100)), [f"v{n}" for n in range(100)]), tmp_path / "t")
    with pytest.raises(pilum.InvalidInputError, match="wider key type"):
        ds.append(rows(list(range(100)), [f"w{n}" for n in range(100)]))
    assert len(both(tmp_path / "t")) == 100
    ds.append(rows(list(range(28)), [f"w{n}" for n in range(28)]))
    assert both(tmp_path / "t")[-1] == "w27"


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("nested", [False, True], ids=["plain", "in lists"])
def test_two_appends_at_once_bring_different_values(tmp_path, nested, stable):
    uri = tmp_path / "t"
    parts = {name: rows([0, 1, 0, None][: 3 + nested], [name, "b"], nested=nested) for name in "xyz"}
    first = rows([0, 1, 0], ["a", "b"], nested=nested)
    pilum.write_dataset(first, uri, stable_row_ids=stable)

    def slowly(table: pa.Table, meanwhile):
        """Yield rows; between them somebody else appends."""
        yield from table.slice(0, 2).to_batches()
        meanwhile()
        yield from table.slice(2).to_batches()

    def append(name: str, meanwhile=lambda: None) -> None:
        table = parts[name]
        reader = pa.RecordBatchReader.from_batches(table.schema, slowly(table, meanwhile))
        pilum.write_dataset(reader, uri, mode="append", max_rows_per_file=2)

    append("x", lambda: append("y", lambda: append("z")))
    got = pilum.dataset(uri)
    want = values(first) + [value for name in "zyx" for value in values(parts[name])]
    assert values(got.to_table()) == want
    report = got.verify()
    assert (report.problems, report.orphans) == ([], [])
    if not nested:
        assert both(uri) == want


def test_a_table_that_is_created_meanwhile_is_appended_to(tmp_path):
    def slowly():
        pilum.write_dataset(AB, tmp_path / "t")
        yield from CA.to_batches()

    pilum.write_dataset(pa.RecordBatchReader.from_batches(CA.schema, slowly()), tmp_path / "t", mode="append")
    assert both(tmp_path / "t") == ["a", "b", "a", "c", "a", "c"]


def write_piece(uri: str, table: pa.Table, mode: str, compat: str) -> list[bytes]:
    """Write one piece: the work of a process."""
    return pilum.fragments.write(table, uri, mode=mode, compat=compat, max_rows_per_file=2)


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "in lists"])
@pytest.mark.parametrize("compat", ["lossless", "lance"])
@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_processes_that_each_have_their_own_dictionary(tmp_path, mode, compat, nested):
    uri = tmp_path / "t"
    there = rows([0, 1, 0], ["a", "b"], nested=nested)
    if mode != "create":
        pilum.write_dataset(there, uri)
    apart = [
        rows([0, 1, 0], ["a", "b"], nested=nested),
        rows([0, 1, 0, 2, 1], ["c", "a", "d"], nested=nested),
        rows([0], ["a"], nested=nested),
        rows([1, 1], ["unused", "d"], nested=nested),
    ]
    expected = [value for table in apart for value in values(table)]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=2, mp_context=spawn) as pool:
        written = [pool.submit(write_piece, str(uri), table, mode, compat) for table in apart]
        pieces = [piece for it in written for piece in it.result()]
    operation = {"create": pilum.Create, "append": pilum.Append, "overwrite": pilum.Overwrite}[mode]
    made = pilum.commit(str(uri), operation(pieces), commit_id="load")
    assert made.rows == len(expected)
    # The same call again finds what it did, though some of the files that it names are gone.
    assert pilum.commit(str(uri), operation(pieces), commit_id="load").rows == 0
    assert both(uri) == (values(there) if mode == "append" else []) + expected
    assert pilum.dataset(uri).verify().orphans == []
    if mode != "create":
        assert_same(pilum.dataset(uri, version=1).to_table(), there)


def test_nulls_and_empty_values_of_pieces_stay_what_they_are(tmp_path):
    uri = str(tmp_path / "t")
    apart = [
        rows([0, None], ["a"]),
        rows([0, 1, 2], ["", None, "b"]),
        rows([None, None], pa.array([], pa.string())),
    ]
    pieces = [piece for table in apart for piece in pilum.fragments.write(table, uri, mode="create")]
    made = pilum.commit(uri, pilum.Create(pieces))
    assert values(made.to_table()) == ["a", None, "", None, "b", None, None]
    assert made.compat == "lossless"
    with pytest.raises(Exception, match="flag"):
        lance.dataset(uri).to_table()
    assert made.verify().problems == []
