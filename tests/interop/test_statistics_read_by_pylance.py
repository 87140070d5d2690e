"""The real pylance reads tables with statistics of types of which its own writer keeps none, filters included."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import lance
import pyarrow as pa
import pytest

import pilum

ROWS = 400
START = dt.datetime(1969, 12, 31, 23, 0)


def columns() -> dict[str, pa.Array]:
    times = [START + dt.timedelta(seconds=17 * it) for it in range(ROWS)]
    found: dict[str, pa.Array] = {"id": pa.array(range(ROWS))}
    for unit in ("s", "ms", "us", "ns"):
        found[f"t_{unit}"] = pa.array(times, pa.timestamp(unit))
        found[f"z_{unit}"] = pa.array(times, pa.timestamp(unit)).cast(pa.int64()).cast(pa.timestamp(unit, "UTC"))
        found[f"d_{unit}"] = pa.array([dt.timedelta(seconds=it - 100) for it in range(ROWS)], pa.duration(unit))
    found["c_s"] = pa.array(range(ROWS), pa.int32()).cast(pa.time32("s"))
    found["c_us"] = pa.array(range(ROWS), pa.int64()).cast(pa.time64("us"))
    found["m"] = pa.array([Decimal(it - 100).scaleb(-2) for it in range(ROWS)], pa.decimal256(50, 2))
    found["f"] = pa.array([float("nan") if it % 97 == 0 else it / 4 for it in range(ROWS)])
    found["g"] = pa.array([it / 4 for it in range(ROWS)], pa.float32())
    return found


FILTERS = [
    *(f"t_{unit} > timestamp '1970-01-01 00:30:00'" for unit in ("s", "ms", "us", "ns")),
    *(f"t_{unit} = timestamp '1969-12-31 23:00:17'" for unit in ("s", "ms", "us", "ns")),
    "f > 50", "f < 50", "g >= 99.5", "g < 1", "id > 390", "t_us > timestamp '1970-01-01 00:30:00' AND f > 10",
]  # fmt: skip


@pytest.fixture(scope="module")
def uri(tmp_path_factory: Any) -> str:
    path = str(tmp_path_factory.mktemp("statistics") / "t")
    pilum.write_dataset(pa.table(columns()), path, compat="lance", max_rows_per_page=40)
    return path


def test_every_value_is_read(uri: str) -> None:
    assert lance.dataset(uri).to_table().to_pydict().keys() == columns().keys()
    assert lance.dataset(uri).to_table().drop_columns(["f"]).equals(pilum.dataset(uri).to_table().drop_columns(["f"]))


@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.parametrize("late", [False, True])
def test_filters_of_pylance_find_the_same_rows(uri: str, condition: str, late: bool) -> None:
    # Filters read all rows, or push down to the statistics of pages.
    theirs = (
        lance.dataset(uri)
        .scanner(columns=["id"], filter=condition, use_stats=True, late_materialization=late)
        .to_table()
    )
    every = (
        lance.dataset(uri)
        .scanner(columns=["id"], filter=condition, use_stats=False, late_materialization=late)
        .to_table()
    )
    assert theirs.equals(every), condition
    if "f >" not in condition:  # NaN is greater than every number for pilum, and for pylance in some plans only
        assert theirs.equals(pilum.dataset(uri).to_table(columns=["id"], filter=condition)), condition


def test_a_table_that_pylance_changed_is_still_filtered_right(uri: str, tmp_path: Any) -> None:
    copy = str(tmp_path / "copy")
    pilum.write_dataset(pilum.dataset(uri), copy, compat="lance", max_rows_per_page=40)
    lance.write_dataset(pa.table(columns()), copy, mode="append", data_storage_version="legacy")
    lance.dataset(copy).delete("id % 3 = 0")
    lance.dataset(copy).optimize.compact_files()
    for condition in FILTERS:
        ours = pilum.dataset(copy).to_table(columns=["id"], filter=condition)["id"].to_pylist()
        rows = [
            row for row in pilum.dataset(uri).to_table(columns=["id"], filter=condition)["id"].to_pylist() if row % 3
        ]
        assert sorted(ours) == sorted(rows * 2), condition
