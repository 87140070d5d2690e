"""A daily batch pipeline: raw orders land in a bronze table, and a merge by key keeps a silver table of their newest state.

    python examples/daily_batch.py          (needs pilum[spark] and Java 17)

A day that is run twice, after a failure or by mistake, changes nothing the second time: every write has the id of its day.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from typing import TYPE_CHECKING

import pilum
from pilum import spark as ps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = 3
ORDERS = 200


def arrivals(spark: SparkSession, day: int) -> DataFrame:
    """Return the orders that arrive on a day: new ones, corrections of old ones, and some that arrive twice."""
    first = max(0, (day - 1) * ORDERS // 2)
    stamp = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=day)
    orders = spark.range(first, first + ORDERS, 1, 2).selectExpr(
        "id AS order_id",
        f"cast(id * 3 + {day} AS decimal(12,2)) AS amount",
        f"CASE WHEN id % 7 = 0 AND {day} > 0 THEN 'cancelled' ELSE 'open' END AS state",
        f"timestamp '{stamp.isoformat()}' AS arrived_at",
    )
    return orders.union(orders.where("order_id % 10 = 0"))


def load_bronze(spark: SparkSession, day: int, bronze: str) -> None:
    """Append a day as it arrived, with its number."""
    rows = arrivals(spark, day).selectExpr("*", f"{day} AS day")
    rows.write.format("pilum").mode("append").option("commitId", f"bronze {day}").save(bronze)


def merge_silver(spark: SparkSession, day: int, bronze: str, silver: str) -> None:
    """Bring the silver table to the newest state of each order of a day."""
    newest = ps.read(spark, bronze, filter=f"day = {day}").dropDuplicates(["order_id"]).drop("day")
    ds = pilum.dataset(silver)
    ds.merge_insert("order_id", newest.toArrow(), commit_id=f"silver {day}")


def main(spark: SparkSession, folder: str) -> None:
    """Run three days, the second one twice."""
    bronze, silver = f"{folder}/bronze.pilum", f"{folder}/silver.pilum"
    empty = arrivals(spark, 0).limit(0)
    ps.write(empty, silver, stable_row_ids=True)
    for day in [0, 1, 1, 2]:
        load_bronze(spark, day, bronze)
        merge_silver(spark, day, bronze, silver)
    orders = spark.read.format("pilum").load(silver)
    states = {row["state"]: row["count"] for row in orders.groupBy("state").count().collect()}
    print(f"bronze: {pilum.dataset(bronze).count_rows()} arrivals in {pilum.dataset(bronze).version} versions")
    print(f"silver: {orders.count()} orders, {states}")
    assert pilum.dataset(bronze).count_rows() == DAYS * ORDERS * 11 // 10
    assert orders.count() == orders.select("order_id").distinct().count() == ORDERS * (DAYS + 1) // 2 - ORDERS // 2
    # The state of yesterday is still there.
    yesterday = pilum.dataset(silver, version=pilum.dataset(silver).version - 1)
    assert yesterday.count_rows() == 200


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    with tempfile.TemporaryDirectory() as place:
        main(session, place)
    session.stop()
