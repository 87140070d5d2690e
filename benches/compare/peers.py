"""pilum beside its peers: the same tables, the same consumer, one run.

    make bench-peers                (or: python benches/compare/peers.py --rounds 7 --only pilum --only vortex)

In each round the stores come in another order, so that a slow moment of the machine meets everybody. Reported are
medians, and the ratio of each store's median to pilum's: above 1 the store takes longer. The page cache is warm for
reads. Before anything is timed, every store must give back the table that it was given.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pages
import pyarrow as pa
from stores import STORES, Between, Condition, StartsWith, Store
from tables import consume, mixed, reader, repeated, vectors

RESULTS = pages.FOLDER / "peers.md"
TWO_OF_SEVEN = ["v", "f"]
TEXT = ["s", "city"]


def conditions(table: pa.Table) -> dict[str, Condition]:
    """Return what rows are asked for: a thousandth of them together, one, those of a beginning, a hundredth scattered."""
    rows = table.num_rows
    start, width = rows // 3, max(rows // 1000, 1)
    text = table["s"][rows // 2].as_py()
    return {
        "filter 0.1 %, ordered": Between("id", start, start + width - 1),
        "filter one id": Between("id", rows // 2, rows // 2),
        "filter by prefix": StartsWith("s", text[:3]),
        "filter 1 %, scattered": Between("v", 7, 16),
    }


Timings = dict[str, dict[str, list[float]]]
"""Operation -> store -> seconds, one for each round."""


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rows_counted(batches: object, expected: int) -> None:
    rows = consume(batches)  # type: ignore[arg-type]
    if rows != expected:
        raise AssertionError(f"{rows} rows of {expected}")


def same_rows(store: Store, name: str, table: pa.Table) -> None:
    """Hold a store to what it was given, before its times count."""
    opened = store.open(name)
    got = pa.Table.from_batches(list(store.scan(opened, None)))
    if not got.cast(table.schema).equals(table):
        raise AssertionError(f"{store.name} does not give {name} back as it was")
    places = [0, 1, table.num_rows // 2, table.num_rows - 1]
    if not store.take(opened, places).cast(table.schema).equals(table.take(places)):
        raise AssertionError(f"{store.name} does not take the right rows of {name}")
    if name == "mixed":
        for what, condition in conditions(table).items():
            rows = pa.Table.from_batches(list(store.filter(opened, condition)), schema=got.schema)
            if not rows.cast(table.schema).sort_by("id").equals(table.filter(condition.arrow())):
                raise AssertionError(f"{store.name} does not give the right rows of {name} for {what}")


def measure(
    stores: list[Store], rows: int, vector_rows: int, rounds: int, seed: int
) -> tuple[Timings, dict[str, dict[str, int]]]:
    """Time everything, in rounds of shuffled order."""
    tables = {"mixed": mixed(rows), "vectors": vectors(vector_rows)}
    timings: Timings = defaultdict(lambda: defaultdict(list))
    sizes: dict[str, dict[str, int]] = defaultdict(dict)
    r = random.Random(seed)
    for name, table in tables.items():
        for store in stores:
            store.write(name, reader(table))
            same_rows(store, name, table)
            sizes[name][store.name] = store.bytes_on_disk(name)
        sizes[name]["(in memory)"] = table.nbytes
    for number in range(rounds):
        order = r.sample(stores, len(stores))
        places = {f"take {count:,}": sorted(r.sample(range(rows), count)) for count in (1, 10, 1000, 10000)}
        vector_places = sorted(r.sample(range(vector_rows), 1000))
        for store in order:
            one_round(store, tables, places, vector_places, timings)
        print(f"round {number + 1} of {rounds}: {', '.join(store.name for store in order)}", file=sys.stderr)
    return timings, sizes


def one_round(
    store: Store,
    tables: dict[str, pa.Table],
    places: dict[str, list[int]],
    vector_places: list[int],
    timings: Timings,
) -> None:
    """Time every operation of one store once; quick ones a few times, the least counting."""

    def note(operation: str, work: Callable[[], object], repeats: int = 1) -> None:
        timings[operation][store.name].append(min(timed(work) for _ in range(repeats)))

    rows, vector_rows = tables["mixed"].num_rows, tables["vectors"].num_rows
    store.clear("mixed")
    note("write mixed", lambda: store.write("mixed", reader(tables["mixed"])))
    note("open", lambda: store.open("mixed"), 5)
    opened = store.open("mixed")
    note("scan, 7 columns", lambda: rows_counted(store.scan(opened, None), rows), 2)
    note("scan, 2 of 7 columns", lambda: rows_counted(store.scan(opened, TWO_OF_SEVEN), rows), 2)
    note("scan, text only", lambda: rows_counted(store.scan(opened, TEXT), rows), 2)
    for what, condition in conditions(tables["mixed"]).items():
        note(what, lambda condition=condition: consume(store.filter(opened, condition)), 3)  # type: ignore[misc]
    for what, chosen in places.items():
        note(what, lambda chosen=chosen: consume(store.take(opened, chosen).to_batches()), 5)  # type: ignore[misc]
    store.clear("vectors")
    note("vectors: write", lambda: store.write("vectors", reader(tables["vectors"])))
    held = store.open("vectors")
    note("vectors: scan", lambda: rows_counted(store.scan(held, None), vector_rows), 2)
    note("vectors: take 1,000", lambda: consume(store.take(held, vector_places).to_batches()), 5)


# `VmHWM` and not `ru_maxrss`: the latter begins at the peak of the process that started this one.
STREAM = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from stores import STORES
from tables import consume
store = next(s for s in STORES if s.__name__ == {store!r})(Path({folder!r}))
def peak():
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])
opened = store.open("long")
before = peak()
rows = consume(store.scan(opened, None))
print(before, peak(), rows)
"""


