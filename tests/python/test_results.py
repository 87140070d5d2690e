"""What calls return: the same words for every statement, and forms that people read."""

from __future__ import annotations

import html
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import pilum

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "x": pa.array([1.5] * 100)})


@pytest.fixture
def ds(tmp_path: Path) -> pilum.Dataset:
    return pilum.write_dataset(ROWS, tmp_path / "t", durability="none").dataset


CALLS = {
    "append": lambda ds, id_: ds.append(ROWS, commit_id=id_),
    "overwrite": lambda ds, id_: ds.overwrite(ROWS, commit_id=id_),
    "delete": lambda ds, id_: ds.delete("id < 10", commit_id=id_),
    "update": lambda ds, id_: ds.update({"x": "2.5"}, "id < 10", commit_id=id_),
    "merge_insert": lambda ds, id_: ds.merge_insert("id", ROWS.slice(0, 10), commit_id=id_),
    "add_columns": lambda ds, id_: ds.add_columns({"y": "x + 1"}, commit_id=id_),
    "drop_columns": lambda ds, id_: ds.drop_columns(["x"], commit_id=id_),
    "alter_columns": lambda ds, id_: ds.alter_columns({"x": {"name": "z"}}, commit_id=id_),
    "update_config": lambda ds, id_: ds.update_config({"a": "b"}, commit_id=id_),
    "restore": lambda ds, id_: ds.restore(commit_id=id_),
    "compact": lambda ds, id_: ds.compact(target_rows=1000, commit_id=id_),
    "commit": lambda ds, id_: pilum.commit(ds.uri, pilum.Append(pilum.fragments.write(ROWS, ds.uri)), commit_id=id_),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_statement_returns_the_version_and_its_counts(ds, call):
    if call == "compact":
        ds = ds.append(ROWS.slice(0, 5)).dataset
    before = ds.latest_version()
    result = CALLS[call](ds, "once")
    assert isinstance(result, pilum.Dataset)
    assert result.version == ds.latest_version() > before
    assert type(result.dataset) is pilum.Dataset
    assert result.dataset == result
    assert result.attempts >= 1
    assert result.rows >= 0
    assert result.bytes >= 0
    assert result.was_committed_before is False
    again = CALLS[call](ds, "once")
    assert again.was_committed_before is True
    assert (again.version, again.attempts) == (result.version, 0)
    assert type(again) is type(result)


def test_a_compaction_counts_fragments_and_can_be_read(ds):
    ds = ds.append(ROWS)
    result = ds.compact()
    assert (result.fragments_removed, result.fragments_added, result.rows) == (2, 1, 200)
    assert result.count_rows() == 200
    assert isinstance(result, pilum.CompactionResult)
    nothing = result.compact()
    assert (nothing.fragments_removed, nothing.rows, nothing.attempts) == (0, 0, 0)
    assert nothing.version == result.version


def test_restore_takes_a_version_or_a_tag(ds):
    ds.tags.create("first")
    newest = ds.append(ROWS).delete("id < 50")
    assert newest.restore(2).count_rows() == 200
    assert newest.restore("first").count_rows() == 100
    assert newest.restore(version=3).count_rows() == 100
    with pytest.raises(pilum.NotFoundError, match="17"):
        newest.restore(17)


def test_history_is_told_in_the_words_of_users(ds):
    ds.append(ROWS)
    ds.merge_insert("id", ROWS.slice(0, 1), when_matched="update", properties={"why": "news"})
    ds.update({"x": "1.0"})
    ds.overwrite(ROWS)
    ds.add_columns({"y": "x"})
    history = ds.versions()
    assert [it.operation for it in history] == ["Create", "Append", "Merge", "Update", "Overwrite", "Backfill"]
    assert history[2].properties == {"why": "news"}
    assert "operation=Create" in repr(history[0])


def test_repr_tells_rows_and_columns(ds):
    assert repr(ds) == f"<pilum.Dataset {ds.uri} version 1: 100 rows, 2 columns (id: int64, x: double)>"
    wide = ds.overwrite(pa.table({f"c{i}": [1] for i in range(50)}))
    assert repr(wide).startswith("<pilum.Written ")
    assert repr(wide).endswith("c19: int64, and 30 more)>")


def test_html_is_escaped(tmp_path):
    name = "<script>alert('x')</script>"
    ds = pilum.write_dataset(pa.table({name: [1]}), tmp_path / "<b>t")
    shown = ds._repr_html_()
    assert "<script>" not in shown
    assert "<b>t" not in shown
    assert html.escape(name) in shown
    assert "1 rows" in shown


def test_repr_of_a_table_that_is_gone_does_not_fail(ds):
    shutil.rmtree(ds.uri)
    assert ds.uri in repr(ds)
    assert "version 1" in ds._repr_html_()


def test_a_scanner_iterates_and_makes_frames(ds):
    scanner = ds.scanner(["id"], "id < 3", batch_rows=2)
    assert [batch.num_rows for batch in scanner] == [2, 1]
    assert [batch.num_rows for batch in scanner] == [2, 1]
    assert scanner.to_pandas()["id"].tolist() == [0, 1, 2]
    assert scanner.to_polars()["id"].to_list() == [0, 1, 2]
    assert ds.to_polars(["id"], "id < 3").equals(scanner.to_polars())
