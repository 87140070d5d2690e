"""Random tables: types, nulls, sizes and batch splits, all from one seed.

`ordinary(seed)` makes what Lance v1 can hold: no nulls but of strings, binaries and the null type, no empty string where a
null could be meant. `anything(seed)` makes what pilum must keep beside: nulls everywhere, empty strings, maps.
"""

from __future__ import annotations

import decimal
import math
import random
import string
from collections.abc import Callable
from typing import Any

import pyarrow as pa

# Sizes around the borders of pages and files: a page is 1,024 rows unless told otherwise.
SIZES = [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 3000]

Values = Callable[[random.Random], Any]

WORDS = ["a", "bc", "délai", "日本", "🛫🛬", "x" * 40, "quo'te", "tab\t", "nul\x00byte", " ", "Ä", "zz"]


def _int(bits: int, signed: bool) -> Values:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda r: r.choice([low, high, 0, 1, r.randint(low, high), r.randint(max(low, -9), min(high, 9))])


def _float(r: random.Random) -> float:
    return r.choice([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, r.uniform(-1e3, 1e3), float(r.randint(-5, 5))])


def _half(r: random.Random) -> float:
    return r.choice([0.0, -0.0, 0.5, math.inf, math.nan, float(r.randint(-2000, 2000))])


def _single(r: random.Random) -> float:
    return r.choice([0.0, -0.0, 0.25, -math.inf, math.nan, float(r.randint(-(2**20), 2**20)) / 8])


def decimals(digits: int, scale: int) -> Values:
    # Arithmetic without rounding: the default context keeps 28 digits.
    context = decimal.Context(prec=80)

    def value(r: random.Random) -> decimal.Decimal:
        unscaled = r.randint(-(10**digits) + 1, 10**digits - 1)
        return decimal.Decimal(unscaled).scaleb(-scale, context)

    return value


def _ticks(bits: int, low: int | None = None, high: int | None = None) -> Values:
    bound = 2 ** (bits - 1) - 1 if high is None else high
    floor = -bound if low is None else low
    return lambda r: r.choice([floor, bound, max(0, floor), r.randint(floor, bound)])


def _text(r: random.Random) -> str:
    return r.choice(WORDS) if r.random() < 0.5 else "".join(r.choices(string.ascii_letters, k=r.randint(1, 12)))


def _bytes(r: random.Random) -> bytes:
    return r.randbytes(r.randint(1, 9))


DAY = 86_400

# Types with a fixed width, and what their values are. Temporal ones are made of integers, so that all of them occur.
FIXED: list[tuple[pa.DataType, Values]] = [
    (pa.bool_(), lambda r: r.random() < 0.5),
    *[(getattr(pa, f"int{bits}")(), _int(bits, True)) for bits in (8, 16, 32, 64)],
    *[(getattr(pa, f"uint{bits}")(), _int(bits, False)) for bits in (8, 16, 32, 64)],
    (pa.float16(), _half),
    (pa.float32(), _single),
    (pa.float64(), _float),
    (pa.decimal128(9, 2), decimals(9, 2)),
    (pa.decimal128(38, 10), decimals(38, 10)),
    (pa.decimal128(5, -2), decimals(5, -2)),
    (pa.decimal256(60, 20), decimals(60, 20)),
    (pa.date32(), _ticks(32)),
    (pa.date64(), lambda r: r.randint(-30_000, 30_000) * DAY * 1000),
    (pa.time32("s"), _ticks(32, 0, DAY - 1)),
    (pa.time32("ms"), _ticks(32, 0, DAY * 1000 - 1)),
    (pa.time64("us"), _ticks(64, 0, DAY * 10**6 - 1)),
    (pa.time64("ns"), _ticks(64, 0, DAY * 10**9 - 1)),
    *[(pa.timestamp(unit), _ticks(62)) for unit in ("s", "ms", "us", "ns")],
    (pa.timestamp("us", "UTC"), _ticks(62)),
    (pa.timestamp("ms", "Europe/Berlin"), _ticks(62)),
    (pa.timestamp("ns", "+02:00"), _ticks(62)),
    *[(pa.duration(unit), _ticks(62)) for unit in ("s", "ms", "us", "ns")],
    (pa.binary(1), lambda r: r.randbytes(1)),
    (pa.binary(7), lambda r: r.randbytes(7)),
    (pa.binary(16), lambda r: r.randbytes(16)),
]

