"""A table keeps its compat: what pylance reads stays readable for pylance until a call says otherwise, in so many words."""

from __future__ import annotations

import decimal
import os
import random
import shutil
from typing import Any

import duckdb
import lance
import polars as pl
import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same, picked

SCALE = int(os.environ.get("PILUM_TEST_SCALE", "1"))
NONE = {"durability": "none"}
REFUSED = (pilum.InvalidInputError, pilum.UnsupportedError)


def field(name: str, type_: pa.DataType, nullable: bool = True, **metadata: str) -> pa.Field:
    return pa.field(name, type_, nullable, metadata=metadata or None)


SCHEMAS = {
    "numbers": pa.schema([field("k", pa.int64()), field("x", pa.float64()), field("b", pa.bool_())]),
    "texts": pa.schema([
        field("k", pa.int64()), field("s", pa.string()), field("u", pa.large_binary()), field("d", pa.date32())
    ]),
    "solid": pa.schema([field("k", pa.int64(), False), field("s", pa.string(), False), field("x", pa.int16(), False)]),
    "nested": pa.schema([
        field("k", pa.int64()),
        field("l", pa.list_(pa.int32())),
        field("p", pa.struct([field("a", pa.int8()), field("s", pa.string())])),
        field("v", pa.list_(pa.float32(), 2)),
        field("q", pa.large_list(pa.struct([field("s", pa.string(), unit="m")]))),
    ]),
    "dictionaries": pa.schema([
        field("k", pa.int64()), field("c", pa.dictionary(pa.int8(), pa.string())), field("n", pa.null())
    ]),
    "decimals": pa.schema([field("k", pa.int64()), field("m", pa.decimal128(9, 2)), field("t", pa.timestamp("us", "UTC"))]),
}  # fmt: skip
TEXTS = ["a", "é", "日本", "long " * 5]


def value(r: random.Random, type_: pa.DataType, nulls: float, *, can_be_null: bool = True) -> Any:
    """Return a value that Lance v1 holds unless it is null, or an empty text, which `nulls` makes as likely."""
    if pa.types.is_null(type_):
        return None
    if can_be_null and r.random() < nulls:
        return None
    if pa.types.is_struct(type_):
        return {it.name: value(r, it.type, nulls, can_be_null=it.nullable) for it in type_}
    if pa.types.is_fixed_size_list(type_):
        return [value(r, type_.value_type, nulls) for _ in range(type_.list_size)]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [value(r, type_.value_type, nulls) for _ in range(r.randrange(3))]
    return leaf(r, type_, nulls)


def leaf(r: random.Random, type_: pa.DataType, nulls: float) -> Any:
    text = r.choice(TEXTS)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "" if r.random() < nulls else text
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return text.encode()
    if pa.types.is_boolean(type_):
        return r.random() < 0.5
    if pa.types.is_floating(type_):
        return r.randrange(100) / 4
    if pa.types.is_decimal(type_):
        return decimal.Decimal(r.randrange(10_000)) / 100
    if pa.types.is_integer(type_):
        return r.randrange(100)
    return pa.scalar(r.randrange(10_000), pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_).as_py()


def rows(r: random.Random, schema: pa.Schema, keys: range, nulls: float) -> pa.Table:
    return pa.Table.from_arrays([column(r, it, keys, nulls) for it in schema], schema=schema)


def column(r: random.Random, it: pa.Field, keys: range, nulls: float) -> pa.Array:
    if it.name == "k":
        return pa.array(keys, it.type)
    if pa.types.is_dictionary(it.type):
        # pylance appends to a dictionary column only what has the same dictionary.
        at = [None if r.random() < nulls else r.randrange(len(TEXTS)) for _ in keys]
        return pa.DictionaryArray.from_arrays(pa.array(at, it.type.index_type), pa.array(TEXTS, it.type.value_type))
    return pa.array([value(r, it.type, nulls, can_be_null=it.nullable) for _ in keys], it.type)


