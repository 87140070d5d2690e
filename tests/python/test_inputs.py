"""Rows in every form that users have them: lazy frames, datasets, lists, dicts, pandas indices, columns of type null."""

from __future__ import annotations

import datetime as dt
import gc
import logging
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import pilum
from support.comparing import assert_same

TABLE = pa.table({"n": pa.array([1, None, 3], pa.int64()), "s": pa.array(["a", "", None])})
FRAME = pl.DataFrame({"n": [1, None, 3], "s": ["a", "", None]})


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t")


def parquet(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=2)
    return tmp_path / "a.parquet"


FORMS = {
    "LazyFrame": lambda tmp_path: FRAME.lazy(),
    "scan_parquet": lambda tmp_path: pl.scan_parquet(parquet(tmp_path)).filter(pl.lit(True)),
    "dataset of files": lambda tmp_path: pads.dataset(parquet(tmp_path)),
    "dataset in memory": lambda tmp_path: pads.dataset(TABLE),
    "dataset with a filter": lambda tmp_path: pads.dataset(pa.concat_tables([TABLE, TABLE.slice(0, 1)])).filter(
        pads.field("s").is_null() | (pads.field("s") == "") | (pads.field("n") > 0)
    ),
    "scanner": lambda tmp_path: pads.dataset(parquet(tmp_path)).scanner(),
    "Lance": lambda tmp_path: lance.write_dataset(TABLE, str(tmp_path / "lance")),
    "pilum": lambda tmp_path: pilum.write_dataset(TABLE, str(tmp_path / "other")),
    "to_pyarrow": lambda tmp_path: pilum.write_dataset(TABLE, str(tmp_path / "other")).to_pyarrow(),
    "lazy": lambda tmp_path: pilum.write_dataset(TABLE, str(tmp_path / "other")).lazy(),
    "list of tables": lambda tmp_path: [TABLE.slice(0, 1), TABLE.slice(0, 0), TABLE.slice(1)],
    "list of batches and frames": lambda tmp_path: [TABLE.to_batches()[0].slice(0, 2), TABLE.slice(2)],
    "list of readers": lambda tmp_path: [TABLE.slice(0, 1).to_reader(), TABLE.slice(1).to_reader()],
    "tuple of Polars frames": lambda tmp_path: (FRAME[:2], FRAME[2:]),
    "dicts": lambda tmp_path: TABLE.to_pylist(),
    "dicts without all keys": lambda tmp_path: [{"n": 1, "s": "a"}, {"s": ""}, {"n": 3}],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_rows_is_written(form, uri, tmp_path):
    data = FORMS[form](tmp_path)
    written = pilum.write_dataset(data, uri)
    want = TABLE.slice(0, 3) if form != "dataset with a filter" else pa.concat_tables([TABLE, TABLE.slice(0, 1)])
    assert written.to_table().to_pylist() == want.to_pylist()
    again = (
        FORMS[form](tmp_path)
        if "other" not in str(form) and form not in {"Lance", "pilum", "to_pyarrow", "lazy"}
        else want
    )
    assert pilum.dataset(uri).append(again).count_rows() == 2 * want.num_rows


@pytest.mark.parametrize("form", ["LazyFrame", "dataset of files", "list of tables", "dicts"])
def test_every_form_is_a_source_of_merges_and_columns(form, uri, tmp_path):
    ds = pilum.write_dataset(TABLE.rename_columns(["n", "old"]), uri)
    merged = ds.add_columns(pa.table({"s": ["x", "y", "z"]})).merge_insert("n", FORMS[form](tmp_path))
    assert (merged.updated, merged.inserted) == (2, 1)
    pieces = pilum.fragments.write(FORMS[form](tmp_path), uri + "-pieces", mode="create")
    assert pilum.commit(uri + "-pieces", pilum.Create(pieces)).to_table().to_pylist() == TABLE.to_pylist()


def test_a_schema_applies_to_every_form(uri, tmp_path):
    wanted = pa.schema([("n", pa.int32()), ("s", pa.large_string())])
    for number, form in enumerate(FORMS):
        if form != "dataset with a filter":
            (tmp_path / str(number)).mkdir()
            data = FORMS[form](tmp_path / str(number))
            assert_same(pilum.write_dataset(data, f"{uri}{number}", schema=wanted).to_table(), TABLE.cast(wanted))


def test_forms_without_rows_have_columns(uri, tmp_path):
    for number, data in enumerate(
        [FRAME.lazy().filter(pl.lit(False)), pads.dataset(TABLE.slice(0, 0)), [TABLE.slice(0, 0)]]
    ):
        ds = pilum.write_dataset(data, f"{uri}{number}")
        assert (ds.schema.names, ds.count_rows()) == (["n", "s"], 0)
    with pytest.raises(pilum.InvalidInputError, match="no columns"):
        pilum.write_dataset([], uri)


def test_partitions_of_a_dataset_are_columns(uri, tmp_path):
    pads.write_dataset(TABLE, tmp_path / "parts", format="parquet", partitioning=["s"], partitioning_flavor="hive")
    data = pads.dataset(tmp_path / "parts", partitioning="hive")
    rows = pilum.write_dataset(data, uri).to_table().to_pylist()
    assert sorted(rows, key=str) == sorted(data.to_table().to_pylist(), key=str)


def test_an_error_of_a_lazy_frame_is_raised_with_its_class_and_nothing_is_written(uri):
    class BrokenError(Exception):
        pass

    def broken(batch):
        raise BrokenError("the query broke")

    with pytest.raises(pl.exceptions.PolarsError):
        pilum.write_dataset(FRAME.lazy().select(pl.col("s").cast(pl.Int64)), uri)
    with pytest.raises((BrokenError, pl.exceptions.PolarsError), match="the query broke"):
        pilum.write_dataset(FRAME.lazy().map_batches(broken, schema=FRAME.schema), uri)
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        pilum.write_dataset(FRAME.lazy().select("no such column"), uri)
    with pytest.raises(pilum.NotFoundError):
        pilum.dataset(uri)


PEAK = """
import sys, polars as pl, pyarrow as pa, pyarrow.dataset as pads, pilum

def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10

form, path, uri = sys.argv[1:]
pilum.write_dataset(pl.LazyFrame({"a": [1]}), uri + "-small")
data = pl.scan_parquet(path) if form == "polars" else pads.dataset(path)
before = peak()
written = pilum.write_dataset(data, uri, durability="none")
print(written.rows, peak() - before)
"""


@pytest.mark.parametrize("form", ["polars", "pyarrow"])
def test_large_sources_are_never_in_memory_as_a_whole(form, tmp_path):
    values = np.random.default_rng(1).integers(0, 1 << 60, 500_000)
    rows = pa.table(dict.fromkeys("abcdefgh", values))
    with pq.ParquetWriter(tmp_path / "big.parquet", rows.schema, use_dictionary=False) as writer:
        for _ in range(12):
            writer.write_table(rows, row_group_size=100_000)
    del rows
    gc.collect()
    words = [sys.executable, "-c", PEAK, form, str(tmp_path / "big.parquet"), str(tmp_path / "t")]
    ran = subprocess.run(words, check=True, capture_output=True, text=True)
    written, grown = map(int, ran.stdout.split())
    assert written == 6_000_000
    # 384 MB of values.
    assert grown < 250 << 20, f"{grown >> 20} MiB"


# -- Dicts ----------------------------------------------------------------------------------------------------------------


def test_dicts_keep_their_values_with_the_types_of_pyarrow(uri):
    rows = [
        {"i": 1, "f": 0.5, "d": Decimal("1.10"), "t": dt.datetime(2026, 1, 1, 12), "day": dt.date(2026, 1, 1)},
        {"b": b"\xff", "l": [1, None], "s": {"x": 1}, "i": None},
        {"s": {"y": "z"}, "l": [], "f": float("nan"), "flag": True},
    ]
    ds = pilum.write_dataset(rows, uri)
    assert ds.schema.names == ["i", "f", "d", "t", "day", "b", "l", "s", "flag"]
    got = ds.to_table()
    for name in got.column_names:
        wanted = pa.array([row.get(name) for row in rows])
        assert got[name].type == wanted.type
        assert str(got[name].to_pylist()) == str(wanted.to_pylist())


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"a": 1}, {"a": 2}, {"a": "three"}], ["'a'", "row 2", "'three'"]),
        ([{"a": 1}, 2], ["row 1", "int"]),
        ([{"a": 1}, {7: 2}], ["row 1", "7"]),
        ([{"a": object()}], ["'a'", "row 0"]),
    ],
)
def test_dicts_that_are_no_table_are_refused_with_key_and_row(rows, words, uri):
    with pytest.raises(pilum.InvalidInputError) as refusal:
        pilum.write_dataset(rows, uri)
    for word in words:
        assert word in str(refusal.value)


