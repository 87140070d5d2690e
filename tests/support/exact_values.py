"""An independent model of conversions: exact values of Arrow arrays, and the values that each type can hold.

Numbers are fractions, moments and spans are nanoseconds, text is code points, binary is bytes. Nothing here uses a cast of
pilum or of pyarrow: arrays are made from Python values of their own type, and read as such.
"""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

DAY = 86_400_000_000_000
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

REFUSED = "refused"
EITHER = "either"
"""The rule leaves it open: a decimal of more digits than a float has, beside the nearest float."""

MANTISSA = {16: (11, -24, 15), 32: (24, -149, 127), 64: (53, -1074, 1023)}
"""Bits of the mantissa, the lowest and the highest exponent of the floats."""

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [
    pa.decimal128(3, 1),
    pa.decimal128(5, 2),
    pa.decimal128(10, 2),
    pa.decimal128(18, 0),
    pa.decimal128(20, 10),
    pa.decimal128(38, 0),
    pa.decimal128(38, 18),
    pa.decimal256(5, 2),
    pa.decimal256(50, 20),
    pa.decimal256(76, 0),
]
NUMBERS = [pa.bool_(), *INTEGERS, *FLOATS, *DECIMALS]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(0 + 16)]
DATES = [pa.date32(), pa.date64()]
NAIVE = [pa.timestamp(unit) for unit in UNITS]
ZONED = [pa.timestamp(unit, zone) for unit in UNITS for zone in ("UTC", "Europe/Berlin")]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
DURATIONS = [pa.duration(unit) for unit in UNITS]
DICTIONARIES = [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string())]
FAMILIES = [NUMBERS, [*TEXTS, *BINARIES], [*DATES, *NAIVE], ZONED, TIMES, DURATIONS, [*TEXTS, *DICTIONARIES]]
LEAVES = [*NUMBERS, *TEXTS, *BINARIES, *DATES, *NAIVE, *ZONED, *TIMES, *DURATIONS, *DICTIONARIES]


class Near:
    """Any decimal whose nearest float of a width is a certain one."""

    def __init__(self, value: Fraction, width: int) -> None:
        self.value, self.width = value, width

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fraction) and nearest(other, self.width) == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"a decimal whose nearest float{self.width} is {float(self.value)!r}"


def width(type_: pa.DataType) -> int:
    """Return the bits of a float type."""
    return int(type_.bit_width)


def nearest(value: Fraction, bits: int) -> Fraction | str:
    """Return the float of this width that is nearest to a number, ties to even."""
    mantissa, lowest, highest = MANTISSA[bits]
    if value == 0:
        return Fraction(0)
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    step = Fraction(2) ** max(exponent - mantissa + 1, lowest)
    rounded = Fraction(round(magnitude / step)) * step
    if rounded >= Fraction(2) ** (highest + 1):
        return "inf" if value > 0 else "-inf"
    return rounded if value > 0 else -rounded


def shortest(value: Fraction, bits: int) -> Fraction:
    """Return the decimal of the fewest digits that reads as this float."""
    text = {16: lambda: str(np.float16(float(value))), 32: lambda: str(np.float32(float(value)))}.get(
        bits, lambda: repr(float(value))
    )()
    return Fraction(Decimal(text))


def is_text(type_: pa.DataType) -> bool:
    """Return whether values are text."""
    return type_ in TEXTS


