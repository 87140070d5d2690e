"""DataFrames to tables and back: one version, one commit, whatever fails in between."""

from __future__ import annotations

import importlib
import os
import signal
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum import spark as ps
from support.comparing import assert_same

ROWS = 10_000


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t")


def numbers(spark, rows=ROWS, partitions=4):
    return spark.range(0, rows, 1, partitions).selectExpr(
        "id", "CASE WHEN id % 3 = 0 THEN NULL ELSE cast(id AS string) END AS s", "cast(id AS double) / 2 AS f"
    )


def data_files(uri: str) -> list[str]:
    return sorted(file.name for file in (Path(uri) / "data").iterdir())


def test_a_dataframe_is_written_distributed_and_committed_once(spark, uri):
    ds = ps.write(numbers(spark), uri, partitions="keep")
    assert (ds.version, ds.count_rows(), len(ds.fragments)) == (1, ROWS, 4)
    assert len(data_files(uri)) == 4
    table = ds.to_table().sort_by("id")
    assert table["id"].to_pylist() == list(range(ROWS))
    assert table["s"].null_count == len(range(0, ROWS, 3))
    ds = ps.write(numbers(spark), uri, mode="append")
    assert (ds.version, ds.count_rows()) == (2, 2 * ROWS)
    ds = ps.write(numbers(spark, 10, 1), uri, mode="overwrite")
    assert (ds.version, ds.count_rows()) == (3, 10)
    assert [version.num_rows for version in ds.versions()] == [ROWS, 2 * ROWS, 10]


def test_reading_gives_what_was_written(spark, uri):
    ps.write(numbers(spark), uri)
    df = ps.read(spark, uri)
    assert df.schema.simpleString() == "struct<id:bigint,s:string,f:double>"
    assert df.count() == ROWS
    assert df.exceptAll(numbers(spark)).count() == 0
    assert numbers(spark).exceptAll(df).count() == 0


def test_columns_and_filter_are_the_engine_s_work(spark, uri):
    ps.write(numbers(spark), uri)
    df = ps.read(spark, uri, columns=["f", "id"], filter="id < 10 AND s IS NOT NULL")
    assert df.columns == ["f", "id"]
    assert sorted((row.id, row.f) for row in df.collect()) == [(n, n / 2) for n in range(10) if n % 3]
    assert ps.read(spark, uri, filter=[("id", "in", [1, 2])]).count() == 2
    with pytest.raises(pilum.InvalidInputError, match="nope"):
        ps.read(spark, uri, columns=["nope"])
    with pytest.raises(pilum.NotFoundError):
        ps.read(spark, uri + "-missing")


def test_tasks_are_groups_of_fragments(spark, uri):
    ps.write(numbers(spark, ROWS, 8), uri, partitions="keep")
    assert ps.read(spark, uri).rdd.getNumPartitions() == 1
    for tasks in (1, 3, 8, 50):
        df = ps.read(spark, uri, tasks=tasks)
        assert df.rdd.getNumPartitions() == min(tasks, 8)
        assert df.agg({"id": "sum"}).collect()[0][0] == ROWS * (ROWS - 1) // 2


def test_rows_come_in_batches_that_spark_likes(spark, uri):
    pilum.write_dataset(pa.table({"id": pa.array(range(50_000), pa.int64())}), uri)

    def sizes(batches):
        for batch in batches:
            yield pa.record_batch({"rows": pa.array([batch.num_rows], pa.int64())})

    got = [row.rows for row in ps.read(spark, uri, batch_rows=4000).mapInArrow(sizes, "rows bigint").collect()]
    assert sum(got) == 50_000
    assert max(got) <= 10_000


def test_an_empty_table_and_an_empty_dataframe(spark, uri):
    ds = ps.write(numbers(spark, 0), uri)
    assert (ds.version, ds.count_rows()) == (1, 0)
    assert ps.read(spark, uri).count() == 0
    assert ps.read(spark, uri).schema.simpleString() == "struct<id:bigint,s:string,f:double>"
    assert ps.write(numbers(spark, 0), uri).version == 1
    assert ps.write(numbers(spark, 5, 4), uri).count_rows() == 5


