"""What a single flipped bit does to tables of pilum and of other libraries.

    make bench-flips                (or: python benches/compare/flips.py --trials 20000 --only pilum --only vortex)
    python benches/compare/flips.py --trials 2000 --seconds 5 --out docs/benchmarks/flips.md       (that page: some minutes)

One small table is written by each store. A trial copies its files, flips one bit of one of them, and reads all rows back:

* noticed: the read ends with an error;
* no effect: the rows are those that were written;
* silently wrong: other rows or other columns are returned, without an error;
* panic: the read ends with an internal error of the library, such as a panic of Rust;
* crash: the process dies; hang: it does not answer.

Every second trial chooses a file first, and then a bit of it; the others choose among the bits of all files. So small files,
such as manifests, are damaged often too. One process runs many trials; after a crash or a hang, a new process runs the
trials that remain.
"""

from __future__ import annotations

import argparse
import collections
import datetime as dt
import os
import platform
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))

import pages
from pages import versions

RESULTS = pages.FOLDER / "flips.md"
OUTCOMES = ["noticed", "no effect", "silently wrong", "panic", "crash", "hang"]
ROWS = 600
MOST_MEMORY = 8 << 30
"""Address space of a process that runs trials: allocations of a damaged length fail before the machine is out of memory."""
MOST_TO_START = 120
"""Seconds within which a process that runs trials has to import its library."""


def rows() -> pa.Table:
    """Return rows that every store can hold: seven columns; only the text has nulls."""
    made = np.random.default_rng(11)
    words = [None if n % 7 == 0 else f"word {n:03d}" for n in made.integers(0, 300, ROWS)]
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS, dtype=np.int64)),
            "n": pa.array(made.integers(-(2**31), 2**31, ROWS, dtype=np.int32)),
            "f": pa.array(made.random(ROWS)),
            "yes": pa.array(made.random(ROWS) < 0.5),
            "at": pa.array(made.integers(0, 2**48, ROWS)).cast(pa.timestamp("us")),
            "s": pa.array(words, pa.string()),
            "l": pa.array([list(range(n % 4)) for n in range(ROWS)], pa.list_(pa.int16())),
        }
    )


class Pilum:
    """This project: two appends and a delete."""

    name = "pilum"
    note = "all kinds of files: data, deletions, manifests, transactions"

    def write(self, folder: Path) -> None:
        import pilum

        table = rows()
        pilum.write_dataset(table.slice(0, 400), folder / "t", durability="none")
        ds = pilum.dataset(folder / "t").append(table.slice(400), durability="none")
        ds.delete("id % 10 = 3", durability="none")

    def read(self, folder: Path) -> pa.Table:
        import pilum

        return pilum.dataset(folder / "t").to_table()


class PylanceLegacy:
    """The real library with the format that pilum shares: the same statements."""

    name = "pylance legacy"
    note = "the same statements, the same kinds of files"
    version: str | None = "legacy"

    def write(self, folder: Path) -> None:
        import lance

        table, path = rows(), str(folder / "t")
        lance.write_dataset(table.slice(0, 400), path, data_storage_version=self.version)
        lance.write_dataset(table.slice(400), path, mode="append").delete("id % 10 = 3")

    def read(self, folder: Path) -> pa.Table:
        import lance

        return lance.dataset(str(folder / "t")).to_table()


class PylanceDefault(PylanceLegacy):
    """The real library with its newest stable format."""

    name = "pylance default"
    version = None


class Parquet:
    """Parquet through pyarrow, its defaults: two files."""

    name = "parquet"
    note = "two files, pyarrow's defaults"
    checksums = False

    def write(self, folder: Path) -> None:
        table = rows()
        for place, part in enumerate((table.slice(0, 400), table.slice(400))):
            pq.write_table(part, folder / f"{place}.parquet", write_page_checksum=self.checksums)

    def read(self, folder: Path) -> pa.Table:
        files = [folder / "0.parquet", folder / "1.parquet"]
        return pa.concat_tables(
            pq.ParquetFile(file, page_checksum_verification=self.checksums).read() for file in files
        )


class ParquetChecksums(Parquet):
    """Parquet with a checksum on each page, compared on reading."""

    name = "parquet, checksums"
    note = "two files, with `write_page_checksum` and `page_checksum_verification`"
    checksums = True


class Vortex:
    """Vortex, its defaults: two files."""

    name = "vortex"
    note = "two files"

    def write(self, folder: Path) -> None:
        import vortex

        table = rows()
        for place, part in enumerate((table.slice(0, 400), table.slice(400))):
            vortex.io.write(part, str(folder / f"{place}.vortex"))

    def read(self, folder: Path) -> pa.Table:
        import vortex

        files = [folder / "0.vortex", folder / "1.vortex"]
        # Names and types as they come: a schema to read by would repair what a bit did to them.
        return pa.concat_tables(vortex.open(str(file)).to_arrow().read_all() for file in files)


STORES = [Pilum, PylanceLegacy, PylanceDefault, Parquet, ParquetChecksums, Vortex]
Store = Pilum | PylanceLegacy | Parquet | Vortex


def flip(folder: Path, trial: int) -> str:
    """Flip the bit of a trial; return where."""
    r = random.Random(f"flip {trial}")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    weights = None if trial % 2 else [path.stat().st_size for path in files]
    (path,) = r.choices(files, weights)
    content = bytearray(path.read_bytes())
    bit = r.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return f"bit {bit % 8} of byte {bit // 8} of {len(content)} of {path.relative_to(folder)}"


