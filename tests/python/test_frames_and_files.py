"""Frames of pandas, datasets of files and iterators of dicts: nothing that they hold is left out or changed in silence."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import pilum
from pilum.dict_rows import BATCH_ROWS


def files(folder: Path, *tables: pa.Table) -> pads.Dataset:
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
    return pads.dataset(folder)


def test_columns_that_only_later_files_have_are_refused_by_name(tmp_path: Path) -> None:
    data = files(tmp_path / "files", pa.table({"a": [1]}), pa.table({"a": [2], "b": ["x"], "c": [1]}))
    with pytest.raises(pilum.InvalidInputError, match=r"1\.parquet.*'b', 'c'.*unify_schemas"):
        pilum.write_dataset(data, tmp_path / "t")
    assert not (tmp_path / "t").exists() or not list((tmp_path / "t").rglob("*.manifest"))
    # The two ways out that the message names.
    wide = pads.dataset(
        tmp_path / "files", schema=pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())])
    )
    rows = pilum.write_dataset(wide, tmp_path / "wide").to_table().to_pylist()
    assert rows == [{"a": 1, "b": None, "c": None}, {"a": 2, "b": "x", "c": 1}]
    assert pilum.write_dataset(data.scanner(), tmp_path / "cut").to_table().to_pylist() == [{"a": 1}, {"a": 2}]


def test_files_of_other_types_are_converted_exactly_or_refused_with_both(tmp_path: Path) -> None:
    data = files(tmp_path / "fits", pa.table({"a": [1]}), pa.table({"a": pa.array([2], pa.int8())}))
    assert pilum.write_dataset(data, tmp_path / "t1").to_table().column("a").to_pylist() == [1, 2]
    data = files(tmp_path / "clash", pa.table({"a": [1]}), pa.table({"a": ["x"]}))
    with pytest.raises(pilum.InvalidInputError) as refusal:
        pilum.write_dataset(data, tmp_path / "t2")
    for word in ("'a'", "string", "int64", "0.parquet", "1.parquet", "schema="):
        assert word in str(refusal.value)
    data = files(tmp_path / "narrow", pa.table({"a": pa.array([1], pa.int8())}), pa.table({"a": [3, 300]}))
    with pytest.raises(pilum.InvalidInputError, match="300"):
        pilum.write_dataset(data, tmp_path / "t3")
    data = files(tmp_path / "floats", pa.table({"a": pa.array([1], pa.float32())}), pa.table({"a": [0.1]}))
    with pytest.raises(pilum.InvalidInputError, match="float"):
        pilum.write_dataset(data, tmp_path / "t4")


def test_keys_of_folders_stay_columns_of_a_dataset(tmp_path: Path) -> None:
    pads.write_dataset(
        pa.table({"a": [1, 2], "k": ["x", "y"]}), tmp_path / "f", format="parquet",
        partitioning=pads.partitioning(pa.schema([("k", pa.string())]), flavor="hive"),
    )  # fmt: skip
    data = pads.dataset(tmp_path / "f", partitioning="hive")
    rows = pilum.write_dataset(data, tmp_path / "t").to_table().to_pylist()
    assert sorted(rows, key=lambda row: row["a"]) == [{"a": 1, "k": "x"}, {"a": 2, "k": "y"}]


@pytest.mark.parametrize("index", [None, True, False])
def test_pandas_columns_of_one_name_are_refused_by_name(tmp_path: Path, index: bool | None) -> None:
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["a", "b", "a", "b"]).rename_axis("i")
    with pytest.raises(pilum.InvalidInputError, match="'a', 'b'"):
        pilum.write_dataset(frame, tmp_path / "t", index=index)
    with pytest.raises(pilum.InvalidInputError, match="'1'"):
        pilum.write_dataset(pd.DataFrame([[1, 2]], columns=[1, "1"]), tmp_path / "t", index=False)


def test_sparse_pandas_columns_are_written_as_their_values(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"a": pd.arrays.SparseArray([0, 0, 7]), "f": pd.arrays.SparseArray([np.nan, 1.5, np.nan]), "p": [1, 2, 3]}
    )
    before = frame.copy()
    for index in (None, False):
        ds = pilum.write_dataset(frame, tmp_path / f"t{index}", index=index)
        assert ds.to_table().to_pydict() == {"a": [0, 0, 7], "f": [None, 1.5, None], "p": [1, 2, 3]}
    pd.testing.assert_frame_equal(frame, before)


def test_a_frame_that_pyarrow_refuses_is_an_error_of_its_input(tmp_path: Path) -> None:
    for index in (None, False):
        with pytest.raises(pilum.InvalidInputError, match="c"):
            pilum.write_dataset(pd.DataFrame({"c": [complex(1, 2)]}), tmp_path / "t", index=index)


def test_the_index_of_a_frame_is_an_option_at_every_door(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pilum")
    ds = pilum.write_dataset(pa.table({"id": [1, 2], "v": ["a", "b"]}), tmp_path / "t")
    frame = pd.DataFrame({"v": ["B", "C"]}, index=pd.Index([2, 3], name="id"))
    merged = ds.merge_insert("id", frame, index=True)
    assert sorted(map(tuple, merged.to_pandas().to_numpy().tolist())) == [(1, "a"), (2, "B"), (3, "C")]
    with pytest.raises(pilum.InvalidInputError, match="id"):
        merged.merge_insert("id", frame, index=False)
    wide = merged.add_columns(pd.DataFrame({"w": [1, 2, 3]}, index=pd.Index([7, 8, 9], name="n")), index=True)
    assert wide.schema.names == ["id", "v", "n", "w"]
    with pytest.raises(pilum.InvalidInputError, match="index"):
        wide.add_columns({"z": "id"}, index=True)
    pieces = pilum.fragments.write(frame, tmp_path / "new", mode="create", index=True)
    assert pilum.commit(tmp_path / "new", pilum.Create(pieces)).schema.names == ["id", "v"]
    assert not caplog.records
    for call in (
        lambda: merged.merge_insert("id", pa.table({"id": [1]}), index=True),
        lambda: merged.add_columns(pa.table({"id": [1]}), index=True),
        lambda: pilum.fragments.write(pa.table({"id": [1]}), tmp_path / "new", index=True),
        lambda: merged.merge_insert("id", frame, index="yes"),
    ):
        with pytest.raises(pilum.InvalidInputError, match="index"):
            call()


def test_an_iterator_of_dicts_is_pulled_in_bounded_batches(tmp_path: Path) -> None:
    pulled = []

    def rows(count: int) -> object:
        for number in range(count):
            pulled.append(number)
            yield {"n": number, "text": f"row {number}" if number % 2 else None}

    ds = pilum.write_dataset(rows(2 * BATCH_ROWS + 5), tmp_path / "t", durability="none")
    assert ds.count_rows() == 2 * BATCH_ROWS + 5
    assert ds.take([2 * BATCH_ROWS + 1]).to_pylist() == [{"n": 2 * BATCH_ROWS + 1, "text": f"row {2 * BATCH_ROWS + 1}"}]
    schema = pa.schema([("n", pa.int16()), ("text", pa.string()), ("more", pa.date32())])
    ds = pilum.write_dataset(rows(3), tmp_path / "s", schema=schema)
    assert ds.schema == schema
    assert ds.append(iter([{"n": 9}])).to_table().num_rows == 4
    assert ds.merge_insert("n", iter([{"n": 1, "text": "new"}])).updated == 1
    assert pilum.write_dataset(iter([]), tmp_path / "none", schema=schema).count_rows() == 0


def test_later_dicts_must_fit_the_first_ones(tmp_path: Path) -> None:
    def rows(*last: dict[str, object]) -> object:
        for number in range(BATCH_ROWS):
            yield {"n": number, "late": None}
        yield from last

    with pytest.raises(pilum.InvalidInputError, match=r"'z'.*schema="):
        pilum.write_dataset(rows({"n": 1, "z": 2}), tmp_path / "a")
    with pytest.raises(pilum.InvalidInputError, match=f"'n'.*{BATCH_ROWS}"):
        pilum.write_dataset(rows({"n": "text"}), tmp_path / "b")
    with pytest.raises(pilum.InvalidInputError, match=f"row {BATCH_ROWS}"):
        pilum.write_dataset(rows(["no dict"]), tmp_path / "c")
    ds = pilum.write_dataset(rows({"n": 3.0, "late": None}), tmp_path / "d", durability="none")
    assert ds.schema.field("n").type == pa.int64()
    schema = pa.schema([("n", pa.float64()), ("late", pa.string())])
    ds = pilum.write_dataset(rows({"n": 0.5, "late": "x"}), tmp_path / "e", schema=schema, durability="none")
    assert ds.take([BATCH_ROWS]).to_pylist() == [{"n": 0.5, "late": "x"}]


def test_an_error_of_the_iterator_is_raised_as_it_is(tmp_path: Path) -> None:
    def rows() -> object:
        yield {"n": 1}
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        pilum.write_dataset(rows(), tmp_path / "t")
    with pytest.raises(LookupError, match="at once"):
        pilum.write_dataset((_ for _ in _raise()), tmp_path / "t")


def _raise() -> object:
    raise LookupError("at once")


HUGE = 2**70


@pytest.mark.parametrize("value", [HUGE, -1, 1.5, True, np.float64(2), np.int64(-1), "3"])
@pytest.mark.parametrize("name", ["limit", "offset", "batch_rows", "batch_bytes", "memory_limit"])
def test_numbers_out_of_range_are_refused_with_name_and_range(tmp_path: Path, name: str, value: object) -> None:
    ds = pilum.write_dataset(pa.table({"a": [1]}), tmp_path / "t", durability="none")
    with pytest.raises(pilum.InvalidInputError, match=rf"^{name}: .* to 18446744073709551615"):
        ds.to_table(**{name: value})
    with pytest.raises(pilum.InvalidInputError, match="4294967295"):
        ds.delete("a = 1", retries=2**40)
    assert ds.to_table(**{name: np.int64(2**40)}).num_rows <= 1


MERGES = [
    ({"when_not_matched_by_source": "delete if n = 30"}, [1, 2]),
    ({"when_not_matched_by_source": "delete if target.n = 30"}, [1, 2]),
    ({"when_not_matched_by_source": ("delete", pilum.col("target.n") == 30)}, [1, 2]),
    ({"when_not_matched_by_source": "delete if target.n + target.id > 32 AND target.n IS NOT NULL"}, [1, 2]),
]


@pytest.mark.parametrize(("options", "ids"), MERGES)
def test_conditions_of_a_merge_name_the_columns_of_the_table(tmp_path: Path, options: dict, ids: list[int]) -> None:
    ds = pilum.write_dataset(pa.table({"id": [1, 2, 3], "n": [10, 20, 30]}), tmp_path / "t")
    merged = ds.merge_insert("id", pa.table({"id": [1], "n": [10]}), **options)
    assert sorted(merged.to_table().column("id").to_pylist()) == ids


def test_a_bare_name_in_the_condition_of_an_update_is_the_side_that_has_it(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "n": [10, 20], "own": [0, 1]})
    ds = pilum.write_dataset(table, tmp_path / "t")
    source = pa.table({"id": [1, 2], "n": [11, 21]})
    merged = ds.merge_insert("id", source, when_matched="update if own = 1")
    assert sorted(merged.to_table().column("n").to_pylist()) == [10, 21]
    merged = merged.merge_insert("id", source, when_matched="update if source.n > target.n AND own = 0")
    assert sorted(merged.to_table().column("n").to_pylist()) == [11, 21]
    with pytest.raises(pilum.InvalidInputError, match=r"source\.n or target\.n"):
        ds.merge_insert("id", source, when_matched="update if n > 1")
    with pytest.raises(pilum.InvalidInputError, match=r"source\.n.*no row of the source"):
        ds.merge_insert("id", source, when_not_matched_by_source="delete if source.n = 1")


def test_a_column_named_target_keeps_its_meaning(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "n": [5, 6], "target": [{"n": 1}, {"n": 2}]})
    ds = pilum.write_dataset(table, tmp_path / "t")
    merged = ds.merge_insert("id", table.slice(0, 0), when_not_matched_by_source="delete if target.n = 2")
    assert merged.to_table().column("id").to_pylist() == [1]
