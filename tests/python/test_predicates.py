"""Random predicates keep the rows that DuckDB keeps, and that a look at every row keeps: with statistics and without,
over deletions, under limits."""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import pilum
from support.data_file import without_statistics
from support.predicates import SCHEMA, Predicates, table

TABLES = 10 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
PREDICATES = 50

# What leaves the range of its type in DuckDB may fit here, where integers have 64 bits; and conditions are not evaluated for
# rows that others decided, here as there.
DUCKDB_REFUSES = (duckdb.OutOfRangeException, duckdb.ConversionException)

# A decimal beside a float32 goes through single precision in DuckDB, on its way to the other type too: of large numbers little
# is left there. Literals here are rounded the same way; results of computations keep their value.
SINGLE = re.compile(r"\bg\b|AS FLOAT")
DECIMAL = re.compile(r"\bm\b|DECIMAL|\d\.\d")


@dataclass
class Seen:
    """What a run met; a test in which nothing is left out or everything fails would show nothing."""

    compared: int = 0
    refused: int = 0
    pages: int = 0
    pruned: int = 0
    single: int = 0


def written(r: random.Random, rows: pa.Table, place: Path, *, statistics: bool) -> pilum.Dataset:
    """Return the rows as a table of a few fragments, some of its rows deleted."""
    cuts = sorted(r.randrange(rows.num_rows + 1) for _ in range(r.choice([0, 1, 3])))
    for start, end in zip([0, *cuts], [*cuts, rows.num_rows], strict=True):
        piece = rows.slice(start, end - start)
        mode = "append" if start else "overwrite"
        pilum.write_dataset(piece, place, mode=mode, max_rows_per_page=r.choice([1, 8, 32, 1024]), durability="none")
    ds = pilum.dataset(place)
    deleted = r.sample(range(rows.num_rows), int(rows.num_rows * r.choice([0, 0, 0.1, 0.6])))
    if deleted:
        ds = ds.delete(pilum.col("row").isin(deleted), durability="none").dataset
    if statistics:
        return ds
    for file in place.glob("data/*.lance"):
        without_statistics(file)
    return pilum.dataset(place, verify_checksums=False)


def duckdb_rows(db: duckdb.DuckDBPyConnection, predicate: str) -> list[int] | None:
    """Return the rows that DuckDB keeps; None when it refuses a value."""
    try:
        return db.execute(f"SELECT row FROM t WHERE {predicate} ORDER BY row").fetchnumpy()["row"].tolist()
    except DUCKDB_REFUSES:
        return None


def kept(ds: pilum.Dataset, seen: Seen, predicate: str, **options: int) -> list[int] | None:
    """Return the rows that pilum keeps; None when a value leaves the range of its type."""
    scanner = ds.scanner(["row"], predicate, **options)
    try:
        rows: list[int] = scanner.to_table()["row"].to_pylist()
    except pilum.InvalidInputError as error:
        if "overflow in" in str(error):
            return None
        raise
    seen.pages += scanner.metrics.pages_total
    seen.pruned += scanner.metrics.pages_pruned
    return rows


def looked_at(ds: pilum.Dataset, predicates: list[str]) -> list[list[int] | None]:
    """Return the rows for which each predicate is true, from its value for every row; statistics have no part in it."""
    names = [f"p{place}" for place in range(len(predicates))]
    try:
        values = ds.to_table({"row": "row", **dict(zip(names, predicates, strict=True))})
    except pilum.InvalidInputError:
        if len(predicates) == 1:
            return [None]
        return [rows for predicate in predicates for rows in looked_at(ds, [predicate])]
    return [values.filter(values[name])["row"].to_pylist() for name in names]


@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "no statistics"])
@pytest.mark.parametrize("seed", range(5))
def test_rows_kept_are_those_of_duckdb(seed, statistics, tmp_path):
    r = random.Random(f"{seed} {statistics}")
    seen = Seen()
    for number in range(TABLES):
        rows = table(r)
        ds = written(r, rows, tmp_path / str(number), statistics=statistics)
        left = ds.to_table()
        # DuckDB takes dictionaries for enumerations, which compare by place.
        plain = left.set_column(SCHEMA.get_field_index("c"), "c", left["c"].cast(pa.string()))
        with duckdb.connect() as db:
            db.execute("SET threads = 1")
            db.register("arrow", plain)
            db.execute("CREATE TABLE t AS SELECT * FROM arrow")
            make = Predicates(r)
            predicates = [make.condition() for _ in range(PREDICATES)]
            for predicate, looked in zip(predicates, looked_at(ds, predicates), strict=True):
                check(r, ds, db, seen, predicate, looked)
    assert seen.refused < 0.1 * seen.compared, seen
    assert seen.single <= 0.001 * seen.compared, seen
    assert seen.pruned > 0.1 * seen.pages if statistics else seen.pruned == 0, seen


def check(
    r: random.Random,
    ds: pilum.Dataset,
    db: duckdb.DuckDBPyConnection,
    seen: Seen,
    predicate: str,
    looked: list[int] | None,
) -> None:
    """Compare one predicate's rows every way."""
    want = duckdb_rows(db, predicate)
    rows = kept(ds, seen, predicate)
    if want is None or looked is None or rows is None:
        seen.refused += 1
    if looked is not None:
        assert rows == looked, predicate
    if want is None or rows is None:
        return
    seen.compared += 1
    if rows != want and rows == looked and SINGLE.search(predicate) and DECIMAL.search(predicate):
        seen.single += 1
        return
    assert rows == want, predicate
    limit, offset = r.randint(0, 20), r.choice([0, 0, 1, 30])
    some = kept(ds, seen, predicate, limit=limit, offset=offset)
    assert some is None or some == want[offset : offset + limit], f"{predicate} LIMIT {limit} OFFSET {offset}"
    if r.random() < 0.2:
        assert ds.count_rows(predicate) == len(want), predicate
