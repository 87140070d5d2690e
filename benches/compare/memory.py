"""What memory takes: the peak of each operation on a table larger than any cache, each in a process of its own.

python benches/compare/memory.py --out docs/benchmarks/memory.md [--gb 4]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pages
import pyarrow as pa
import pyarrow.compute as pc
from tables import BATCH_ROWS, consume, mixed

import pilum

LIMIT = 256 << 20
SAMPLE_ROWS = 1_000_000
MERGED_ROWS = 100_000
OPTIONS = {"durability": "none"}


def total_rows(gigabytes: float) -> int:
    """Return how many rows of the mixed table take so much Arrow memory."""
    return int(gigabytes * 1e9 / mixed(BATCH_ROWS).nbytes * BATCH_ROWS)


def stream(rows: int) -> pa.RecordBatchReader:
    """Return the mixed table over and over, its key counting on."""
    sample = mixed(min(rows, SAMPLE_ROWS)).to_batches(max_chunksize=BATCH_ROWS)

    def batches() -> Iterator[pa.RecordBatch]:
        start = 0
        while start < rows:
            for batch in sample:
                piece = batch.slice(0, min(batch.num_rows, rows - start))
                ids = pc.add(pc.subtract(piece["id"], piece["id"][0]), start) if piece.num_rows else piece["id"]
                yield piece.set_column(0, "id", ids)
                start += piece.num_rows

    return pa.RecordBatchReader.from_batches(sample[0].schema, batches())


def prepared(work: str, path: Path, rows: int) -> Callable[[], object]:
    """Return the operation, with all made that it needs."""
    if work == "write":
        source = stream(rows)
        return lambda: pilum.write_dataset(source, path, **OPTIONS)
    ds = pilum.dataset(path)
    places = sorted(random.Random(1).sample(range(rows), min(rows, 10_000)))
    ids = pa.array(random.Random(2).sample(range(2 * rows), MERGED_ROWS), pa.int64())
    changed = mixed(MERGED_ROWS).set_column(0, "id", ids) if work.startswith("merge") else None
    return {
        "scan": lambda: consume(ds.to_batches(memory_limit=LIMIT)),
        "scan, no limit": lambda: consume(ds.to_batches()),
        "filter, 1 % scattered": lambda: consume(ds.to_batches(filter="v >= 7 AND v <= 16", memory_limit=LIMIT)),
        "take 10,000": lambda: consume(ds.take(places).to_batches()),
        "delete 1 %": lambda: ds.delete("v < 10", **OPTIONS),
        "update 1 %": lambda: ds.update({"f": "f + 1"}, "v >= 500 AND v < 510", **OPTIONS),
        "merge 100,000 rows": lambda: ds.merge_insert("id", changed, memory_limit=LIMIT, **OPTIONS),
        "compact": lambda: ds.compact(max_deleted_fraction=0.0, memory_limit=LIMIT, **OPTIONS),
    }[work]


HEAD = """\
One run of `memory.py`: the mixed table of `peers.md`, {size} as Arrow ({rows:,} rows), on a local disk. Each operation
runs in a process of its own, on the table that those before it left. The peak is what the process held at most (`VmHWM`)
above what it held before; what is written and merged is made before. Files are mapped: their pages count in the peak,
though the system takes them back when it needs memory. Beside it the peak without them, looked at every 2 ms.
"""

WORKS = {
    "write": "",
    "scan": "256 MiB",
    "scan, no limit": "",
    "filter, 1 % scattered": "256 MiB",
    "take 10,000": "",
    "delete 1 %": "",
    "update 1 %": "",
    "merge 100,000 rows": "256 MiB",
    "compact": "256 MiB",
}


def held(field: str) -> int:
    """Return a size in bytes that the system keeps of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field + ":")).split()[1]) * 1024


def measured(work: str, path: Path, rows: int) -> dict[str, float]:
    """Return the peak above what was held before, all in all and without files that are mapped, and the seconds."""
    act = prepared(work, path, rows)
    # From here on the peak is counted anew.
    Path("/proc/self/clear_refs").write_text("5")
    before, own_before = held("VmRSS"), held("RssAnon")
    own, done = own_before, threading.Event()

    def watch() -> None:
        nonlocal own
        while not done.wait(0.002):
            own = max(own, held("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    act()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    return {"peak": held("VmHWM") - before, "own": own - own_before, "seconds": seconds}


def page(gigabytes: float, folder: Path) -> Iterator[str]:
    """Run every operation in a process of its own, and yield the lines of the report."""
    rows = total_rows(gigabytes)
    yield "# What memory takes"
    yield ""
    yield pages.when_and_where()
    yield HEAD.format(size=f"{gigabytes:g} GB", rows=rows)
    yield "| | `memory_limit` | peak MiB | of it not mapped | seconds |"
    yield "|---|---|---|---|---|"
    for work, limit in WORKS.items():
        arguments = ["--work", work, "--gb", str(gigabytes), "--folder", str(folder)]
        told = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True).stdout
        found = json.loads(told)
        peak, own = found["peak"] / 2**20, found["own"] / 2**20
        print(work, found, file=sys.stderr)
        yield f"| {work} | {limit} | {peak:,.0f} | {own:,.0f} | {found['seconds']:.1f} |"


def main() -> int:
    """Measure and print a page; with `--work`, be the process of one operation."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--gb", type=float, default=4.0, help="size of the table as Arrow; three times as much disk is taken"
    )
    parser.add_argument("--work", choices=list(WORKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(measured(options.work, options.folder / "t", total_rows(options.gb))))
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="pilum-memory-") as folder:
        pages.finish([*page(options.gb, Path(folder)), ""], options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