def test_some_partitions_without_rows(spark, uri):
    ds = ps.write(numbers(spark, ROWS, 4).where("id >= 7500"), uri)
    assert (ds.count_rows(), len(ds.fragments)) == (2500, 1)


def test_the_version_is_pinned_when_the_dataframe_is_made(spark, uri):
    ps.write(numbers(spark), uri)
    df = ps.read(spark, uri)
    ps.write(numbers(spark), uri)
    assert df.count() == ROWS
    assert df.agg({"id": "max"}).collect()[0][0] == ROWS - 1
    ps.write(numbers(spark, 1), uri, mode="overwrite")
    assert df.count() == ROWS
    assert [ps.read(spark, uri, version=version).count() for version in (1, 2, 3, None)] == [ROWS, 2 * ROWS, 1, 1]
    pilum.dataset(uri).tags.create("two", 2)
    assert ps.read(spark, uri, version="two").count() == 2 * ROWS


def test_the_same_commit_id_commits_once(spark, uri):
    ps.write(numbers(spark), uri, commit_id="batch 1")
    ps.write(numbers(spark), uri, commit_id="batch 2")
    again = ps.write(numbers(spark), uri, commit_id="batch 2")
    assert (again.version, pilum.dataset(uri).version, pilum.dataset(uri).count_rows()) == (2, 2, 2 * ROWS)


def test_create_refuses_before_a_task_runs(spark, uri):
    ps.write(numbers(spark, 5), uri, mode="create")
    files = data_files(uri)
    with pytest.raises(pilum.AlreadyExistsError):
        ps.write(numbers(spark, 5), uri, mode="create")
    with pytest.raises(pilum.InvalidInputError, match="upsert"):
        ps.write(numbers(spark, 5), uri, mode="upsert")
    assert data_files(uri) == files


def test_a_worker_killed_in_the_middle_is_repeated(spark, uri, tmp_path):
    """SIGKILL for the first worker that has seen all its rows: its files become orphans, its rows come once."""
    flag = str(tmp_path / "killed")

    def kill_once(batches):
        yield from batches
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    df = numbers(spark).mapInArrow(kill_once, "id long, s string, f double")
    ds = ps.write(df, uri)
    assert Path(flag).exists()
    assert (ds.version, ds.count_rows()) == (1, ROWS)
    assert sorted(ds.to_table(["id"])["id"].to_pylist()) == list(range(ROWS))


def test_a_worker_killed_after_its_files_are_written_is_repeated(spark, uri, tmp_path, monkeypatch):
    flag = str(tmp_path / "killed")
    module = importlib.import_module("pilum.spark.write")
    original = module._write_of

    def deadly(*arguments):
        task = original(*arguments)

        def pilum_write(batches):
            rows = list(task(batches))
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                yield from rows
                return
            os.kill(os.getpid(), signal.SIGKILL)

        return pilum_write

    monkeypatch.setattr(module, "_write_of", deadly)
    ds = ps.write(numbers(spark), uri, partitions="keep")
    assert Path(flag).exists()
    assert (ds.version, ds.count_rows()) == (1, ROWS)
    # Every attempt has files of its own name; one of the five is nobody's.
    assert len(data_files(uri)) == 5
    assert len(ds.fragments) == 4


def test_a_scan_killed_in_the_middle_is_repeated(spark, uri, tmp_path):
    ps.write(numbers(spark), uri)
    flag = str(tmp_path / "killed")

    def kill_once(batches):
        for batch in batches:
            yield batch
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)

    df = ps.read(spark, uri, tasks=4).mapInArrow(kill_once, "id long, s string, f double")
    assert df.agg({"id": "sum"}).collect()[0][0] == ROWS * (ROWS - 1) // 2
    assert Path(flag).exists()


