"""What checksums cost a reader: the same reads of the same table with verification and without, in turns.

    make bench-checksums            (or: python benches/compare/checksums.py --rounds 60 --out docs/benchmarks/checksums.md)

Tables are those of `peers.py`, in the page cache, and every value read is touched. A round reads the same rows both ways, who
comes first changing; of each way it keeps the fastest of a few repetitions. The share of the speed that is left is the time
without over the time with checksums, of each round; what stands in the table is the median of the rounds, and the quartiles.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pages
from tables import consume, mixed, reader, vectors

import pilum

MIXED_ROWS = 2_000_000
VECTOR_ROWS = 100_000
WAYS = {"with": True, "without": False}

Work = Callable[[pilum.Dataset, random.Random], Callable[[], object]]
"""Chooses rows, if it takes any, and returns the read to repeat."""


def taking(table: pilum.Dataset, rows: int, choose: random.Random) -> Callable[[], object]:
    """Return a take of so many scattered rows."""
    places = sorted(choose.sample(range(table.count_rows()), rows))
    return lambda: consume(table.take(places).to_batches())


def scanning(table: pilum.Dataset, **options: object) -> Callable[[], object]:
    """Return a scan."""
    return lambda: consume(table.to_batches(**options))


WORKS: dict[str, tuple[str, int, Work]] = {
    "scan, 7 columns": ("mixed", 2, lambda table, _: scanning(table)),
    "scan, 2 of 7 columns": ("mixed", 3, lambda table, _: scanning(table, columns=["v", "f"])),
    "scan, text only": ("mixed", 2, lambda table, _: scanning(table, columns=["s", "city"])),
    "filter 1 %, scattered": ("mixed", 2, lambda table, _: scanning(table, filter="v BETWEEN 7 AND 16")),
    "take 10": ("mixed", 5, lambda table, choose: taking(table, 10, choose)),
    "take 1,000": ("mixed", 5, lambda table, choose: taking(table, 1000, choose)),
    "take 10,000": ("mixed", 3, lambda table, choose: taking(table, 10_000, choose)),
    "vectors, scan": ("vectors", 2, lambda table, _: scanning(table)),
    "vectors, take 1,000": ("vectors", 5, lambda table, choose: taking(table, 1000, choose)),
}
"""The table, how often a round repeats the read each way, and the read."""


def fastest(read: Callable[[], object], repetitions: int) -> float:
    """Return the least time that a read took."""
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        read()
        times.append(time.perf_counter() - began)
    return min(times)


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    ordered = sorted(values)
    return ordered[len(ordered) // 4], ordered[len(ordered) // 2], ordered[len(ordered) * 3 // 4]


def measured(path: Path, repetitions: int, work: Work, rounds: int) -> dict[str, list[float]]:
    """Return the times of each way, round by round."""
    tables = {way: pilum.dataset(path, verify_checksums=verify) for way, verify in WAYS.items()}
    for table in tables.values():
        consume(table.to_batches())
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in list(WAYS) if number % 2 else reversed(WAYS):
            # Both ways choose the same rows.
            read = work(tables[way], random.Random(number))
            times[way].append(fastest(read, repetitions))
    return times


def main() -> None:
    """Write the tables, read them both ways, and report."""
    parser = pages.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    page = [
        "# What checksums cost",
        "",
        f"{pages.when_and_where()} Tables of {MIXED_ROWS:,} mixed rows and {VECTOR_ROWS:,} vectors of 256 float32, in the page",
        f"cache; {options.rounds} rounds of one process. `checksums.py` says how it is done.",
        "",
        "| | with, ms | without, ms | share of the speed that is left (quartiles) |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = {"mixed": Path(folder, "mixed"), "vectors": Path(folder, "vectors")}
        pilum.write_dataset(reader(mixed(MIXED_ROWS)), paths["mixed"])
        pilum.write_dataset(reader(vectors(VECTOR_ROWS)), paths["vectors"])
        for name, (table, repetitions, work) in WORKS.items():
            times = measured(paths[table], repetitions, work, options.rounds)
            medians = [quartiles(times[way])[1] * 1e3 for way in WAYS]
            shares = [bare / verified for verified, bare in zip(times["with"], times["without"], strict=True)]
            low, middle, high = quartiles(shares)
            page.append(
                f"| {name} | {medians[0]:.3g} | {medians[1]:.3g} | **{middle:.2f}** ({low:.2f} to {high:.2f}) |"
            )
            print(page[-1], file=sys.stderr)
    pages.finish([*page, ""], options.out)


if __name__ == "__main__":
    main()
