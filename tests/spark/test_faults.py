"""What goes wrong while Spark writes: every row comes once, nothing is visible early, and leftovers can be cleaned up."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum import spark as ps
from pilum.location import Location
from pilum.spark import staging

SPARK = importlib.import_module("pilum.spark.write")


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t")


def once(flag: str) -> bool:
    """Return True for the first caller of all processes."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def ids(uri, version=None):
    return sorted(pilum.dataset(uri, version=version).to_table(["id"])["id"].to_pylist())


def numbers(spark, rows=4000, partitions=4):
    return spark.range(0, rows, 1, partitions)


def cleaned(uri):
    return pilum.dataset(uri).cleanup(older_than=dt.timedelta(days=1), unverified_older_than=dt.timedelta(0)).files


@pytest.mark.parametrize("how", ["exit", "error"])
def test_a_task_that_dies_or_fails_in_the_middle_is_repeated(spark, uri, tmp_path, how):
    flag = str(tmp_path / "flag")

    def faulty(batches):
        for batch in batches:
            if batch.column(0)[0].as_py() >= 1000 and once(flag):
                if how == "exit":
                    os._exit(1)
                raise RuntimeError("once")
            yield batch

    ds = ps.write(numbers(spark).mapInArrow(faulty, "id bigint"), uri, max_rows_per_file=300)
    assert Path(flag).exists()
    assert (ds.version, ids(uri)) == (1, list(range(4000)))
    cleaned(uri)
    assert ds.verify().orphans == []


def test_a_task_that_always_fails_leaves_the_table_as_it_was(spark, uri):
    ps.write(numbers(spark, 10), uri)

    def fail(batches):
        yield from batches
        raise RuntimeError("always")

    with pytest.raises(Exception, match="always"):
        ps.write(numbers(spark).mapInArrow(fail, "id bigint"), uri, commit_id="one")
    assert (pilum.dataset(uri).version, ids(uri)) == (1, list(range(10)))
    # The same id may be used again, because it was not committed.
    assert ps.write(numbers(spark), uri, commit_id="one").version == 2


def test_a_driver_that_dies_before_its_commit_leaves_only_orphans(spark, uri):
    ps.write(numbers(spark, 10), uri)
    plan = staging.prepare(pa.schema([("id", pa.int64())]), uri, "append", commit_id="job")
    pieces = SPARK.stage(numbers(spark), plan)
    assert len(pieces) == 4
    del plan, pieces
    assert (pilum.dataset(uri).version, ids(uri)) == (1, list(range(10)))
    # The driver that takes over computes again, and commits once.
    ds = ps.write(numbers(spark), uri, commit_id="job")
    assert (ds.version, ds.count_rows()) == (2, 4010)
    assert len(ds.verify().orphans) == 4
    assert len(cleaned(uri)) == 4
    assert ds.verify().orphans == []


def test_a_commit_whose_answer_was_lost_is_made_once(spark, uri, monkeypatch):
    """The commit landed, and the driver does not know: another attempt with the same id answers, and nothing is doubled."""
    commit = staging.commit
    kept = []

    def lost(plan, pieces):
        kept.append((plan, pieces))
        commit(plan, pieces)
        raise pilum.CommitUnknownError("the answer was lost")

    monkeypatch.setattr(staging, "commit", lost)
    with pytest.raises(pilum.CommitUnknownError):
        ps.write(numbers(spark), uri, commit_id="job")
    monkeypatch.setattr(staging, "commit", commit)
    # The files of the commit in doubt are still there.
    assert ids(uri) == list(range(4000))
    again = ps.write(numbers(spark), uri, commit_id="job")
    assert (again.version, again.was_committed_before) == (1, True)
    # The same pieces again: they are a version's, so nothing of them is removed.
    plan, pieces = kept[0]
    assert staging.commit(plan, pieces).version == 1
    assert staging.discard(Location.of(uri), pieces) == 0
    assert ids(uri) == list(range(4000))


def test_files_of_a_commit_that_is_refused_are_removed_by_the_driver(spark, uri):
    ps.write(numbers(spark, 10), uri)
    with pytest.raises(pilum.ConflictError):
        ps.write(numbers(spark), uri, expect=7)
    assert pilum.dataset(uri).verify().orphans == []