def test_a_schema_gives_dicts_a_type_where_none_can_be_inferred(uri):
    rows = [{"n": 2**64 - 1}, {"n": 1}]
    schema = pa.schema([("n", pa.uint64())])
    assert pilum.write_dataset(rows, uri, schema=schema).to_table().to_pylist() == rows
    with pytest.raises(pilum.InvalidInputError):
        pilum.write_dataset([{"n": 1.5}, {"n": 2}], uri + "2", schema=pa.schema([("n", pa.int64())]))


# -- Type null ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.table({"n": pa.nulls(2), "a": [1, 2]}),
        lambda: pl.DataFrame({"n": [None, None], "a": [1, 2]}),
        lambda: pl.LazyFrame({"n": [None, None], "a": [1, 2]}),
        lambda: pd.DataFrame({"n": [None, None], "a": [1, 2]}),
        lambda: [{"n": None, "a": 1}, {"a": 2}],
    ],
    ids=["pyarrow", "Polars", "LazyFrame", "pandas", "dicts"],
)
def test_a_column_of_type_null_is_written(make, uri):
    ds = pilum.write_dataset(make(), uri)
    assert ds.schema.field("n").type == pa.null()
    assert ds.to_table().to_pylist() == [{"n": None, "a": 1}, {"n": None, "a": 2}]
    assert pilum.dataset(uri).verify().ok


