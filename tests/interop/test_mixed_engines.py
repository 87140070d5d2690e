"""pilum and the real pylance at work on one table at the same time, each in processes of its own.

`PILUM_TEST_SCALE=8` lets them work eight times as long.
"""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import multiprocessing
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field

import lance
import pyarrow as pa

import pilum

SCALE = int(os.environ.get("PILUM_TEST_SCALE", "1"))
STEPS = 60 * SCALE
EACH = 4
ROWS = 3


@dataclass
class Told:
    """What one writer was told; `open` are keys that it was told nothing certain about."""

    engine: str
    there: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    did: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)


def rows(keys: list[int]) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"row {key}" for key in keys]})


def of_pilum(path: str, kind: str, keys: list[int]) -> None:
    ds = pilum.dataset(path)
    if kind == "append":
        ds.append(rows(keys), compat="lance", durability="none")
    elif kind == "delete":
        ds.delete(f"k = {keys[0]}", durability="none")
    else:
        ds.compact(target_rows=2000, durability="none")


def of_pylance(path: str, kind: str, keys: list[int]) -> None:
    if kind == "append":
        lance.write_dataset(rows(keys), path, mode="append")
    elif kind == "delete":
        lance.dataset(path).delete(f"k = {keys[0]}")
    else:
        lance.dataset(path).optimize.compact_files(target_rows_per_fragment=2000)


def work(engine: str, path: str, number: int, steps: int, start: int) -> Told:
    """Append rows with keys of its own, delete some of them again, and compact now and then."""
    told, draw = Told(engine), random.Random(number)
    run = of_pilum if engine == "pilum" else of_pylance
    fresh = iter(range(number * 1_000_000, (number + 1) * 1_000_000))
    while time.monotonic_ns() < start:
        time.sleep(0.001)
    for step in range(steps):
        kind = "compact" if step % 15 == 14 else draw.choice(["append", "append", "delete"])
        if kind == "delete" and not told.there:
            kind = "append"
        keys = {
            "append": lambda: [next(fresh) for _ in range(ROWS)],
            "delete": lambda: [draw.choice(sorted(told.there))],
            "compact": list,
        }[kind]()
        try:
            run(path, kind, keys)
        except pilum.ConflictError as error:
            # Nothing happened.
            told.errors.append(f"{kind}: {error}")
            if kind == "append":
                told.gone.update(keys)
            continue
        except Exception as error:  # the peer says it in many ways
            told.errors.append(f"{kind}: {type(error).__name__} {error}")
            told.open.update(keys)
            told.there.difference_update(keys)
            continue
        told.did[kind] += 1
        if kind == "append":
            told.there.update(keys)
        elif kind == "delete":
            told.there.difference_update(keys)
            told.gone.update(keys)
    return told


def test_both_engines_write_one_table_at_the_same_time(tmp_path):
    path = str(tmp_path / "t")
    pilum.write_dataset(rows([-1]), path, compat="lance")
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2 * EACH, context) as pool:
        list(pool.map(time.sleep, [0.2] * 2 * EACH))
        start = time.monotonic_ns() + 3_000_000_000
        engines = ["pilum", "pylance"] * EACH
        futures = [pool.submit(work, engine, path, number, STEPS, start) for number, engine in enumerate(engines)]
        all_told = [future.result() for future in futures]

    found = pilum.dataset(path).to_table()
    keys = Counter(found["k"].to_pylist())
    for told in all_told:
        assert not (lost := [key for key in told.there if keys[key] != 1]), f"{told.engine}: {lost}"
        assert not (back := [key for key in told.gone if keys[key] != 0]), f"{told.engine}: {back}"
        assert not (twice := [key for key in told.open if keys[key] > 1]), f"{told.engine}: {twice}"
        assert told.engine == "pylance" or not told.open, told.errors
    known = {-1}.union(*(told.there | told.open for told in all_told))
    assert set(keys) <= known, "rows that nobody wrote"
    assert found["s"].to_pylist() == [f"row {key}" for key in found["k"].to_pylist()]
    assert lance.dataset(path).to_table().sort_by("k").equals(found.sort_by("k"))

    lance.dataset(path).validate()
    for version in pilum.dataset(path).versions()[:: max(1, SCALE)]:
        report = pilum.dataset(path, version=version.version).verify()
        assert report.ok, f"version {version.version}: {report.problems}"
    zero = dt.timedelta(0)
    pilum.dataset(path).cleanup(older_than=zero, unverified_older_than=zero)
    report = pilum.dataset(path).verify()
    assert report.ok, report.problems
    assert report.orphans == []
    lance.dataset(path).validate()
    assert lance.dataset(path).to_table().sort_by("k").equals(found.sort_by("k"))

    for engine in ("pilum", "pylance"):
        theirs = [told for told in all_told if told.engine == engine]
        did = sum((told.did for told in theirs), Counter())
        errors = [error for told in theirs for error in told.errors]
        print(
            f"{engine}: {dict(did)}, {len(errors)} refused", *Counter(e[:60] for e in errors).most_common(5), sep="\n  "
        )
        assert did["append"] >= 20 * EACH
        assert did["delete"] >= 5 * EACH
        assert did["compact"] >= 1
