"""Tables through Spark Connect: the program is a thin client, and Spark runs on a server.

    python examples/connect.py          (needs pilum[spark], pyspark[connect] and Java 17)

`remote("local[2]")` starts a server of its own; `remote("sc://host:15002")` uses one that is there. pilum is installed
where the server runs too. The client and the server reach the tables at the same address.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from pilum import spark as ps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(spark: SparkSession, folder: str) -> None:
    """Write and read in both ways."""
    uri = f"{folder}/readings.pilum"
    readings = spark.range(0, 1000, 1, 4).selectExpr("id", "sin(id) AS value")
    ds = ps.write(readings, uri)
    readings.write.format("pilum").mode("append").option("commitId", "second load").save(uri)
    high = spark.read.format("pilum").option("filter", "value > 0.5").load(uri)
    print(f"{ds.count_rows()} rows, then {ps.read(spark, uri).count()}; {high.count()} of them are high")
    assert ps.read(spark, uri).count() == 2000
    assert high.count() == ps.read(spark, uri, filter="value > 0.5").count() > 0


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote("local[2]").getOrCreate()
    with tempfile.TemporaryDirectory() as place:
        main(session, place)
    session.stop()