def test_a_job_that_fails_leaves_the_table_as_it_was(spark, uri):
    ps.write(numbers(spark, 5), uri)

    def fail(batches):
        for batch in batches:
            yield batch
        raise RuntimeError("the job is broken")

    with pytest.raises(Exception, match="the job is broken"):
        ps.write(numbers(spark).mapInArrow(fail, "id long, s string, f double"), uri)
    assert (pilum.dataset(uri).version, pilum.dataset(uri).count_rows()) == (1, 5)


def test_an_append_takes_the_types_of_the_table(spark, uri):
    schema = pa.schema(
        [
            ("n", pa.int8()),
            ("v", pa.list_(pa.float32(), 2)),
            ("t", pa.timestamp("ms")),
            ("d", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    table = pa.table(
        [
            pa.array([1], pa.int8()),
            pa.array([[1, 2]], schema.field("v").type),
            pa.array([5], pa.timestamp("ms")),
            pa.array(["a"]),
        ],
        schema=pa.schema([*list(schema)[:3], pa.field("d", pa.string())]),
    )
    pilum.write_dataset(table, uri)
    df = spark.sql("SELECT timestamp_ntz'2026-01-02 03:04:05.006' AS t, array(3f, 4f) AS v, 7 AS n, 'b' AS d")
    got = ps.write(df, uri).to_table()
    assert got.schema == table.schema
    assert got["n"].to_pylist() == [1, 7]
    assert got["v"].to_pylist() == [[1, 2], [3, 4]]
    for sql, named in [
        ("SELECT 300 AS n, v, t, d FROM rows", "n"),
        ("SELECT n, array(1f) AS v, t, d FROM rows", "v"),
        ("SELECT n, v, t + interval 1 microsecond AS t, d FROM rows", "t"),
        ("SELECT n, v, t, 1 AS d FROM rows", "d"),
        ("SELECT n, v, t, d, 1 AS extra FROM rows", "extra"),
    ]:
        df.createOrReplaceTempView("rows")
        with pytest.raises(Exception, match=f"column `{named}`"):
            ps.write(spark.sql(sql), uri)
    assert pilum.dataset(uri).version == 2


@pytest.mark.parametrize("mode", ["append", "create"])
def test_tasks_bring_values_to_a_dictionary_each_on_its_own(spark, uri, mode):
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("tag", pa.dictionary(pa.int16(), pa.string())),
            ("in", pa.struct([("n", pa.dictionary(pa.int8(), pa.int64()))])),
        ]
    )
    # Every partition meets its own values, in its own order.
    df = spark.range(0, 400, 1, 4).selectExpr(
        "id",
        "CASE WHEN id % 7 <> 0 THEN concat('tag ', cast((400 - id) div 30 AS string)) END AS tag",
        "named_struct('n', id * id % 23) AS `in`",
    )
    if mode == "append":
        first = {"id": [-1], "tag": ["first"], "in": [{"n": 5}]}
        pilum.write_dataset(pa.table(first, schema=schema), uri)
        got = ps.write(df, uri)
    else:
        # Spark has no dictionaries: whoever wants one in a new table writes it as Arrow, in each task.
        def write(batches):
            from pilum.spark.conform import conform_batches

            pieces = pilum.fragments.write(conform_batches(batches, schema, uri), uri, mode="create", schema=schema)
            yield pa.RecordBatch.from_pydict({"piece": pa.array(pieces, pa.binary())})

        pieces = [bytes(row.piece) for row in df.mapInArrow(write, "piece binary").collect()]
        assert len(pieces) == 4
        got = pilum.commit(uri, pilum.Create(pieces))
    table = got.to_table().sort_by("id")
    assert table.schema == schema
    expected = [
        {"id": i, "tag": f"tag {(400 - i) // 30}" if i % 7 else None, "in": {"n": i * i % 23}} for i in range(400)
    ]
    before = [] if mode == "create" else [{"id": -1, "tag": "first", "in": {"n": 5}}]
    assert table.to_pylist() == before + expected
    assert got.verify().problems == []
    assert got.verify().orphans == []


def test_more_values_than_keys_are_told_by_column(spark, uri):
    schema = pa.schema([("tag", pa.dictionary(pa.int8(), pa.string()))])
    pilum.write_dataset(pa.table({"tag": ["first"]}, schema=schema), uri)
    for rows, partitions in [(200, 4), (200, 1)]:
        df = spark.range(0, rows, 1, partitions).selectExpr("concat('tag ', cast(id AS string)) AS tag")
        with pytest.raises(Exception, match=r"`?'?tag'?`?.* distinct values .*wider key type"):
            ps.write(df, uri)
    assert (pilum.dataset(uri).version, pilum.dataset(uri).count_rows()) == (1, 1)


def test_lists_get_the_name_that_others_read(spark, uri):
    ds = ps.write(spark.sql("SELECT array(1, 2) AS l, array(named_struct('x', array(1f))) AS n, map('k', 1) AS m"), uri)
    assert ds.schema.field("l").type.value_field.name == "item"
    assert ds.schema.field("l").type.value_field.nullable
    assert ds.schema.field("n").type.value_type.field("x").type.value_field.name == "item"
    assert_same(ds.to_table(["l"]), pa.table({"l": pa.array([[1, 2]], pa.list_(pa.int32()))}))
    assert ds.to_table(["m"])["m"].to_pylist() == [[("k", 1)]]


def test_timestamps_are_instants_whatever_the_session_s_zone(spark, uri):
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        ds = ps.write(
            spark.sql("SELECT timestamp'2026-01-01 00:00:00' AS t, timestamp_ntz'2026-01-01 00:00:00' AS n"), uri
        )
        assert ds.schema.field("t").type == pa.timestamp("us", "UTC")
        assert ds.to_table(["t"])["t"].cast(pa.int64()).to_pylist() == [1767243600000000]
        assert ds.to_table(["n"])["n"].cast(pa.int64()).to_pylist() == [1767225600000000]
        back = ps.read(spark, uri).selectExpr("cast(t AS string) t", "cast(n AS string) n").collect()[0]
        assert (back.t, back.n) == ("2026-01-01 00:00:00", "2026-01-01 00:00:00")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_two_jobs_append_at_the_same_time(spark, uri):
    import concurrent.futures

    ps.write(numbers(spark, 10), uri)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        versions = [ds.version for ds in pool.map(lambda _: ps.write(numbers(spark, 1000), uri), range(3))]
    assert sorted(versions) == [2, 3, 4]
    assert pilum.dataset(uri).count_rows() == 3010


def test_options_reach_the_files(spark, uri):
    ds = ps.write(numbers(spark, 1000, 1), uri, max_rows_per_file=300, properties={"job": "7"}, durability="none")
    assert [fragment.num_rows for fragment in ds.fragments] == [300, 300, 300, 100]
    assert ds.versions()[0].properties["job"] == "7"


def test_a_read_without_checksums_is_one_in_the_workers_too(spark, tmp_path):
    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    pilum.write_dataset(rows, tmp_path / "t", durability="none")
    (file,) = (tmp_path / "t" / "data").glob("*.lance")
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    uri = str(tmp_path / "t")
    trusting = ps.read(spark, uri, verify_checksums=False)
    assert sorted(row.id for row in trusting.collect()) == [1, 1, *range(2, 100)]
    with pytest.raises(Exception, match="checksum"):
        ps.read(spark, uri).collect()


def test_unknown_and_wrong_arguments_are_refused_by_name(spark, uri):
    df = numbers(spark, 10)
    for use, name in [
        (lambda: ps.write(df, uri, comit_id="a"), "comit_id"),
        (lambda: ps.write(df, uri, mode="appendd"), "mode"),
        (lambda: ps.write(df, uri, durability="ful"), "durability"),
        (lambda: ps.read(spark, uri, colums=["id"]), "colums"),
        (lambda: ps.read(spark, uri, columns="id"), "columns"),
        (lambda: ps.read(spark, uri, tasks=0), "tasks"),
        (lambda: ps.read(spark, uri, vectors="bytes"), "vectors"),
    ]:
        with pytest.raises(pilum.InvalidInputError, match=name):
            use()
    assert not Path(uri).exists()
