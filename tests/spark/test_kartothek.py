"""Kartothek datasets in Spark: partitions are tasks, and keys and indices leave some out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pilum.kartothek
from pilum import spark as ps
from pilum.exceptions import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXTURES = Path(__file__).parent.parent / "fixtures" / "kartothek"


def uuid_of(case: str) -> str:
    found: str = json.loads((FIXTURES / case / "dataset.json").read_text())["uuid"]
    return found


@pytest.mark.parametrize("case", ["update_delete", "partition_strings", "partition_types", "index_types"])
def test_spark_reads_the_rows_that_pilum_reads(spark: SparkSession, case: str) -> None:
    store = FIXTURES / case / "store"
    table = pilum.kartothek.dataset(store, uuid_of(case), timestamp_unit="us").to_table().sort_by("rid")
    rows = ps.read_kartothek(spark, store, uuid_of(case), tasks=3).orderBy("rid").collect()
    names = [name for name in table.column_names if not str(table.schema.field(name).type).startswith("timestamp")]
    want: list[dict[str, Any]] = table.select(names).to_pylist()
    got = [{name: _plain(row[name]) for name in names} for row in rows]
    assert [repr(row) for row in got] == [repr(_whole(row)) for row in want]


def _plain(value: Any) -> Any:
    value = bytes(value) if isinstance(value, bytearray) else value
    return int(value) if type(value).__name__ == "Decimal" else value


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    return {name: int(value) if type(value).__name__ == "Decimal" else value for name, value in row.items()}


def test_partitions_that_indices_exclude_become_no_task(spark: SparkSession) -> None:
    store, uuid = FIXTURES / "update_delete" / "store", uuid_of("update_delete")
    k = pilum.kartothek.dataset(store, uuid)
    predicates = [[("ix", "==", 1)]]
    rows = ps.read_kartothek(spark, store, uuid, predicates=predicates, columns=["rid", "ix"])
    assert rows.rdd.getNumPartitions() == len(k.dispatch(predicates)) == 1
    assert [row.rid for row in rows.collect()] == k.to_table(predicates=predicates)["rid"].to_pylist()
    assert ps.read_kartothek(spark, store, uuid, predicates=[[("ix", "==", 4242)]]).count() == 0
    assert ps.read_kartothek(spark, store, uuid, limit=2).count() == 2
    assert ps.read_kartothek(spark, store, uuid, predicates="year = 2019").count() == k.count_rows(None, "year = 2019")
    with pytest.raises(InvalidInputError, match="none"):
        ps.read_kartothek(spark, store, uuid, columns=["none"])
