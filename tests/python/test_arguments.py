"""Arguments that no call has, and values that no argument can have, are refused by name at every door."""

from __future__ import annotations

import datetime as dt
import inspect
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

import pilum
from pilum.cli.commands import pilum as command

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "x": ["a"] * 10})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    pilum.write_dataset(ROWS, tmp_path / "t", durability="none")
    return str(tmp_path / "t")


@pytest.fixture
def ds(uri: str) -> pilum.Dataset:
    return pilum.dataset(uri)


MISSPELT = {
    "dataset": (lambda ds: pilum.dataset(ds.uri, verson=1), "verson", "version"),
    "write_dataset": (lambda ds: pilum.write_dataset(ROWS, ds.uri, comit_id="a"), "comit_id", "commit_id"),
    "append": (lambda ds: ds.append(ROWS, comit_id="a"), "comit_id", "commit_id"),
    "overwrite": (lambda ds: ds.overwrite(ROWS, propertys={}), "propertys", "properties"),
    "scanner": (lambda ds: ds.scanner(limt=1), "limt", "limit"),
    "to_table": (lambda ds: ds.to_table(colums=["id"]), "colums", "columns"),
    "to_batches": (lambda ds: ds.to_batches(batch_row=1), "batch_row", "batch_rows"),
    "to_reader": (lambda ds: ds.to_reader(filtr="id > 1"), "filtr", "filter"),
    "to_pandas": (lambda ds: ds.to_pandas(orderd=False), "orderd", "ordered"),
    "to_polars": (lambda ds: ds.to_polars(ofset=1), "ofset", "offset"),
    "head": (lambda ds: ds.head(rows=1), "rows", None),
    "count_rows": (lambda ds: ds.count_rows(filtr="id > 1"), "filtr", "filter"),
    "take": (lambda ds: ds.take([1], column=["id"]), "column", "columns"),
    "take_rows": (lambda ds: ds.take_rows([1], colums=["id"]), "colums", "columns"),
    "delete": (lambda ds: ds.delete("id = 1", comit_id="a"), "comit_id", "commit_id"),
    "update": (lambda ds: ds.update({"id": "1"}, were="id = 1"), "were", "where"),
    "merge_insert": (lambda ds: ds.merge_insert("id", ROWS, when_match="keep"), "when_match", "when_matched"),
    "add_columns": (lambda ds: ds.add_columns({"y": "id"}, retry=1), "retry", "retries"),
    "drop_columns": (lambda ds: ds.drop_columns(["x"], durabilty="none"), "durabilty", "durability"),
    "alter_columns": (lambda ds: ds.alter_columns({"x": {"name": "y"}}, comit_id="a"), "comit_id", "commit_id"),
    "update_config": (lambda ds: ds.update_config({"a": "b"}, replce=True), "replce", "replace"),
    "compact": (lambda ds: ds.compact(target_row=1), "target_row", "target_rows"),
    "cleanup": (lambda ds: ds.cleanup(older=dt.timedelta(1)), "older", "older_than"),
    "verify": (lambda ds: ds.verify(progres=True), "progres", "progress"),
    "restore": (lambda ds: ds.restore(comit_id="a"), "comit_id", "commit_id"),
    "tags.create": (lambda ds: ds.tags.create("a", verson=1), "verson", "version"),
    "tasks": (lambda ds: ds.scanner().tasks(num=1), "num", "n"),
    "fragments.write": (
        lambda ds: pilum.fragments.write(ROWS, ds.uri, max_row_per_file=1),
        "max_row_per_file",
        "max_rows_per_file",
    ),
    "commit": (lambda ds: pilum.commit(ds.uri, pilum.Append([]), comit_id="a"), "comit_id", "commit_id"),
    "doctor": (lambda ds: pilum.doctor(ds.uri, round=1), "round", "rounds"),
    "describe_file": (lambda ds: pilum.describe_file(ds.uri, storage_option={}), "storage_option", "storage_options"),
}