def act(r: random.Random, ds: pilum.Dataset, keys: range) -> str:
    """Call something at random, as a user does who knows nothing of compat."""
    nulls = r.choice([0.0, 0.0, 0.3])
    names = [it.name for it in ds.schema if it.name not in {"k", "n"}]
    name = r.choice(names)
    choices = {
        "append": lambda: ds.append(rows(r, ds.schema, keys, nulls), **NONE),
        "merge": lambda: ds.merge_insert("k", rows(r, ds.schema, range(keys.start - 3, keys.start + 3), nulls), **NONE),
        "merge of some columns": lambda: ds.merge_insert("k", pa.table({"k": pa.array([1, keys.start], pa.int64())}), **NONE),
        "delete": lambda: ds.delete(f"k % 7 = {r.randrange(7)}", **NONE),
        "update": lambda: ds.update({"k": "k + 1000"}, where=f"k % 5 = {r.randrange(5)}", **NONE),
        "update to null": lambda: ds.update({name: "null"}, where=f"k % 5 = {r.randrange(5)}", **NONE),
        "add": lambda: ds.add_columns({f"n{ds.version}": r.choice(["k * 2", "CASE WHEN k > 50 THEN k END"])}, **NONE),
        "add a text": lambda: ds.add_columns({f"t{ds.version}": r.choice(["'x'", "CASE WHEN k > 50 THEN '' END"])}, **NONE),
        "drop": lambda: ds.drop_columns([name], **NONE) if len(names) > 2 else ds,
        "nullable": lambda: ds.alter_columns({name: {"nullable": r.random() < 0.5}}, **NONE),
        "rename": lambda: ds.alter_columns({name: {"name": f"{name}_"}}, **NONE),
        "compact": lambda: ds.compact(max_deleted_fraction=0.0),
        "restore": lambda: ds.restore(r.choice([it.version for it in ds.versions()]), **NONE),
        "overwrite": lambda: ds.overwrite(rows(r, ds.schema, keys, nulls), **NONE),
        "pieces": lambda: pilum.commit(
            ds.uri, pilum.Append(pilum.fragments.write(rows(r, ds.schema, keys, nulls), ds.uri, **NONE)), **NONE
        ),
    }  # fmt: skip
    did = r.choice(list(choices))
    choices[did]()
    return did


@pytest.mark.parametrize("seed", range(4 * SCALE))
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_table_of_pylance_stays_readable_for_pylance(name, seed, tmp_path):
    r = random.Random(f"compat {name} {seed}")
    uri = str(tmp_path / "t")
    schema = SCHEMAS[name]
    stable = seed % 2 == 1
    lance.write_dataset(
        rows(r, schema, range(20), 0.0), uri, data_storage_version="legacy", enable_stable_row_ids=stable, schema=schema
    )
    lance.write_dataset(rows(r, schema, range(20, 30), 0.0), uri, mode="append", schema=schema)
    did = 0
    for step in range(14):
        ds = pilum.dataset(uri)
        assert (ds.compat, ds.write_compat) == ("lance", "lance")
        before = ds.version
        refusal = None
        try:
            act(r, ds, range(100 * step + 100, 100 * step + 108))
            did += 1
        except REFUSED as error:
            refusal = str(error)
        if refusal is not None:
            assert pilum.dataset(uri).version == before, "a refused call made a version"
            assert "Lance v1" not in refusal or 'compat="lossless"' in refusal, refusal
        theirs = lance.dataset(uri)
        mine = pilum.dataset(uri)
        assert mine.version == theirs.version
        assert_same(mine.to_table(), theirs.to_table(), f"{name} {seed} step {step}")
    assert did >= 3
    assert pilum.dataset(uri).verify().ok


PLAIN = pa.table({"k": pa.array([1, 2], pa.int64()), "s": ["a", "b"]})
NULLS = pa.table({"k": pa.array([3, None], pa.int64()), "s": ["c", "d"]})
NEEDS_MORE = {
    "append": lambda ds, **o: ds.append(NULLS, **o),
    "write_dataset": lambda ds, **o: pilum.write_dataset(NULLS, ds.uri, mode="append", **o),
    "overwrite": lambda ds, **o: ds.overwrite(NULLS, **o),
    "update": lambda ds, **o: ds.update({"k": "CASE WHEN k = 1 THEN k END"}, **o),
    "merge_insert": lambda ds, **o: ds.merge_insert("s", NULLS, **o),
    "add_columns": lambda ds, **o: ds.add_columns({"n": "CASE WHEN k = 1 THEN k END"}, **o),
    "add_columns from rows": lambda ds, **o: ds.add_columns(pa.table({"n": pa.array([1, None])}), **o),
    "add_columns by a function": lambda ds, **o: ds.add_columns(lambda b: pa.record_batch({"n": pa.array([1, None])}), **o),
    "a type": lambda ds, **o: ds.add_columns(pa.table({"n": pa.array([[("a", 1)]] * 2, pa.map_(pa.string(), pa.int8()))}), **o),
    "alter_columns": lambda ds, **o: ds.alter_columns({"k": {"type": pa.decimal64(5, 0)}}, **o),
    "commit": lambda ds, **o: pilum.commit(ds.uri, pilum.Append(pilum.fragments.write(NULLS, ds.uri, compat="lossless")), **o),
    "fragments": lambda ds, **o: pilum.commit(ds.uri, pilum.Append(pilum.fragments.write(NULLS, ds.uri, **o)), **o),
}  # fmt: skip


