"""The core under both doors to Spark: plans by bytes, tasks that can be pickled, writes that ask before they compute."""

from __future__ import annotations

import datetime as dt
import importlib
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import pilum
from pilum import spark as ps
from pilum.spark import staging, tasks
from pilum.spark.jobs import Parts
from pilum.spark.tasks import Split


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t")


def numbers(count, first=0):
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "s": pa.array([f"row {i}" for i in ids], pa.string())})


def rows_of(planned):
    """Return the ids of all splits, each split read from its pickled description."""
    ids = []
    for split in planned.splits:
        scan, split = pickle.loads(pickle.dumps((planned.scan, split)))
        for batch in tasks.read_task(scan, split):
            assert batch.schema == planned.schema
            ids += batch.column("id").to_pylist()
    return ids


def test_a_plan_of_ten_thousand_fragments_is_small():
    fragments = [tasks._Piece(number, 128 << 20, 1_000_000) for number in range(10_000)]
    splits = tuple(tasks._splits(fragments, None, None, can_divide=True))
    assert [it for split in splits for it in split.fragments] == list(range(10_000))
    assert len(splits) == 10_000
    assert len(pickle.dumps(splits)) <= 1 << 20
    grouped = tasks._splits([it._replace(bytes=1 << 20) for it in fragments], None, None, can_divide=True)
    assert {len(split.fragments) for split in grouped} <= {126, 127, 128, 129}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return the address of a table of 10,000 fragments with one row each."""
    uri = str(tmp_path_factory.mktemp("many") / "t")
    ds = pilum.write_dataset(numbers(10_000), uri, max_rows_per_file=1, durability="none")
    assert len(ds.fragments) == 10_000
    return uri


@pytest.mark.parametrize("cut", [{}, {"tasks": 10_000}], ids=str)
def test_the_function_of_a_scan_of_ten_thousand_fragments_has_at_most_one_megabyte(many, cut):
    planned = tasks.plan(many, ["s"], "id >= 5000", **cut)
    assert len(planned.splits) == cut.get("tasks", 1)
    assert [it for split in planned.splits for it in split.fragments] == list(range(10_000))
    # For `mapInArrow`, Spark sends one pickled function to all tasks.
    function = importlib.import_module("pilum.spark.read")._scan_of(planned.scan, planned.splits)
    assert len(cloudpickle.dumps(function)) <= 1_000_000


class Counted:
    """A value that tells when it is unpickled."""

    unpickled: list[int] = []  # noqa: RUF012 - all values of the test share it

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return Counted.again, (self.number,)

    @staticmethod
    def again(number):
        Counted.unpickled.append(number)
        return Counted(number)


def test_a_task_unpickles_its_own_description_and_no_other(monkeypatch):
    monkeypatch.setattr(Counted, "unpickled", [])
    parts = pickle.loads(pickle.dumps(Parts([[Counted(number), "more"] for number in range(1000)], list)))
    assert (len(parts), Counted.unpickled) == (1000, [])
    assert (parts[999][0].number, parts[0][0].number, Counted.unpickled) == (999, 0, [999, 0])
    for outside in (-1, 1000):
        with pytest.raises(IndexError):
            parts[outside]
    assert len(Parts([], list)) == 0


@pytest.mark.parametrize("cut", [{}, {"tasks": 10_000}], ids=str)
def test_the_data_source_ships_a_megabyte_at_most_for_ten_thousand_fragments(many, cut):
    from pilum.spark.source import DefaultSource

    options = {"path": many, "columns": "s", "filter": "id >= 5000", **{name: str(it) for name, it in cut.items()}}
    source = DefaultSource(options)
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    assert [it for split in partitions for it in split.value.fragments] == list(range(10_000))
    assert len(cloudpickle.dumps(reader)) + sum(len(cloudpickle.dumps(it)) for it in partitions) <= 1_000_000
    there = pickle.loads(cloudpickle.dumps(partitions[-1]))
    assert there.value == partitions[-1].value
    last = [batch.num_rows for batch in pickle.loads(cloudpickle.dumps(reader)).read(there)]
    assert sum(last) == (1 if cut else 5000)


def test_a_plan_opens_no_data_file(many):
    folder = Path(many, "data")
    hidden = folder.rename(folder.with_name("hidden"))
    try:
        assert len(tasks.plan(many, ["s"], "id >= 5000", tasks=50).splits) == 50
    finally:
        hidden.rename(folder)


def test_every_row_is_in_one_split_however_the_table_is_cut(uri):
    pilum.write_dataset(numbers(1000), uri, max_rows_per_file=130)
    ds = pilum.dataset(uri).delete("id % 10 = 3").checkout(2)
    there = ds.to_table(["id"])["id"].to_pylist()
    for cut in ({}, {"tasks": 3}, {"tasks": 100}, {"task_bytes": 1}, {"task_bytes": 3000}):
        planned = tasks.plan(uri, ["id"], **cut)
        assert rows_of(planned) == there, cut
    pieces = tasks._pieces(ds, None, 1.0)
    divided = tasks._divided(pieces, pieces[0].bytes // 4)
    assert len(divided) > 3 * len(pieces)
    whole = tasks.plan(uri, ["id"])
    assert rows_of(tasks.ScanPlan(whole.scan, tuple(divided), whole.source_schema)) == there


def test_a_limit_starts_only_the_tasks_that_it_needs(uri):
    pilum.write_dataset(numbers(1000), uri, max_rows_per_file=100)
    assert tasks.plan(uri, ["id"], limit=250, tasks=10).splits == (
        Split((0,), None, 250),
        Split((1,), None, 150),
        Split((2,), None, 50),
    )
    filtered = tasks.plan(uri, ["id"], "id >= 900", limit=5, tasks=10)
    assert (len(filtered.splits), rows_of(filtered)) == (10, [900, 901, 902, 903, 904])
    assert tasks.plan(uri, limit=0).splits == ()


def test_a_narrow_projection_has_fewer_tasks(uri):
    fragments = [tasks._Piece(number, 64 << 20, 1_000_000) for number in range(16)]
    wide = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 254))])
    share = tasks._share(wide, pa.schema([wide.field("id")]))
    assert 0.005 < share < 0.02
    narrow = [it._replace(bytes=int(it.bytes * share)) for it in fragments]
    assert len(tasks._splits(fragments, None, None, can_divide=True)) >= 8
    assert len(tasks._splits(narrow, None, None, can_divide=True)) == 1


def test_row_ids_and_addresses_are_columns(spark, uri):
    pilum.write_dataset(numbers(20), uri, max_rows_per_file=10)
    df = ps.read(spark, uri, ["id"], with_row_id=True, with_row_address=True)
    assert df.schema.simpleString() == "struct<id:bigint,_rowid:bigint,_rowaddr:bigint>"
    rows = sorted((row.id, row._rowaddr) for row in df.collect())
    assert rows == [(i, (i // 10 << 32) + i % 10) for i in range(20)]


def test_reads_at_a_moment_and_up_to_a_limit(spark, uri):
    pilum.write_dataset(numbers(10), uri)
    between = dt.datetime.now(dt.UTC)
    pilum.write_dataset(numbers(5, 10), uri, mode="append")
    assert ps.read(spark, uri, asof=between).count() == 10
    assert ps.read(spark, uri, limit=12, tasks=2).count() == 12
    assert ps.read(spark, uri, limit=0).count() == 0
    assert ps.read(spark, uri, filter="id > 7", limit=3).count() == 3
    with pytest.raises(pilum.InvalidInputError, match="asof"):
        ps.read(spark, uri, version=1, asof=between)


def test_vectors_are_arrays_or_bytes(spark, uri):
    vectors = pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))
    pilum.write_dataset(pa.table({"v": vectors}), uri)
    assert ps.read(spark, uri, vectors="array").schema.simpleString() == "struct<v:array<float>>"
    got = ps.read(spark, uri, vectors="binary").collect()
    assert [None if row.v is None else bytes(row.v) for row in got] == [b"\0\0\x80?\0\0\0@", None]


def test_columns_of_one_name_are_refused_before_a_task_runs(spark, uri):
    twice = spark.sql("SELECT 1 AS a, 2 AS a, named_struct('x', 1, 'x', 2) AS s")
    with pytest.raises(pilum.InvalidInputError, match=r"`a`, `s\.x`"):
        ps.write(twice, uri)


def test_rows_that_are_no_frame_and_a_missing_session_are_refused_by_argument(spark, uri):
    for call in (ps.write, lambda df, uri: ps.merge(df, uri, "id")):
        with pytest.raises(pilum.InvalidInputError, match=r"df: pass a DataFrame of Spark .*pilum\.write_dataset.*not"):
            call(numbers(3), uri)
    pilum.write_dataset(numbers(3), uri)
    for call in (ps.read, ps.count, ps.compact, lambda session, uri: ps.delete(session, uri, "id = 1")):
        with pytest.raises(pilum.InvalidInputError, match="spark: pass a SparkSession, not"):
            call(uri, uri)
    assert ps.count(spark, uri) == 3


def test_a_commit_id_is_looked_up_before_a_task_runs(spark, uri):
    def fail(batches):
        raise RuntimeError("a task ran")
        yield from batches

    for mode in ("create", "append", "overwrite"):
        first = ps.write(spark.range(5), uri + mode, mode=mode, commit_id="one")
        again = ps.write(spark.range(5).mapInArrow(fail, "id bigint"), uri + mode, mode=mode, commit_id="one")
        assert (again.version, again.was_committed_before) == (first.version, True)
        assert pilum.dataset(uri + mode).verify().orphans == []


def test_the_core_writes_without_spark(uri):
    plan = staging.prepare(numbers(0).schema, uri, "append")
    spec = pickle.loads(pickle.dumps(plan.spec))
    staged = [staging.write_task(numbers(10, first).to_batches(), spec) for first in (0, 10)]
    assert [it.rows for it in staged] == [10, 10]
    assert staging.write_task([], spec) == staging.Staged([], 0)
    ds = staging.commit(plan, [piece for it in staged for piece in it.pieces])
    assert ds.to_table(["id"])["id"].to_pylist() == list(range(20))


def test_first_appends_of_several_jobs_all_land(uri):
    """Four drivers find no table; each of them appends its rows."""
    plans = [staging.prepare(numbers(0).schema, uri, "append") for _ in range(4)]
    staged = [staging.write_task(numbers(10, 10 * at).to_batches(), plan.spec) for at, plan in enumerate(plans)]
    versions = [staging.commit(plan, it.pieces).version for plan, it in zip(plans, staged, strict=True)]
    assert versions == [1, 2, 3, 4]
    assert sorted(pilum.dataset(uri).to_table(["id"])["id"].to_pylist()) == list(range(40))


def test_a_write_is_computed_again_if_the_columns_changed(spark, uri, monkeypatch):
    module = importlib.import_module("pilum.spark.write")
    stage = module.stage
    calls = []

    def changing(rows, plan):
        pieces = stage(rows, plan)
        calls.append(len(pieces))
        if len(calls) == 1:
            pilum.write_dataset(pa.table({"s": ["first"], "id": pa.array([-1], pa.int64())}), uri)
        return pieces

    monkeypatch.setattr(module, "stage", changing)
    ds = ps.write(spark.range(0, 4, 1, 1), uri)
    assert len(calls) == 2
    assert ds.to_table().to_pylist() == [{"s": "first", "id": -1}, *({"s": None, "id": i} for i in range(4))]


def test_small_files_of_many_partitions_become_few(spark, uri):
    df = spark.range(0, 10_000, 1, 16).selectExpr("id", "CASE WHEN id % 3 > 0 THEN concat('row ', id) END AS s")
    ds = ps.write(df, uri)
    assert [it.num_rows for it in ds.fragments] == [10_000]
    assert ds.to_table(["id"])["id"].to_pylist() == list(range(10_000))
    assert ds.to_table(["s"])["s"].null_count == 3334
    assert (ds.verify().problems, ds.verify().orphans) == ([], [])
    assert len(ps.write(df, uri, mode="overwrite", partitions="keep").fragments) == 16
    assert len(ps.write(df, uri, mode="overwrite", partitions=3).fragments) == 3
    several = ps.write(df, uri, mode="overwrite", max_rows_per_file=2500)
    assert [it.num_rows for it in several.fragments] == [2500] * 4
    for wrong in (0, True, "few"):
        with pytest.raises(pilum.InvalidInputError, match="partitions"):
            ps.write(df, uri, partitions=wrong)


def test_small_files_of_much_data_are_joined_by_tasks(spark, uri, monkeypatch):
    module = importlib.import_module("pilum.spark.write")
    monkeypatch.setattr(module, "DRIVER_BYTES", 0)
    df = spark.range(0, 10_000, 1, 9)
    ds = ps.write(df, uri, max_rows_per_file=4000)
    assert ds.to_table()["id"].to_pylist() == list(range(10_000))
    assert len(ds.fragments) == 3
    assert ds.verify().orphans == []