def peak_memory(stores: list[Store], rows: int, stream_bytes: int) -> dict[str, tuple[float, float]]:
    """Scan a table larger than any cache of ours in a process of its own: MiB at most, and MiB above those after opening."""
    peaks = {}
    table = mixed(min(rows, 1_000_000))
    for store in stores:
        store.write("long", repeated(table, stream_bytes))
        script = STREAM.format(here=str(Path(__file__).parent), store=type(store).__name__, folder=str(store.folder))
        told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
        # Some print their progress before.
        before, after, _ = (int(word) for word in told.split()[-3:])
        peaks[store.name] = (after / 1024, (after - before) / 1024)
        store.clear("long")
        print(f"peak memory of {store.name}: {after / 1024:.0f} MiB", file=sys.stderr)
    return peaks


def seconds(value: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def report(
    timings: Timings,
    sizes: dict[str, dict[str, int]],
    peaks: dict[str, tuple[float, float]],
    stores: list[Store],
    options: argparse.Namespace,
) -> str:
    """Return the figures as a page."""
    names = [store.name for store in stores]
    base = "pilum" if "pilum" in names else names[0]
    lines = [
        "# pilum beside its peers",
        "",
        pages.when_and_where(),
        f"One run of {options.rounds} rounds, the stores in another order in each; medians; page cache warm.",
        "",
        f"Mixed: {options.rows:,} rows of 7 columns, {sizes['mixed']['(in memory)'] / 1e6:.0f} MB as Arrow. Vectors:",
        f"{options.vectors:,} of 256 float32, {sizes['vectors']['(in memory)'] / 1e6:.0f} MB. All stores get the same batches",
        "of 65,536 rows, and one consumer sums every byte of every value that they return. Rows to take are ascending, all",
        "columns.",
        f"In brackets: the time over that of {base}; above 1 it takes longer.",
        "",
        "| | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
    ]
    for operation, by_store in timings.items():
        medians = {name: statistics.median(by_store[name]) for name in names}
        cells = [f"{seconds(medians[name])} ({medians[name] / medians[base]:.2f})" for name in names]
        lines.append(f"| {operation} | " + " | ".join(cells) + " |")
    for name, by_store in sizes.items():
        lines.append(f"| MB on disk, {name} | " + " | ".join(f"{by_store[store] / 1e6:.1f}" for store in names) + " |")
    if peaks:
        lines.append(
            f"| peak MiB, scan of {options.stream_gb:g} GB (above opened) | "
            + " | ".join(f"{peaks[name][0]:.0f} (+{peaks[name][1]:.0f})" for name in names)
            + " |"
        )
    lines += ["", *(f"* {store.name}: {store.note}." for store in stores if store.note), ""]
    return "\n".join(lines)


def main() -> int:
    """Measure and write the page."""
    parser = pages.parser(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument(
        "--stream-gb", type=float, default=2.0, help="size of the table for peak memory; 0 leaves it out"
    )
    parser.add_argument("--only", action="append", help="names of stores, or beginnings of them")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="pilum-bench-") as folder:
        stores = [kind(Path(folder)) for kind in STORES]
        if options.only:
            stores = [store for store in stores if any(store.name.startswith(name) for name in options.only)]
        timings, sizes = measure(stores, options.rows, options.vectors, options.rounds, options.seed)
        peaks = peak_memory(stores, options.rows, int(options.stream_gb * 1e9)) if options.stream_gb else {}
    pages.finish([report(timings, sizes, peaks, stores, options)], options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
