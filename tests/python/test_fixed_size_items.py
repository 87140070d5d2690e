"""Items of fixed-size lists have no column of their own: what they are called and may be is kept all the same."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same

SOLID = pa.field("e", pa.float32(), nullable=False, metadata={"unit": "m", "ключ": ""})
VECTOR = pa.list_(SOLID, 2)
UUIDS = pa.array([uuid.UUID(int=number).bytes for number in range(4)], pa.binary(16))
PLAIN = pa.list_(pa.float32(), 2)
COLUMNS = {
    "vectors": pa.array([[1.0, -0.0], None, [2.0, 3.0], [4.0, 5.0]], VECTOR),
    "sliced": pa.array([[9.0, 9.0], [1.0, -0.0], None, [2.0, 3.0], [4.0, 5.0]], VECTOR).slice(1),
    "named only": pa.array([[1], [None], None, [2]], pa.list_(pa.field("element", pa.int8()), 1)),
    "matrices": pa.array(
        [[[1, 2], None], None, [[3, 4], [5, 6]], [None, None]],
        pa.list_(pa.field("row", pa.list_(pa.field("cell", pa.int16(), nullable=False), 2)), 2),
    ),
    "uuids": pa.FixedSizeListArray.from_arrays(pa.ExtensionArray.from_storage(pa.uuid(), UUIDS), 1),
    "in a struct": pa.array([{"x": [1, 2]}, None, {"x": None}, {"x": [3, 4]}], pa.struct([pa.field("x", VECTOR)])),
    "in a list": pa.array([[[1, 2], None], None, [], [[3, 4]]], pa.list_(VECTOR)),
    "bits": pa.array([[True], None, [False], [True]], pa.list_(pa.field("bit", pa.bool_(), nullable=False), 1)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_items_are_declared_as_they_were(name, tmp_path):
    table = pa.table({"k": pa.array(range(4)), "c": COLUMNS[name]})
    uri = tmp_path / "t"
    ds = pilum.write_dataset(table, uri, max_rows_per_page=3)
    assert_same(ds.to_table(), table)
    ds.append(table)
    twice = pa.concat_tables([table, table])
    ds = pilum.dataset(uri)
    assert ds.schema.equals(table.schema, check_metadata=True)
    assert_same(ds.to_table(), twice)
    assert_same(ds.take([7, 0]), pa.concat_tables([twice.slice(7), twice.slice(0, 1)]))
    ds = ds.update({"k": "k + 10"}, where="k = 3").delete("k = 2")
    ds = ds.merge_insert("k", table.slice(2, 1)).dataset
    pilum.dataset(uri).compact(max_deleted_fraction=0.0)
    ds = pilum.dataset(uri)
    kept = ds.to_table()
    rows = [key % 10 for key in kept["k"].to_pylist()]
    assert sorted(rows) == [0, 0, 1, 1, 2, 3, 3]
    assert_same(kept.select(["c"]), pa.concat_tables([table.slice(row, 1) for row in rows]).select(["c"]))
    ds = ds.alter_columns({"c": {"name": "d"}})
    assert ds.schema.field("d").equals(table.schema.field("c").with_name("d"), check_metadata=True)
    assert ds.verify().ok


@pytest.mark.parametrize(("stored", "given"), [(VECTOR, PLAIN), (PLAIN, VECTOR)], ids=["declared", "plain"])
def test_rows_that_declare_their_items_otherwise_fit(stored, given, tmp_path):
    rows = [[1.0, 2.0], None]
    ds = pilum.write_dataset(pa.table({"c": pa.array(rows, stored)}), tmp_path / "t")
    ds = ds.append(pa.table({"c": pa.array(rows, given)}))
    assert_same(ds.to_table(), pa.table({"c": pa.array(rows * 2, stored)}))


@pytest.mark.parametrize(
    ("stored", "given", "value"),
    [
        (pa.list_view(pa.field("item", pa.int8(), nullable=False)), pa.list_view(pa.int8()), [1]),
        (
            pa.map_(pa.string(), pa.field("value", pa.int8(), nullable=False)),
            pa.map_(pa.string(), pa.int8()),
            [("a", 1)],
        ),
        (pa.list_(pa.field("item", pa.string(), nullable=False), 1), pa.list_(pa.string(), 1), ["a"]),
        (pa.list_(pa.string(), 1), pa.list_(pa.field("e", pa.string(), nullable=False), 1), ["a"]),
    ],
    ids=["list view", "map", "texts", "named texts"],
)
def test_rows_of_nested_types_that_declare_otherwise_fit(stored, given, value, tmp_path):
    ds = pilum.write_dataset(pa.table({"c": pa.array([value], stored)}), tmp_path / "t")
    ds = ds.append(pa.table({"c": pa.array([value, None], given)}))
    assert_same(ds.to_table(), pa.table({"c": pa.array([value, value, None], stored)}))


def test_a_null_among_items_that_are_never_null_is_refused(tmp_path):
    ds = pilum.write_dataset(pa.table({"c": pa.array([[1.0, 2.0]], VECTOR)}), tmp_path / "t")
    with pytest.raises(pilum.InvalidInputError, match=r"column `c\.e`, row 0, item 1: null"):
        ds.append(pa.table({"c": pa.array([[1.0, None]], PLAIN)}))
    assert pilum.dataset(tmp_path / "t").version == 1


def test_edits_of_metadata_leave_the_items_alone(tmp_path):
    field = pa.field("c", VECTOR, metadata={"a": "1"})
    ds = pilum.write_dataset(
        pa.Table.from_arrays([pa.array([[1, 2]], VECTOR)], schema=pa.schema([field])), tmp_path / "t"
    )
    ds = ds.update_field_metadata("c", {"b": "2"}, replace=True)
    assert ds.schema.field("c").equals(field.with_metadata({"b": "2"}), check_metadata=True)
    before = ds.version
    for value in ("true", None):
        with pytest.raises(pilum.InvalidInputError, match="part of the type"):
            ds.update_field_metadata("c", {"pilum:item:1:nullable": value})
    assert pilum.dataset(tmp_path / "t").version == before
    assert ds.verify().ok


def test_keys_of_items_mean_nothing_elsewhere(tmp_path):
    ds = pilum.write_dataset(pa.table({"n": [1]}), tmp_path / "t")
    ds = ds.update_field_metadata("n", {"pilum:item:1:name": "x"})
    assert ds.schema.field("n").metadata == {b"pilum:item:1:name": b"x"}
    ds = ds.update_field_metadata("n", {}, replace=True)
    assert not ds.schema.field("n").metadata