def test_two_attempts_of_a_task_at_the_same_time_count_once(uri):
    """As with speculation: both attempts write, and one result counts."""
    plan = staging.prepare(pa.schema([("id", pa.int64())]), uri)
    rows = pa.table({"id": pa.array(range(100), pa.int64())}).to_batches()
    first, second = (staging.write_task(rows, plan.spec) for _ in range(2))
    ds = staging.commit(plan, first.pieces)
    assert ds.count_rows() == 100
    assert len(ds.verify().orphans) == 1
    assert staging.discard(Location.of(uri), second.pieces) == 1
    assert ds.verify().orphans == []


def test_a_version_stays_as_it_is_while_another_process_works(spark, uri):
    """Another process appends, deletes, compacts and cleans up while a scan runs: each task sees the version of the plan."""
    ps.write(numbers(spark, 20_000, 8), uri)
    script = """
        import datetime as dt, sys, pilum, pyarrow as pa
        for round in range(8):
            ds = pilum.dataset(sys.argv[1])
            ds.append(pa.table({"id": pa.array(range(100_000, 100_500), pa.int64())}))
            pilum.dataset(sys.argv[1]).delete(f"id % 8 = {round}")
            pilum.dataset(sys.argv[1]).compact()
            pilum.dataset(sys.argv[1]).cleanup(older_than=dt.timedelta(hours=1))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), uri]) as other:
        seen = []
        while True:
            running = other.poll() is None
            df = ps.read(spark, uri, tasks=4)
            twice = [row.s for _ in range(2) for row in df.selectExpr("sum(id) AS s").collect()]
            assert twice[0] == twice[1]
            seen.append(twice[0])
            if not running:
                break
    assert other.returncode == 0
    possible = {it.version: sum(ids(uri, it.version)) for it in pilum.dataset(uri).versions()}
    assert all((total or 0) in possible.values() for total in seen)


def test_an_empty_frame_and_a_missing_table_are_told_on_the_driver(spark, uri):
    empty = spark.sql("SELECT 1 AS a WHERE false")
    assert ps.write(empty, uri).version == 1
    assert ps.write(empty, uri).version == 1
    assert ps.write(empty, uri, mode="overwrite").version == 2
    for use in (ps.count, ps.compact, ps.read):
        with pytest.raises(pilum.NotFoundError):
            use(spark, uri + "-missing")
    with pytest.raises(pilum.NotFoundError):
        ps.merge(empty, uri + "-missing", "a")


def test_a_store_that_the_executors_cannot_reach_is_named(spark):
    """The driver plans while the store answers. When the tasks run, the store does not answer any more."""
    # Imported here, because workers of Spark import this module, and moto is not installed there.
    from support.stores import moto_server, options, proxy

    with moto_server() as moto:
        uri = f"s3://{moto.new_bucket()}/t"
        pilum.write_dataset(pa.table({"id": pa.array(range(10), pa.int64())}), uri, storage_options=moto.options())
        with proxy(moto.url, lambda _: "pass") as url:
            store = options(url, max_retries="0")
            frames = [ps.read(spark, uri, storage_options=store)]
            frames.append(spark.read.format("pilum").options(**{f"storage.{k}": v for k, v in store.items()}).load(uri))
        for df in frames:
            with pytest.raises(Exception, match=uri) as failed:
                df.collect()
            assert "Connection refused" in str(failed.value)
        # The tasks of this write cannot write files, so the driver commits nothing.
        with (
            proxy(moto.url, lambda it: "lose" if it.method in {"PUT", "POST"} else "pass") as url,
            pytest.raises(Exception, match=uri),
        ):
            ps.write(numbers(spark), uri, storage_options=options(url, max_retries="0"))
        assert pilum.dataset(uri, storage_options=moto.options()).version == 1


def test_a_merge_whose_task_dies_after_its_files_are_written_counts_once(spark, uri, tmp_path, monkeypatch):
    ps.write(numbers(spark), uri)
    flag = str(tmp_path / "flag")
    module = importlib.import_module("pilum.spark.merge")
    original = module._merge_of

    def deadly(*arguments):
        task = original(*arguments)

        def pilum_merge(batches):
            rows = list(task(batches))
            if once(flag):
                os._exit(1)
            yield from rows

        return pilum_merge

    monkeypatch.setattr(module, "_merge_of", deadly)
    done = ps.merge(spark.range(3990, 4010), uri, "id")
    assert Path(flag).exists()
    assert (done.inserted, done.updated, ids(uri)) == (10, 10, list(range(4010)))
    cleaned(uri)
    assert (done.verify().orphans, done.verify().problems) == ([], [])