VARIABLE: list[tuple[pa.DataType, Values]] = [
    (pa.string(), _text),
    (pa.large_string(), _text),
    (pa.binary(), _bytes),
    (pa.large_binary(), _bytes),
]

INDEX_TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def tame(type_: pa.DataType, value: Any) -> Any:
    """Return a value near to this one that Python's own types can spell: no NaN, no -0.0, no year 200,000."""
    if isinstance(value, float):
        return 2.5 if math.isnan(value) else value or 0.0
    if pa.types.is_date32(type_):
        return value % 20_000
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return value % {"s": 2**31, "ms": 2**41, "us": 2**51, "ns": 2**60}[type_.unit]
    return value


class Maker:
    """Makes columns of `rows` rows.

    Args:
        seed: Says everything.
        rows: How many rows every column has.
        lossless: Nulls and empty values anywhere, where Lance v1 has no room for them; otherwise none of these.
        extremes: The ends of every type, NaN and -0.0; otherwise only what Python's own types can spell and compare.
    """

    def __init__(self, seed: int, rows: int, *, lossless: bool, extremes: bool = True) -> None:
        self.random = random.Random(seed)
        self.rows = rows
        self.lossless = lossless
        self.extremes = extremes

    def fixed(self, type_: pa.DataType, value: Values, count: int) -> pa.Array:
        """Return `count` values of a fixed-width type; temporal ones are made as integers."""
        made = [value(self.random) for _ in range(count)]
        if not self.extremes:
            made = [tame(type_, one) for one in made]
        made = self._holes(made)
        if pa.types.is_temporal(type_):
            return pa.array(made, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
        return pa.array(made, type_)

    def _holes(self, values: list[Any], *, always: bool = False) -> list[Any]:
        """Return the values with some missing, where that can be stored."""
        if not (self.lossless or always):
            return values
        share = self.random.choice([0, 0, 0.02, 0.3, 0.9, 1])
        return [None if self.random.random() < share else value for value in values]

    def leaf(self, count: int) -> pa.Array:
        r = self.random
        if r.random() < 0.3:
            type_, value = r.choice(VARIABLE)
            made = [value(r) for _ in range(count)]
            if self.lossless:
                made = [type(v)() if r.random() < 0.1 else v for v in made]
            return pa.array(self._holes(made, always=True), type_)
        type_, value = r.choice(FIXED)
        return self.fixed(type_, value, count)

    def vector(self, count: int) -> pa.Array:
        r = self.random
        type_, value = r.choice([pair for pair in FIXED if self.lossless or not pa.types.is_boolean(pair[0])])
        size = r.choice([1, 2, 3, 16])
        items = self.fixed(type_, value, count * size)
        mask = self.mask(count)
        return pa.FixedSizeListArray.from_arrays(items, size, mask=mask)

    def mask(self, count: int) -> pa.Array | None:
        """Return which rows are missing, or None."""
        if not self.lossless or self.random.random() < 0.5:
            return None
        return pa.array([self.random.random() < 0.3 for _ in range(count)], pa.bool_())

    def lists(self, count: int, depth: int = 1) -> pa.Array:
        r = self.random
        longest = r.choice([0, 1, 3, 6])
        ends = [0]
        for _ in range(count):
            ends.append(ends[-1] + r.randint(0, longest))
        inner = [self.leaf, self.struct] if depth else [self.leaf, self.leaf, self.struct, lambda n: self.lists(n, 1)]
        items = r.choice(inner)(ends[-1])
        kind = r.choice([pa.ListArray, pa.ListArray, pa.LargeListArray])
        offsets = pa.array(ends, pa.int32() if kind is pa.ListArray else pa.int64())
        return kind.from_arrays(offsets, items, mask=self.mask(count))

    def struct(self, count: int) -> pa.Array:
        names = ["x", "y", "日付"][: self.random.randint(1, 3)]
        children = [self.leaf(count) for _ in names]
        if self.random.random() < 0.3:
            children[0] = self.vector(count)
        return pa.StructArray.from_arrays(children, names=names, mask=self.mask(count))

    def dictionary(self, count: int) -> pa.Array:
        r = self.random
        values = r.choice(
            [
                pa.array(
                    r.sample([w for w in WORDS if w], r.randint(1, 9)), r.choice([pa.string(), pa.large_string()])
                ),
                pa.array(r.sample(range(100), 5), pa.int16()),
                pa.array([b"a", b"\x00\xff"], pa.binary()),
            ]
        )
        indices = self._holes([r.randrange(len(values)) for _ in range(count)])
        return pa.DictionaryArray.from_arrays(pa.array(indices, r.choice(INDEX_TYPES)), values)

    def map(self, count: int) -> pa.Array:
        ends = [0]
        for _ in range(count):
            ends.append(ends[-1] + self.random.randint(0, 3))
        keys = pa.array([f"k{i}" for i in range(ends[-1])], pa.string())
        return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, self.leaf(ends[-1]), mask=self.mask(count))

    def column(self) -> pa.Array:
        r = self.random
        makers: list[tuple[Callable[[int], pa.Array], int]] = [
            (self.leaf, 8),
            (self.vector, 2),
            (self.struct, 2),
            (lambda n: self.lists(n, 0), 3),
            (pa.nulls, 1),
        ]
        if self.rows or self.lossless:
            # Lance v1 has no place for a dictionary in a table without rows: pylance cannot make one.
            makers.append((self.dictionary, 2))
        if self.lossless:
            makers.append((self.map, 1))
        kinds, weights = zip(*makers, strict=True)
        return r.choices(kinds, weights)[0](self.rows)

    def table(self) -> pa.Table:
        r = self.random
        columns = [self.column() for _ in range(r.randint(1, 7))]
        names = [f"c{place}" for place in range(len(columns))]
        if r.random() < 0.2:
            names[0] = r.choice(["Größe", "with space", "select", "日本"])
        fields = []
        for name, column in zip(names, columns, strict=True):
            metadata = {"unit": "min", "note": "é"} if r.random() < 0.15 else None
            nullable = bool(column.null_count) or pa.types.is_null(column.type) or r.random() < 0.8
            fields.append(pa.field(name, column.type, nullable, metadata))
        metadata = {"made by": "a seed"} if r.random() < 0.2 else None
        return pa.table(columns, schema=pa.schema(fields, metadata=metadata))


def rows_of(seed: int) -> int:
    """Return the number of rows of the table of a seed."""
    return random.Random(f"rows {seed}").choice(SIZES)


def ordinary(seed: int, *, extremes: bool = True) -> pa.Table:
    """Return a table of values that Lance v1 can hold."""
    return Maker(seed, rows_of(seed), lossless=False, extremes=extremes).table()


def anything(seed: int) -> pa.Table:
    """Return a table with nulls, empty strings and types that Lance v1 has no room for."""
    return Maker(seed, rows_of(seed), lossless=True).table()


def split(table: pa.Table, seed: int) -> list[pa.RecordBatch]:
    """Cut a table into batches of random sizes, empty ones and slices with offsets among them."""
    r = random.Random(f"split {seed}")
    batches: list[pa.RecordBatch] = []
    start = 0
    whole = table.combine_chunks().to_batches()
    if not whole:
        return []
    while start < table.num_rows:
        size = r.choice([0, 1, 5, 100, 1000, 1024, table.num_rows])
        batches.append(whole[0].slice(start, size))
        start += size
    return batches