@pytest.mark.parametrize("call", MISSPELT)
def test_an_unknown_keyword_is_refused_with_the_nearest_one(ds, call):
    use, wrong, near = MISSPELT[call]
    with pytest.raises(pilum.InvalidInputError) as refusal:
        use(ds)
    assert isinstance(refusal.value, TypeError), "callers that catch what Python itself raises go on doing so"
    assert f"{call.split('.')[-1]}() has no argument {wrong!r}" in str(refusal.value)
    assert not set(str(refusal.value).split(".")) & {"Columns", "Maintenance", "Reading", "Settings", "Statements"}
    if near is not None:
        assert f"did you mean {near!r}?" in str(refusal.value)
    assert pilum.dataset(ds.uri).version == 1


SECRET = "hunter2-hunter2"

WRONG = {
    "limit": lambda ds: ds.to_table(limit="ten"),
    "limit=-1": lambda ds: ds.to_table(limit=-1),
    "limit=1.5": lambda ds: ds.head(1.5),
    "limit=True": lambda ds: ds.to_table(limit=True),
    "offset": lambda ds: ds.to_table(offset=[1]),
    "batch_rows": lambda ds: ds.to_batches(batch_rows="8"),
    "batch_rows=0": lambda ds: ds.scanner(batch_rows=0),
    "batch_bytes": lambda ds: ds.scanner(batch_bytes=1.0),
    "memory_limit": lambda ds: ds.scanner(memory_limit="1GB"),
    "memory_limit=0": lambda ds: ds.compact(memory_limit=0),
    "fragments": lambda ds: ds.scanner(fragments=0),
    "fragments=['a']": lambda ds: ds.scanner(fragments=["a"]),
    "ordered": lambda ds: ds.scanner(ordered="no"),
    "with_row_id": lambda ds: ds.scanner(with_row_id=1),
    "columns": lambda ds: ds.to_table(columns="id"),
    "columns=[1]": lambda ds: ds.to_table(columns=[1]),
    "columns=3": lambda ds: ds.scanner(3),
    "columns of take": lambda ds: ds.take([0], columns="id"),
    "columns of drop_columns": lambda ds: ds.drop_columns("x"),
    "asof": lambda ds: pilum.dataset(ds.uri, asof="yesterday"),
    "asof=date": lambda ds: pilum.dataset(ds.uri, asof=dt.date(2026, 1, 1)),
    "asof=min": lambda ds: pilum.dataset(ds.uri, asof=dt.datetime.min),
    "version": lambda ds: pilum.dataset(ds.uri, version=1.0),
    "version of checkout": lambda ds: ds.checkout([1]),
    "version of restore": lambda ds: ds.restore(1.5),
    "older_than": lambda ds: ds.cleanup(older_than=14),
    "older_than=-1": lambda ds: ds.cleanup(older_than=dt.timedelta(days=-1)),
    "unverified_older_than": lambda ds: ds.cleanup(unverified_older_than="7 days"),
    "keep_versions": lambda ds: ds.cleanup(keep_versions="all"),
    "dry_run": lambda ds: ds.cleanup(dry_run="yes"),
    "target_rows": lambda ds: ds.compact(target_rows="many"),
    "max_deleted_fraction": lambda ds: ds.compact(max_deleted_fraction=2),
    "mode": lambda ds: pilum.write_dataset(ROWS, ds.uri, mode="appendd"),
    "compat": lambda ds: ds.append(ROWS, compat="lossy"),
    "durability": lambda ds: ds.append(ROWS, durability="ful"),
    "schema": lambda ds: ds.append(ROWS, schema={"id": "int64"}),
    "properties": lambda ds: ds.append(ROWS, properties=[("a", "b")]),
    "properties={'a': 1}": lambda ds: ds.append(ROWS, properties={"a": 1}),
    "commit_id": lambda ds: ds.append(ROWS, commit_id=7),
    "commit_id=''": lambda ds: ds.append(ROWS, commit_id=""),
    "expect": lambda ds: ds.append(ROWS, expect=-1),
    "expect=True": lambda ds: ds.append(ROWS, expect=True),
    "expect=1.5": lambda ds: ds.delete("id = 1", expect=1.5),
    "progress": lambda ds: ds.append(ROWS, progress="bar"),
    "max_rows_per_file": lambda ds: ds.append(ROWS, max_rows_per_file=1e6),
    "retries": lambda ds: ds.delete("id = 1", retries=-1),
    "assignments": lambda ds: ds.update("id = 1"),
    "assignments={1: ..}": lambda ds: ds.update({1: "2"}),
    "on": lambda ds: ds.merge_insert(1, ROWS),
    "on=[]": lambda ds: ds.merge_insert([], ROWS),
    "when_matched": lambda ds: ds.merge_insert("id", ROWS, when_matched=None),
    "when_not_matched": lambda ds: ds.merge_insert("id", ROWS, when_not_matched=("insert",)),
    "changes": lambda ds: ds.alter_columns(["x"]),
    "changes={1: ..}": lambda ds: ds.alter_columns({1: {"name": "y"}}),
    "name in changes": lambda ds: ds.alter_columns({"x": {"name": 1}}),
    "nullable in changes": lambda ds: ds.alter_columns({"x": {"nullable": "yes"}}),
    "values": lambda ds: ds.update_config(["a"]),
    "delete": lambda ds: ds.update_config(delete="a"),
    "column": lambda ds: ds.update_field_metadata(1, {"a": "b"}),
    "other_version": lambda ds: ds.diff(1.5),
    "name": lambda ds: ds.tags.create(7),
    "n": lambda ds: ds.scanner().tasks(0),
    "n of head": lambda ds: ds.head("5"),
    "uri": lambda ds: pilum.dataset(""),
    "uri=None": lambda ds: pilum.dataset(None),
    "uri=b''": lambda ds: pilum.write_dataset(ROWS, b"t"),
    "storage_options": lambda ds: pilum.dataset(ds.uri, storage_options="region=eu"),
    "storage_options=function": lambda ds: pilum.dataset(ds.uri, storage_options=lambda: [SECRET]),
    "storage_options={..: 1}": lambda ds: pilum.dataset(ds.uri, storage_options={"aws_secret_access_key": [SECRET]}),
    "verify_checksums": lambda ds: pilum.dataset(ds.uri, verify_checksums="no"),
    "operation": lambda ds: pilum.commit(ds.uri, [b"piece"]),
    "pieces": lambda ds: pilum.Append(b"piece"),
    "read_version": lambda ds: pilum.commit(ds.uri, pilum.Append([b"piece"]), read_version="1"),
    "rounds": lambda ds: pilum.doctor(ds.uri, rounds=0),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_by_the_name_of_its_argument(ds, case):
    with pytest.raises(pilum.InvalidInputError) as refusal:
        WRONG[case](ds)
    name = case.split("=")[0].split(" ")[0]
    if case != "limit=1.5":
        assert name in str(refusal.value), str(refusal.value)
    assert SECRET not in str(refusal.value)
    assert not isinstance(refusal.value, TypeError)
    assert pilum.dataset(ds.uri).version == 1


def test_numbers_of_numpy_and_other_sequences_are_taken(ds):
    assert ds.to_table(limit=np.int64(3), columns=("id",), ordered=np.bool_(True)).num_rows == 3
    assert ds.to_table(columns=np.array(["id"], dtype=object).tolist()).column_names == ["id"]
    assert ds.to_table(fragments=np.array([0])).num_rows == 10
    assert ds.to_table(limit=None, offset=0).num_rows == 10


def test_help_shows_the_options_of_each_method():
    for method in ("scanner", "to_table", "to_batches", "to_reader", "to_pandas", "to_polars"):
        names = list(inspect.signature(getattr(pilum.Dataset, method)).parameters)
        assert names[:3] == ["self", "columns", "filter"]
        assert {"limit", "offset", "batch_rows", "memory_limit"} <= set(names)
        assert "options" not in names
    assert inspect.signature(pilum.Dataset.append).parameters["compat"].default is None
    public = [value for name, value in vars(pilum.Dataset).items() if callable(value) and not name.startswith("_")]
    for method in public:
        kinds = {it.kind for it in inspect.signature(method).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, method
        assert method.__doc__, method


@pytest.mark.parametrize("write", [pilum.Dataset.append, pilum.Dataset.overwrite])
def test_a_handle_does_not_make_a_table_that_is_gone(ds, write):
    shutil.rmtree(ds.uri)
    with pytest.raises(pilum.NotFoundError, match=ds.uri):
        write(ds, ROWS)
    assert not Path(ds.uri).exists() or not list(Path(ds.uri).rglob("*.manifest"))
    # Without a handle, the mode says that a table may be made.
    assert pilum.write_dataset(ROWS, ds.uri, mode="append").version == 1


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    ds = pilum.write_dataset(ROWS, "~/table")
    assert ds.uri == str(tmp_path / "table")
    assert pilum.dataset(Path("~/table")).count_rows() == 10
    done = CliRunner().invoke(command, ["count", "~/table"])
    assert (done.exit_code, done.stdout) == (0, "10\n")


@pytest.mark.parametrize("name", ["7", "2026"])
def test_a_tag_of_digits_alone_is_refused(ds, name):
    with pytest.raises(pilum.InvalidInputError, match="digits"):
        ds.tags.create(name)
    done = CliRunner().invoke(command, ["tag", ds.uri, "--create", name])
    assert done.exit_code == 2
    assert "digits" in done.stderr
    assert ds.tags.list() == {}
    ds.tags.create("v7")


def test_the_command_refuses_unknown_options_with_the_nearest_one(uri):
    done = CliRunner().invoke(command, ["head", uri, "--filtr", "id > 1"])
    assert done.exit_code == 2
    assert "--filter" in done.stderr
    done = CliRunner().invoke(command, ["hed", uri])
    assert done.exit_code == 2
    assert "head" in done.stderr


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda ds: ds.to_table(["id"], "id > 1", 3), ["Dataset.to_table()", "columns, filter", "3 values", "limit="]),
        (lambda ds: ds.delete(), ["Dataset.delete()", "'predicate'"]),
        (lambda ds: pilum.write_dataset(ROWS), ["write_dataset()", "'uri'"]),
        (lambda ds: ds.lazy(["id"], 5), ["Dataset.lazy()", "columns", "2 values"]),
        (lambda ds: ds.lazy(colums=["id"]), ["Dataset.lazy()", "'colums'", "'columns'"]),
        (lambda ds: ds.to_table(filter=3), ["filter: "]),
        (lambda ds: ds.count_rows(True), ["filter: "]),
        (lambda ds: ds.to_table({"a": 1}), ["columns['a']: "]),
        (lambda ds: ds.to_table(filter=pl.col("id") > 1), ["filter: ", "ds.lazy()"]),
    ],
)
def test_calls_with_too_many_or_too_few_values_name_the_call(ds, call, words):
    with pytest.raises(pilum.InvalidInputError) as refusal:
        call(ds)
    for word in words:
        assert word in str(refusal.value), str(refusal.value)


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"id": [1]}, "pyarrow.table"),
        ("rows.parquet", "scan_parquet"),
        (Path("rows.parquet"), "scan_parquet"),
        (np.zeros((2, 2)), "names"),
        (pl.Series([1]), "to_frame"),
        (pd.Series([1]), "to_frame"),
    ],
)
def test_inputs_without_columns_are_refused_with_what_to_do(ds, data, hint):
    with pytest.raises(pilum.InvalidInputError, match=hint):
        ds.append(data)
