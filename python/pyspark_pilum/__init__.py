"""Where Spark finds `format("pilum")`: it looks for `DefaultSource` in modules whose names begin with `pyspark_`."""

from pilum.spark.source import DefaultSource

__all__ = ["DefaultSource"]
