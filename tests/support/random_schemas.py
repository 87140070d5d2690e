"""Random schemas: every type, nested as deep as asked for, with every pattern of nulls, all from one seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from support.random_tables import FIXED, INDEX_TYPES, VARIABLE, Values, decimals

DEPTH = 5
"""Containers around the innermost values, at most."""

PATTERNS = ["none", "all", "alternating", "runs", "borders", "scattered"]


def _interval(r: random.Random) -> pa.MonthDayNano:
    return pa.MonthDayNano([r.randint(-(2**31), 2**31 - 1), r.randint(-99, 99), r.randint(-(2**63), 2**63 - 1)])


def _with_empty(value: Values) -> Values:
    """Return values of which some are empty: what Lance v1 cannot tell from null."""

    def either(r: random.Random) -> Any:
        made = value(r)
        return type(made)() if r.random() < 0.15 else made

    return either


TEXTS = [(type_, _with_empty(value)) for type_, value in VARIABLE]
BEYOND_V1: list[tuple[pa.DataType, Values]] = [
    (pa.string_view(), TEXTS[0][1]),
    (pa.binary_view(), TEXTS[2][1]),
    (pa.decimal32(7, 2), decimals(7, 2)),
    (pa.decimal64(12, -2), decimals(12, -2)),
    (pa.month_day_nano_interval(), _interval),
]
LEAVES: list[tuple[pa.DataType, Values]] = [*FIXED, *TEXTS, *BEYOND_V1]
VALUES = dict(LEAVES)

DICTIONARIES: list[pa.Array] = [
    pa.array(["a", "délai", "日本", "", "zz"]),
    pa.array(["a", "b", "c"], pa.large_string()),
    pa.array([b"", b"\x00\xff", b"b"], pa.binary()),
    pa.array([7, -7, 0, 127], pa.int8()),
    pa.array([2**63, 1], pa.uint64()),
]
"""One dictionary for each type of values: the batches of a table must share theirs."""
DICTIONARY_OF = {values.type: values for values in DICTIONARIES}

SIMPLE = [
    pa.null(),
    *VALUES,
    *(pa.dictionary(index, values.type) for index in INDEX_TYPES for values in DICTIONARIES),
]
"""Every type that holds no other."""

CONTAINERS: list[Callable[[pa.Field, random.Random], pa.DataType]] = [
    lambda item, _: pa.list_(item),
    lambda item, _: pa.large_list(item),
    lambda item, _: pa.list_view(item),
    lambda item, _: pa.large_list_view(item),
    # The item of a flat fixed-size list has no field of its own in the format: it is called "item" and nullable.
    lambda item, r: pa.list_(item.type, r.choice([1, 2, 3])),
    lambda item, r: pa.map_(pa.field("key", r.choice([pa.string(), pa.int32()]), False), item.with_name("value")),
    lambda item, r: pa.struct([item.with_name("x"), pa.field("日", r.choice(SIMPLE)), item.with_name("z")]),
    lambda item, _: pa.struct([item.with_name("only")]),
]


def random_type(r: random.Random, depth: int, innermost: pa.DataType) -> pa.DataType:
    """Return a type with `depth` containers around one that holds no other."""
    type_ = innermost
    for _ in range(depth):
        nullable = pa.types.is_null(type_) or r.random() < 0.8
        item = pa.field(r.choice(["item", "element"]), type_, nullable)
        type_ = r.choice(CONTAINERS)(item, r)
    return type_


def depth_of(type_: pa.DataType) -> int:
    """Return how many containers lie around the innermost values."""
    if not pa.types.is_nested(type_):
        return 0
    return 1 + max(depth_of(field.type) for field in children(type_))


def children(type_: pa.DataType) -> list[pa.Field]:
    """Return the fields directly inside a type."""
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.field(place) for place in range(type_.num_fields)]


def innermost(type_: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the types at the ends."""
    if not pa.types.is_nested(type_):
        yield type_
        return
    for field in children(type_):
        yield from innermost(field.type)


def missing(pattern: str, rows: int, page: int, r: random.Random) -> list[bool]:
    """Return which of the rows are null."""
    if pattern == "borders":
        return [row % page in (0, page - 1) or row == rows - 1 for row in range(rows)]
    if pattern == "runs":
        made: list[bool] = []
        while len(made) < rows:
            made += [len(made) % 2 == r.randint(0, 1)] * r.choice([1, 3, 8, page])
        return made[:rows]
    rule: dict[str, Callable[[int], bool]] = {
        "none": lambda _: False,
        "all": lambda _: True,
        "alternating": lambda row: row % 2 == 1,
        "scattered": lambda _: r.random() < 0.2,
    }
    return [rule[pattern](row) for row in range(rows)]