def test_lists_and_structs_of_type_null_are_written(uri):
    frame = pl.DataFrame({"l": [[None], [], None], "s": [{"x": None}, {"x": None}, None], "a": [1, 2, 3]})
    assert pilum.write_dataset(frame, uri).to_table().to_pylist() == frame.to_dicts()


# -- The index of pandas ----------------------------------------------------------------------------------------------------


def frame(name=None):
    return pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index([5, 7, 6], name=name))


@pytest.mark.parametrize("index", [None, False])
def test_an_index_is_no_column_unless_asked_for(index, uri, caplog):
    with caplog.at_level(logging.WARNING, "pilum"):
        ds = pilum.write_dataset(frame(), uri, index=index)
        ds = ds.append(frame("k"), index=index)
    assert ds.to_table().to_pydict() == {"a": [1, 2, 3] * 2}
    assert ds.to_pandas().index.tolist() == list(range(6))
    # An index with a name may hold values that the user needs: leaving it out is told, unless the user said so.
    assert [record.getMessage()[:9] for record in caplog.records] == (["the index"] if index is None else [])


def test_no_door_makes_a_column_of_an_index_without_a_name(uri):
    ds = pilum.write_dataset(pd.DataFrame({"a": [1, 2, 3], "b": 0}), uri)
    ds.merge_insert("a", frame().assign(b=1))
    ds = pilum.dataset(uri).add_columns(frame().rename(columns={"a": "c"}))
    assert ds.schema.names == ["a", "b", "c"]


def test_an_index_is_kept_as_columns_of_its_names(uri):
    ds = pilum.write_dataset(frame("k"), uri, index=True)
    assert ds.to_table().to_pydict() == {"k": [5, 7, 6], "a": [1, 2, 3]}
    both = pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([("x", 1)], names=["p", "q"]))
    assert pilum.write_dataset(both, uri + "2", index=True).to_table().to_pylist() == [{"p": "x", "q": 1, "a": 1}]


@pytest.mark.parametrize(
    ("data", "words"),
    [(frame(), "rename_axis"), (frame("a"), "'a'"), (TABLE, "pandas"), (pd.DataFrame({"a": [1]}), "rename_axis")],
)
def test_an_index_that_cannot_be_columns_is_refused(data, words, uri):
    with pytest.raises(pilum.InvalidInputError, match=words):
        pilum.write_dataset(data, uri, index=True)


# -- Streams of ours behind readers of others -----------------------------------------------------------------------------


def test_a_stream_of_ours_may_come_back_through_another_reader(uri):
    """pyarrow releases the GIL while it pulls. That ended the process: the engine believed that the GIL was held."""
    ds = pilum.write_dataset(TABLE, uri)
    reader = pa.RecordBatchReader.from_stream(ds)
    assert_same(pilum.write_dataset(reader, uri + "-2").to_table(), TABLE)
    wanted = pa.schema([("n", pa.int32()), ("s", pa.large_string())])
    assert_same(pilum.write_dataset(ds, uri + "-3", schema=wanted).to_table(), TABLE.cast(wanted))
    given_up = pa.RecordBatchReader.from_stream(ds)
    del given_up


def test_functions_that_the_engine_calls_may_read_tables(uri):
    other = pilum.write_dataset(TABLE, uri + "-other")

    def lookup(batch):
        found = pa.RecordBatchReader.from_stream(other).read_all()
        return pa.record_batch({"s": found["s"].combine_chunks().take(batch["n"])})

    ds = pilum.write_dataset(pa.table({"n": [2, 0, 1]}), uri).add_columns(lookup)
    assert ds.to_table()["s"].to_pylist() == [None, "a", ""]
    seen = []
    ds.append(ds.to_table(), progress=lambda done, total: seen.append(pa.table(other).num_rows))
    assert set(seen) == {3}


