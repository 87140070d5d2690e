"""What `update` and `alter_columns` assign: every value is kept in the type of its column, or it is refused by its row.

The model knows each value exactly, as a fraction, a count of days or seconds, code points or bytes, and decides from that
alone whether a type holds it. It uses no cast of pilum or pyarrow.
"""

from __future__ import annotations

import os
import random
import struct
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum

SCALE = int(os.environ.get("PILUM_TEST_SCALE", "1"))
PAIRS = 280 * SCALE
ROWS = 12

REFUSED, NEVER = object(), object()
SECONDS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(5, 2), pa.decimal128(20, 0), pa.decimal128(38, 10), pa.decimal256(50, 20)]
STAMPS = [pa.timestamp(unit, zone) for unit in SECONDS for zone in (None, "UTC")]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
DURATIONS = [pa.duration(unit) for unit in SECONDS]
TEXTS = [pa.string(), pa.large_string()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary(3)]
TYPES = [
    *INTEGERS,
    *FLOATS,
    *DECIMALS,
    pa.bool_(),
    pa.date32(),
    pa.date64(),
    *STAMPS,
    *TIMES,
    *DURATIONS,
    *TEXTS,
    *BYTES,
]


@dataclass(frozen=True)
class Value:
    """One value: its kind, and what it is exactly."""

    kind: str
    exact: Any


def kind_of(type_: pa.DataType) -> str:
    if (
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_boolean(type_)
    ):
        return "number"
    if pa.types.is_timestamp(type_):
        return "instant" if type_.tz else "clock"
    for kind, known in (("time", TIMES), ("duration", DURATIONS), ("text", TEXTS), ("bytes", BYTES)):
        if type_ in known:
            return kind
    return "date"


def nearest(value: Fraction, type_: pa.DataType) -> float:
    """The float of this width nearest to a fraction; infinite beyond its range."""
    try:
        double = float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    if pa.types.is_float64(type_):
        return double
    form = "e" if pa.types.is_float16(type_) else "f"
    try:
        return struct.unpack(form, struct.pack(form, double))[0]
    except OverflowError:
        return float("inf") if double > 0 else float("-inf")


def in_steps(value: Fraction, type_: pa.DataType) -> int | None:
    """The value in steps of a unit or a scale, if it is a whole number of them that the type holds."""
    if pa.types.is_decimal(type_):
        steps = value * Fraction(10) ** type_.scale
        return int(steps) if steps.denominator == 1 and abs(steps) < 10**type_.precision else None
    if pa.types.is_boolean(type_):
        return int(value) if value in (0, 1) else None
    if pa.types.is_integer(type_):
        bits = type_.bit_width
        low, high = (0, 2**bits) if str(type_).startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        return int(value) if value.denominator == 1 and low <= value < high else None
    steps = value * SECONDS[type_.unit]
    if steps.denominator != 1:
        return None
    if kind_of(type_) == "time":
        return int(steps) if 0 <= value < 86_400 else None
    return int(steps) if -(2**63) <= steps < 2**63 else None


