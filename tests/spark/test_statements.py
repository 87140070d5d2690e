"""Statements that Spark's tasks execute together: the same results as by the engine alone, one commit, whatever fails."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import importlib
import os
import random
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum import spark as ps


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t")


def people(count, first=0):
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([None if i % 7 == 0 else f"name {i}" for i in ids], pa.string()),
            "n": pa.array([i % 100 for i in ids], pa.int16()),
        }
    )


def made(uri, count=1000, *, stable=False):
    return pilum.write_dataset(people(count), uri, max_rows_per_file=90, stable_row_ids=stable)


def rows(ds):
    return sorted(ds.to_table().to_pylist(), key=lambda row: (row["id"] is None, row["id"] or 0))


def sound(ds, orphans=()):
    report = ds.verify()
    assert report.problems == []
    assert list(report.orphans) == list(orphans)


def test_the_engine_counts(spark, uri):
    made(uri).delete("id < 10")
    assert ps.count(spark, uri) == 990
    assert ps.count(spark, uri, "n < 50") == ps.count(spark, uri, "n < 50", distributed=True) == 490
    assert ps.count(spark, uri, version=1) == 1000


@pytest.mark.parametrize("stable", [False, True])
def test_a_distributed_delete_and_update_are_those_of_the_engine(spark, tmp_path, stable):
    alone, together = str(tmp_path / "alone"), str(tmp_path / "together")
    for uri in (alone, together):
        made(uri, stable=stable)
    pilum.dataset(alone).delete("n < 20 OR name IS NULL")
    deleted = ps.delete(spark, together, "n < 20 OR name IS NULL", distributed=True)
    assert (deleted.version, deleted.rows) == (2, 314)
    assert rows(deleted) == rows(pilum.dataset(alone))
    pilum.dataset(alone).update({"n": "n + 1", "name": "'x' || name"}, "id % 3 = 1")
    updated = ps.update(spark, together, {"n": "n + 1", "name": "'x' || name"}, "id % 3 = 1", distributed=True)
    assert (updated.version, updated.rows) == (3, 228)
    assert updated.schema == pilum.dataset(alone).schema
    assert rows(updated) == rows(pilum.dataset(alone))
    if stable:
        ids = [
            dict(zip(*ds.to_table(["id"], with_row_id=True).to_pydict().values(), strict=True))
            for ds in (updated, pilum.dataset(alone))
        ]
        assert ids[0] == ids[1]
    assert [it.operation for it in updated.versions()] == ["Create", "Delete", "Update"]
    sound(updated)
    assert ps.delete(spark, together, "id < 0", distributed=True).version == 3
    again = [ps.delete(spark, together, "id > 900", distributed=True, commit_id="one") for _ in range(2)]
    assert [it.version for it in again] == [4, 4]
    with pytest.raises(Exception, match="row"):
        ps.update(spark, together, {"n": "100000"}, distributed=True)
    with pytest.raises(pilum.InvalidInputError, match=r"a\.b"):
        ps.update(spark, together, {"a.b": "1"}, distributed=True)


def test_a_distributed_compaction_changes_no_row(spark, uri):
    before = made(uri, stable=True).delete("id % 10 = 3")
    ids = before.to_table(["id"], with_row_id=True)
    done = ps.compact(spark, uri, target_rows=400, distributed=True)
    assert (done.fragments_removed, done.rows) == (12, 900)
    assert done.to_table(["id"], with_row_id=True) == ids
    assert len(done.fragments) == done.fragments_added <= 4
    sound(done)
    assert ps.compact(spark, uri, target_rows=400, distributed=True).version == done.version
    alone = ps.compact(spark, uri)
    assert (alone.version, len(alone.fragments)) == (done.version + 2, 1)


def test_cleanup_removes_what_killed_tasks_left(spark, uri, tmp_path, monkeypatch):
    """The worker dies after its files are written: Spark repeats the task, and the first files belong to no version."""
    made(uri)
    flag = str(tmp_path / "killed")
    module = importlib.import_module("pilum.spark.statements")
    original = module.write_changes

    def deadly(*arguments):
        row = original(*arguments)
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
        return row

    monkeypatch.setattr(module, "write_changes", deadly)
    updated = ps.update(spark, uri, {"n": "0"}, "id < 500", distributed=True)
    assert Path(flag).exists()
    assert sorted(row["n"] for row in rows(updated)[:500]) == [0] * 500
    assert len(updated.verify().orphans) == 1
    removed = ps.cleanup(spark, uri, unverified_older_than=dt.timedelta(0))
    assert len(removed.files) == 1
    sound(pilum.dataset(uri))


def source(spark, ids, **columns):
    table = pa.table({"id": pa.array(ids, pa.int64()), **columns})
    return spark.createDataFrame(table)


CHOICES = [
    ("update", "insert", "keep"),
    ("keep", "insert", "keep"),
    ("delete", "ignore", "keep"),
    ("update", "ignore", "delete"),
    ("update", "insert", "delete if n < 50"),
    ("update if source.n > target.n", "insert", "keep"),
]


@pytest.mark.parametrize("choice", range(len(CHOICES)))
def test_a_merge_is_that_of_the_engine(spark, tmp_path, choice):
    matched, not_matched, by_source = CHOICES[choice]
    r = random.Random(choice)
    ids = [*r.sample(range(1000), 120), *range(2000, 2060), None, None]
    r.shuffle(ids)
    numbers = pa.array([r.randrange(200) for _ in ids], pa.int32())
    results = []
    for door in ("alone", "together"):
        uri = str(tmp_path / door)
        ds = made(uri, stable=choice % 2 == 0)
        words = {"when_matched": matched, "when_not_matched": not_matched, "when_not_matched_by_source": by_source}
        if door == "alone":
            done = ds.merge_insert("id", pa.table({"id": pa.array(ids, pa.int64()), "n": numbers}), **words)
        else:
            done = ps.merge(source(spark, ids, n=numbers).repartition(3), uri, "id", **words)
        sound(done)
        key = lambda row: str(sorted(row.items(), key=str))  # noqa: E731
        results.append(
            (done.version, done.inserted, done.updated, done.deleted, sorted(done.to_table().to_pylist(), key=key))
        )
        assert done.versions()[-1].operation == "Merge"
    assert results[0] == results[1]


def test_a_merge_keeps_row_ids(spark, uri):
    ds = made(uri, 100, stable=True)
    ids = dict(zip(*ds.to_table(["id"], with_row_id=True).to_pydict().values(), strict=True))
    done = ps.merge(source(spark, [5, 50, 1000], n=pa.array([1, 2, 3])), uri, "id")
    after = dict(zip(*done.to_table(["id"], with_row_id=True).to_pydict().values(), strict=True))
    assert {key: after[key] for key in ids} == ids
    assert after[1000] not in ids.values()


def test_what_a_merge_refuses_is_told_on_the_driver(spark, uri):
    made(uri, 100)
    one = source(spark, [1, 1, 2], n=pa.array([1, 2, 3]))
    with pytest.raises(pilum.InvalidInputError, match=r"\{'id': 1\} is several times in the source"):
        ps.merge(one, uri, "id")
    with pytest.raises(pilum.InvalidInputError, match="when_matched is 'fail'"):
        ps.merge(source(spark, [5, 500]), uri, "id", when_matched="fail")
    with pytest.raises(pilum.InvalidInputError, match="'key' is not in the source"):
        ps.merge(one, uri, "key")
    with pytest.raises(pilum.InvalidInputError, match="column `n`"):
        ps.merge(source(spark, [1], n=pa.array(["x"])), uri, "id")
    with pytest.raises(pilum.InvalidInputError, match=r"when_matched: pass 'update'.*'upsert'"):
        ps.merge(one, uri, "id", when_matched="upsert")
    with pytest.raises(pilum.InvalidInputError, match="row 0"):
        ps.merge(source(spark, [1], n=pa.array([100_000])), uri, "id")
    assert pilum.dataset(uri).version == 1
    sound(pilum.dataset(uri))


def test_two_merges_at_once_never_insert_one_key(spark, uri, monkeypatch):
    """The other merge commits between our tasks and our commit, first with keys of its own, then with one of ours."""
    made(uri, 100)
    module = importlib.import_module("pilum.spark.merge")
    original = module._Merge.commit
    others = [source(spark, [3, 300], n=pa.array([7, 7])), source(spark, [500, 4], n=pa.array([8, 8]))]
    executions = []

    def late(self, results, pieces):
        executions.append(len(pieces))
        if others:
            df = others.pop(0)
            monkeypatch.setattr(module._Merge, "commit", original)
            ps.merge(df, uri, "id")
            monkeypatch.setattr(module._Merge, "commit", late)
        return original(self, results, pieces)

    monkeypatch.setattr(module._Merge, "commit", late)
    ours = source(spark, [1, 500, 501], n=pa.array([9, 9, 9]))
    done = ps.merge(ours, uri, "id")
    # The first of the others shares no key: its commit costs a look at its rows, and no second execution.
    assert (done.version, len(executions), len(others)) == (3, 1, 1)
    done = ps.merge(source(spark, [4, 500, 502], n=pa.array([10, 10, 10])), uri, "id")
    assert len(executions) == 3
    ids = [row["id"] for row in rows(done)]
    assert len(ids) == len(set(ids)) == 104
    values = {row["id"]: row["n"] for row in rows(done)}
    assert [values[it] for it in (1, 3, 4, 300, 500, 501, 502)] == [9, 7, 10, 7, 10, 9, 10]
    sound(done)


@pytest.mark.parametrize("stable", [False, True])
def test_two_jobs_that_merge_at_the_same_time_have_the_result_of_one_after_the_other(spark, uri, stable):
    """Both jobs update the keys 50..79 and insert 100..119; each job also has keys that the other one lacks."""
    made(uri, 100, stable=stable)
    keys = {1: [*range(40, 80), *range(100, 140)], 2: [*range(50, 90), *range(90, 120)]}
    barrier = threading.Barrier(2)

    def merge(job):
        df = source(spark, keys[job], n=pa.array([1000 * job] * len(keys[job])))
        barrier.wait()
        return ps.merge(df, uri, "id", properties={"job": str(job)})

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = list(pool.map(merge, keys))
    ds = pilum.dataset(uri)
    assert {it.version for it in done} == {2, 3}
    last = int(ds.versions()[-1].properties["job"])
    expected = {row["id"]: row["n"] for row in people(100).to_pylist()}
    for job in (3 - last, last):
        expected.update(dict.fromkeys(keys[job], 1000 * job))
    assert [(row["id"], row["n"]) for row in rows(ds)] == sorted(expected.items())
    sound(ds)


def test_a_merge_is_committed_once_for_its_id(spark, uri, monkeypatch):
    made(uri, 100)
    df = source(spark, [1, 200], n=pa.array([5, 5]))
    first = ps.merge(df, uri, "id", commit_id="day 1")

    def fail(batches):
        raise RuntimeError("a task ran")
        yield from batches

    again = ps.merge(df.mapInArrow(fail, df.schema), uri, "id", commit_id="day 1")
    assert (again.version, again.was_committed_before, again.inserted) == (first.version, True, 0)
    # The driver that lost the answer has tasks that are done: what they wrote is removed.
    module = importlib.import_module("pilum.spark.statements")
    monkeypatch.setattr(module, "done_before", lambda *_: None)
    again = ps.merge(df, uri, "id", commit_id="day 1")
    assert (again.version, again.was_committed_before) == (first.version, True)
    sound(pilum.dataset(uri))


def test_columns_computed_by_spark_are_added(spark, uri):
    made(uri).delete("id % 9 = 4")
    schema = pa.schema([("v", pa.list_(pa.float32(), 2))])
    done = ps.add_columns(
        spark, uri, {"v": "array(cast(id AS float), cast(n AS float))"}, read=["id", "n"], schema=schema
    )
    assert done.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert all(row["v"] == [row["id"], row["n"]] for row in rows(done))
    assert done.versions()[-1].operation == "Backfill"
    sound(done)

    def model(batches):
        for batch in batches:
            doubled = pa.compute.multiply(batch.column("id"), 2)
            yield pa.record_batch({"_rowaddr": batch.column("_rowaddr"), "double": doubled})

    def compute(df):
        return df.repartition(3).mapInArrow(model, "_rowaddr bigint, double bigint")

    done = ps.add_columns(spark, uri, compute, read=["id"], commit_id="twice")
    assert all(row["double"] == 2 * row["id"] for row in rows(done))
    assert ps.add_columns(spark, uri, compute, read=["id"], commit_id="twice").version == done.version
    for columns, told in [
        ({"n": "id"}, "'n'"),
        (lambda df: df.where("id <> 10").selectExpr("_rowaddr", "id AS z"), "fragment 0"),
        (lambda df: df.union(df).selectExpr("_rowaddr", "id AS z"), "fragment"),
        (lambda df: df.selectExpr("id AS z"), "_rowaddr"),
    ]:
        with pytest.raises(pilum.InvalidInputError, match=told):
            ps.add_columns(spark, uri, columns)
    sound(pilum.dataset(uri))


def test_columns_of_rows_that_came_meanwhile_are_computed_too(spark, uri, monkeypatch):
    made(uri, 200)
    module = importlib.import_module("pilum.spark.columns")
    original = module._Addition.compute
    computed = []

    def late(self, base, missing):
        computed.append(list(missing))
        schema = original(self, base, missing)
        if len(computed) == 1:
            pilum.dataset(uri).append(people(50, 1000))
            pilum.dataset(uri).delete("id = 3")
        return schema

    monkeypatch.setattr(module._Addition, "compute", late)
    done = ps.add_columns(spark, uri, {"m": "id + 1"}, read=["id"])
    assert computed == [[0, 1, 2], [0, 3]]
    assert all(row["m"] == row["id"] + 1 for row in rows(done))
    assert len(rows(done)) == 249
    sound(done)


@pytest.mark.parametrize("stable", [False, True])
def test_changes_are_rows_with_their_version(spark, uri, stable):
    made(uri, 100, stable=stable)
    pilum.dataset(uri).append(people(3, 100))
    pilum.dataset(uri).delete("id IN (5, 101)")
    pilum.dataset(uri).update({"n": "n + 100"}, "id = 7")
    pilum.dataset(uri).compact()
    last = pilum.dataset(uri)
    changes = ps.read_changes(spark, uri, 1).collect()
    told = sorted((row._commit_version, row._change_type, row.id, row.n) for row in changes)
    pre, post = ("update_preimage", "update_postimage") if stable else ("delete", "insert")
    assert told == sorted(
        [
            *((2, "insert", i, i % 100) for i in (100, 101, 102)),
            *((3, "delete", i, i % 100) for i in (5, 101)),
            (4, pre, 7, 7),
            (4, post, 7, 107),
        ]
    )
    assert changes[0]._commit_timestamp is not None
    assert ps.read_changes(spark, uri, last.version).count() == 0
    assert ps.read_changes(spark, uri, 0, 1).count() == 100
    with pytest.raises(pilum.InvalidInputError, match="newer"):
        ps.read_changes(spark, uri, 3, 2)


def test_a_view_is_of_the_version_that_was_registered(spark, uri):
    made(uri, 100)
    ps.register_view(spark, "people_view", uri, columns=["id"], filter="n < 10")
    pilum.dataset(uri).delete("true")
    assert spark.sql("SELECT sum(id) AS s FROM people_view").collect()[0].s == 45


def test_every_task_of_a_scan_sees_one_version(spark, uri):
    """Another process commits, compacts and cleans up, with a grace, after the plan and before the tasks."""
    made(uri)
    df = ps.read(spark, uri, ["id"], tasks=4)
    other = pilum.dataset(uri)
    other.append(people(50, 5000))
    other.delete("id < 500")
    other.compact()
    other.cleanup(older_than=dt.timedelta(hours=1))
    assert df.agg({"id": "sum"}).collect()[0][0] == 1000 * 999 // 2
    pilum.dataset(uri).cleanup(older_than=dt.timedelta(0), unverified_older_than=dt.timedelta(0))
    with pytest.raises(Exception, match="version 1"):
        ps.read(spark, uri, version=1)
