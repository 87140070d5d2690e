"""Streams whose batches have their columns in other orders, under other names, too few or too many, at all doors."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import pilum

STREAMS = 1_000 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
PER_TEST = 250

names = map("memory://door-streams/{}".format, itertools.count())

POINT = ("x", "y")
"""Members of the nested column."""


def type_of(name: str, members: tuple[str, ...] = POINT) -> pa.DataType:
    """Return the type of a column: `p` is a struct, `l` a list of structs, the others are integers."""
    point = pa.struct([(member, pa.int64()) for member in members])
    return {"p": point, "l": pa.list_(point)}.get(name, pa.int64())


def value_of(name: str, row: int, members: tuple[str, ...] = POINT) -> Any:
    """Return the value of a column in a row, which no other column and row has."""
    point = {member: 1_000 * row + 10 * ord(name[0]) + ord(member) for member in members}
    return {"p": point, "l": [point]}.get(name, 1_000 * row + ord(name[0]))


def schema_of(columns: list[str], members: tuple[str, ...] = POINT) -> pa.Schema:
    """Return the schema of some columns."""
    return pa.schema([(name, type_of(name, members)) for name in columns])


def batch_of(columns: list[str], rows: range, members: tuple[str, ...] = POINT) -> pa.RecordBatch:
    """Return rows with the columns in this order."""
    schema = schema_of(columns, members)
    arrays = [
        pa.array([value_of(name, row, members) for row in rows], field.type)
        for name, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Stream:
    """Batches, and the schema that they should have."""

    def __init__(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        self.schema, self.batches = schema, batches

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of pyarrow, which does not look at the schemas of its batches."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self.batches))

    def iterator(self) -> Iterator[pa.RecordBatch]:
        """Return an iterator; its first batch has the schema."""
        return iter(self.batches)


def base(columns: list[str]) -> pilum.Dataset:
    """Return a table without rows, with a key."""
    return pilum.write_dataset(schema_of(columns).empty_table(), next(names), durability="none")


def append(rows: Any, target: list[str], **options: Any) -> pilum.Dataset:
    """Go through `append`."""
    return base(target).append(rows, durability="none", **options)


def write(rows: Any, target: list[str], **options: Any) -> pilum.Dataset:
    """Go through `write_dataset`."""
    return pilum.write_dataset(rows, next(names), schema=schema_of(target), durability="none", **options)


def overwrite(rows: Any, target: list[str], **options: Any) -> pilum.Dataset:
    """Go through `overwrite`."""
    return base(["a"]).overwrite(rows, schema=schema_of(target), durability="none", **options)


def merge(rows: Any, target: list[str], **options: Any) -> pilum.Dataset:
    """Go through `merge_insert`."""
    return base(target).merge_insert("a", rows, durability="none", **options)


def stage(rows: Any, target: list[str], **options: Any) -> pilum.Dataset:
    """Go through `fragments.write`."""
    ds = base(target)
    pieces = pilum.fragments.write(rows, ds.uri, durability="none", **options)
    return pilum.commit(ds.uri, pilum.Append(pieces), durability="none")


def add(rows: Any, target: list[str], **options: Any) -> pilum.Dataset:
    """Go through `add_columns`."""
    keys = pa.table({"key": pa.array(range(ROWS), pa.int64())})
    ds = pilum.write_dataset(keys, next(names), durability="none")
    return ds.add_columns(rows, schema=schema_of(target), durability="none", **options)


DOORS: list[Callable[..., pilum.Dataset]] = [append, write, overwrite, merge, stage, add]
ROWS = 6


def drawn(r: random.Random) -> tuple[Stream, str | None]:
    """Return a random stream, and what its error must say if a batch contradicts its schema."""
    columns = ["a", *r.sample(["b", "c", "d", "p", "l"], r.randrange(1, 6))]
    schema = schema_of(columns)
    batches: list[pa.RecordBatch] = []
    refusal = None
    for number in range(3):
        names_, members = list(columns), POINT
        r.shuffle(names_)
        if r.random() < 0.5:
            members = ("y", "x")
        change = r.random() if number else 1
        if change < 0.06:
            gone = names_.pop()
            refusal = refusal or f"batch {number} contradicts the schema of its stream: column `{gone}` of the schema"
        elif change < 0.12:
            names_.insert(r.randrange(len(names_)), "zz")
            refusal = refusal or f"batch {number} contradicts the schema of its stream: column `zz` of the batch"
        elif change < 0.18:
            place = r.randrange(len(names_))
            gone, names_[place] = names_[place], "zz"
            text = f"the schema has column `{gone}` and the batch has `zz` instead"
            refusal = refusal or f"batch {number} contradicts the schema of its stream: {text}"
        elif change < 0.24 and {"p", "l"} & set(columns):
            members = ("x", "z")
            nested = next(name for name in columns if name in {"p", "l"})
            path = {"p": "p", "l": "l.item"}[nested]
            text = f"the schema has column `{path}.y` and the batch has `{path}.z` instead"
            refusal = refusal or f"batch {number} contradicts the schema of its stream: {text}"
        if number == 0:
            names_, members = columns, POINT
        batches.append(batch_of(names_, range(2 * number, 2 * number + 2), members))
    return Stream(schema, batches), refusal


def refusal_of(what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Return the message with which a call is refused."""
    try:
        call(*arguments, **options)
    except pilum.InvalidInputError as error:
        return str(error)
    raise AssertionError(f"{what} was not refused")