@pytest.mark.parametrize("by_pylance", [True, False], ids=["pylance", "pilum"])
@pytest.mark.parametrize("call", NEEDS_MORE)
def test_a_write_that_needs_more_is_refused_until_it_says_so(call, by_pylance, tmp_path):
    uri = str(tmp_path / "t")
    if by_pylance:
        lance.write_dataset(PLAIN, uri, data_storage_version="legacy")
    else:
        pilum.write_dataset(PLAIN, uri, compat="lance")
    ds = pilum.dataset(uri)
    for options in ({}, {"compat": "lance"}):
        with pytest.raises(REFUSED) as refusal:
            NEEDS_MORE[call](ds, **options)
        message = str(refusal.value)
        assert 'compat="lossless"' in message, message
        assert "pylance can then no longer read the table" in message, message
        assert "column `" in message, message
        if call not in {"a type", "alter_columns"}:
            assert "row 1" in message, message
        assert lance.dataset(uri).version == ds.version == pilum.dataset(uri).version
        assert_same(lance.dataset(uri).to_table(), PLAIN)
    NEEDS_MORE[call](ds, compat="lossless")
    ds = pilum.dataset(uri)
    assert (ds.compat, ds.write_compat) == ("lossless", "lossless")
    with pytest.raises(Exception, match="cannot be read by this version"):
        lance.dataset(uri)
    # From now on nothing need be said.
    ds.append(ds.to_table())
    assert pilum.dataset(uri).verify().ok


def test_the_compat_of_a_table_is_recorded_and_kept(tmp_path):
    uri = str(tmp_path / "t")
    ds = pilum.write_dataset(PLAIN, uri)
    # A table without such values stays an ordinary one, and takes them.
    assert (ds.compat, ds.write_compat, ds.config) == ("lance", "lossless", {})
    assert lance.dataset(uri).to_table() == PLAIN
    ds = ds.append(NULLS)
    assert ds.compat == "lossless"
    ds = ds.delete("k IS NULL").compact().dataset
    assert (ds.compat, ds.write_compat) == ("lance", "lossless")
    assert lance.dataset(uri).count_rows() == 3
    # Another writer leaves the record where it is.
    lance.write_dataset(PLAIN, uri, mode="append")
    lance.dataset(uri).update_config({"theirs": "1"})
    ds = pilum.dataset(uri)
    assert (ds.write_compat, ds.config) == ("lossless", {"theirs": "1"})
    # An overwrite keeps it too, unless it is told otherwise.
    assert ds.overwrite(PLAIN).write_compat == "lossless"
    ds = ds.overwrite(PLAIN, compat="lance")
    assert ds.write_compat == "lance"
    with pytest.raises(pilum.InvalidInputError, match="column `k`"):
        ds.append(NULLS)
    assert ds.overwrite(PLAIN).write_compat == "lance"
    for edit in ({"pilum.compat": "lossless"}, {"pilum.compat": None}):
        with pytest.raises(pilum.InvalidInputError, match="set by writes"):
            ds.update_config(edit)
    assert pilum.dataset(uri).update_config({"a": "1"}, replace=True).write_compat == "lance"


def test_a_restore_does_not_bring_back_what_the_table_must_not_hold(tmp_path):
    uri = str(tmp_path / "t")
    pilum.write_dataset(PLAIN, uri).append(NULLS).overwrite(PLAIN, compat="lance")
    ds = pilum.dataset(uri)
    with pytest.raises(pilum.InvalidInputError, match=r"column `k`.*row 1"):
        ds.restore(2)
    assert lance.dataset(uri).version == 3
    assert ds.restore(1).write_compat == "lance"
    ds = pilum.dataset(uri).restore(2, compat="lossless")
    assert (ds.compat, ds.write_compat) == ("lossless", "lossless")
    assert ds.to_table() == pa.concat_tables([PLAIN, NULLS])