def number(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    """What a number becomes; several answers where decimal digits of a float may be cut in two ways."""
    if isinstance(value, str):  # nan, inf, -inf
        return value if pa.types.is_floating(target) else REFUSED
    if pa.types.is_floating(target):
        float_ = nearest(value, target)
        if float_ in (float("inf"), float("-inf")):
            return REFUSED
        if not pa.types.is_decimal(source):
            return value if Fraction(float_) == value else REFUSED
        # Converted back it must be the same decimal: by its shortest digits.
        digits = Fraction(Decimal(np.format_float_scientific(np.dtype(target.to_pandas_dtype()).type(float_))))
        exact = Fraction(float_)
        back = exact if in_steps(exact, source) is not None else digits
        return Fraction(float_) if back == value else REFUSED
    if pa.types.is_floating(source) and pa.types.is_decimal(target):
        digits = Fraction(Decimal(np.format_float_scientific(np.dtype(source.to_pandas_dtype()).type(float(value)))))
        for candidate in (value, digits):
            if in_steps(candidate, target) is not None:
                return candidate
        return REFUSED
    return value if in_steps(value, target) is not None else REFUSED


def became(value: Value, source: pa.DataType, target: pa.DataType) -> Any:
    """What the value is in the target type, or that it is refused."""
    kinds = (kind_of(source), kind_of(target))
    if kinds == ("number", "number"):
        return number(value.exact, source, target)
    if kinds == ("date", "date"):
        return value.exact
    if kinds == ("date", "clock"):
        return REFUSED if in_steps(Fraction(value.exact * 86_400), target) is None else Fraction(value.exact * 86_400)
    if kinds == ("clock", "date"):
        days = value.exact / 86_400
        return int(days) if days.denominator == 1 and -(2**31) <= days < 2**31 else REFUSED
    if kinds[0] == kinds[1] and kinds[0] in ("clock", "instant", "time", "duration"):
        return REFUSED if in_steps(value.exact, target) is None else value.exact
    if kinds[0] in ("text", "bytes") and kinds[1] in ("text", "bytes"):
        raw = value.exact.encode() if kinds[0] == "text" else value.exact
        if kinds[1] == "text":
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return REFUSED
        return raw if not pa.types.is_fixed_size_binary(target) or len(raw) == target.byte_width else REFUSED
    return NEVER


def some(draw: random.Random, type_: pa.DataType) -> Any:
    """A random value of the type, often near an edge of another one, as the model knows it."""
    kind = kind_of(type_)
    if kind == "text":
        return draw.choice(["", "abc", "äöü", "1", "true", "2026-01-01", "x" * 100])
    if kind == "bytes":
        fixed = [b"abc", b"\xff\x00\x01", "éa".encode()]
        return draw.choice(fixed if pa.types.is_fixed_size_binary(type_) else [*fixed, b"", b"\xc3", b"abcd"])
    if kind == "date":
        return draw.choice([0, -1, 20_000, -800_000, 106_751, 106_752, 2_000_000, draw.randint(-100_000, 100_000)])
    if kind in ("time", "clock", "instant", "duration"):
        steps = SECONDS[type_.unit]
        whole = draw.choice([0, 86_399, 3_600, draw.randint(0, 86_399)])
        if kind != "time":
            whole += 86_400 * draw.choice([0, 1, -1, 20_000, 106_752, 30_000_000])
            whole = draw.choice([whole, whole - whole % 86_400])
        part = draw.choice([0, 0, 1, steps - 1, steps // 1000 * 5])
        value = Fraction(whole) + Fraction(part if part < steps else 0, steps)
        return value if in_steps(value, type_) is not None else Fraction(0)
    edges = [
        0,
        1,
        5,
        -1,
        127,
        128,
        255,
        256,
        2049,
        65_504,
        65_520,
        2**24 + 1,
        2**31,
        2**53 + 1,
        2**63,
        2**64 - 1,
        -(2**63),
    ]
    exact = Fraction(draw.choice([*edges, draw.randint(-(10**12), 10**12)]))
    if not pa.types.is_integer(type_) and not pa.types.is_boolean(type_):
        exact /= draw.choice([1, 1, 2, 10, 100, 1000, 1024, 3])
        exact = draw.choice([exact, Fraction("9.87654321"), Fraction("9.87"), Fraction("99999"), Fraction("0.1")])
    if pa.types.is_floating(type_):
        float_ = draw.choice([nearest(exact, type_), float("nan"), float("inf"), nearest(Fraction(10) ** 30, type_)])
        return str(float_) if float_ != float_ or abs(float_) == float("inf") else Fraction(float_)
    if pa.types.is_decimal(type_):
        exact = Fraction(round(exact * 10**type_.scale), 10**type_.scale)
    return exact if in_steps(exact, type_) is not None else Fraction(1)


def stored(values: list[Any], type_: pa.DataType) -> pa.Array:
    """The Arrow array of values that the type holds."""
    kind = kind_of(type_)
    if kind in ("text", "bytes"):
        return pa.array(values, type_)
    if pa.types.is_floating(type_):
        dtype = np.dtype(type_.to_pandas_dtype()).type
        return pa.array([None if it is None else dtype(float(it)) for it in values], type_)
    if pa.types.is_decimal(type_):
        with localcontext(prec=100):  # the default context would round to 28 digits
            exact = [None if it is None else Decimal(int(it * 10**type_.scale)).scaleb(-type_.scale) for it in values]
        return pa.array(exact, type_)
    if kind == "date":
        raw = [None if it is None else it * (86_400_000 if pa.types.is_date64(type_) else 1) for it in values]
    elif kind == "number":
        whole = bool if pa.types.is_boolean(type_) else int
        return pa.array([None if it is None else whole(it) for it in values], type_)
    else:
        raw = [None if it is None else in_steps(it, type_) for it in values]
    return pa.array(raw, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)


def known(array: pa.ChunkedArray, type_: pa.DataType) -> list[Any]:
    """The values of an array as the model knows them."""
    array = array.combine_chunks()
    kind = kind_of(type_)
    if kind in ("text", "bytes"):
        return array.to_pylist()
    if pa.types.is_floating(type_):
        floats = [None if it is None else float(it) for it in array.to_pylist()]
        return [it if it is None else str(it) if it != it or abs(it) == float("inf") else Fraction(it) for it in floats]
    if kind == "number":
        return [None if it is None else Fraction(int(it) if isinstance(it, bool) else it) for it in array.to_pylist()]
    raw = array.view(pa.int32() if type_.bit_width == 32 else pa.int64()).to_pylist()
    if kind == "date":
        return [None if it is None else it // (86_400_000 if pa.types.is_date64(type_) else 1) for it in raw]
    return [None if it is None else Fraction(it, SECONDS[type_.unit]) for it in raw]


def wrapped(array: pa.Array, shape: str) -> pa.Array:
    """Each value by itself, as the member `m` of a struct, or as the only item of a list."""
    if shape == "struct":
        return pa.StructArray.from_arrays([array], ["m"])
    if shape == "list":
        return pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), array)
    return array


def unwrapped(column: pa.ChunkedArray, shape: str) -> pa.ChunkedArray:
    if shape == "struct":
        return pc.struct_field(column, "m")
    return pc.list_flatten(column) if shape == "list" else column


PATHS = {"plain": "", "struct": ".m", "list": ".item"}


def wrapped_type(type_: pa.DataType, shape: str) -> pa.DataType:
    return wrapped(pa.array([], type_), shape).type


def table(values: list[Any], source: pa.DataType, target: pa.DataType, shape: str) -> pa.Table:
    column = wrapped(stored(values, source), shape)
    return pa.table({"v": column, "t": pa.nulls(len(values), wrapped_type(target, shape))})


def assign(ds: pilum.Dataset, door: str, target: pa.DataType, shape: str) -> pilum.Dataset:
    if door == "update":
        return ds.update({"t": "v"}, durability="none").dataset
    return ds.alter_columns({"v": {"type": wrapped_type(target, shape)}}, durability="none").dataset


@pytest.mark.parametrize("door", ["update", "alter_columns"])
def test_random_values_are_kept_or_refused_by_their_row(door: str) -> None:
    draw = random.Random(f"{door} {SCALE}")
    cases = refused = 0
    for turn in range(PAIRS):
        source, target = draw.choice(TYPES), draw.choice(TYPES)
        if turn % 3:  # most random pairs have different kinds, and are refused whatever the values
            target = draw.choice([it for it in TYPES if became_something(source, it)])
        values = [some(draw, source) if draw.random() > 0.1 else None for _ in range(ROWS)]
        results = [None if it is None else became(Value(kind_of(source), it), source, target) for it in values]
        shape = draw.choice(["plain", "plain", "struct", "list"])
        told = f"{door} {shape} {source} to {target}: {values}"
        if source == target:
            results = values
        uri = f"memory://assigned/{door}/{turn}"
        cases += ROWS
        if NEVER in results or not became_something(source, target):
            ds = pilum.write_dataset(table(values, source, target, shape), uri)
            with pytest.raises(pilum.InvalidInputError, match="cannot become") as error:
                assign(ds, door, target, shape)
            assert ds.latest_version() == 1, told
            assert "row" not in str(error.value), (told, error.value)
            continue
        kept = [(value, result) for value, result in zip(values, results, strict=True) if result is not REFUSED]
        bad = [value for value, result in zip(values, results, strict=True) if result is REFUSED]
        ds = pilum.write_dataset(table([value for value, _ in kept], source, target, shape), f"{uri}/kept")
        after = assign(ds, door, target, shape).to_table()["t" if door == "update" else "v"]
        assert after.type == wrapped_type(target, shape), told
        assert known(unwrapped(after, shape), target) == [result for _, result in kept], told
        if bad:
            refused += 1
            row = draw.randint(0, len(kept))
            mixed = [value for value, _ in kept]
            mixed.insert(row, draw.choice(bad))
            mixed.append(bad[0])
            ds = pilum.write_dataset(table(mixed, source, target, shape), f"{uri}/refused")
            path = ("t" if door == "update" else "v") + PATHS[shape].replace(".", r"\.")
            place = rf"`{path}`, row {row}(, item 0)?: .* cannot become .*; "
            with pytest.raises(pilum.InvalidInputError, match=place) as error:
                assign(ds, door, target, shape)
            assert ds.uri in str(error.value), told
            assert ds.latest_version() == 1, told
    assert cases >= 3000
    assert refused > PAIRS // 10


def became_something(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether any value of the one type has a meaning in the other."""
    one = {"text": "", "bytes": b"abc", "date": 0}.get(kind_of(source), Fraction(0))
    return source == target or became(Value(kind_of(source), one), source, target) is not NEVER


EXAMPLES = {
    "more digits than the decimal has": (pa.decimal128(5, 2), "99999.00"),
    "a float cut to two decimals": (pa.decimal128(10, 2), "9.87654321e0"),
    "a float beyond float32": (pa.float32(), "1e40"),
    "five is neither true nor false": (pa.bool_(), "5"),
    "a time of day in a date": (pa.date32(), "TIMESTAMP '2026-01-01 10:00:00'"),
    "a text is not parsed": (pa.int64(), "'5'"),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_values_that_were_changed_in_silence_are_refused(example: str) -> None:
    type_, value = EXAMPLES[example]
    ds = pilum.write_dataset(pa.table({"x": pa.nulls(3, type_)}), f"memory://assigned/{example}").dataset
    with pytest.raises(pilum.InvalidInputError, match=r"`x`.* cannot become .*; "):
        ds.update({"x": value})
    assert ds.latest_version() == 1


def test_who_wants_to_round_writes_a_cast() -> None:
    data = pa.table({"x": [9.87654321, 1.005], "m": pa.nulls(2, pa.decimal128(5, 2))})
    ds = pilum.write_dataset(data, "memory://assigned/cast").dataset
    with pytest.raises(pilum.InvalidInputError, match=r"`m`, row 0: 9\.87654321 \(double\)"):
        ds.update({"m": "x"})
    rounded = ds.update({"m": "CAST(x AS DECIMAL(5, 2))"}).to_table()["m"].to_pylist()
    assert rounded[0] == Decimal("9.88")
    with pytest.raises(pilum.InvalidInputError, match=r"`m`, row 0: 9\.8765 .* cannot become decimal128\(5, 2\)"):
        ds.update({"m": "CAST(x AS DECIMAL(9, 4))"})