class Column:
    """Makes arrays of any type.

    Args:
        r: Where chance comes from.
        page: Rows of a page, for nulls around its borders.
        patterns: Patterns of nulls to choose from at levels where none is asked for.
    """

    def __init__(self, r: random.Random, page: int, patterns: list[str] = PATTERNS) -> None:
        self.r = r
        self.page = page
        self.patterns = patterns

    def of(self, field: pa.Field, rows: int, pattern: str | None = None) -> pa.Array:
        """Return values of a field, with a pattern of nulls of its own at every level; the outermost may be chosen."""
        pattern = "none" if not field.nullable else pattern or self.r.choice(self.patterns)
        nulls = missing(pattern, rows, self.page, self.r)
        type_ = field.type
        if pa.types.is_null(type_):
            return pa.nulls(rows)
        if pa.types.is_dictionary(type_):
            values = DICTIONARY_OF[type_.value_type]
            keys = [None if null else self.r.randrange(len(values)) for null in nulls]
            return pa.DictionaryArray.from_arrays(pa.array(keys, type_.index_type), values)
        if pa.types.is_nested(type_):
            return self._nested(type_, rows, nulls)
        value = VALUES[type_]
        made = [None if null else value(self.r) for null in nulls]
        if pa.types.is_temporal(type_) and not pa.types.is_interval(type_):
            # As integers, so that all of them occur and not those alone that Python can spell.
            return pa.array(made, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
        return pa.array(made, type_)

    def _nested(self, type_: pa.DataType, rows: int, nulls: list[bool]) -> pa.Array:
        mask = pa.array(nulls, pa.bool_()) if any(nulls) else None
        if pa.types.is_struct(type_):
            members = [self.of(field, rows) for field in type_]
            return pa.StructArray.from_arrays(members, fields=list(type_), mask=mask)
        if pa.types.is_fixed_size_list(type_):
            items = self.of(type_.value_field, rows * type_.list_size)
            return pa.FixedSizeListArray.from_arrays(items, type=type_, mask=mask)
        longest = self.r.choice([0, 1, 2, 3])
        # A null may lie over values, and they must not come back.
        ends = [0]
        for _ in range(rows):
            ends.append(ends[-1] + self.r.randint(0, longest))
        if pa.types.is_map(type_):
            keys = pa.array([f"k{place}" for place in range(ends[-1])], pa.string())
            if not pa.types.is_string(type_.key_type):
                keys = pa.array(range(ends[-1]), type_.key_type)
            items = self.of(type_.item_field, ends[-1])
            return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, items, type=type_, mask=mask)
        items = self.of(type_.value_field, ends[-1])
        width = pa.int64() if pa.types.is_large_list(type_) or pa.types.is_large_list_view(type_) else pa.int32()
        if pa.types.is_list(type_) or pa.types.is_large_list(type_):
            kind = pa.ListArray if pa.types.is_list(type_) else pa.LargeListArray
            return kind.from_arrays(pa.array(ends, width), items, type=type_, mask=mask)
        view = pa.ListViewArray if pa.types.is_list_view(type_) else pa.LargeListViewArray
        sizes = [end - start for start, end in itertools.pairwise(ends)]
        return view.from_arrays(pa.array(ends[:-1], width), pa.array(sizes, width), items, type=type_, mask=mask)


def random_schema(seed: int) -> list[tuple[pa.Field, str]]:
    """Return one to four columns with their patterns of nulls. Types, depths and patterns come round in turn."""
    r = random.Random(f"schema {seed}")
    columns = []
    for place in range(r.randint(1, 4)):
        turn = seed if place == 0 else r.randrange(10_000)
        type_ = random_type(
            r, turn // len(SIMPLE) % (DEPTH + 1) if place == 0 else r.randint(0, 2), SIMPLE[turn % len(SIMPLE)]
        )
        pattern = PATTERNS[turn % len(PATTERNS)]
        nullable = pattern != "none" or pa.types.is_null(type_) or r.random() < 0.5
        columns.append((pa.field(f"c{place}", type_, nullable), pattern))
    return columns


def random_rows(seed: int, columns: list[tuple[pa.Field, str]], rows: int, page: int) -> pa.Table:
    """Return rows of a schema, after a key `k` that numbers them; every array is a slice that begins somewhere inside."""
    r = random.Random(f"rows {seed}")
    before, behind = r.choice([0, 1, 3, 8]), r.choice([0, 2])
    maker = Column(r, page)
    arrays = [pa.array(range(rows), pa.int64())]
    for field, pattern in columns:
        arrays.append(maker.of(field, before + rows + behind, pattern).slice(before, rows))
    fields = [pa.field("k", pa.int64(), False), *(field for field, _ in columns)]
    return pa.table(arrays, schema=pa.schema(fields))
