"""Pages that statistics rule out are not read, and no row that passes is lost: for every type that has statistics."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import pilum

SCALE = int(os.environ.get("PILUM_TEST_SCALE", "1"))
PAGE, PAGES = 50, 20
EPOCH = dt.datetime(1970, 1, 1)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TYPES = [
    *(pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC")),
    *(pa.duration(unit) for unit in UNITS),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date32(), pa.date64(),
    pa.decimal128(20, 2), pa.decimal256(60, 2), pa.float32(), pa.float64(), pa.int64(),
]  # fmt: skip


def stored(numbers: list[int | None], type_: pa.DataType) -> pa.Array:
    """Numbers as values of a type: counts of its unit, hundredths, whole floats."""
    if pa.types.is_decimal(type_):
        return pa.array([None if it is None else Decimal(it).scaleb(-2) for it in numbers], type_)
    if pa.types.is_floating(type_):
        return pa.array([None if it is None else float(it) for it in numbers], type_)
    if pa.types.is_date64(type_):
        numbers = [None if it is None else it * 86_400_000 for it in numbers]
    return pa.array(numbers, pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_pages_are_skipped_for_every_type_with_an_order(type_: pa.DataType) -> None:
    # Half of the values lie before 1970, where the type has such values.
    first = 0 if pa.types.is_time(type_) else -PAGE * PAGES // 2
    numbers: list[int | None] = list(range(first, first + PAGE * PAGES))
    numbers[7] = numbers[300] = None
    table = pa.table({"x": stored(numbers, type_), "s": pa.StructArray.from_arrays([stored(numbers, type_)], ["m"])})
    ds = pilum.write_dataset(table, f"memory://pruned/{type_}", max_rows_per_page=PAGE).dataset
    at = PAGE * 3 + 20
    pivot = stored([numbers[at]], type_)[0]
    for name in ("x", "s.m"):
        column = pilum.col(name)
        for condition, count, pages in (
            (column == pivot, 1, 1),
            (column > pivot, PAGE * PAGES - at - 2, PAGES - 3),
            (column >= pivot, PAGE * PAGES - at - 1, PAGES - 3),
            (column < pivot, at - 1, 4),
            (column.between(pivot, pivot), 1, 1),
            (column.isin([pivot, pivot]), 1, 1),
        ):
            scanner = ds.scanner(columns=["x"], filter=condition)
            assert scanner.to_table().num_rows == count, (name, condition)
            assert scanner.metrics.pages_total - scanner.metrics.pages_pruned == pages, (name, condition)


def test_texts_of_times_skip_pages_too() -> None:
    days = [EPOCH + dt.timedelta(days=it) for it in range(PAGE * PAGES)]
    ds = pilum.write_dataset(pa.table({"t": days}), "memory://pruned/texts", max_rows_per_page=PAGE).dataset
    for condition in (
        "t >= '1972-06-01'",
        "t >= DATE '1972-06-01'",
        "t >= TIMESTAMP '1972-06-01 00:00:00'",
        "CAST(t AS DATE) >= DATE '1972-06-01'",
    ):
        scanner = ds.scanner(filter=condition)
        assert scanner.to_table().num_rows == sum(day >= dt.datetime(1972, 6, 1) for day in days)
        assert scanner.metrics.pages_pruned == 17, condition


FLOATS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.5, -1.5, 5e-324, 1e308]


def orders(left: float, operator: str, right: float) -> bool:
    """Compare as SQL does: NaN is the greatest value, and equals itself."""
    key_left, key_right = (
        (math.isnan(left), 0.0 if math.isnan(left) else left),
        (math.isnan(right), 0.0 if math.isnan(right) else right),
    )
    return {"=": key_left == key_right, "<": key_left < key_right, "<=": key_left <= key_right, ">": key_left > key_right,
            ">=": key_left >= key_right, "<>": key_left != key_right}[operator]  # fmt: skip


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_random_conditions_on_floats_lose_no_row_and_no_nan(type_: pa.DataType) -> None:
    draw = random.Random(f"floats {SCALE} {type_}")
    pruned = 0
    for turn in range(40 * SCALE):
        values: list[float | None] = []
        for _ in range(6):
            middle, spread = draw.uniform(-100, 100), draw.choice([0.0, 1.0, 50.0])
            page: list[float | None] = [middle + draw.uniform(-spread, spread) for _ in range(8)]
            for _ in range(draw.choice([0, 0, 0, 1, 2, 8])):
                page[draw.randrange(8)] = draw.choice([*FLOATS, None, None])
            values.extend(page)
        column = pa.array(values, pa.float64()).cast(type_, safe=False)
        known: list[float | None] = column.to_pylist()
        table = pa.table({"id": range(len(values)), "x": column})
        ds = pilum.write_dataset(table, f"memory://pruned/floats/{type_}/{turn}", max_rows_per_page=8).dataset
        if draw.random() < 0.3:
            ds = ds.delete("id % 7 = 3").dataset
        if draw.random() < 0.3:
            ds = ds.append(pa.table({"id": [-1], "x": pa.array([draw.choice(FLOATS)], type_)})).dataset
        rows: list[dict[str, Any]] = ds.to_table().to_pylist()
        for _ in range(12):
            operator = draw.choice(["=", "<", "<=", ">", ">=", "<>"])
            pivot = draw.choice([*FLOATS, draw.uniform(-100, 100), draw.choice([it for it in known if it is not None])])
            pivot = pa.array([pivot]).cast(type_, safe=False)[0].as_py()
            shown = f"CAST('{pivot}' AS DOUBLE)" if not math.isfinite(pivot) else f"{pivot:.17e}"
            negated = draw.random() < 0.3
            wanted = [
                row["id"] for row in rows if row["x"] is not None and orders(row["x"], operator, pivot) != negated
            ]
            condition = f"NOT (x {operator} {shown})" if negated else f"x {operator} {shown}"
            scanner = ds.scanner(columns=["id"], filter=condition)
            assert scanner.to_table()["id"].to_pylist() == wanted, (condition, rows)
            pruned += scanner.metrics.pages_pruned
    assert pruned > 500


def test_greater_skips_pages_of_floats_without_nan() -> None:
    values = [float(it) for it in range(PAGE * PAGES)]
    values[130] = float("nan")
    ds = pilum.write_dataset(pa.table({"x": values}), "memory://pruned/greater", max_rows_per_page=PAGE).dataset
    scanner = ds.scanner(filter=f"x > {PAGE * (PAGES - 1) - 1}.5")
    assert scanner.to_table().num_rows == PAGE + 1
    # The last page, and the one with NaN, which is greater than every number.
    assert scanner.metrics.pages_total - scanner.metrics.pages_pruned == 2
    assert ds.verify().ok
