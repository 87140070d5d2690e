"""Parquet files: imports, filters and takes of pilum beside pyarrow, pylance, DuckDB and Polars, on the same files.

    make bench-parquet              (or: python benches/compare/parquet.py --out docs/benchmarks/parquet.md)

Times are wall clock, the least of several runs, files in the page cache, each library with as many threads as it likes. Every
answer is compared before it is measured.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import duckdb
import lance
import numpy as np
import pages
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq

import pilum

TAKEN = 1000


def rows(count: int) -> pa.Table:
    """Return events in the order of their time: ids, times, numbers, short and longer texts, some of them null."""
    r = np.random.default_rng(1)
    words = pa.array([f"carrier {n}" for n in range(50)])
    nulls = pa.array(r.random(count) < 0.05)
    note = pa.array([f"{n:x}-{n * 2654435761 % 2**32:x}" for n in range(count)])
    table = pa.table(
        {
            "id": pa.array(np.arange(count, dtype=np.int64)),
            "at": pa.array(np.arange(count, dtype=np.int64) * 1000 + 1_700_000_000_000_000, pa.timestamp("us")),
            "carrier": words.take(pa.array(r.integers(0, 50, count))),
            "delay": pa.compute.if_else(nulls, None, pa.array(r.integers(-60, 600, count).astype(np.int32))),
            "lat": pa.array(r.normal(size=count)),
            "lon": pa.array(r.normal(size=count)),
            "amount": pa.array(r.integers(0, 2**40, count)),
            "note": note,
        }
    )
    return table.combine_chunks()


def least(work: Callable[[], object], times: int) -> float:
    """Return the least wall clock time of several runs."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def line(what: str, ours: float, others: dict[str, float], note: str = "") -> list[str]:
    """Return one line of the page: our time, those of others and how many times ours they are."""
    told = ", ".join(f"{name} {1000 * took:,.1f} ms ({took / ours:.1f} x)" for name, took in others.items())
    return [what, f"{1000 * ours:,.1f} ms", told, note]


def imported(file: Path, folder: Path, table: pa.Table, times: int) -> list[str]:
    """Import the file into a table; beside reading it with pyarrow and writing the rows with pylance."""

    def ours() -> None:
        shutil.rmtree(folder / "ours", ignore_errors=True)
        pilum.parquet.import_(file, folder / "ours", durability="none")

    def theirs() -> None:
        lance.write_dataset(table, folder / "theirs", mode="overwrite", data_storage_version="legacy")

    took = least(ours, times)
    others = {"pyarrow read": least(lambda: pq.read_table(file), times), "pylance write": least(theirs, times)}
    if pilum.dataset(folder / "ours").count_rows() != table.num_rows:
        raise SystemExit("rows are missing")
    return line("import", took, others, f"{table.nbytes / took / 1e9:.2f} GB/s of Arrow")


def filtered(name: str, file: Path, sql: str, expression: pds.Expression, polars: pl.Expr, times: int) -> list[str]:
    """Filter the file with each library."""
    columns = ["id", "delay", "carrier"]
    ours = pilum.parquet.dataset(file)
    theirs = pds.dataset(file)
    wanted = ours.to_table(columns, sql)
    if not theirs.to_table(columns, expression).equals(wanted):
        raise SystemExit(f"{name}: the rows differ from those of pyarrow")
    with duckdb.connect() as db:
        query = f"SELECT {', '.join(columns)} FROM '{file}' WHERE {sql}"
        others = {
            "pyarrow": least(lambda: pds.dataset(file).to_table(columns, expression), times),
            "DuckDB": least(lambda: db.execute(query).to_arrow_table(), times),
            "Polars": least(lambda: pl.scan_parquet(file).filter(polars).select(columns).collect(), times),
        }
    took = least(lambda: pilum.parquet.dataset(file).to_table(columns, sql), times)
    return line(f"filter, {name}", took, others, f"{wanted.num_rows:,} rows")


def taken(name: str, file: Path, positions: list[int], times: int) -> list[str]:
    """Take rows by position with each library that can."""
    ours, theirs = pilum.parquet.dataset(file), pds.dataset(file)
    indices = pa.array(positions)
    if not ours.take(positions).equals(theirs.take(indices)):
        raise SystemExit(f"{name}: the rows differ from those of pyarrow")
    took = least(lambda: ours.take(positions), times)
    first = least(lambda: pilum.parquet.dataset(file).take(positions), times)
    others = {
        "pyarrow": least(lambda: theirs.take(indices), max(2, times // 2)),
        "Polars": least(
            lambda: pl.scan_parquet(file).with_row_index().filter(pl.col("index").is_in(positions)).collect(), 2
        ),
    }
    return line(f"take {len(positions):,}, {name}", took, others, f"{1000 * first:.1f} ms with opening the file")


def measured(folder: Path, count: int, times: int) -> list[list[str]]:
    """Return the lines of the page."""
    table = rows(count)
    foreign, own = folder / "pyarrow.parquet", folder / "pilum.parquet"
    pq.write_table(table, foreign)
    pilum.parquet.export(table, own, durability="none", compression="snappy")
    r = random.Random(1)
    scattered = sorted(r.sample(range(count), TAKEN))
    start = count // 3
    near = list(range(start, start + TAKEN))
    middle = f"id BETWEEN {start} AND {start + 5000}"
    between = (pds.field("id") >= start) & (pds.field("id") <= start + 5000)
    lines = [imported(foreign, folder, table, times)]
    for name, file in (("file of pyarrow", foreign), ("file of pilum", own)):
        lines += [
            filtered(
                f"a range of ids, {name}", file, middle, between, pl.col("id").is_between(start, start + 5000), times
            ),
            filtered(
                f"1 in 660, {name}", file, "delay = 599", pds.field("delay") == 599, pl.col("delay") == 599, times
            ),
            taken(f"in one place, {name}", file, near, times),
            taken(f"scattered, {name}", file, scattered, times),
        ]
    return lines


def main() -> None:
    """Measure, print a page, and write it where it is wanted."""
    options = pages.parser(__doc__)
    options.add_argument("--rows", type=int, default=10_000_000, help="rows of the table")
    options.add_argument("--times", type=int, default=5, help="repetitions")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        lines = measured(Path(folder), given.rows, given.times)
    head = ["work", "pilum", "others (times pilum's)", ""]
    text = [f"| {' | '.join(row)} |" for row in [head, ["---"] * 4, *lines]]
    intro = (
        f"Parquet files of {given.rows:,} rows and eight columns: one as `pyarrow.parquet.write_table` writes it (no page "
        "index, pages of 1 MiB, snappy), one of `pilum.parquet.export` (page index, pages of 8 KiB, checksums, snappy). Wall "
        f"clock, the least of {given.times} runs, in the page cache. `take` of pilum is on an open dataset, which knows where "
        "the rows of each page are; the last column has the time with opening. Made by `make bench-parquet`."
    )
    where = pages.when_and_where()
    peers = f"duckdb {duckdb.__version__}, polars {pl.__version__}"
    pages.finish(["# Parquet", "", f"{where.rstrip('.')}, {peers}.", "", intro, "", *text, ""], given.out)


if __name__ == "__main__":
    main()