@pytest.mark.parametrize("start", range(0, STREAMS, PER_TEST))
def test_columns_of_every_batch_land_by_name_or_are_refused(start: int) -> None:
    r = random.Random(f"streams {start}")
    for run in range(PER_TEST):
        stream, refusal = drawn(r)
        columns = stream.schema.names
        target = ["a", *r.sample(["b", "c", "d", "p", "l"], r.randrange(1, 6))]
        missing, extra = r.choice(["null", "error"]), r.choice(["error", "ignore"])
        door = r.choice(DOORS)
        rows = r.choice([stream.reader, stream.iterator])()
        lacks = [name for name in target if name not in columns]
        adds = [name for name in columns if name not in target]
        told = [f"column `{name}` is missing" for name in lacks if missing == "error"]
        told += [f"column `{name}` is not in the table" for name in adds if extra == "error"]
        what = f"seed {start}, run {run}: {door.__name__} of {columns} into {target}, {missing=}, {extra=}"
        if told or refusal is not None:
            text = refusal_of(what, door, rows, target, missing=missing, extra=extra)
            # Batches are pulled while the writer looks at the schemas: either may find its reason first.
            is_told = told and all(part in text for part in told)
            assert is_told or (refusal is not None and refusal in text), f"{what}: {told}, {refusal}: {text}"
            continue
        ds = door(rows, target, missing=missing, extra=extra)
        got = ds.to_table(columns=target).to_pydict()
        want = {name: [value_of(name, row) if name in columns else None for row in range(ROWS)] for name in target}
        assert got == want, what


# -- What users met --------------------------------------------------------------------------------------------------

SWAPPED = [
    pa.record_batch({"first": pa.array([1, 2]), "second": pa.array([10, 20])}),
    pa.record_batch({"second": pa.array([30]), "first": pa.array([3])}),
]
WANTED = {"first": [1, 2, 3], "second": [10, 20, 30]}


@pytest.mark.parametrize(
    "rows", [lambda: iter(SWAPPED), lambda: pa.RecordBatchReader.from_batches(SWAPPED[0].schema, SWAPPED)]
)
def test_a_batch_in_another_order_does_not_swap_columns(rows: Any) -> None:
    assert pilum.write_dataset(rows(), next(names)).to_table().to_pydict() == WANTED
    ds = pilum.write_dataset(SWAPPED[0], next(names))
    assert ds.overwrite(rows()).to_table().to_pydict() == WANTED
    assert ds.append(rows()).to_table().to_pydict()["first"] == [1, 2, 3, 1, 2, 3]


