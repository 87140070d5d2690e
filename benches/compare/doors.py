"""DuckDB and Polars on a table of pilum, with filters that keep 0.1 % of the rows, beside the same queries on Parquet.

python benches/compare/doors.py --out docs/benchmarks/doors.md [--rows 10000000] [--rounds 9]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import duckdb
import numpy as np
import pages
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from peers import seconds, timed
from tables import SEED

import pilum

BATCH = 65_536


def stream(rows: int) -> pa.RecordBatchReader:
    """Return rows of a rising key, a group of which each value is in 0.1 % of the rows, two numbers and a text."""
    schema = pa.schema({"id": pa.int64(), "grp": pa.int32(), "x": pa.float64(), "n": pa.int64(), "name": pa.string()})

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(SEED)
        for start in range(0, rows, BATCH):
            ids = np.arange(start, min(rows, start + BATCH))
            count = len(ids)
            names = np.char.add("name ", ids.astype("U9"))
            columns = [
                ids,
                random.integers(0, 1000, count, "i4"),
                random.random(count),
                random.integers(0, 1 << 40, count),
                names,
            ]
            yield pa.record_batch([pa.array(column) for column in columns], schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


@dataclass
class Question:
    """A filter in the words of each library."""

    what: str
    sql: str
    polars: pl.Expr


def questions(rows: int) -> list[Question]:
    """Return filters that keep about 0.1 %: of rows that lie together, and of rows that are spread over the table."""
    low, high = rows // 2, rows // 2 + rows // 1000 - 1
    return [
        Question("rows together", f"id BETWEEN {low} AND {high}", pl.col("id").is_between(low, high)),
        Question("rows scattered", "grp = 7", pl.col("grp") == 7),
    ]


Answer = Callable[[], pa.Table | pl.DataFrame]


def answers(ds: pilum.Dataset, parquet: Path, question: Question) -> dict[str, Answer]:
    """Return each way to ask: all columns of the matching rows."""
    rows = ds.to_pyarrow()
    database = duckdb.connect()
    database.register("rows", rows)
    return {
        "pilum": lambda: ds.to_table(filter=question.sql),
        "DuckDB on pilum": lambda: database.sql(f"SELECT * FROM rows WHERE {question.sql}").to_arrow_table(),
        "DuckDB on Parquet": lambda: database.sql(f"SELECT * FROM '{parquet}' WHERE {question.sql}").to_arrow_table(),
        "Polars on pilum": lambda: ds.lazy().filter(question.polars).collect(),
        "Polars on pilum, as a pyarrow dataset": lambda: (
            pl.scan_pyarrow_dataset(rows).filter(question.polars).collect()
        ),
        "Polars on Parquet": lambda: pl.scan_parquet(parquet).filter(question.polars).collect(),
    }


def scans_of(work: Answer) -> list[Any]:
    """Return the scanners of pilum that a call makes."""
    made: list[Any] = []
    original = pilum.Dataset.scanner

    def spy(*arguments: Any, **options: Any) -> Any:
        made.append(original(*arguments, **options))
        return made[-1]

    pilum.Dataset.scanner = spy  # type: ignore[method-assign]
    try:
        work()
    finally:
        pilum.Dataset.scanner = original  # type: ignore[method-assign]
    return made


def pages_read(work: Answer) -> str:
    """Return how many pages of the filter's columns a call reads, of how many there are."""
    metrics = [scan.metrics for scan in scans_of(work) if scan.metrics is not None]
    if not metrics:
        return ""
    total = sum(it.pages_total for it in metrics)
    return f"{total - sum(it.pages_pruned for it in metrics):,} of {total:,}"


def measured(ds: pilum.Dataset, parquet: Path, question: Question, rounds: int) -> list[str]:
    """Return a table of times and pages for one filter."""
    ways = answers(ds, parquet, question)
    wanted = ways["pilum"]().num_rows  # type: ignore[union-attr]
    for name, work in ways.items():
        got = work()
        count = got.num_rows if isinstance(got, pa.Table) else got.height
        if count != wanted:
            raise AssertionError(f"{name}: {count} rows of {wanted} for {question.what}")
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            times[name].append(timed(work))
    lines = [f"| {question.what}: {wanted:,} rows | median | least | pages read |", "|---|---|---|---|"]
    for name, work in ways.items():
        found = times[name]
        read = "" if name.endswith("Parquet") else pages_read(work)
        lines.append(f"| {name} | {seconds(statistics.median(found))} | {seconds(min(found))} | {read} |")
    return [*lines, ""]


def main() -> int:
    """Measure and print."""
    parser = pages.parser(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--note", default="", help="a sentence for the page, about how the module was built or what else ran"
    )
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="pilum-doors-") as folder:
        parquet = Path(folder) / "rows.parquet"
        ds = pilum.write_dataset(stream(options.rows), Path(folder) / "rows.pilum", durability="none")
        with pq.ParquetWriter(parquet, ds.schema) as writer:
            for batch in ds.to_batches(batch_rows=1 << 20, batch_bytes=1 << 30):
                writer.write_batch(batch)
        parts = [
            f"""# DuckDB and Polars on a table of pilum

{pages.when_and_where()} DuckDB {duckdb.__version__}, Polars {pl.__version__}.
{options.rows:,} rows of 5 columns, {options.rounds} rounds, page cache warm. Load of the machine at the start: {load:.1f}.
{options.note}

Each query returns all columns of the rows that a filter keeps, about 0.1 %. The first filter keeps rows that lie together, so
statistics leave out almost all pages; the second keeps rows that are spread over the whole table. "pages read" counts pages of
the columns of the filter. DuckDB reads `ds.to_pyarrow()`, Polars `ds.lazy()`. The Parquet file has pyarrow's defaults.
"""
        ]
        for question in questions(options.rows):
            parts += measured(ds, parquet, question, options.rounds)
    pages.finish(parts, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
