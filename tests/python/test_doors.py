"""At every door a value comes back equal or is refused: random types, targets and values beside an independent model.

`PILUM_TEST_SCALE=50` makes a million cases. One case is one column of a few rows that goes through one door.
"""

from __future__ import annotations

import itertools
import os
import random
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import pilum
from support import exact_values as model
from support.exact_values import EITHER, REFUSED

CASES = 20_000 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
PER_TEST = 2_000
COLUMNS = 25
"""Columns that go through a door together where all of them must come back."""

names = map("memory://doors/{}".format, itertools.count())


def batches(table: pa.Table) -> Any:
    """Yield the rows in two batches."""
    yield from table.slice(0, 1).to_batches()
    yield from table.slice(1).to_batches()


def empty(schema: pa.Schema) -> pilum.Dataset:
    """Return a table without rows."""
    return pilum.write_dataset(schema.empty_table(), next(names), durability="none")


def keyed(table: pa.Table, first: int = 0) -> pa.Table:
    """Return the rows with a key in front."""
    return table.add_column(0, "key", pa.array(range(first, first + table.num_rows), pa.int64()))


def values_of(ds: pilum.Dataset, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema."""
    return ds.to_table(columns=schema.names)


def created(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `write_dataset`."""
    return pilum.write_dataset(table, next(names), schema=schema, durability="none").to_table()


def created_of_batches(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `write_dataset` with an iterator."""
    return pilum.write_dataset(batches(table), next(names), schema=schema, durability="none").to_table()


def appended(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `append` to a table of the target's types."""
    return empty(schema).append(table, durability="none").to_table()


def appended_of_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `append` with `schema=`."""
    return empty(schema).append(table, schema=schema, durability="none").to_table()


def overwritten(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `overwrite`."""
    return empty(pa.schema([("other", pa.int8())])).overwrite(table, schema=schema, durability="none").to_table()


def inserted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `merge_insert` as new rows."""
    ds = empty(pa.schema([("key", pa.int64()), *schema]))
    return values_of(ds.merge_insert("key", keyed(table), durability="none"), schema)


def updated(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `merge_insert` as new values of rows that are there."""
    nulls = pa.table({field.name: pa.nulls(table.num_rows, field.type) for field in schema}, schema=schema)
    ds = pilum.write_dataset(keyed(nulls), next(names), durability="none")
    return values_of(ds.merge_insert("key", keyed(table), durability="none"), schema)


def rows_for(table: pa.Table) -> pilum.Dataset:
    """Return a table of as many rows."""
    return pilum.write_dataset(keyed(table).select(["key"]), next(names), durability="none")


def added(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `add_columns` as a table."""
    return values_of(rows_for(table).add_columns(table, schema=schema, durability="none"), schema)


def added_of_batches(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `add_columns` as an iterator."""
    return values_of(rows_for(table).add_columns(batches(table), schema=schema, durability="none"), schema)


def added_of_function(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `add_columns` as the results of a function."""

    def compute(batch: pa.RecordBatch) -> pa.Table:
        return table.slice(batch["key"][0].as_py(), batch.num_rows)

    return values_of(rows_for(table).add_columns(compute, batch_rows=2, schema=schema, durability="none"), schema)


def staged(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `fragments.write` and `commit`, for a new table."""
    uri = next(names)
    pieces = pilum.fragments.write(table, uri, mode="create", schema=schema, durability="none")
    return pilum.commit(uri, pilum.Create(pieces), durability="none").to_table()


def staged_to_append(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Go through `fragments.write` and `commit`, for a table that is there."""
    ds = empty(schema)
    pieces = pilum.fragments.write(table, ds.uri, durability="none")
    return pilum.commit(ds.uri, pilum.Append(pieces), durability="none").to_table()


DOORS: list[Callable[[pa.Table, pa.Schema], pa.Table]] = [
    created,
    created_of_batches,
    appended,
    appended_of_schema,
    overwritten,
    inserted,
    updated,
    added,
    added_of_batches,
    added_of_function,
    staged,
    staged_to_append,
]


class Case:
    """A column of one type that is to become another type."""

    def __init__(self, source: pa.DataType, target: pa.DataType, values: list[Any], wanted: list[Any]) -> None:
        self.source, self.target, self.values, self.wanted = source, target, values, wanted

    @property
    def is_refused(self) -> bool:
        """Whether a value has no place in the target."""
        return any(it is REFUSED for it in self.wanted)

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}: {self.values!r}"


def nested(r: random.Random, leaf: Callable[[], tuple[pa.DataType, pa.DataType]]) -> tuple[pa.DataType, pa.DataType]:
    """Return two nested types of the same shape around leaves."""
    a, b = leaf()
    while a in model.DICTIONARIES:
        # pyarrow makes arrays of them that are not valid: keys into an empty dictionary, below nulls.
        a, b = leaf()
    match r.randrange(4):
        case 0:
            kinds = [pa.list_, pa.large_list, lambda it: pa.list_(it, 2)]
            return r.choice(kinds)(a), r.choice(kinds)(pa.field(r.choice(["item", "element"]), b))
        case 1:
            other = r.choice([pa.int16(), b]) if b not in model.DICTIONARIES else pa.int16()
            members = [pa.field("x", a), pa.field("y", other)]
            wanted = [pa.field("x", b), pa.field("y", other), pa.field("z", other)]
            r.shuffle(members)
            r.shuffle(wanted)
            return pa.struct(members), pa.struct(wanted)
        case 2:
            return pa.map_(pa.string(), a), pa.map_(pa.large_string(), b)
        case _:
            return pa.list_(pa.struct([("p", a), ("q", a)])), pa.list_(pa.struct([("q", b), ("p", b)]))


def drawn_case(r: random.Random) -> Case | None:
    """Return a random case; None for two types that do not go together."""
    family = r.choice(model.FAMILIES)
    leaf = lambda: (r.choice(family), r.choice(family))  # noqa: E731
    is_nested = r.random() < 0.15
    source, target = nested(r, leaf) if is_nested else leaf()
    values: list[Any] = []
    wanted: list[Any] = []
    goes_through = r.random() < 0.85
    for _ in range(r.choice([4, 8])):
        value = None if r.random() < 0.15 else model.drawn(source, r)
        want = model.expected(source, target, value)
        if want is EITHER or (goes_through and want is REFUSED):
            continue
        values.append(value)
        wanted.append(want)
    return Case(source, target, values, wanted)


def table_of(cases: list[Case]) -> tuple[pa.Table, pa.Schema]:
    """Return the columns of some cases, filled up with nulls to the same length, and the columns that they become."""
    rows = max(2, *(len(case.values) for case in cases))
    columns = {
        f"c{at}": model.made(case.source, [*case.values, *[None] * (rows - len(case.values))])
        for at, case in enumerate(cases)
    }
    return pa.table(columns), pa.schema([(f"c{at}", case.target) for at, case in enumerate(cases)])


def keeps(door: Callable[[pa.Table, pa.Schema], pa.Table], cases: list[Case]) -> None:
    """Expect every value back."""
    table, schema = table_of(cases)
    try:
        got = door(table, schema)
    except pilum.PilumError as error:
        at = re.search(r"column `c(\d+)", str(error))
        case = cases[int(at.group(1))] if at else None
        raise AssertionError(f"{door.__name__}: {case}: {error}") from error
    assert got.num_rows == table.num_rows
    for at, case in enumerate(cases):
        column = got[f"c{at}"].combine_chunks()
        assert column.type == case.target, f"{door.__name__}: {case}"
        values = model.read(column)
        assert values[: len(case.wanted)] == case.wanted, f"{door.__name__}: {case} came back as {values}"


def refuses(door: Callable[[pa.Table, pa.Schema], pa.Table], case: Case) -> None:
    """Expect an error that names the column, the first row and the type of the target."""
    table, schema = table_of([case])
    row = next(at for at, it in enumerate(case.wanted) if it is REFUSED)
    try:
        got = door(table, schema)
    except pilum.InvalidInputError as error:
        text = str(error)
    else:
        raise AssertionError(f"{door.__name__}: {case} was not refused, and came back as {got}")
    assert re.search(rf"column `c0[^`]*`, row {row}[,:]", text), f"{door.__name__}: {case}: {text}"


def unrelated(r: random.Random) -> tuple[pa.DataType, pa.DataType]:
    """Return two types that never go together."""
    while True:
        source, target = r.choice(model.LEAVES), r.choice(model.LEAVES)
        if not model.goes(source, target):
            return source, target


def refuses_types(door: Callable[[pa.Table, pa.Schema], pa.Table], pairs: list[tuple[Any, Any]], r: Any) -> None:
    """Expect an error that names every column."""
    cases = [Case(source, target, [model.drawn(source, r)], []) for source, target in pairs]
    table, schema = table_of(cases)
    with pytest.raises(pilum.InvalidInputError) as refused:
        door(table, schema)
    for at, (source, target) in enumerate(pairs):
        assert f"column `c{at}`" in str(refused.value), f"{door.__name__}: {source} -> {target}: {refused.value}"


@pytest.mark.parametrize("start", range(0, CASES, PER_TEST))
def test_every_value_comes_back_equal_or_is_refused(start: int) -> None:
    r = random.Random(f"doors {start}")
    done = 0
    waiting: dict[int, list[Case]] = {}
    while done < PER_TEST:
        at = r.randrange(len(DOORS))
        door = DOORS[at]
        if r.random() < 0.01:
            refuses_types(door, [unrelated(r) for _ in range(COLUMNS)], r)
            done += COLUMNS
            continue
        case = drawn_case(r)
        if case.is_refused:
            refuses(door, case)
            done += 1
            continue
        waiting.setdefault(at, []).append(case)
        if len(waiting[at]) == COLUMNS:
            keeps(door, waiting.pop(at))
            done += COLUMNS
    for at, cases in waiting.items():
        keeps(DOORS[at], cases)