def test_a_function_may_return_columns_in_any_order() -> None:
    ds = pilum.write_dataset(pa.table({"key": [1, 2, 3]}), next(names))

    def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {"first": batch["key"], "second": pa.array([10 * it.as_py() for it in batch["key"]])}
        order = sorted(columns, reverse=batch["key"][0].as_py() == 3)
        return pa.record_batch({name: columns[name] for name in order})

    assert ds.add_columns(compute, batch_rows=2).to_table(columns=["first", "second"]).to_pydict() == WANTED


LOSSES = [
    (pa.array([9.87654321]), pa.decimal128(10, 2), "9.87654321"),
    (pa.array([1_700_000_000_123_456], pa.timestamp("us")), pa.date32(), "2023-11-14T22:13:20.123456"),
    (pa.array([1e40]), pa.float32(), "1e40"),
    (pa.array([5]), pa.bool_(), "5"),
    (pa.array([2**53 + 1]), pa.float64(), "9007199254740993"),
    (pa.array([1.5]), pa.int64(), "1.5"),
    (pa.array([b"\xff"]), pa.string(), "ff"),
]


@pytest.mark.parametrize(("values", "target", "shown"), LOSSES, ids=str)
@pytest.mark.parametrize("door", ["schema", "append", "merge_insert", "add_columns", "fragments"])
def test_a_value_that_would_be_lost_is_refused_with_its_place(
    values: pa.Array, target: pa.DataType, shown: str, door: str
) -> None:
    good = pa.nulls(1, values.type)
    table = pa.table({"key": [0, 1], "x": pa.concat_arrays([good, values])})
    schema = pa.schema([("key", pa.int64()), ("x", target)])
    uri = next(names)
    ds = pilum.write_dataset(schema.empty_table(), uri)
    keys = pilum.write_dataset(table.select(["key"]), next(names))
    writes: dict[str, Callable[[], Any]] = {
        "schema": lambda: pilum.write_dataset(table, next(names), schema=schema),
        "append": lambda: ds.append(table),
        "merge_insert": lambda: ds.merge_insert("key", table),
        "add_columns": lambda: keys.add_columns(table.select(["x"]), schema=pa.schema([("x", target)])),
        "fragments": lambda: pilum.fragments.write(table, uri),
    }
    with pytest.raises(pilum.InvalidInputError, match="column `x`, row 1: ") as refused:
        writes[door]()
    text = str(refused.value)
    for part in ["memory://", shown, f"({values.type}) cannot become {target}", 'cast="lossy"']:
        assert part in text
    assert ds.latest_version() == 1


def test_loss_is_asked_for_by_name() -> None:
    table = pa.table({"x": [9.87654321]})
    schema = pa.schema([("x", pa.decimal128(10, 2))])
    ds = pilum.write_dataset(table, next(names), schema=schema, cast="lossy")
    assert [str(it) for it in ds.to_table()["x"].to_pylist()] == ["9.88"]
    assert ds.append(pa.table({"x": ["1.5"]}), cast="lossy").count_rows("x = 1.5") == 1
    with pytest.raises(pilum.InvalidInputError, match="cast: pass 'exact' or 'lossy', not 'loosy'"):
        ds.append(table, cast="loosy")  # type: ignore[arg-type]
    for word in ("missing", "extra"):
        with pytest.raises(pilum.InvalidInputError, match=f"{word}: pass "):
            ds.append(table, **{word: "drop"})


def test_values_that_their_own_type_cannot_hold_are_refused() -> None:
    raw = pa.array([1, 9_999_900], pa.decimal128(38, 0)).buffers()
    decimals = pa.Array.from_buffers(pa.decimal128(5, 2), 2, raw)
    times = pa.array([0, 86_400], pa.int32()).view(pa.time32("s"))
    moments = pa.array([0, 1], pa.int64()).view(pa.date64())
    for values, name in [(decimals, "decimal128"), (times, "time32"), (moments, "date64")]:
        with pytest.raises(pilum.InvalidInputError, match=f"column `x`, row 1: .* is no {name}"):
            pilum.write_dataset(pa.table({"x": values}), next(names))
        listed = pa.ListArray.from_arrays([0, 1, 2], values)
        with pytest.raises(pilum.InvalidInputError, match=f"column `x.item`, row 1: .* is no {name}"):
            pilum.write_dataset(pa.table({"x": listed}), next(names))