def same(got: pa.Table, want: pa.Table) -> bool:
    """Whether names, types and values are equal; dictionaries and views aside, which some stores choose by themselves."""
    if got.schema.names != want.schema.names or got.num_rows != want.num_rows:
        return False
    if [field.type for field in got.schema] != [field.type for field in want.schema]:
        return False
    got.validate(full=True)
    # As Python values: a comparison by Arrow would end at the first NaN.
    return str(got.to_pydict()) == str(want.to_pydict())


def outcome(store: Store, folder: Path, want: pa.Table) -> str:
    """Read a table and say how it went."""
    try:
        got = store.read(folder)
        return "no effect" if same(got, want) else "silently wrong"
    except Exception:
        return "noticed"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        # What a panic in Rust becomes: deliberately no `Exception`.
        return "panic"


def trials(store: Store, sound: Path, folder: Path, first: int, last: int) -> None:
    """Run trials one after the other in this process and print a line before and after each."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, most))
    # No file of what it looked like in memory is left where trials crash.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    want = store.read(sound)
    for trial in range(first, last):
        # A folder of its own name: nothing that a library remembers of another trial is of any use to it.
        damaged = folder / f"trial-{trial}"
        # A process that died here may have begun to make it.
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(sound, damaged)
        print(trial, flip(damaged, trial), sep="\t", flush=True)
        print(outcome(store, damaged, want), flush=True)
        shutil.rmtree(damaged)


def lines(child: subprocess.Popen[bytes], seconds: float) -> Iterator[str | None]:
    """Yield what a child prints, line by line; `None` when it is silent for too long. It may take its time to start."""
    told = b""
    patience = max(seconds, MOST_TO_START)
    stdout = child.stdout
    if stdout is None:
        return
    while True:
        ready, _, _ = select.select([stdout], [], [], patience)
        patience = seconds
        if not ready:
            yield None
            return
        piece = os.read(stdout.fileno(), 65536)
        if not piece:
            return
        *whole, told = (told + piece).split(b"\n")
        yield from (line.decode() for line in whole)


def run(store: Store, sound: Path, folder: Path, options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return for each trial what happened and where the bit was."""
    found: list[tuple[str, str]] = []
    while len(found) < options.trials:
        first = len(found)
        last = min(first + options.batch, options.trials)
        words = ["--child", store.name, "--sound", str(sound), "--folder", str(folder), str(first), str(last)]
        child = subprocess.Popen(
            [sys.executable, __file__, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        place = None
        try:
            for line in lines(child, options.seconds):
                if line is None:
                    break
                if "\t" in line:
                    place = line.split("\t")[1]
                elif place is not None:
                    found.append((line, place))
                    place = None
        finally:
            was_running = child.poll() is None and len(found) < last
            child.kill()
            child.wait()
        if len(found) < last and place is not None:
            found.append(("hang" if was_running else "crash", place))
        elif first < len(found) < last:
            # It died behind its answer: what was left of the trial took it down.
            found[-1] = ("crash", found[-1][1])
        elif len(found) < last:
            raise RuntimeError(f"the trials of {store.name} do not begin: run with --child to see why")
        print(f"{store.name}: {len(found)} of {options.trials}", file=sys.stderr)
    return found


def report(results: dict[str, list[tuple[str, str]]], options: argparse.Namespace) -> str:
    """Return the figures as a page."""
    notes: dict[str, Callable[[], Store]] = {kind.name: kind for kind in STORES}
    page = [
        "# One flipped bit",
        "",
        f"{dt.date.today().isoformat()}, {platform.system()} {platform.machine()}; {', '.join(versions())}.",  # noqa: DTZ011
        f"{options.trials:,} trials for each store: one bit of one file is flipped and all rows are read. `flips.py` says what",
        f"the words mean and how it is done. A hang is {options.seconds:g} s without an answer.",
        "",
        "| | " + " | ".join(OUTCOMES) + " |",
        "|---|" + "---:|" * len(OUTCOMES),
    ]
    for name, found in results.items():
        counts = collections.Counter(what for what, _ in found)
        page.append(f"| {name} | " + " | ".join(f"{counts[it]:,}" for it in OUTCOMES) + " |")
    page += ["", *(f"* {name}: {notes[name]().note}." for name in results), ""]
    return "\n".join(page)


def main() -> int:
    """Run the trials and write the page; 1 if a bit went through pilum unnoticed and changed something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=200, help="for each store")
    parser.add_argument("--batch", type=int, default=500, help="trials in one process")
    parser.add_argument("--seconds", type=float, default=20, help="without an answer: a hang")
    parser.add_argument("--only", action="append", help="names of stores, or beginnings of them")
    parser.add_argument("--out", type=Path, help=f"where the page goes, such as {RESULTS}")
    parser.add_argument("--show", action="store_true", help="list what was silently wrong, panicked, crashed or hung")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--sound", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("range", type=int, nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    stores = [kind() for kind in STORES]
    if options.child:
        (store,) = [store for store in stores if store.name == options.child]
        trials(store, options.sound, options.folder, *options.range)
        return 0
    if options.only:
        stores = [store for store in stores if any(store.name.startswith(name) for name in options.only)]
    results = {}
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="pilum-flips-", dir=shared if shared.is_dir() else None) as folder:
        for store in stores:
            sound = Path(folder) / "sound" / type(store).__name__
            sound.mkdir(parents=True)
            store.write(sound)
            results[store.name] = run(store, sound, Path(folder), options)
    page = report(results, options)
    print(page)
    if options.out:
        pages.write(page, options.out)
    if options.show:
        for name, found in results.items():
            print(*(f"{name}: {what}: {place}" for what, place in found if what not in OUTCOMES[:2]), sep="\n")
    harmful = set(OUTCOMES[2:])
    return int(any(what in harmful for what, _ in results.get("pilum", [])))


if __name__ == "__main__":
    sys.exit(main())
