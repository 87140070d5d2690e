"""Spark on a table of pilum beside Spark's own Parquet, and beside pylance read in the same way.

python benches/compare/spark.py --out docs/benchmarks/spark.md [--rows 4000000] [--merge-rows 10000000] [--rounds 5]
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

import pages
import pyarrow as pa
from peers import seconds, timed

import pilum
from pilum import spark as ps
from pilum.spark import tasks as core

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VECTOR = 16
"""Numbers of a vector."""

WAYS = {"Parquet": "Spark's Parquet", "pilum": "pilum", "source": 'pilum, `format("pilum")`', "pylance": "pylance"}
"""The ways that are measured, each with the head of its column."""

Work = Callable[[], object]


def session() -> SparkSession:
    """Return a session on two cores."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def frame(spark: SparkSession, rows: int) -> DataFrame:
    """Return rows of a rising key, a group of which each value is in 0.1 % of the rows, numbers, texts and a vector."""
    vector = ", ".join(f"cast(id % {31 + n} AS float)" for n in range(VECTOR))
    return spark.range(0, rows, 1, 8).selectExpr(
        "id",
        "cast(id * 7919 % 1000 AS int) AS grp",
        "cast(id AS double) / 3 AS x",
        "cast(id % 1009 AS double) AS y",
        "concat('name ', id) AS s",
        "concat('u', id % 5000) AS u",
        "timestamp_micros(1700000000000000 + id * 1000000) AS t",
        f"array({vector}) AS v",
    )


def touched(df: DataFrame, columns: list[str]) -> DataFrame:
    """Return an aggregate that needs every value of some columns."""
    how = {"s": "max(length(s))", "u": "max(length(u))", "t": "max(t)", "v": "sum(v[0])"}
    return df.selectExpr(*(how.get(name, f"sum({name})") for name in columns))


