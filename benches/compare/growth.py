"""What costs grow with: rows, fragments, columns. pilum alone; beside it pylance with the same format, where asked.

python benches/compare/growth.py --out docs/benchmarks/growth.md [--peer] [--only rows|fragments|columns]
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pages
import pyarrow as pa
from peers import seconds, timed
from tables import SEED, consume

Engine = Any
Works = dict[str, Callable[[], object]]


def engines(peer: bool) -> dict[str, Engine]:
    """Return who is measured."""
    import pilum

    chosen: dict[str, Engine] = {"pilum": pilum}
    if peer:
        import lance

        chosen["pylance legacy"] = lance
    return chosen


def written(engine: Engine, rows: pa.RecordBatchReader, path: Path, **options: int) -> None:
    """Write a table of version 1 files without waiting for the disk."""
    if engine.__name__ == "pilum":
        engine.write_dataset(rows, path, durability="none", **options)
    else:
        groups = {"max_rows_per_group": min(1024, options.get("max_rows_per_file", 1024))}
        engine.write_dataset(rows, str(path), data_storage_version="legacy", **groups, **options)


def stream(rows: int) -> pa.RecordBatchReader:
    """Return a key in order, a number and a float, in batches of 65,536 rows."""
    schema = pa.schema({"id": pa.int64(), "v": pa.int64(), "f": pa.float64()})

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(SEED)
        for start in range(0, rows, 65_536):
            count = min(65_536, rows - start)
            columns = [np.arange(start, start + count), random.integers(0, 1000, count), random.random(count)]
            yield pa.record_batch(columns, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def works(engine: Engine, path: Path, rows: int) -> Works:
    """Return what is done with a table of `stream`."""
    places = sorted(random.Random(2).sample(range(rows), 1000))
    held = engine.dataset(str(path))
    first = rows // 2
    return {
        "open": lambda: engine.dataset(str(path)),
        "open, plan": lambda: _plan(engine, path),
        "open, filter one id": lambda: engine.dataset(str(path)).to_table(filter=f"id = {first}"),
        "filter one id": lambda: held.to_table(filter=f"id = {first}"),
        "filter, 1,000 rows together": lambda: held.to_table(filter=f"id >= {first} AND id < {first + 1000}"),
        "count, nothing passes": lambda: held.count_rows(filter="id < 0"),
        "take 1": lambda: held.take(places[:1]),
        "take 1,000": lambda: held.take(places),
        "scan, 1 of 3 columns": lambda: consume(held.to_batches(columns=["v"])),
    }


def _plan(engine: Engine, path: Path) -> object:
    scanner = engine.dataset(str(path)).scanner(columns=["v"], filter="id = 5")
    return scanner.explain() if hasattr(scanner, "explain") else scanner


def of_rows(engine: Engine, folder: Path) -> dict[str, Works]:
    """Return works on tables of more and more rows."""
    tables = {}
    for millions in (1, 4, 16):
        path = folder / f"{engine.__name__}-rows-{millions}"
        written(engine, stream(millions * 1_000_000), path)
        tables[f"{millions} M rows"] = works(engine, path, millions * 1_000_000)
    return tables


def of_fragments(engine: Engine, folder: Path) -> dict[str, Works]:
    """Return works on a million rows in more and more fragments."""
    tables = {}
    for fragments in (1, 100, 10_000):
        path = folder / f"{engine.__name__}-fragments-{fragments}"
        written(engine, stream(1_000_000), path, max_rows_per_file=1_000_000 // fragments)
        tables[f"{fragments:,} fragments"] = works(engine, path, 1_000_000)
    return tables


def of_columns(engine: Engine, folder: Path) -> dict[str, Works]:
    """Return works on a thousand rows of more and more columns."""
    tables = {}
    for columns in (20, 2_000, 20_000):
        path = folder / f"{engine.__name__}-columns-{columns}"
        rows = pa.table({f"column {number}": np.arange(1000) + number for number in range(columns)})
        written(engine, rows.to_reader(), path)
        held = engine.dataset(str(path))
        name = f"column {columns // 2}"

        def anew(path: Path = path, name: str = name) -> object:
            return engine.dataset(str(path)).to_table(columns=[name])

        tables[f"{columns:,} columns"] = {
            "open": lambda path=path: engine.dataset(str(path)),
            "open, read one column": anew,
            "read one column": lambda held=held, name=name: held.to_table(columns=[name]),
            "take one value": lambda held=held, name=name: held.take([500], columns=[name]),
        }
    return tables


SERIES = {"rows": of_rows, "fragments": of_fragments, "columns": of_columns}


def least(work: Callable[[], object]) -> float:
    """Return the least of a few runs, fewer of long ones."""
    first = timed(work)
    return min([first, *(timed(work) for _ in range(2 if first > 0.3 else 7))])


def main() -> int:
    """Measure and print."""
    parser = pages.parser(__doc__)
    parser.add_argument("--only", action="append", choices=list(SERIES))
    parser.add_argument("--peer", action="store_true", help="measure pylance, too")
    options = parser.parse_args()
    parts = [
        f"""# What costs grow with

{pages.when_and_where()}
One run of `growth.py`: the least of eight goes, of three where one takes long; page cache warm. Tables of three
columns; those of more and more fragments have a million rows, those of more and more columns a thousand.
"""
    ]
    for series in options.only or SERIES:
        for name, engine in engines(options.peer).items():
            with tempfile.TemporaryDirectory(dir=options.folder, prefix="pilum-growth-") as folder:
                tables = SERIES[series](engine, Path(folder))
                lines = [f"| {name} | " + " | ".join(tables) + " |", "|---|" + "---|" * len(tables)]
                for what in next(iter(tables.values())):
                    cells = [seconds(least(works[what])) for works in tables.values()]
                    lines.append(f"| {what} | " + " | ".join(cells) + " |")
            parts.append("\n".join([*lines, ""]))
            print(parts[-1], file=sys.stderr)
    pages.finish(parts, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