def is_binary(type_: pa.DataType) -> bool:
    """Return whether values are bytes."""
    return (
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def is_number(type_: pa.DataType) -> bool:
    """Return whether values are numbers or truth values."""
    return (
        pa.types.is_boolean(type_)
        or pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
    )


def is_list(type_: pa.DataType) -> bool:
    """Return whether values are lists of any kind."""
    return any(
        test(type_)
        for test in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )


# -- Values of a type ------------------------------------------------------------------------------------------------


def step_of(type_: pa.DataType) -> int:
    """Return the nanoseconds of one stored step of a type that counts time."""
    if pa.types.is_date32(type_):
        return DAY
    if pa.types.is_date64(type_):
        return UNITS["ms"]
    return UNITS[type_.unit]


def raw(type_: pa.DataType, value: Any) -> Any:  # noqa: C901 - one branch for each kind of type
    """Return the Python object of which pyarrow makes this value of this type."""
    if value is None:
        return None
    if pa.types.is_dictionary(type_):
        return raw(type_.value_type, value)
    if pa.types.is_boolean(type_):
        return bool(value)
    if pa.types.is_integer(type_):
        return int(value)
    if pa.types.is_floating(type_):
        number = float(value)
        return np.float16(number) if pa.types.is_float16(type_) else number
    if pa.types.is_decimal(type_):
        unscaled = int(value * 10**type_.scale)
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -type_.scale))
    if pa.types.is_temporal(type_):
        return value // step_of(type_)
    if is_list(type_):
        return [raw(type_.value_type, item) for item in value]
    if pa.types.is_struct(type_):
        return {field.name: raw(field.type, value[field.name]) for field in type_}
    if pa.types.is_map(type_):
        return [(raw(type_.key_type, key), raw(type_.item_type, item)) for key, item in value]
    return value


def made(type_: pa.DataType, values: list[Any]) -> pa.Array:
    """Return an array of values."""
    if pa.types.is_dictionary(type_):
        distinct = list(dict.fromkeys(value for value in values if value is not None))
        keys = [None if value is None else distinct.index(value) for value in values]
        return pa.DictionaryArray.from_arrays(pa.array(keys, type_.index_type), made(type_.value_type, distinct))
    return pa.array([raw(type_, value) for value in values], type_)


def read(array: pa.Array) -> list[Any]:
    """Return the values of an array."""
    type_ = array.type
    if pa.types.is_dictionary(type_):
        values = read(array.dictionary)
        return [None if key is None else values[key] for key in array.indices.to_pylist()]
    if pa.types.is_floating(type_):
        return [None if value is None else of_float(float(value)) for value in array.to_pylist()]
    if is_number(type_):
        return [None if value is None else Fraction(value) for value in array.to_pylist()]
    if pa.types.is_temporal(type_):
        stored = array.view(pa.int32() if type_.bit_width == 32 else pa.int64())
        step = step_of(type_)
        return [None if value is None else value * step for value in stored.to_pylist()]
    if is_list(type_):
        return [None if not row.is_valid else read(row.values) for row in array]
    if pa.types.is_struct(type_):
        # Nulls of the struct are those of its members too.
        columns = {field.name: read(column) for field, column in zip(type_, array.flatten(), strict=True)}
        return [
            {name: column[row] for name, column in columns.items()} if valid else None
            for row, valid in enumerate(array.is_valid().to_pylist())
        ]
    if pa.types.is_map(type_):
        rows = []
        for row in array:
            if not row.is_valid:
                rows.append(None)
                continue
            entries = row.values
            rows.append(list(zip(read(entries.field(0)), read(entries.field(1)), strict=True)))
        return rows
    return list(array.to_pylist())


