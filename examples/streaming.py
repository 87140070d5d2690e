"""A streaming pipeline from a table to a table that is stopped in the middle: each row arrives exactly once.

    python examples/streaming.py          (needs pilum[spark] and Java 17)

The first run dies between its commit and Spark's checkpoint, which is the moment at which other sinks write a batch twice.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import pilum

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READINGS = 100


def measure(events: str, first: int) -> None:
    """Append readings, as a program without Spark does."""
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    numbers = range(first, first + READINGS)
    readings = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "at": pa.array([start + dt.timedelta(seconds=n) for n in numbers], pa.timestamp("us", "UTC")),
            "celsius": pa.array([20 + n % 7 / 2 for n in numbers], pa.float64()),
        }
    )
    pilum.write_dataset(readings, events, mode="append", max_rows_per_file=READINGS // 2)


def run(spark: SparkSession, events: str, hot: str, checkpoint: str) -> None:
    """Copy the hot readings that are new, one file in each batch, and stop."""
    readings = spark.readStream.format("pilum").option("maxFilesPerTrigger", 1).load(events)
    query = (
        readings.where("celsius >= 22")
        .selectExpr("*", "celsius * 9 / 5 + 32 AS fahrenheit")
        .writeStream.format("pilum")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(hot)
    )
    query.awaitTermination()


def lose_last_checkpoint(checkpoint: str) -> None:
    """Do as if the driver had died after the commit to the table, and before it noted the batch as done."""
    commits = Path(checkpoint, "commits")
    last = max(int(it.name) for it in commits.iterdir() if it.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def main(spark: SparkSession, folder: str) -> None:
    """Run, die, run again."""
    events, hot, checkpoint = f"{folder}/events.pilum", f"{folder}/hot.pilum", f"{folder}/checkpoint"
    measure(events, 0)
    run(spark, events, hot, checkpoint)
    lose_last_checkpoint(checkpoint)
    measure(events, READINGS)
    # Between two runs the table may be compacted: that adds no rows.
    pilum.dataset(events).compact()
    run(spark, events, hot, checkpoint)
    ids = pilum.dataset(hot).to_table(columns=["id"])["id"].to_pylist()
    expected = pilum.dataset(events).to_table(columns=["id"], filter="celsius >= 22")["id"].to_pylist()
    print(f"{len(ids)} hot readings in {pilum.dataset(hot).version} versions")
    assert sorted(ids) == sorted(expected)


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    with tempfile.TemporaryDirectory() as place:
        main(session, place)
    session.stop()
