"""Tables in PySpark through `mapInArrow`: Arrow batches are handed to Spark, and no code of ours runs in the JVM.

    from pilum import spark as ps

    df = ps.read(spark, uri, columns=["carrier", "dep_delay"], filter="dep_delay > 60")
    ds = ps.write(df, uri, mode="append")

The driver pins one version and plans tasks; each task is a small description that a worker opens by itself. A write is
committed once, by the driver. Needs PySpark 4.0 or newer: `pip install pilum[spark]`.
"""

from pilum.spark.changes import read_changes
from pilum.spark.columns import add_columns
from pilum.spark.kartothek import read_kartothek
from pilum.spark.kartothek_write import write_kartothek
from pilum.spark.merge import merge
from pilum.spark.read import read
from pilum.spark.references import read_references
from pilum.spark.skiff import pipe_skiff
from pilum.spark.source_registration import register
from pilum.spark.statements import cleanup, compact, count, delete, register_view, update
from pilum.spark.streaming_sink import foreach_batch, forget_stream
from pilum.spark.types import from_spark_schema, to_spark_schema
from pilum.spark.write import write

__all__ = [
    "add_columns",
    "cleanup",
    "compact",
    "count",
    "delete",
    "foreach_batch",
    "forget_stream",
    "from_spark_schema",
    "merge",
    "pipe_skiff",
    "read",
    "read_changes",
    "read_kartothek",
    "read_references",
    "register",
    "register_view",
    "to_spark_schema",
    "update",
    "write",
    "write_kartothek",
]