def of_float(value: float) -> Fraction | str:
    """Return the exact value of a float."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return Fraction(value)


# -- What a type can hold --------------------------------------------------------------------------------------------


def integer_range(type_: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = type_.bit_width
    if pa.types.is_signed_integer(type_):
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return 0, 2**bits - 1


def steps(value: Fraction, type_: pa.DataType) -> int | None:
    """Return a number as the unscaled value of a decimal type, None if the type does not hold it."""
    scaled = value * Fraction(10) ** type_.scale
    fits = scaled.denominator == 1 and abs(scaled) < 10**type_.precision
    return int(scaled) if fits else None


def holds(type_: pa.DataType, value: Any) -> bool:  # noqa: C901 - one branch for each kind of type
    """Return whether a leaf type has this value."""
    if pa.types.is_dictionary(type_):
        return holds(type_.value_type, value)
    if pa.types.is_boolean(type_):
        return value in (0, 1)
    if pa.types.is_integer(type_):
        least, greatest = integer_range(type_)
        return isinstance(value, Fraction) and value.denominator == 1 and least <= value <= greatest
    if pa.types.is_floating(type_):
        return isinstance(value, str) or nearest(value, width(type_)) == value
    if pa.types.is_decimal(type_):
        return isinstance(value, Fraction) and steps(value, type_) is not None
    if pa.types.is_time(type_):
        return 0 <= value < DAY and value % step_of(type_) == 0
    if pa.types.is_temporal(type_):
        if pa.types.is_date(type_) and value % DAY:
            return False
        number, rest = divmod(value, step_of(type_))
        bits = 31 if pa.types.is_date32(type_) else 63
        return rest == 0 and -(2**bits) <= number < 2**bits
    if is_text(type_):
        return isinstance(value, str)
    if pa.types.is_fixed_size_binary(type_):
        return len(value) == type_.byte_width
    return isinstance(value, bytes)


def goes(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether values of a leaf type mean the same as values of another one."""
    if pa.types.is_dictionary(source):
        return goes(source.value_type, target)
    if pa.types.is_dictionary(target):
        return goes(source, target.value_type)
    if is_number(source) or is_number(target):
        return is_number(source) and is_number(target)
    if is_text(source) or is_binary(source):
        return is_text(target) or is_binary(target)
    kinds = [
        lambda it: pa.types.is_date(it) or (pa.types.is_timestamp(it) and it.tz is None),
        lambda it: pa.types.is_timestamp(it) and it.tz is not None,
        pa.types.is_time,
        pa.types.is_duration,
    ]
    return any(kind(source) and kind(target) for kind in kinds)


def expected(source: pa.DataType, target: pa.DataType, value: Any) -> Any:  # noqa: C901 - one branch for each kind of type
    """Return the value after the conversion, or REFUSED, or EITHER. The types go together."""
    if value is None:
        return None
    if is_list(source) and is_list(target):
        return _list(source, target, value)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _struct(source, target, value)
    if pa.types.is_map(source) and pa.types.is_map(target):
        keys = _together(expected(source.key_type, target.key_type, key) for key, _ in value)
        items = _together(expected(source.item_type, target.item_type, item) for _, item in value)
        return next((it for it in (keys, items) if isinstance(it, str)), None) or list(zip(keys, items, strict=True))
    if pa.types.is_dictionary(source):
        return expected(source.value_type, target, value)
    if pa.types.is_dictionary(target):
        return expected(source, target.value_type, value)
    if pa.types.is_floating(source) and pa.types.is_decimal(target):
        return _float_to_decimal(value, width(source), target)
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        return _decimal_to_float(value, source, width(target))
    if is_text(source) and is_binary(target):
        value = value.encode()
    elif is_binary(source) and is_text(target):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return REFUSED
    return value if holds(target, value) else REFUSED


def _together(values: Any) -> Any:
    """Return all values, or REFUSED or EITHER if one of them is."""
    values = list(values)
    for word in (REFUSED, EITHER):
        if any(isinstance(value, str) and value == word for value in values):
            return word
    return values


def _list(source: pa.DataType, target: pa.DataType, value: list[Any]) -> Any:
    if pa.types.is_fixed_size_list(target) and len(value) != target.list_size:
        return REFUSED
    return _together(expected(source.value_type, target.value_type, item) for item in value)


def _struct(source: pa.DataType, target: pa.DataType, value: dict[str, Any]) -> Any:
    there = {field.name: field.type for field in source}
    members = {
        field.name: expected(there[field.name], field.type, value[field.name]) if field.name in there else None
        for field in target
    }
    together = _together(members.values())
    return together if isinstance(together, str) else members


def _float_to_decimal(value: Any, bits: int, target: pa.DataType) -> Any:
    if isinstance(value, str):
        return REFUSED
    # The exact value where the decimal has its digits, else the shortest that reads as the same float.
    scaled = value * Fraction(10) ** target.scale
    chosen = value if scaled.denominator == 1 else shortest(value, bits)
    return Near(value, bits) if steps(chosen, target) is not None else REFUSED


def _decimal_to_float(value: Fraction, source: pa.DataType, bits: int) -> Any:
    near = nearest(value, bits)
    if isinstance(near, str):
        return REFUSED
    scaled = near * Fraction(10) ** source.scale
    back = near if scaled.denominator == 1 else shortest(near, bits)
    if back == value:
        return near
    rounded = Fraction(round(scaled), 1) / Fraction(10) ** source.scale
    return EITHER if rounded == value else REFUSED


