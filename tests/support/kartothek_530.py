"""Writes random datasets with the original Kartothek 5.3.0, under CPython 3.8, and what they hold.

    python3.8 kartothek_530.py FOLDER FIRST_SEED COUNT

For each seed: FOLDER/SEED/store, and FOLDER/SEED/rows.json, a list of rows as JSON values (times as texts, bytes as hex).
"""

from __future__ import annotations

import datetime as dt
import json
import random
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import pandas as pd  # noqa: E402 - after the filter
from kartothek.io.eager import store_dataframes_as_dataset, update_dataset_from_dataframes  # noqa: E402
from storefact import get_store_from_url  # noqa: E402

TEXTS = ["", " lead", "100%", "A\\B", "a b", "a=b", "c:d;e,f", "q?&#", "x+y", "~-_.", "ü", "日本", "%41"]
TEXTS += ["..", "a/b", "C:", "'\""]
DAY = dt.date(2020, 2, 28)


def value(kind: str, rng: random.Random) -> Any:
    """Return a value of a column."""
    if kind == "text":
        return rng.choice(TEXTS)
    if kind == "int":
        return rng.choice([-(2**53), -1, 0, 1, 2, 7, 2**40])
    if kind == "uint":
        return rng.choice([0, 1, 2**63, 2**64 - 1])
    if kind == "float":
        return rng.choice([0.1, -1.5, 1e22, 1e-7, 5e-324, 1e300, 3.0])
    if kind == "date":
        return DAY + dt.timedelta(days=rng.randint(0, 4))
    if kind == "time":
        return dt.datetime(2020, 1, 2, 3, 4, 5, rng.choice([0, 1, 123456])) + dt.timedelta(days=rng.randint(0, 3))
    if kind == "bytes":
        return rng.choice([b"", b"a", b"\xff\xfe", b"a b"])
    return rng.random() < 0.5


KINDS = ["text", "int", "uint", "float", "date", "time", "bytes", "bool"]
KEYS = ["text", "int", "uint", "float", "date", "time", "bool"]
NULLABLE = ["text", "float", "date", "time", "bytes"]
DTYPES = {"int": "int64", "uint": "uint64", "float": "float64", "time": "datetime64[ns]", "bool": "bool"}


def frame(columns: dict[str, str], filled: set[str], rows: list[int], rng: random.Random) -> pd.DataFrame:
    """Return some rows as a frame."""
    found = {"rid": pd.Series(rows, dtype="int64")}
    for name, kind in columns.items():
        may_be_null = name not in filled and kind in NULLABLE
        values = [None if may_be_null and rng.random() < 0.2 else value(kind, rng) for _ in rows]
        found[name] = pd.Series(values, dtype=DTYPES.get(kind, "object"))
    return pd.DataFrame(found)


def as_json(value: Any) -> Any:
    """Return a value as JSON has it."""
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime().isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value


def write(folder: Path, seed: int) -> None:
    """Write one dataset."""
    rng = random.Random(seed)
    kinds = rng.sample(KINDS, rng.randint(2, 6))
    columns = {
        f"{kind} {number}" if rng.random() < 0.2 else f"{kind}{number}": kind for number, kind in enumerate(kinds)
    }
    possible = [name for name, kind in columns.items() if kind in KEYS]
    keys = rng.sample(possible, rng.randint(0, min(2, len(possible))))
    others = [name for name in columns if name not in keys]
    indices = rng.sample(others, rng.randint(0, len(others)))
    (folder / "store").mkdir(parents=True)
    store = get_store_from_url(f"hfs://{folder}/store")
    given, first = [], 0
    for step in range(rng.randint(1, 3)):
        frames = []
        for _ in range(rng.randint(1, 3)):
            count = rng.randint(1, 12)
            frames.append(frame(columns, {*keys}, list(range(first, first + count)), rng))
            first += count
        # A column without a value has no type, and cannot be indexed.
        for one in frames:
            for name in others:
                if one[name].isnull().all():
                    one[name] = [value(columns[name], rng)] + [None] * (len(one) - 1)
        common = {"store": lambda: store, "partition_on": keys or None}
        if step == 0:
            store_dataframes_as_dataset(
                dataset_uuid="random",
                dfs=frames,
                secondary_indices=indices or None,
                overwrite=False,
                metadata_storage_format=rng.choice(["json", "msgpack"]),
                **common,
            )
        else:
            update_dataset_from_dataframes(frames, dataset_uuid="random", secondary_indices=indices or None, **common)
        given += frames
    rows = [{name: as_json(cell) for name, cell in row.items()} for one in given for row in one.to_dict("records")]
    told = {"kinds": {"rid": "int", **columns}, "keys": keys, "indices": indices, "rows": rows}
    (folder / "rows.json").write_text(json.dumps(told))


def main() -> None:
    """Write the datasets of some seeds."""
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for seed in range(first, first + count):
        write(folder / str(seed), seed)


main()