def test_pieces_do_not_enter_a_table_whose_compat_changed_meanwhile(tmp_path):
    uri = str(tmp_path / "t")
    ds = pilum.write_dataset(PLAIN, uri)
    pieces = pilum.fragments.write(NULLS, uri)
    ds.overwrite(PLAIN, compat="lance")
    for read_version in (None, 1):
        with pytest.raises((pilum.InvalidInputError, pilum.ConflictError)):
            pilum.commit(uri, pilum.Append(pieces), read_version=read_version)
    with pytest.raises(pilum.InvalidInputError, match=r"column `k`.*row 1"):
        pilum.commit(uri, pilum.Overwrite(pieces))
    assert_same(lance.dataset(uri).to_table(), PLAIN)


def polars_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "k": [1, 2, 3],
            "s": ["a", "bé", "a text of more than twelve bytes"],
            "y": [b"x", b"\xff", b"\x00" * 20],
            "l": [[1, 2], [], [3]],
            "ls": [["a"], ["b", "c" * 20], []],
            "p": [{"a": 1, "s": "u"}, {"a": 2, "s": "v"}, {"a": 3, "s": "w"}],
            "lp": [[{"s": "u"}], [], [{"s": "v"}, {"s": "w" * 30}]],
            "lls": [[["a"], []], [], [["b" * 14]]],
            "c": pl.Series(["a", "b", "a"], dtype=pl.Categorical),
            "e": pl.Series(["a", "b", "a"], dtype=pl.Enum(["b", "a"])),
            "lc": pl.Series([["a"], ["b"], []], dtype=pl.List(pl.Categorical)),
            "v": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int16, 2)),
            "m": pl.Series(["1.25", "2.5", "3"], dtype=pl.String).str.to_decimal(scale=2),
            "t": pl.Series([1, 2, 3], dtype=pl.Time),
            "d": pl.Series([1, 2, 3], dtype=pl.Datetime("us", "Europe/Berlin")),
            "f": [1.5, float("inf"), -0.0],
            "z": [True, False, True],
        }
    )


def duckdb_frame() -> pa.Table:
    return duckdb.sql(
        """SELECT i AS k, 'text ' || i AS s, [i, i + 1] AS l, ['a' || i, 'b'] AS ls, {'a': i, 'b': 'y'} AS p,
        [{'a': i, 'l': ['x', 'y']}] AS lp, [[i], []] AS ll, array_value(i, i) AS v, blob 'ab' AS y,
        (CASE i WHEN 1 THEN 'a' ELSE 'b' END)::enum('a', 'b') AS e, i::hugeint AS h, (i / 4)::decimal(7, 2) AS m,
        time '01:02:03' AS t, timestamptz '2020-01-01 00:00:00+00' AS z, uuid() AS u, i > 1 AS b
        FROM range(1, 5) r(i)"""
    ).to_arrow_table()


def spark_types() -> pa.Table:
    """Return what `pilum.spark.write` hands over: lists with items "element", some of them never null."""
    solid = pa.list_(pa.field("element", pa.int32(), nullable=False))
    loose = pa.list_(pa.field("element", pa.struct([pa.field("a", pa.list_(pa.field("element", pa.string(), False)))])))
    return pa.table(
        {
            "k": pa.array([1, 2], pa.int64()),
            "l": pa.array([[1], []], solid),
            "s": pa.array([[{"a": ["x", "y"]}], [{"a": []}]], loose),
            "n": pa.array([[[1, 2], []], []], pa.list_(pa.field("element", solid, False, metadata={"a": "1"}))),
            "q": pa.array(
                [[[1, 2]], []], pa.list_(pa.field("element", pa.list_(pa.field("x", pa.int8(), False), 2), False))
            ),
        }
    )