# -- Random values ---------------------------------------------------------------------------------------------------


def drawn(type_: pa.DataType, r: random.Random) -> Any:
    """Return a random value of a type, often near a limit of some type."""
    if pa.types.is_dictionary(type_):
        return drawn(type_.value_type, r)
    if is_list(type_):
        size = type_.list_size if pa.types.is_fixed_size_list(type_) else r.choice([0, 1, 2, 2, 3])
        return [_or_null(type_.value_type, r) for _ in range(size)]
    if pa.types.is_struct(type_):
        return {field.name: _or_null(field.type, r) for field in type_}
    if pa.types.is_map(type_):
        keys = {drawn(type_.key_type, r) for _ in range(r.choice([0, 1, 2]))}
        return [(key, _or_null(type_.item_type, r)) for key in sorted(keys)]
    for _ in range(50):
        value = _drawn(type_, r)
        if holds(type_, value):
            return value
    return {True: Fraction(0)}.get(is_number(type_), 0) if not is_binary(type_) else bytes(type_.byte_width)


def _or_null(type_: pa.DataType, r: random.Random) -> Any:
    return None if r.random() < 0.15 else drawn(type_, r)


def _drawn(type_: pa.DataType, r: random.Random) -> Any:
    if is_number(type_):
        return _number(type_, r)
    if is_text(type_):
        return "".join(r.choice("aZ 0é√😀\u0000") for _ in range(r.choice([0, 1, 3, 3, 16, 20])))
    if is_binary(type_):
        size = type_.byte_width if pa.types.is_fixed_size_binary(type_) else r.choice([0, 1, 3, 3, 16, 20])
        return bytes(r.choice(b"abc\x00") if r.random() < 0.9 else r.randrange(256) for _ in range(size))
    if pa.types.is_time(type_):
        return r.randrange(86_400) * 10**9 + _below_a_second(r)
    spread = r.choice([10, 10**5, 10**9, 10**11, 2**63 // 10**9 + 1])
    whole = r.choice([DAY * r.randrange(-30_000, 30_000), 10**9 * r.randrange(-spread, spread)])
    if r.random() < 0.05:
        whole = r.choice([-(2**31), 2**31 - 1, 2**31]) * DAY
    value = whole + _below_a_second(r)
    return value - value % step_of(type_) if r.random() < 0.5 else value


def _below_a_second(r: random.Random) -> int:
    unit = r.choice([10**9, 10**9, 10**6, 10**3, 1])
    return r.randrange(0, 10**9, unit) if unit < 10**9 else 0


def _number(type_: pa.DataType, r: random.Random) -> Any:
    kind = r.random()
    if pa.types.is_floating(type_) and kind < 0.05:
        return r.choice(["nan", "inf", "-inf"])
    if kind < 0.3:
        return Fraction(r.choice([0, 1, 2, 5, -1, 7, 100, -128, 127, 128, 255, 256, 2048, 2049]))
    if kind < 0.5:
        bits = r.choice([7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64])
        return Fraction(r.choice([1, 1, -1]) * (2**bits + r.choice([-1, 0, 1])))
    if kind < 0.7:
        return Fraction(r.randrange(-(10**4), 10**4), 10 ** r.randrange(4))
    if pa.types.is_floating(type_):
        if kind < 0.85:
            return nearest(Fraction(r.randrange(-(10**6), 10**6), 10 ** r.randrange(6)), width(type_))
        pattern, floats = {16: ("<H", np.float16), 32: ("<I", np.float32), 64: ("<Q", np.float64)}[width(type_)]
        data = struct.pack(pattern, r.getrandbits(width(type_)))
        return of_float(float(np.frombuffer(data, floats)[0]))
    if pa.types.is_decimal(type_):
        digits = r.randrange(1, type_.precision + 1)
        return Fraction(r.choice([1, -1]) * r.randrange(10**digits)) / Fraction(10) ** type_.scale
    if pa.types.is_integer(type_):
        return Fraction(r.randint(*integer_range(type_)))
    return Fraction(r.randrange(2))
