"""Reading a table in a store far away: requests, bytes and time, pilum beside pylance.

    python benches/compare/far.py --late 0.015 --late 0.06 --out docs/benchmarks/far.md

The store is a small server on this machine that answers every request so much later, and counts. Needed are the bytes that
the rows' values take in memory, with the whole column of a condition where statistics do not help.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import pages
from far_store import FarStore, far_store
from tables import consume, mixed, reader

Work = Callable[[Any], int]

HEAD = """# Reading from far away

{when}
{rounds} of `far.py`, page cache warm: requests and bytes are exact but for a few of a thousand, times are those of a machine
with more to do. The store is a server on this machine that answers every request so much later. The table is the mixed one of
`peers.md`, {rows:,} rows of 7 columns; each cell is requests, bytes, time, opening included.
"""

FOOT = """\
* Ranges are joined, the smallest gaps first, until as many bytes lie in gaps as were asked for (or 512 KiB): so most of
  the bytes of `take 1` lie in gaps, and a filter by prefix, which reads the text whole, may fetch twice the bytes of the
  file.
* A page of pilum holds 65,536 rows, one of pylance's 1,024: a filter that statistics narrow to one page reads 512 KB of
  its column, where pylance reads 8.
* pylance's default format is compressed: it fetches fewer bytes where most of a column is wanted.
"""


def works(rows: int, prefix: str) -> dict[str, Work]:
    """Return what is done with an open table."""
    places = sorted(random.Random(1).sample(range(rows), 100))
    first = rows // 3

    def took(ds: Any, **options: Any) -> int:
        return consume(ds.take(places, **options).to_batches())

    def kept(ds: Any, condition: str, columns: list[str] | None = None) -> int:
        return consume(ds.to_table(columns=columns, filter=condition).to_batches())

    return {
        "open": lambda ds: ds.count_rows() * 0,
        "take 1": lambda ds: consume(ds.take(places[:1]).to_batches()),
        "take 100 scattered": took,
        "take 100 scattered, 2 of 7 columns": lambda ds: took(ds, columns=["v", "f"]),
        "filter 0.1 %, ordered": lambda ds: kept(ds, f"id >= {first} AND id < {first + rows // 1000}"),
        "filter one id": lambda ds: kept(ds, f"id = {first}"),
        "filter 1 %, scattered, 2 of 7 columns": lambda ds: kept(ds, "v >= 7 AND v <= 16", ["id", "f"]),
        "filter by prefix": lambda ds: kept(ds, f"s LIKE '{prefix}%'"),
        "scan, 2 of 7 columns": lambda ds: consume(ds.to_batches(columns=["v", "f"])),
    }


def engines(folder: Path, rows: int) -> tuple[dict[str, tuple[Any, Path]], str]:
    """Write the tables; return who reads which, and the beginning of some text."""
    import lance

    import pilum

    table = mixed(rows)
    pilum.write_dataset(reader(table), folder / "pilum", durability="none")
    lance.write_dataset(reader(table), str(folder / "legacy"), data_storage_version="legacy")
    lance.write_dataset(reader(table), str(folder / "default"))
    return {
        "pilum": (pilum, folder / "pilum"),
        "pylance legacy": (lance, folder / "legacy"),
        "pylance default": (lance, folder / "default"),
    }, table["s"][rows // 2].as_py()[:3]


def measured(far: FarStore, engine: Any, path: Path, work: Work, rounds: int) -> tuple[int, float, float]:
    """Return requests, bytes and median seconds of opening and working."""
    seconds = []
    for _ in range(rounds):
        far.forget()
        start = time.perf_counter()
        work(engine.dataset(far.uri(path), storage_options=far.options()))
        seconds.append(time.perf_counter() - start)
    return far.requests, far.bytes_sent, statistics.median(seconds)


def more_requests(asked: dict[str, dict[str, int]]) -> list[str]:
    """Return for each peer where pilum asks more often than it."""
    lines = []
    for peer in next(iter(asked.values())):
        more = [
            f"{what} ({counts['pilum']:,}, not {counts[peer]:,})"
            for what, counts in asked.items()
            if counts["pilum"] > counts[peer]
        ]
        if peer != "pilum":
            lines.append(f"* pilum makes more requests than {peer} in: {'; '.join(more) or 'nothing'}.")
    return lines


def main() -> int:
    """Measure and print a page."""
    parser = pages.parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--late", type=float, action="append", help="seconds that every answer is late")
    parser.add_argument("--only", action="append", help="beginnings of the names of engines; pilum is always one")
    options = parser.parse_args()
    runs = "One run" if options.rounds == 1 else f"Medians of {options.rounds} runs"
    lines = [HEAD.format(when=pages.when_and_where(), rounds=runs, rows=options.rows)]
    asked: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="pilum-far-") as folder:
        chosen, prefix = engines(Path(folder), options.rows)
        if options.only:
            chosen = {
                name: it
                for name, it in chosen.items()
                if any(name.startswith(only) for only in ["pilum", *options.only])
            }
        with far_store(Path(folder)) as far:
            for late in options.late or [0.015, 0.06]:
                far.late = late
                lines += [f"Answers {late * 1000:.0f} ms late.", ""]
                lines += ["| | " + " | ".join(chosen) + " |", "|---|" + "---|" * len(chosen)]
                for what, work in works(options.rows, prefix).items():
                    cells = []
                    for name, (engine, path) in chosen.items():
                        requests, sent, seconds = measured(far, engine, path, work, options.rounds)
                        asked.setdefault(what, {})[name] = requests
                        cells.append(f"{requests:,}, {sent / 1e6:.2f} MB, {seconds:.2f} s")
                    lines.append(f"| {what} | " + " | ".join(cells) + " |")
                    print(lines[-1], file=sys.stderr)
                lines.append("")
    pages.finish([*lines, *more_requests(asked), FOOT], options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
