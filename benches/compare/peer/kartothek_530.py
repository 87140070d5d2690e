"""The peer of `../kartothek.py`: the same work by Kartothek 5.3.0, under CPython 3.8. One JSON object on standard output.

/path/of/its/venv/bin/python benches/compare/peer/kartothek_530.py make|measure STORE PARTITIONS ROWS
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402 - after the filter
import pandas as pd  # noqa: E402
from kartothek.core.factory import DatasetFactory  # noqa: E402
from kartothek.io.eager import (  # noqa: E402
    read_table,
    store_dataframes_as_dataset,
    update_dataset_from_dataframes,
)
from storefact import get_store_from_url  # noqa: E402

KEYS = ["day"]
INDICES = ["item", "shop", "kind"]


def frames(partitions: int, rows: int) -> Iterator[pd.DataFrame]:
    """Return one frame for each partition."""
    r = np.random.RandomState(1)
    for number in range(partitions):
        yield pd.DataFrame(
            {
                "day": pd.Timestamp("2000-01-01") + pd.Timedelta(days=number),
                "item": r.randint(0, 20000, rows),
                "shop": [f"shop {n}" for n in r.randint(0, 2000, rows)],
                "kind": r.randint(0, 50, rows),
                "price": r.rand(rows),
            }
        )


def least(work: Callable[[], object], times: int) -> float:
    """Return the least wall clock time of several runs."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def main() -> None:
    """Make the dataset, or measure."""
    what, path, partitions, rows = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

    def store() -> Any:
        return get_store_from_url("hfs://" + path)

    if what == "make":
        store_dataframes_as_dataset(
            store=store,
            dataset_uuid="bench",
            dfs=list(frames(partitions, rows)),
            partition_on=KEYS,
            secondary_indices=INDICES,
        )
        return

    def plan() -> int:
        dataset = DatasetFactory("bench", store)
        dataset = dataset.load_all_indices()
        labels = dataset.query(item=7, kind=3)
        return len(labels)

    def query() -> int:
        return len(read_table("bench", store, predicates=[[("item", "==", 7)]]))

    def full() -> int:
        return len(read_table("bench", store))

    found: dict[str, Any] = {"plan": least(plan, 3), "query": least(query, 3), "full": least(full, 1)}
    found["answers"] = {"plan": plan(), "query": query(), "full": full()}
    frame = next(frames(1, rows))

    def update() -> None:
        scope = [{"day": frame["day"].iloc[0]}]
        update_dataset_from_dataframes([frame], store=store, dataset_uuid="bench", delete_scope=scope)

    found["update"] = least(update, 3)
    json.dump(found, sys.stdout)


main()
