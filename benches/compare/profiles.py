"""Where the time of scans, filters and takes goes, by samples of `perf`, and how near they come to what memory gives.

    make bench-profile              (or: python benches/compare/profiles.py --seconds 5 --out docs/benchmarks/profile.md)

One process repeats one work on the mixed table of `peers.py` and looks at no value: what is measured is the reader. Samples
are put together by the names of functions; the table says how much of the processors' time each kind of work took.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pages
from peers import seconds
from tables import mixed, reader

ROWS = 2_000_000
PREFIX = "s LIKE '1f0%'"
WORKS = {
    "scan, 7 columns": "count(ds.to_batches())",
    "scan, 2 of 7 columns": "count(ds.to_batches(['v', 'f']))",
    "scan, text only": "count(ds.to_batches(['s', 'city']))",
    "filter 0.1 %, ordered": "count(ds.to_batches(filter='id BETWEEN 666666 AND 668665'))",
    "filter by prefix": f'count(ds.to_batches(filter="{PREFIX}"))',
    "filter 1 %, scattered": "count(ds.to_batches(filter='v BETWEEN 7 AND 16'))",
    "take 10": "ds.take(places[10])",
    "take 1,000": "ds.take(places[1000])",
    "take 10,000": "ds.take(places[10000])",
}
"""What is repeated, in Python."""

WORKER = """
import random, sys, time
import pilum
ds = pilum.dataset(sys.argv[1])
count = lambda batches: sum(batch.num_rows for batch in batches)
places = {n: sorted(random.Random(n).sample(range(ds.count_rows()), n)) for n in (10, 1000, 10000)}
work = compile(sys.argv[2], "work", "eval")
eval(work)
print("begin", flush=True)
sys.stdin.readline()
began, times = time.perf_counter(), []
while (now := time.perf_counter()) - began < float(sys.argv[3]):
    eval(work)
    times.append(time.perf_counter() - now)
print(sorted(times)[len(times) // 2])
"""

KINDS = [
    ("checksums", r"crc|checksum|find_damaged|CheckedSource"),
    ("filter", r"pilum_expr|arrow_ord|arrow_string|arrow_select::filter|true_count|set_slices|BitSlice|BitIndex"),
    ("text", r"push_offsets|byte_array|ascending_offsets|empty_is_null|is_ascii|utf8|variable::"),
    ("values", r"pilum_encoding|arrow_array|arrow_data|arrow_buffer|arrow_select"),
    ("planning", r"pilum_"),
    ("loops", r"core::iter|from_iter|alloc::vec"),
    (
        "copies and memory",
        r"mem(move|cpy|set)|malloc|int_free|free@|calloc|realloc|clear_page|fault|alloc_pages|folio|mmap",
    ),
    ("waiting", r"futex|schedule|finish_task|wake|spin|poll|park"),
]
"""Kinds of work, and what functions of each are called; the first that fits counts."""
NAMES = [*(name for name, _ in KINDS), "Python", "the rest"]


def kind(library: str, symbol: str) -> str:
    """Return which kind of work a function belongs to."""
    if "python" in library or "openblas" in library:
        return "Python"
    return next((name for name, pattern in KINDS if re.search(pattern, symbol)), "the rest")


def profiled(path: Path, work: str, length: float, samples: Path) -> tuple[float, dict[str, float], list[str]]:
    """Return the median time of a work, the share of each kind, and the functions that took most."""
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path), work, str(length)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdout.readline()
    recorder = subprocess.Popen(
        ["perf", "record", "-q", "-o", str(samples), "-p", str(worker.pid)], stderr=subprocess.DEVNULL
    )
    time.sleep(0.3)
    worker.stdin.write("\n")
    worker.stdin.flush()
    median = float(worker.stdout.readline())
    worker.stdin.close()
    worker.wait()
    recorder.wait()
    report = subprocess.run(
        ["perf", "report", "-i", str(samples), "--no-children", "--stdio", "-F", "overhead,dso,sym", "-t", "\t"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    shares: Counter[str] = Counter()
    most = []
    for line in report.splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if line.startswith("#") or len(cells) != 3:
            continue
        share, symbol = float(cells[0].rstrip("%")), re.sub(r"^\[.\] ", "", cells[2])
        shares[kind(cells[1], symbol)] += share
        if len(most) < 4:
            most.append(f"{share:.0f} % `{short(symbol)}`")
    return median, shares, most


def short(symbol: str) -> str:
    """Return the last parts of a function's name."""
    bare = re.sub(r"<.*>", "", symbol) or symbol
    return "::".join(part for part in bare.split("::")[-2:] if part) or symbol[:40]


def memory_bandwidth() -> float:
    """Return how many bytes per second two threads read when they only add them up."""
    halves = [np.ones(64 << 20 >> 3, np.uint64) for _ in range(2)]
    best = 0.0
    for _ in range(5):
        threads = [threading.Thread(target=half.sum) for half in halves]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best = max(best, sum(half.nbytes for half in halves) / (time.perf_counter() - began))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5, help="of each work")
    parser.add_argument("--out", type=Path, help="a file for the page; else it is printed")
    options = parser.parse_args()
    import pilum

    with tempfile.TemporaryDirectory() as folder:
        path, samples = Path(folder) / "mixed", Path(folder) / "samples"
        pilum.write_dataset(reader(mixed(ROWS)), path)
        rows, functions = [], []
        for name, work in WORKS.items():
            median, shares, most = profiled(path, work, options.seconds, samples)
            cells = [f"{shares.get(kind, 0):.0f} %" for kind in NAMES]
            rows.append(f"| {name} | {seconds(median)} | {' | '.join(cells)} |")
            functions.append(f"- {name}: {', '.join(most)}")
        size = sum(file.stat().st_size for file in path.rglob("*.lance"))
    bandwidth = memory_bandwidth()
    lines = [
        "# Where the time goes",
        "",
        pages.when_and_where(),
        f"A table of {ROWS:,} rows of 7 columns, {size / 1e6:.0f} MB in its data file; page cache warm; samples of `perf` over",
        f"{options.seconds:g} s of each work, both processors together. No value is looked at by the caller. Two threads that",
        f"add up 128 MB of numbers read {bandwidth / 1e9:.0f} GB/s here; the whole file would take",
        f"{size / bandwidth * 1e3:.1f} ms at that pace.",
        "Loops: what the compiler moved into iterators, of all kinds; comparing with a prefix is one.",
        "",
        f"| | time | {' | '.join(NAMES)} |",
        "|---|" + "---|" * (len(NAMES) + 1),
        *rows,
        "",
        "Functions that took most:",
        "",
        *functions,
        "",
    ]
    page = "\n".join(lines)
    if options.out:
        pages.write(page, options.out)
    else:
        print(page)


if __name__ == "__main__":
    main()
