"""Every SQL function and operator gives the answers of DuckDB, on random expressions over random rows."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pilum
from support.sql_expressions import Expressions, rows

EXPRESSIONS = 5_000 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
TOGETHER = 50
"""Expressions of one scan."""

# Integers have 64 bits here and the width of their operands in DuckDB: one side may hold what the other refuses.
DUCKDB_REFUSES = (duckdb.OutOfRangeException, duckdb.ConversionException, duckdb.InvalidInputException)


def plain(value: Any) -> Any:
    """Return dates as timestamps and decimals as floats; types are not compared here."""
    if isinstance(value, Decimal):
        return float(value)
    if type(value) is dt.date:
        return dt.datetime(value.year, value.month, value.day)
    return value


def same(ours: Any, theirs: Any) -> bool:
    ours, theirs = plain(ours), plain(theirs)
    if isinstance(ours, float) or isinstance(theirs, float):
        if ours is None or theirs is None:
            return ours is theirs
        return (math.isnan(ours) and math.isnan(theirs)) or math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-9)
    return ours == theirs and (ours is None) == (theirs is None)


def evaluated(ds: pilum.Dataset, texts: list[str]) -> list[list[Any] | None]:
    """Return the values of each expression; None of one that refuses a value."""
    try:
        table = ds.to_table(columns={f"e{place}": text for place, text in enumerate(texts)})
    except pilum.InvalidInputError:
        if len(texts) == 1:
            return [None]
        middle = len(texts) // 2
        return evaluated(ds, texts[:middle]) + evaluated(ds, texts[middle:])
    return [column.to_pylist() for column in table.columns]


def by_duckdb(db: duckdb.DuckDBPyConnection, texts: list[str]) -> list[list[Any] | None]:
    try:
        found = db.execute("SELECT " + ", ".join(f"{text} AS e{place}" for place, text in enumerate(texts)) + " FROM t")
        return [column.to_pylist() for column in found.to_arrow_table().columns]
    except DUCKDB_REFUSES:
        if len(texts) == 1:
            return [None]
        middle = len(texts) // 2
        return by_duckdb(db, texts[:middle]) + by_duckdb(db, texts[middle:])


@pytest.mark.parametrize("seed", range(5))
def test_random_expressions_have_the_values_of_duckdb(seed: int, tmp_path: Path) -> None:
    r = random.Random(seed)
    made = Expressions(r)
    refused = compared = 0
    t = rows(r, 60)
    ds = pilum.write_dataset(t, tmp_path / "t", durability="none").dataset
    with duckdb.connect() as db:
        db.execute("SET threads = 1")
        db.register("arrow", t)
        db.execute("CREATE TABLE t AS SELECT * FROM arrow")
        for _ in range(EXPRESSIONS // 5 // TOGETHER):
            texts = [made.any() for _ in range(TOGETHER)]
            for text, ours, theirs in zip(texts, evaluated(ds, texts), by_duckdb(db, texts), strict=True):
                if ours is None or theirs is None:
                    refused += 1
                    continue
                compared += 1
                for row, (one, other) in enumerate(zip(ours, theirs, strict=True)):
                    assert same(one, other), (
                        f"seed {seed}: {text} gives {one!r}, in DuckDB {other!r}, for {t.slice(row, 1).to_pylist()}"
                    )
    assert compared > 0.9 * EXPRESSIONS / 5, f"{refused} refused"
    assert len(made.used) > 100, made.used
