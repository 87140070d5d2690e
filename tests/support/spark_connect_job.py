"""What works through Spark Connect, in a process of its own: a client of a server.

python spark_connect_job.py REMOTE FOLDER
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore", category=FutureWarning)
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import SparkSession  # noqa: E402

import pilum  # noqa: E402
from pilum import spark as ps  # noqa: E402

DRIVER = Path(__file__).resolve().parent / "spark_driver_job.py"
EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "connect.py"


def expect(got, wanted):
    """Stop with an error unless both are the same."""
    if got != wanted:
        raise AssertionError(f"{got!r} instead of {wanted!r}")


def kill_drivers(remote, folder):
    """Run two drivers that die, one before its commit and one after it. Both are clients of the server."""
    uri = f"{folder}/dying"
    ours = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    for when in ("before", "after"):
        died = subprocess.run([sys.executable, str(DRIVER), remote, uri, when], env=clean, check=False, timeout=120)
        expect(died.returncode, -signal.SIGKILL)
        expect(len(list(Path(uri, "data").iterdir())) >= 1, True)
        print(f"{when} the commit: {len(list(Path(uri).glob('_versions/*.manifest')))} versions")


def main() -> None:
    """Write, read and stream."""
    remote, folder = sys.argv[1:]
    spark = SparkSession.builder.remote(remote).getOrCreate()
    uri, out = f"{folder}/t", f"{folder}/out"
    try:
        kill_drivers(remote, folder)
        runpy.run_path(str(EXAMPLE))["main"](spark, folder)
        numbers = spark.range(0, 100, 1, 4)
        expect(ps.write(numbers, uri).count_rows(), 100)
        expect(ps.read(spark, uri, filter="id < 10", tasks=2).count(), 10)
        # The server finds the format by itself; registering it again does no harm.
        expect(spark.read.format("pilum").option("filter", "id < 10").load(uri).count(), 10)
        ps.register(spark)
        numbers.write.format("pilum").mode("append").option("commitId", "once").save(uri)
        numbers.write.format("pilum").mode("append").option("commitId", "once").save(uri)
        expect(pilum.dataset(uri).count_rows(), 200)
        for _ in range(2):
            stream = spark.readStream.format("pilum").load(uri).writeStream.trigger(availableNow=True)
            query = stream.format("pilum").option("checkpointLocation", f"{folder}/c1").start(out)
            query.awaitTermination()
        expect(pilum.dataset(out).count_rows(), 200)
        stream = spark.readStream.format("pilum").load(uri).writeStream.trigger(availableNow=True)
        stream = stream.foreachBatch(ps.foreach_batch(out, "copy")).option("checkpointLocation", f"{folder}/c2")
        query = stream.start()
        query.awaitTermination()
        expect(query.exception(), None)
        expect(pilum.dataset(out).count_rows(), 400)
        expect(pilum.dataset(out).config["pilum.stream.copy"].split()[0], "0")
    finally:
        spark.stop()
    print("Connect: done")


if __name__ == "__main__":
    main()
