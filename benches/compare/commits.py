"""Commits beside the peers: appends, races, statements over 10 million rows, compaction.

    make bench-commits              (or: python benches/compare/commits.py --only appends --only races)

Each part makes its own tables, in a folder that goes away, and adds its lines to the page; parts and stores
that are left out keep theirs. What is quick is done in rounds, the stores in another order in each; reported are medians.
How many durable appends there can be depends on the device, so it is measured among them.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime as dt
import importlib.metadata
import json
import multiprocessing
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pages
import pyarrow as pa

HERE = Path(__file__).resolve().parent
PAGE = pages.FOLDER / "commits.md"
FIGURES = pages.FOLDER / "commits.json"
ALL_STORES = ["pilum", "pilum scratch", "pylance", "deltalake"]
STORES = list(ALL_STORES)
DEVICE = "device"
"""No store: small files made durable one after the other, as nothing but a device does it."""
APPENDED = pa.table({"k": pa.array(range(100), pa.int64()), "x": pa.array(range(100), pa.int64())})

Figures = dict[str, dict[str, str]]
"""Operation -> store -> what was measured."""


class Table:
    """One table of one store; statements as its own documentation shows."""

    def __init__(self, store: str, path: str) -> None:
        self.store, self.path = store, path
        self.options: dict[str, Any] = {"durability": "none"} if store == "pilum scratch" else {}

    def create(self, data: Any, **options: Any) -> None:
        if self.store.startswith("pilum"):
            import pilum

            pilum.write_dataset(data, self.path, **self.options, **options)
        elif self.store == "pylance":
            import lance

            lance.write_dataset(data, self.path, data_storage_version="legacy", **options)
        else:
            import deltalake

            deltalake.write_deltalake(self.path, data)

    def append(self, data: pa.Table) -> None:
        if self.store.startswith("pilum"):
            import pilum

            pilum.dataset(self.path).append(data, **self.options)
        elif self.store == "pylance":
            import lance

            lance.write_dataset(data, self.path, mode="append")
        else:
            import deltalake

            # Its default gives up after 15 lost races.
            often = deltalake.CommitProperties(max_commit_retries=1000)
            deltalake.write_deltalake(self.path, data, mode="append", commit_properties=often)

    def delete(self, condition: str) -> None:
        if self.store.startswith("pilum"):
            import pilum

            pilum.dataset(self.path).delete(condition, **self.options)
        elif self.store == "pylance":
            import lance

            lance.dataset(self.path).delete(condition)
        else:
            import deltalake

            deltalake.DeltaTable(self.path).delete(condition)

    def update(self, column: str, value: str, condition: str) -> None:
        if self.store.startswith("pilum"):
            import pilum

            pilum.dataset(self.path).update({column: value}, where=condition, **self.options)
        elif self.store == "pylance":
            import lance

            lance.dataset(self.path).update({column: value}, where=condition)
        else:
            import deltalake

            deltalake.DeltaTable(self.path).update({column: value}, predicate=condition)

    def merge(self, source: pa.Table) -> None:
        if self.store.startswith("pilum"):
            import pilum

            pilum.dataset(self.path).merge_insert("k", source, **self.options)
        elif self.store == "pylance":
            import lance

            upsert = lance.dataset(self.path).merge_insert("k").when_matched_update_all()
            upsert.when_not_matched_insert_all().execute(source)
        else:
            import deltalake

            merge = deltalake.DeltaTable(self.path).merge(source, "s.k = t.k", source_alias="s", target_alias="t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def compact(self, **options: Any) -> None:
        if self.store.startswith("pilum"):
            import pilum

            pilum.dataset(self.path).compact(**self.options, **options)
        elif self.store == "pylance":
            import lance

            lance.dataset(self.path).optimize.compact_files()
        else:
            import deltalake

            deltalake.DeltaTable(self.path).optimize.compact()

    def configure(self, key: str, value: str) -> None:
        """Set a key of the config: a version that costs as little as one can."""
        if self.store.startswith("pilum"):
            import pilum

            pilum.dataset(self.path).update_config({key: value}, **self.options)
        else:
            import lance

            lance.dataset(self.path).update_config({key: value})

    def open(self) -> Any:
        if self.store.startswith("pilum"):
            import pilum

            return pilum.dataset(self.path)
        import lance

        return lance.dataset(self.path)

    def rows(self) -> int:
        if self.store.startswith("pilum"):
            import pilum

            return pilum.dataset(self.path).count_rows()
        if self.store == "pylance":
            import lance

            return int(lance.dataset(self.path).count_rows())
        import deltalake

        return int(deltalake.DeltaTable(self.path).count())

    def clear(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def rounds(count: int, folder: Path, work: Callable[[Table], float], extra: tuple[str, ...] = ()) -> dict[str, float]:
    """Return the median of what `work` gives for each store."""
    stores = [*STORES, *extra]
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(count):
        for store in random.Random(number).sample(stores, len(stores)):
            table = Table(store, str(folder / f"{store.replace(' ', '-')}-{number}"))
            found[store].append(work(table))
            table.clear()
    return {store: statistics.median(values) for store, values in found.items()}


def expect(got: int, wanted: int, what: str) -> None:
    if got != wanted:
        raise AssertionError(f"{what}: {got} rows, not {wanted}")


def flush_files(folder: Path, count: int) -> None:
    """Write small files, and flush each and its name: two flushes for every file."""
    folder.mkdir(parents=True)
    for number in range(count):
        with (folder / str(number)).open("wb", buffering=0) as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())
        names = os.open(folder, os.O_RDONLY)
        os.fsync(names)
        os.close(names)


def appends(folder: Path) -> Figures:
    """Appends of 100 rows, one after the other and from 8 threads; the same device alone."""
    count = 160

    def by(threads: int) -> Callable[[Table], float]:
        def work(table: Table) -> float:
            if table.store == DEVICE:
                start = time.perf_counter()
                with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                    folders = [Path(table.path) / str(thread) for thread in range(threads)]
                    list(pool.map(flush_files, folders, [count // threads] * threads))
                return 2 * count / (time.perf_counter() - start)
            table.create(APPENDED)
            start = time.perf_counter()
            if threads == 1:
                for _ in range(count):
                    table.append(APPENDED)
            else:
                with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                    list(pool.map(lambda _: append_at_last(table), range(count)))
            took = time.perf_counter() - start
            expect(table.rows(), 100 * (count + 1), table.store)
            return count / took

        return work

    figures: Figures = {}
    for threads, name in [(1, "one writer"), (8, "8 threads")]:
        found = rounds(5, folder, by(threads), (DEVICE,))
        figures[f"appends/s, {name}"] = {store: f"{value:,.0f}" for store, value in found.items()}
    return figures


def goes_through(table: Table) -> bool:
    try:
        table.append(APPENDED)
    except Exception as error:
        # Only who lost too many races may try again.
        if not re.search("conflict|concurrent|retries|lost against", str(error), re.IGNORECASE):
            raise
        return False
    return True


def append_at_last(table: Table) -> int:
    """Append, again whenever it is refused; return how often it was."""
    refused = 0
    while not goes_through(table):
        refused += 1
    return refused


def append_often(store: str, path: str, count: int, start: float) -> tuple[float, int]:
    """Return the seconds that it took, and how many appends were refused and had to be tried again."""
    table = Table(store, path)
    while time.time() < start:
        time.sleep(0.001)
    refused = sum(append_at_last(table) for _ in range(count))
    return time.time() - start, refused


def races(folder: Path) -> Figures:
    """16 processes that append 50 times each to one table."""
    writers, count = 16, 50
    all_of_them, unfairness, given_up = (
        "16 writers x 50 appends",
        "... slowest / fastest writer",
        "... refused, tried again",
    )
    figures: Figures = {all_of_them: {}, unfairness: {}, given_up: {}}
    for store in STORES:
        table = Table(store, str(folder / store.replace(" ", "-")))
        table.create(APPENDED)
        with concurrent.futures.ProcessPoolExecutor(writers, multiprocessing.get_context("spawn")) as pool:
            # Everybody has imported what he needs before the race begins.
            list(pool.map(append_often, *zip(*[(store, table.path, 0, time.time() + 3)] * writers, strict=True)))
            start = time.time() + 0.5
            tasks = [pool.submit(append_often, store, table.path, count, start) for _ in range(writers)]
            ends, refused = zip(*[task.result() for task in tasks], strict=True)
        expect(table.rows(), 100 * (writers * count + 1), store)
        figures[all_of_them][store] = f"{max(ends):.2f} s"
        figures[unfairness][store] = f"{max(ends) / min(ends):.2f}"
        figures[given_up][store] = f"{sum(refused):,}"
        table.clear()
    return figures


def numbers(first: int, count: int) -> pa.Table:
    keys = np.arange(first, first + count, dtype=np.int64)
    return pa.table({"k": keys, "x": keys % 1000, "f": np.sqrt(keys)})


def statements(folder: Path) -> Figures:
    """Statements over 10 million rows of three numbers."""
    rows = 10_000_000
    figures: Figures = defaultdict(dict)
    base = numbers(0, rows)
    source = numbers(rows - 500_000, 1_000_000)
    for store in STORES:
        table = Table(store, str(folder / store.replace(" ", "-")))
        table.create(base)
        for name, work, left in [
            ("delete 1 % of 10 M rows", lambda t: t.delete("x = 7 OR x BETWEEN 500 AND 508"), rows - rows // 100),
            ("update 1 % of them", lambda t: t.update("f", "0.5", "x >= 20 AND x < 30"), rows - rows // 100),
            ("merge 1 M rows into them, half of them new", lambda t: t.merge(source), None),
        ]:
            start = time.perf_counter()
            work(table)
            figures[name][store] = f"{time.perf_counter() - start:.2f} s"
            if left is not None:
                expect(table.rows(), left, f"{store}, {name}")
        # Of the rows that the merge brought again, 1 % had been deleted.
        expect(table.rows(), rows - rows // 100 + 500_000 + 5_000, f"{store}, merged")
        table.clear()
    return dict(figures)


def small_fragments(folder: Path) -> Figures:
    """Compaction of 2,000 fragments of one row each."""

    def work(table: Table) -> float:
        if table.store == "deltalake":
            table.create(APPENDED.slice(0, 1))
            for number in range(1, 2000):
                table.append(APPENDED.slice(number % 100, 1))
        else:
            table.create(numbers(0, 2000), max_rows_per_file=1)
        start = time.perf_counter()
        table.compact()
        took = time.perf_counter() - start
        expect(table.rows(), 2000, table.store)
        return took

    found = rounds(1, folder, work)
    return {"compact 2,000 one-row fragments": {store: f"{value * 1000:,.0f} ms" for store, value in found.items()}}


def versions(folder: Path) -> Figures:
    """Opening a table of 10,000 versions, and the same one of a single version."""
    figures: Figures = {"open one of 10,000 versions": {}, "... the newest of 1": {}}

    def opening(table: Table) -> str:
        took = []
        for _ in range(101):
            start = time.perf_counter()
            table.open()
            took.append(time.perf_counter() - start)
        return f"{statistics.median(took) * 1000:.2f} ms"

    for store in STORES:
        if store == "deltalake":
            continue
        table = Table(store, str(folder / store.replace(" ", "-")))
        table.create(APPENDED)
        figures["... the newest of 1"][store] = opening(table)
        for number in range(1, 10_000):
            table.configure("k", str(number))
        figures["open one of 10,000 versions"][store] = opening(table)
        table.clear()
    return figures


# `VmHWM` and not `ru_maxrss`: the latter begins at the peak of the process that started this one.
COMPACT = """
import sys, time
sys.path.insert(0, {here!r})
from pathlib import Path
from commits import Table
table = Table({store!r}, {path!r})
table.rows()
def peak():
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])
before, start = peak(), time.perf_counter()
table.compact(**{options!r})
print(before, peak(), time.perf_counter() - start)
"""


def memory(folder: Path) -> Figures:
    """Compaction of 2 GB under a limit of 256 MiB, where there is such a thing; the peak of the process."""
    figures: Figures = {"compact 2 GB": {}, "... peak RSS (above opened)": {}}
    piece = numbers(0, 850_000)
    for store in STORES:
        table = Table(store, str(folder / store.replace(" ", "-")))
        limited = store.startswith("pilum")
        if store == "deltalake":
            table.create(piece)
        else:
            table.create(piece, max_rows_per_file=400_000)
        for _ in range(99):
            table.append(piece)
        options = {"memory_limit": 256 << 20, "target_rows": 10_000_000} if limited else {}
        code = COMPACT.format(here=str(HERE), store=store, path=table.path, options=options)
        told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        before, after, took = (float(word) for word in told.split())
        expect(table.rows(), 85_000_000, store)
        figures["compact 2 GB"][store] = f"{took:.1f} s"
        figures["... peak RSS (above opened)"][store] = f"{after / 1024:.0f} MiB (+{(after - before) / 1024:.0f})"
        table.clear()
    return figures


PARTS = {
    "appends": appends,
    "races": races,
    "statements": statements,
    "fragments": small_fragments,
    "memory": memory,
    "versions": versions,
}


def page(figures: dict[str, Figures]) -> str:
    """Return the figures as a page."""
    import pilum

    installed = {package.name: package.version for package in importlib.metadata.distributions()}
    installed["pilum"] = pilum.__version__
    versions = [f"{name} {installed[name]}" for name in ("pilum", "pylance", "deltalake") if name in installed]
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    lines = [
        "# Commits of pilum beside its peers",
        "",
        f"{dt.datetime.now(tz=dt.UTC).date().isoformat()}, {machine}; {', '.join(versions)}.",
        'Appends are of 100 rows. "pilum" makes every acknowledged commit survive a power cut; "pilum scratch" is',
        '`durability="none"`, which is what the peers promise too. pylance writes the same format, v1. "device": flushes per',
        'second of small files and their names, among the appends and with as many threads. "-" was not measured.',
        "",
        "| | " + " | ".join([*ALL_STORES, DEVICE]) + " |",
        "|---|" + "---|" * len([*ALL_STORES, DEVICE]),
    ]
    for part in PARTS:
        for operation, by_store in figures.get(part, {}).items():
            lines.append(
                f"| {operation} | " + " | ".join(by_store.get(store, "-") for store in [*ALL_STORES, DEVICE]) + " |"
            )
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="parts to run; all by default")
    parser.add_argument("--store", action="append", choices=ALL_STORES, help="stores to measure; all by default")
    parser.add_argument("--folder", type=Path, help="where the tables are written; by default a temporary folder")
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="what was measured so far")
    options = parser.parse_args()
    figures: dict[str, Figures] = json.loads(options.figures.read_text()) if options.figures.exists() else {}
    STORES[:] = options.store or ALL_STORES
    for part in options.only or PARTS:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="pilum-bench-") as folder:
            for operation, by_store in PARTS[part](Path(folder)).items():
                figures.setdefault(part, {}).setdefault(operation, {}).update(by_store)
        print(f"{part}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        options.figures.write_text(json.dumps(figures, indent=1))
    text = page(figures)
    print(text)
    pages.write(text, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
