"""Jobs on a cluster of Spark in which workers and executors die, run by a process of its own: one session in each process.

    python spark_cluster_job.py MASTER FOLDER JOB...

Each job prints one JSON line with what it found; the tests hold it against what must be.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore", category=FutureWarning)
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

import pilum  # noqa: E402
from pilum import spark as ps  # noqa: E402
from pilum.spark import staging  # noqa: E402

ROWS = 4000
PARTITIONS = 4


def dying(flag: str, whom: str):
    """Return a function for `mapInArrow` that kills its worker, or its executor, once, after it has handed rows on."""

    def pass_on_and_die(batches):
        import os
        import signal
        from pathlib import Path

        number = 0
        for batch in batches:
            # Several batches, so that files are half written when the process dies.
            for first in range(0, batch.num_rows, 100):
                yield batch.slice(first, 100)
                number += 1
                if number == 3:
                    try:
                        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
                    except FileExistsError:
                        continue
                    victim = os.getpid()
                    while (
                        whom == "executor"
                        and b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{victim}/cmdline").read_bytes()
                    ):
                        victim = int(Path(f"/proc/{victim}/stat").read_text().rpartition(")")[2].split()[1])
                    os.kill(victim, signal.SIGKILL)

    return pass_on_and_die


def numbers(spark, first=0, rows=ROWS):
    return spark.range(first, first + rows, 1, PARTITIONS)


def contents(uri, storage_options=None):
    """Return what a table has: rows, distinct rows, their sum, and whether it is sound."""
    ds = pilum.dataset(uri, storage_options=storage_options)
    ids = ds.to_table(columns=["id"])["id"].to_pylist()
    return {"rows": len(ids), "distinct": len(set(ids)), "sum": sum(ids), "version": ds.version, "ok": ds.verify().ok}


def tidied(uri):
    """Return how many files a cleanup took, and whether exactly those of the newest version are left."""
    folder = Path(uri, "data")
    before = len(list(folder.iterdir()))
    ds = pilum.dataset(uri)
    ds.cleanup(older_than=dt.timedelta(0), unverified_older_than=dt.timedelta(0))
    left = {f"data/{it.name}" for it in folder.iterdir()}
    return {"taken": before - len(left), "exact": left == {file for it in ds.fragments for file in it.files}}


def plain(spark, folder):
    """Write and read through both ways, on all executors."""
    uri = str(folder / "plain")
    ps.write(numbers(spark), uri)
    numbers(spark, ROWS).write.format("pilum").mode("append").save(uri)

    def where(batches):
        import os
        import time

        import pyarrow as pa

        # Long enough that one executor does not take all tasks. Each executor has one daemon, the parent of its workers.
        time.sleep(0.5)
        for batch in batches:
            yield pa.record_batch(
                {"id": batch.column("id"), "at": pa.array([os.getppid()] * batch.num_rows, pa.int64())}
            )

    df = spark.read.format("pilum").option("tasks", 8).load(uri)
    seen = df.mapInArrow(where, "id bigint, at bigint").groupBy("at").count().collect()
    read = ps.read(spark, uri, filter="id >= 10", tasks=8)
    return {**contents(uri), "executors": len(seen), "seen": sum(it["count"] for it in seen), "filtered": read.count()}


def killed_worker(spark, folder):
    """A worker dies while it writes: through `mapInArrow`, then through the Data Source."""
    uri = str(folder / "worker")
    ps.write(numbers(spark).mapInArrow(dying(str(folder / "worker-1"), "worker"), "id bigint"), uri)
    second = numbers(spark, ROWS).mapInArrow(dying(str(folder / "worker-2"), "worker"), "id bigint")
    second.write.format("pilum").mode("append").save(uri)
    died = (folder / "worker-1").exists() and (folder / "worker-2").exists()
    return {**contents(uri), "died": died, **tidied(uri)}


def killed_executor(spark, folder):
    """An executor dies while its tasks write."""
    uri = str(folder / "executor")
    ps.write(numbers(spark).mapInArrow(dying(str(folder / "executor-1"), "executor"), "id bigint"), uri)
    return {**contents(uri), "died": (folder / "executor-1").exists(), **tidied(uri)}


def dying_driver(spark, folder):
    """Kill the driver after it has written the data files, and before it commits."""
    staging.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    ps.write(numbers(spark), str(folder / "driver"), commit_id="day 7")


def next_driver(spark, folder):
    """Run the write of `dying_driver` again in another driver, with the same commit id."""
    uri = str(folder / "driver")
    ps.write(numbers(spark), uri, commit_id="day 7")
    return {**contents(uri), **tidied(uri)}


def speculation(spark, folder):
    """Let two attempts of one task write at the same time: the rows of one attempt are committed."""
    uri, flag = str(folder / "speculation"), folder / "slow"

    def slow_once(batches):
        import os
        import time
        from pathlib import Path

        from pyspark import TaskContext

        for batch in batches:
            is_slow = False
            if batch.num_rows and batch.column(0)[0].as_py() == 0:
                Path(f"{flag}-attempt-{TaskContext.get().attemptNumber()}").touch()
                try:
                    os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
                    is_slow = True
                except FileExistsError:
                    pass
            # The writer gets the first rows before the slow attempt waits, so this attempt leaves a file.
            yield batch
            if is_slow:
                Path(f"{flag}-pid").write_text(str(os.getpid()))
                time.sleep(20)

    ps.write(numbers(spark).mapInArrow(slow_once, "id bigint"), uri)
    # Spark kills the process of the attempt whose rows are not committed. Wait for that: until then, the attempt may write
    # files, which a cleanup would miss.
    pid = Path(f"{flag}-pid").read_text()
    for _ in range(100):
        if not Path("/proc", pid).exists():
            break
        time.sleep(0.1)
    return {**contents(uri), "attempts": len(list(folder.glob("slow-attempt-*"))), **tidied(uri)}


def lost_answer(spark, folder):
    """Lose the answer of the commit. The same call again finds the commit, and runs no task."""
    store = json.loads(os.environ["PILUM_TEST_STORE"])
    try:
        ps.write(numbers(spark), store["uri"], commit_id="job", storage_options=store["deaf"])
        unknown = False
    except pilum.CommitUnknownError:
        unknown = True

    def fail(batches):
        raise RuntimeError("a task ran")
        yield from batches

    direct = store["direct"]
    again = ps.write(
        numbers(spark).mapInArrow(fail, "id bigint"), store["uri"], commit_id="job", storage_options=direct
    )
    found = contents(store["uri"], direct)
    ds = pilum.dataset(store["uri"], storage_options=direct)
    # Speculative attempts may have written files that were not committed.
    ds.cleanup(older_than=dt.timedelta(0), unverified_older_than=dt.timedelta(0))
    orphans = len(ds.verify().orphans)
    return {**found, "unknown": unknown, "before": again.was_committed_before, "orphans": orphans}


def stream(spark, folder):
    """A stream from a table to a table, stopped and started again."""
    source, sink = str(folder / "in"), str(folder / "out")
    for first in (0, ROWS, 2 * ROWS):
        ps.write(numbers(spark, first), source)
        query = (
            spark.readStream.format("pilum")
            .option("maxFilesPerTrigger", 3)
            .load(source)
            .writeStream.format("pilum")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(sink)
        )
        query.awaitTermination()
    return contents(sink)


def pinned(spark, folder):
    """While a job reads, another writer commits, compacts and cleans up: every task sees one version."""
    uri = str(folder / "pinned")
    for first in range(0, ROWS, 500):
        ps.write(numbers(spark, first, 500), uri)
    df = ps.read(spark, uri, tasks=16)
    source = spark.read.format("pilum").option("tasks", 16).load(uri)
    source.schema  # noqa: B018 - pins the version
    stop = threading.Event()
    commits = 0

    def disturb():
        nonlocal commits
        while not stop.is_set():
            ds = pilum.dataset(uri)
            ds.update({"id": "id + 1000000"}, f"id = {commits}")
            ds.compact()
            ds.cleanup(older_than=dt.timedelta(minutes=5))
            commits += 1

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        sums = [it.selectExpr("sum(id) AS n", "count(*) AS c").collect()[0] for it in (df, source) for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    return {"sums": sorted({it.n for it in sums}), "counts": sorted({it.c for it in sums}), "commits": commits}


JOBS = {
    job.__name__: job
    for job in (
        plain,
        killed_worker,
        killed_executor,
        dying_driver,
        next_driver,
        speculation,
        lost_answer,
        stream,
        pinned,
    )
}

# These processes run for seconds: the first compiler of the JVM is enough, and uses less processor time than the second one.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main() -> None:
    """Run the jobs in one session."""
    from pyspark.sql import SparkSession

    master, folder, *jobs = sys.argv[1:]
    session = (
        SparkSession.builder.master(master)
        .appName("pilum on a cluster")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "600m")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.executor.extraJavaOptions", QUICK)
        .config("spark.executor.memory", "600m")
        .config("spark.executor.cores", "1")
        .config("spark.cores.max", "2")
        # Both executors are there before the first task.
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "60s")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.warehouse.dir", str(Path(folder) / "warehouse"))
        .config("spark.speculation", "speculation" in jobs)
        .config("spark.speculation.interval", "100ms")
        .config("spark.speculation.multiplier", "1.2")
        .config("spark.speculation.quantile", "0.4")
        .config("spark.speculation.minTaskRuntime", "1s")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    for job in jobs:
        print(json.dumps({job: JOBS[job](session, Path(folder))}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
