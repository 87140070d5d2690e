"""Write the golden tables of this release: once, when it is made.

    python tests/golden/make_release.py

The folder takes the name of the version of the installed library. One that is there is never touched: it is what a release
wrote, and tests read it for ever.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow as pa

import pilum
from support.comparing import assert_same
from support.random_schemas import LEAVES, PATTERNS, SIMPLE, Column, random_type
from support.random_tables import FIXED, VARIABLE
from support.releases import ROOT, TABLE, Step, by_key, replay, save

PAGE = 8
ROWS = 3 * PAGE + 1

Recipe = tuple[list[Step], dict[int, pa.Table]]
"""The steps, and what those write that write rows."""


def table_of(fields: list[tuple[pa.Field, str]], seed: int, first: int, rows: int) -> pa.Table:
    """Return rows after a key `k` that begins with `first`."""
    maker = Column(random.Random(f"golden {seed} {first}"), PAGE)
    key = pa.array(range(first, first + rows), pa.int64())
    arrays = [maker.of(field, rows, pattern) for field, pattern in fields]
    schema = pa.schema([pa.field("k", pa.int64(), False), *(field for field, _ in fields)])
    return pa.table([key, *arrays], schema=schema)


def of_types(types: list[pa.DataType], seed: int) -> Recipe:
    """Write, append, delete, update and compact columns of these types, their nulls by every pattern in turn."""
    fields = [
        (pa.field(f"c{place}", type_, True), PATTERNS[(place + seed) % len(PATTERNS)])
        for place, type_ in enumerate(types)
    ]
    sizes = {"max_rows_per_page": PAGE, "max_rows_per_file": 2 * PAGE}
    steps: list[Step] = [
        {"write": True, "options": {**sizes, "stable_row_ids": seed % 2 == 0}},
        {"append": True, "options": sizes},
        {"delete": [5, 3]},
        {"update": [4, 1, 1000]},
        {"compact": True},
    ]
    return steps, {0: table_of(fields, seed, 0, ROWS), 1: table_of(fields, seed, ROWS, PAGE + 1)}


def plain() -> Recipe:
    """What every reader of Lance v1 holds, with tags, in the naming scheme of old tables."""
    maker = Column(random.Random("golden plain"), PAGE, ["none"])
    types = [type_ for type_, _ in FIXED]
    texts = [type_ for type_, _ in VARIABLE]

    def rows(first: int) -> pa.Table:
        arrays = [pa.array(range(first, first + ROWS), pa.int64())]
        arrays += [maker.of(pa.field("c", type_, False), ROWS) for type_ in types]
        # A text is null or has a letter.
        values = {type_: b"\xff" if "binary" in str(type_) else "é" for type_ in texts}
        arrays += [pa.array([None if n % 3 else values[type_] for n in range(ROWS)], type_) for type_ in texts]
        arrays.append(pa.array([[n, n + 1][: n % 3] for n in range(ROWS)], pa.list_(pa.int32())))
        arrays.append(pa.DictionaryArray.from_arrays(pa.array([n % 2 for n in range(ROWS)], pa.int8()), ["a", "b"]))
        return pa.table(arrays, names=["k", *(f"c{n}" for n in range(len(arrays) - 1))])

    steps: list[Step] = [
        {"write": True, "options": {"compat": "lance", "max_rows_per_page": PAGE}},
        {"rename_to_v1": True},
        {"append": True, "options": {"compat": "lance", "commit_id": "golden"}},
        {"tag": ["first", 1]},
        {"delete": [7, 2]},
        {"tag": ["release/one", 3]},
    ]
    return steps, {0: rows(0), 2: rows(ROWS)}


def deletions() -> Recipe:
    """Deletion files of both flavours, and one that grows from the one into the other."""
    rows = pa.table({"k": pa.array(range(12_000), pa.int64())})
    steps: list[Step] = [
        {"write": True, "options": {"max_rows_per_file": 6000, "stable_row_ids": True}},
        {"delete": [500, 499]},
        {"delete": [10, 1]},
        {"update": [4000, 17, 100_000]},
        {"delete": [2, 0]},
        {"delete": [10, 3]},
        {"delete": [10, 5]},
        {"delete": [10, 7]},
        {"append": True},
    ]
    return steps, {0: rows, len(steps) - 1: pa.table({"k": pa.array([1, 2], pa.int64())})}


def dictionaries() -> Recipe:
    """Dictionaries that grow, with nulls, and at last with an empty value."""

    def rows(first: int, keys: list[int | None], values: list[str]) -> pa.Table:
        d = pa.DictionaryArray.from_arrays(pa.array(keys, pa.int16()), values)
        lists = pa.ListArray.from_arrays(list(range(len(keys) + 1)), d)
        return pa.table({"k": pa.array(range(first, first + len(keys)), pa.int64()), "d": d, "l": lists})

    steps: list[Step] = [{"write": True}, {"append": True}, {"append": True}, {"compact": True}]
    return steps, {
        0: rows(0, [0, 1, 0], ["a", "b"]),
        1: rows(3, [0, None, 1], ["ç", "a"]),
        2: rows(6, [1, 0], ["", "日本"]),
    }


def recipes() -> dict[str, Recipe]:
    r = random.Random("golden nested")
    nested = [random_type(r, 1 + place % 3, SIMPLE[place * 5 % len(SIMPLE)]) for place in range(24)]
    return {
        "every_leaf": of_types([type_ for type_, _ in LEAVES], 0),
        "every_dictionary": of_types([type_ for type_ in SIMPLE if pa.types.is_dictionary(type_)], 1),
        "nested": of_types([pa.null(), *nested], 2),
        "plain_v1_names_tags": plain(),
        "deletions": deletions(),
        "growing_dictionaries": dictionaries(),
        "no_rows": ([{"write": True}], {0: pa.table({"k": pa.array([], pa.int64()), "s": pa.array([], pa.string())})}),
    }


def main() -> int:
    """Make the folder of this release; 1 if it is there."""
    folder = ROOT / pilum.__version__
    if folder.exists():
        print(f"{folder} is there: golden tables are written once for each release", file=sys.stderr)
        return 1
    made = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(made, ignore_errors=True)
    for name, (steps, inputs) in recipes().items():
        table = made / name
        table.mkdir(parents=True)
        for place, rows in inputs.items():
            save(rows, table / f"rows_{place}.arrow")
        expected = replay(steps, inputs.__getitem__, table / TABLE)
        for version, rows in expected.items():
            assert_same(by_key(pilum.dataset(table / TABLE, version=version).to_table()), rows, f"{name} {version}")
            save(rows, table / f"expected_{version}.arrow")
        report = pilum.dataset(table / TABLE).verify()
        if not report.ok:
            raise AssertionError(f"{name}: {report.problems}")
        (table / "recipe.json").write_text(json.dumps({"steps": steps}, indent=1) + "\n")
    made.rename(folder)
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