NOON = dt.datetime(2026, 1, 1, 12)
EAST = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    "values",
    [
        [dt.date(2026, 1, 1), NOON],
        [NOON, dt.date(2026, 1, 1)],
        [NOON, NOON.replace(tzinfo=EAST)],
        [NOON.replace(tzinfo=EAST), NOON],
        [dt.time(23, tzinfo=EAST)],
        [1.5, True],
        ["a", b"b"],
        [[dt.date(2026, 1, 1)], [NOON]],
        [{"x": dt.date(2026, 1, 1)}, {"x": NOON}],
        [[pd.Timestamp("2026-01-01 00:00:00.000000001")]],
    ],
    ids=repr,
)
def test_values_that_pyarrow_would_change_in_silence_are_refused(values: list[object]) -> None:
    with pytest.raises(pilum.InvalidInputError, match="column 'c"):
        pilum.write_dataset([{"c": value} for value in values], "memory://inputs/mixed", mode="overwrite")
    frame = pd.DataFrame({"c": pd.Series(values, dtype=object)})
    with pytest.raises(pilum.InvalidInputError, match="column 'c"):
        pilum.write_dataset(frame, "memory://inputs/mixed", mode="overwrite")


def test_nanoseconds_of_pandas_are_kept() -> None:
    stamp, span = pd.Timestamp("2026-01-01 00:00:00.000000001"), pd.Timedelta(1, "ns")
    ds = pilum.write_dataset([{"c": stamp, "d": span}, {"c": None, "d": None}], "memory://inputs/ns", mode="overwrite")
    table = ds.to_table()
    assert table["c"].cast(pa.int64()).to_pylist() == [stamp.value, None]
    assert table["d"].cast(pa.int64()).to_pylist() == [1, None]


def test_rows_without_any_key_are_refused() -> None:
    with pytest.raises(pilum.InvalidInputError, match="none of the 2 rows has a key"):
        pilum.write_dataset([{}, {}], "memory://inputs/keys", mode="overwrite")


def test_objects_of_polars_are_refused() -> None:
    frame = pl.DataFrame({"c": pl.Series([object()], dtype=pl.Object)})
    for rows in (frame, frame.lazy()):
        with pytest.raises(pilum.InvalidInputError, match="column 'c' is of type Object"):
            pilum.write_dataset(rows, "memory://inputs/objects", mode="overwrite")


@pytest.mark.parametrize(
    "door", ["write_dataset", "append", "overwrite", "merge_insert", "add_columns", "fragments.write"]
)
def test_files_that_lack_a_column_are_refused_where_nothing_may_be_missing(door: str, tmp_path: Path) -> None:
    (tmp_path / "in" / "part=1").mkdir(parents=True)
    pq.write_table(pa.table({"k": [1, 2], "x": ["a", "b"]}), tmp_path / "in" / "part=1" / "1.parquet")
    pq.write_table(pa.table({"k": [3]}), tmp_path / "in" / "part=1" / "2.parquet")
    files = pads.dataset(tmp_path / "in", partitioning="hive")
    assert files.schema.names == ["k", "x", "part"]
    uri = f"memory://lacking/{door}"
    ds = pilum.write_dataset(
        pa.table({"k": [9, 9, 9], "x": ["z"] * 3, "part": pa.array([1] * 3, pa.int32())}), uri
    ).dataset
    calls = {
        "write_dataset": lambda rows, missing: pilum.write_dataset(rows, uri, mode="overwrite", missing=missing),
        "append": lambda rows, missing: ds.append(rows, missing=missing),
        "overwrite": lambda rows, missing: ds.overwrite(rows, missing=missing),
        "merge_insert": lambda rows, missing: ds.merge_insert("k", rows, missing=missing),
        "add_columns": lambda rows, missing: pilum.write_dataset(
            pa.table({"id": [1, 2, 3]}), uri, mode="overwrite"
        ).add_columns(rows, missing=missing),
        "fragments.write": lambda rows, missing: pilum.fragments.write(rows, uri, missing=missing),
    }
    with pytest.raises(pilum.InvalidInputError, match=r"2\.parquet: the file lacks the columns 'x'"):
        calls[door](files, "error")
    calls[door](files, "null")
    # The key of a partition is in the path of every file.
    (tmp_path / "in" / "part=1" / "2.parquet").unlink()
    pq.write_table(pa.table({"k": [3], "x": ["c"]}), tmp_path / "in" / "part=1" / "3.parquet")
    calls[door](pads.dataset(tmp_path / "in", partitioning="hive"), "error")


def test_files_that_lack_a_member_of_a_struct_are_refused_where_nothing_may_be_missing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": [{"a": 1, "b": 2}]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"s": [{"a": 3}]}), tmp_path / "2.parquet")
    files = pads.dataset([tmp_path / "1.parquet", tmp_path / "2.parquet"])
    with pytest.raises(pilum.InvalidInputError, match=r"2\.parquet.*`s\.b`"):
        pilum.write_dataset(files, "memory://lacking-member", missing="error")
    ds = pilum.write_dataset(files, "memory://lacking-member").dataset
    assert ds.to_table()["s"].to_pylist() == [{"a": 1, "b": 2}, {"a": 3, "b": None}]
