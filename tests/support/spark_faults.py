"""The Data Source of pilum with faults: one step of a stream raises, or ends its process, once.

The classes are made inside of a function, so that Spark sends them to its Python processes by value.
"""

from __future__ import annotations

from pathlib import Path

POINTS = (
    # The source, in the process that plans batches, then in tasks.
    "source.initial_offset",
    "source.latest_offset",
    "source.before_partitions",
    "source.after_partitions",
    "source.before_read",
    "source.during_read",
    "source.commit",
    # The sink, in tasks, then in the process that commits.
    "sink.plan",
    "sink.before_write",
    "sink.during_write",
    "sink.after_write",
    "sink.before_commit",
    "sink.after_commit",
)


def arm(folder: Path, point: str, mode: str) -> None:
    """Let the next pass of `point` fail: by an exception (`"raise"`), or by the end of its process (`"exit"`)."""
    assert point in POINTS
    (folder / point).write_text(mode)


def faulty_source(folder: str):  # noqa: C901 - classes inside of a function
    """Return the Data Source `pilum_faulty`."""
    from pilum.spark.source import DefaultSource
    from pilum.spark.source_writer import ArrowStreamWriter
    from pilum.spark.streaming_source import StreamReader

    def reach(point):
        import os
        from pathlib import Path

        try:
            mode = Path(folder, point).read_text()
            # Of two processes that come here at once, one fails.
            Path(folder, point).rename(Path(folder, f"{point}.passed"))
        except FileNotFoundError:
            return
        if mode == "exit":
            os._exit(17)
        raise RuntimeError(f"fault at {point}")

    def during(point, batches):
        for batch in batches:
            yield batch
            reach(point)

    class FaultyReader(StreamReader):
        def initialOffset(self):  # noqa: N802 - Spark's name
            reach("source.initial_offset")
            return super().initialOffset()

        def latestOffset(self, start=None, limit=None):  # noqa: N802 - Spark's name
            reach("source.latest_offset")
            return super().latestOffset(start, limit)

        def partitions(self, start, end):
            reach("source.before_partitions")
            works = super().partitions(start, end)
            reach("source.after_partitions")
            return works

        def read(self, partition):
            reach("source.before_read")
            yield from during("source.during_read", super().read(partition))

        def commit(self, end):
            reach("source.commit")
            super().commit(end)

    class FaultyWriter(ArrowStreamWriter):
        def write(self, iterator):
            reach("sink.before_write")
            message = super().write(during("sink.during_write", iterator))
            reach("sink.after_write")
            return message

        def commit(self, messages, batchId):  # noqa: N803 - Spark's name
            reach("sink.before_commit")
            super().commit(messages, batchId)
            reach("sink.after_commit")

    class FaultySource(DefaultSource):
        @classmethod
        def name(cls):
            return "pilum_faulty"

        def streamReader(self, schema):  # noqa: N802 - Spark's name
            from pilum.spark.source_options import STREAM_READ, parse

            return FaultyReader(parse(self.options, STREAM_READ, "streaming read"), schema)

        def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
            from pilum.spark.source_options import STREAM_WRITE, parse

            reach("sink.plan")
            return FaultyWriter(parse(self.options, STREAM_WRITE, "streaming write"), schema, overwrite=overwrite)

    return FaultySource