def by_pylance(
    spark: SparkSession, uri: str, columns: list[str], where: str | None, schema: pa.Schema
) -> Callable[[], DataFrame]:
    """Return a function that reads a table through `mapInArrow` with pylance in the workers, one task per two fragments."""
    import lance

    ds = lance.dataset(uri)
    fragments = [it.fragment_id for it in ds.get_fragments()]
    groups = [fragments[at : at + 2] for at in range(0, len(fragments), 2)]
    version = ds.version

    def pylance_scan(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import lance

        opened = lance.dataset(uri, version=version)
        for batch in ids:
            for number in batch.column(0).to_pylist():
                wanted = [opened.get_fragment(it) for it in groups[number]]
                rows = opened.scanner(columns=columns, filter=where, fragments=wanted, batch_size=core.BATCH_ROWS)
                for found in rows.to_batches():
                    yield pa.RecordBatch.from_arrays(
                        [c.cast(f.type) for c, f in zip(found, schema, strict=True)], schema=schema
                    )

    made = ps.to_spark_schema(schema)
    count = len(groups)
    return lambda: spark.range(0, count, 1, count).mapInArrow(pylance_scan, made)


def reads(spark: SparkSession, uri: str, parquet: str, rows: int) -> dict[str, dict[str, Work]]:
    """Return, by what is measured, each way to do it."""
    names = pilum.dataset(uri).schema.names
    low = rows // 2
    kept = f"id BETWEEN {low} AND {low + rows // 1000 - 1}"
    found = random.Random(1).sample(range(rows), 20)
    points = f"id IN ({', '.join(map(str, found))})"
    questions: dict[str, tuple[list[str], str | None, Callable[[DataFrame], DataFrame]]] = {
        "all columns": (names, None, lambda df: touched(df, names)),
        "2 columns": (["x", "y"], None, lambda df: touched(df, ["x", "y"])),
        "vectors only": (["v"], None, lambda df: touched(df, ["v"])),
        "filter 0.1 %": (names, kept, lambda df: touched(df, names)),
        "20 rows by key": (names, points, lambda df: touched(df, names)),
        "groupBy over 2 columns": (["grp", "x"], None, lambda df: df.groupBy("grp").agg({"x": "sum"})),
        "count() of the frame": (["id"], None, lambda df: df.groupBy().count()),
    }
    works: dict[str, dict[str, Work]] = {}
    for what, (columns, where, ask) in questions.items():
        schema = core.plan(uri, columns).schema
        other = by_pylance(spark, uri, columns, where, schema)

        def of_parquet(columns: list[str] = columns, where: str | None = where) -> DataFrame:
            df = spark.read.parquet(parquet)
            return (df if where is None else df.where(where)).select(*columns)

        def of_pilum(columns: list[str] = columns, where: str | None = where) -> DataFrame:
            return ps.read(spark, uri, columns, where)

        def of_source(columns: list[str] = columns, where: str | None = where) -> DataFrame:
            reader = spark.read.format("pilum").option("columns", ",".join(columns))
            return (reader if where is None else reader.option("filter", where)).load(uri)

        works[what] = {
            "Parquet": lambda of=of_parquet, ask=ask: ask(of()).collect(),
            "pilum": lambda of=of_pilum, ask=ask: ask(of()).collect(),
            "source": lambda of=of_source, ask=ask: ask(of()).collect(),
            "pylance": lambda of=other, ask=ask: ask(of()).collect(),
        }
    works["ps.count with a filter"] = {
        "Parquet": lambda: spark.read.parquet(parquet).where(kept).count(),
        "pilum": lambda: ps.count(spark, uri, kept),
    }
    works["all columns, in the workers alone"] = {"pilum": lambda: consumed(spark, uri, names)}
    works["an empty job of as many tasks"] = {"pilum": lambda: nothing(spark, len(core.plan(uri, names).splits))}
    return works


def consumed(spark: SparkSession, uri: str, columns: list[str]) -> object:
    """Read every batch in the workers and hand nothing over: the share of the engine."""
    planned = core.plan(uri, columns)
    scan, splits = planned.scan, planned.splits

    def pilum_engine(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for number in batch.column(0).to_pylist():
                rows = sum(it.num_rows for it in core.read_task(scan, splits[number]))
                yield pa.record_batch({"rows": pa.array([rows], pa.int64())})

    return spark.range(0, len(splits), 1, len(splits)).mapInArrow(pilum_engine, "rows bigint").collect()


def nothing(spark: SparkSession, tasks: int) -> object:
    """Run tasks that do nothing: the fixed cost."""

    def pilum_nothing(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            yield pa.record_batch({"id": batch.column(0)})

    return spark.range(0, tasks, 1, tasks).mapInArrow(pilum_nothing, "id bigint").collect()


def writes(spark: SparkSession, folder: Path, source: str) -> dict[str, dict[str, Work]]:
    """Return each way to write the rows of a Parquet folder."""
    return {
        "write all columns": {
            "Parquet": lambda: (
                spark.read.parquet(source).write.mode("overwrite").parquet(str(folder / "written.parquet"))
            ),
            "pilum": lambda: ps.write(
                spark.read.parquet(source), str(folder / "written"), mode="overwrite", durability="none"
            ),
        }
    }


def merges(spark: SparkSession, folder: Path, rows: int) -> dict[str, dict[str, Work]]:
    """Return a merge of 1 % into a table, and the rewriting of Parquet that does the same."""
    table, parquet = str(folder / "merged"), str(folder / "merged.parquet")
    df = spark.range(0, rows, 1, 8).selectExpr("id", "cast(id % 1000 AS int) AS n", "concat('name ', id) AS s")
    ps.write(df, table, durability="none")
    df.write.mode("overwrite").parquet(parquet)
    source = spark.range(0, rows // 100).selectExpr("id * 100 + 50 AS id", "-1 AS n", "'new' AS s")

    def rewritten() -> None:
        there = spark.read.parquet(parquet).join(source.select("id"), "id", "left_anti")
        there.unionByName(source).write.mode("overwrite").parquet(str(folder / "rewritten.parquet"))

    return {
        "merge 1 %": {"Parquet": rewritten, "pilum": lambda: ps.merge(source, table, "id", durability="none")},
    }


def plans(folder: Path) -> dict[str, dict[str, Work]]:
    """Return a benchmark of planning: a scan of 10,000 fragments with a task for each. Only the driver works."""
    uri = str(folder / "many")
    pilum.write_dataset(pa.table({"id": range(10_000)}), uri, max_rows_per_file=1, durability="none")
    return {"plan of 10,000 tasks": {"pilum": lambda: core.plan(uri, tasks=10_000)}}


def measured(works: dict[str, dict[str, Work]], rounds: int) -> list[str]:
    """Return a table of medians, and of two ratios: of pilum to Parquet, and of the Data Source to `mapInArrow`."""
    head = ("what", *WAYS.values(), "pilum over Parquet", "Data Source over pilum")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for what, ways in works.items():
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds + 1):
            for name, work in ways.items():
                times[name].append(timed(work))
        # The first round warms up the page cache, the JVM and the workers.
        medians = {name: statistics.median(found[1:]) for name, found in times.items()}
        cells = [seconds(medians[name]) if name in medians else "" for name in WAYS]
        for over, under in (("pilum", "Parquet"), ("source", "pilum")):
            both = over in medians and under in medians
            cells.append(f"{medians[over] / medians[under]:.2f}" if both else "")
        lines.append(f"| {what} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return [*lines, ""]


def main() -> int:
    """Measure and print."""
    parser = pages.parser(__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--merge-rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--note", default="", help="a sentence for the page, about how the module was built")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    import pyspark

    spark = session()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="pilum-spark-") as name:
        folder = Path(name)
        uri, parquet = str(folder / "rows"), str(folder / "rows.parquet")
        df = frame(spark, options.rows)
        df.write.parquet(parquet)
        vectors = pa.schema(
            [
                it if it.name != "v" else pa.field("v", pa.list_(pa.float32(), VECTOR))
                for it in ps.from_spark_schema(df.schema)
            ]
        )
        ds = ps.write(
            spark.read.parquet(parquet), uri, schema=vectors, compat="lance", max_rows_per_file=options.rows // 8
        )
        tasks = len(core.plan(uri).splits)
        bytes_there = sum(it.bytes or 0 for it in ds.fragments)
        parts: list[str] = [
            f"""# Spark on a table of pilum

{pages.when_and_where()} PySpark {pyspark.__version__}, `local[2]`.
{options.rows:,} rows of 8 columns ({bytes_there / 2**20:,.0f} MiB in pilum, {tasks} tasks for all columns).
{options.rounds} rounds after one that warms up; medians. Load of the machine at the start: {load:.1f}. {options.note}

Every query is an aggregate that needs each value of its columns. Spark reads its own Parquet files in the JVM; pilum and
pylance are read through `mapInArrow` on the same rows, two fragments in a task of pylance; `format("pilum")` is the Data
Source. `ps.count` is beside `where(..).count()` on Parquet. The merge updates 1 % of {options.merge_rows:,} rows; Parquet
has to be written again.
"""
        ]
        works: dict[str, dict[str, Any]] = reads(spark, uri, parquet, options.rows)
        works |= writes(spark, folder, parquet)
        works |= merges(spark, folder, options.merge_rows)
        works |= plans(folder)
        parts += measured(works, options.rounds)
        spark.stop()
    pages.finish(parts, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