FRAMES = {"polars": polars_frame, "duckdb": duckdb_frame, "spark": spark_types}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_without_nulls_are_ordinary_tables(name, tmp_path):
    uri = str(tmp_path / "t")
    frame = FRAMES[name]()
    want = pa.table(frame)
    ds = pilum.write_dataset(frame, uri)
    assert (ds.compat, ds.write_compat) == ("lance", "lossless")
    assert ds.schema.equals(want.schema, check_metadata=True)
    assert_same(ds.to_table(), want)
    check_readers(uri, want)
    # Both write on, and both see all of it.
    pilum.dataset(uri).append(frame)
    lance.write_dataset(lance.dataset(uri).to_table(limit=len(want)), uri, mode="append")
    ds = pilum.dataset(uri)
    thrice = pa.concat_tables([want, want, want])
    assert ds.schema.equals(want.schema, check_metadata=True)
    assert_same(ds.to_table(), thrice)
    check_readers(uri, thrice)
    ds = ds.update({"k": "k + 100"}, where="k = 2").compact(max_deleted_fraction=0.0).dataset
    assert ds.compat == "lance"
    lance.dataset(uri).optimize.compact_files()
    ds = pilum.dataset(uri)
    assert_same(
        ds.to_table(filter="k = 102").drop_columns(["k"]),
        picked(thrice, [row for row, key in enumerate(thrice["k"].to_pylist()) if key == 2]).drop_columns(["k"]),
    )
    assert ds.verify().ok
    # In a fresh handle of a copy, as another process would see it.
    shutil.copytree(uri, tmp_path / "copy")
    assert pilum.dataset(tmp_path / "copy").schema.equals(want.schema, check_metadata=True)


def check_readers(uri: str, want: pa.Table) -> None:
    """Compare what pylance reads, value by value: it has other names for items, and strings for views."""
    theirs = lance.dataset(uri)
    assert theirs.to_table().to_pylist() == want.to_pylist()
    assert theirs.take([len(want) - 1, 0]).to_pylist() == [want.to_pylist()[-1], want.to_pylist()[0]]
    assert theirs.to_table(filter="k = 1").to_pylist() == [row for row in want.to_pylist() if row["k"] == 1]
    if "s" in want.column_names and not pa.types.is_nested(want["s"].type):
        text = want["s"][1].as_py()
        expected = [row for row in want.to_pylist() if row["s"] == text]
        assert theirs.to_table(filter=f"s = '{text}'").to_pylist() == expected
        assert pilum.dataset(uri).to_table(filter=f"s = '{text}'").to_pylist() == expected


def test_what_another_writer_makes_of_a_declared_column_is_read_as_it_is(tmp_path):
    uri = str(tmp_path / "t")
    views = pa.table({"k": pa.array([1, 2], pa.int64()), "s": pa.array(["a", "b"], pa.string_view())})
    pilum.write_dataset(views, uri)
    lance.dataset(uri).alter_columns({"path": "s", "data_type": pa.large_string()})
    ds = pilum.dataset(uri)
    assert ds.schema.field("s").equals(pa.field("s", pa.large_string()), check_metadata=True)
    assert ds.to_table()["s"].to_pylist() == ["a", "b"]
    # Rows that pylance read from a declared column bring its metadata: it is none of a new table.
    pilum.write_dataset(views, tmp_path / "u")
    copied = pilum.write_dataset(lance.dataset(str(tmp_path / "u")).to_table(), tmp_path / "v")
    assert copied.schema.equals(pa.schema([("k", pa.int64()), ("s", pa.string())]), check_metadata=True)


def test_items_that_are_never_null_keep_their_empty_texts(tmp_path):
    items = pa.list_(pa.field("element", pa.string(), nullable=False))
    table = pa.table({"l": pa.array([["", "a"], [], [""]], items)})
    with pytest.raises(pilum.InvalidInputError, match=r"column `l.element`"):
        pilum.write_dataset(table, tmp_path / "t", compat="lance")
    ds = pilum.write_dataset(table, tmp_path / "t")
    assert ds.compat == "lossless"
    assert_same(ds.to_table(), table)


def test_items_are_renamed_and_declared_anew(tmp_path):
    uri = str(tmp_path / "t")
    ds = pilum.write_dataset(spark_types(), uri)
    ds = ds.alter_columns({"l.element": {"name": "x", "nullable": True}, "n": {"name": "m"}})
    assert ds.schema.field("l").type == pa.list_(pa.field("x", pa.int32()))
    assert ds.schema.field("m").type == spark_types().schema.field("n").type
    assert lance.dataset(uri).to_table()["l"].to_pylist() == [[1], []]
    ds = ds.update_field_metadata("l", {"a": "b"}, replace=True)
    assert ds.schema.field("l").equals(field("l", pa.list_(pa.field("x", pa.int32())), a="b"), check_metadata=True)
    for key in ("pilum:type", "pilum:item:1:name"):
        with pytest.raises(pilum.InvalidInputError, match="part of the type"):
            ds.update_field_metadata("l", {key: "int8"})
