"""Registering `format("pilum")` in a session, for sessions whose Spark does not find it by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilum.arguments import checked
from pilum.exceptions import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@checked()
def register(spark: SparkSession) -> None:
    """Make `format("pilum")` known to a session, classic or Connect. It may be called again.

    Spark finds the format by itself where pilum is installed in the environment of the driver (Connect: of the server).

    Args:
        spark: The session.

    Raises:
        UnsupportedError: PySpark is older than 4.0, which has no Python Data Sources: use `read` and `write`.
    """
    try:
        from pilum.spark.source import DefaultSource
    except ImportError:
        import pyspark

        raise UnsupportedError(
            f"PySpark {pyspark.__version__} has no Python Data Sources: use pilum.spark.read, write and "
            f"foreach_batch, or PySpark 4.0"
        ) from None
    spark.dataSource.register(DefaultSource)
