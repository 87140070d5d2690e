"""A condition of `pyarrow.compute` keeps the rows that pyarrow keeps, whatever the values.

Where pyarrow can tell it in Substrait that is what is read, else the tree that it pickles; here each is tried both ways.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import math
import operator
import os
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pilum
from pilum import pyarrow_expr
from support.comparing import assert_same

EXAMPLES = 250 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
NUMBERS = itertools.count()

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]


def many(examples: int = EXAMPLES) -> settings:
    """Return how often a property is tried, the same way each time."""
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=checks)


def values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    """Return values of a numeric type: small ones mostly, the extremes too."""
    if pa.types.is_floating(type_):
        far = [1e300, -1e300, 5e-324, -0.0, math.nan, math.inf, -math.inf]
        return st.one_of(st.integers(-12, 12).map(lambda n: n / 4), st.sampled_from(far))
    low, high = (0, 2**type_.bit_width - 1) if pa.types.is_unsigned_integer(type_) else (-100, 100)
    if pa.types.is_signed_integer(type_):
        low, high = -(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1
    return st.one_of(st.integers(max(low, -12), 12), st.sampled_from([low, low + 1, high]))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Return a table of two integer columns and two of floats, nulls among them."""
    types = [draw(st.sampled_from(INTEGERS)), draw(st.sampled_from(INTEGERS)), pa.float64(), pa.float64()]
    rows = draw(st.integers(0, 12))
    columns = [draw(st.lists(st.none() | values(type_), min_size=rows, max_size=rows)) for type_ in types]
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.table(dict(zip("ijfg", arrays, strict=True)))


def written(table: pa.Table) -> pilum.Dataset:
    uri = f"memory://pyarrow-conditions/{next(NUMBERS)}"
    return pilum.write_dataset(table, uri, max_rows_per_page=4).dataset


def kept(given: pa.Table | pilum.Dataset, condition: pc.Expression) -> pa.Table:
    """Return the rows that pilum keeps, the same whichever way the condition is told."""
    ds = written(given) if isinstance(given, pa.Table) else given
    rows = ds.to_table(filter=condition)
    try:
        walked = pyarrow_expr.expression(condition)
    except pilum.UnsupportedError:
        return rows
    assert_same(ds.to_table(filter=walked), rows, f"{condition} as {walked}")
    return rows


COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
DIVISIONS = [lambda left, right: left / right, pc.divide, pc.divide_checked]


@many()
@given(
    tables(),
    st.sampled_from("ijfg"),
    st.one_of(st.sampled_from("ijfg"), st.integers(-4, 4), st.sampled_from([0.5, -1.5, 3.0, 0.0])),
    st.sampled_from(DIVISIONS),
    st.sampled_from(COMPARISONS),
    st.one_of(st.integers(-4, 4), st.sampled_from([0.5, -2.5, 1e9])),
)
def test_a_quotient_is_the_one_of_pyarrow(table, dividend, divisor, divide, compare, wanted):
    by = pc.field(divisor) if isinstance(divisor, str) else divisor
    quotient = divide(pc.field(dividend), by)
    condition = compare(quotient, wanted)
    try:
        want = table.filter(condition)
    except pa.ArrowInvalid as error:
        whole = pa.types.is_integer(table.schema.field(dividend).type) and (
            pa.types.is_integer(table.schema.field(divisor).type) if isinstance(divisor, str) else isinstance(by, int)
        )
        # Integers of eight bits leave their range where those of sixty-four do not; a float divided by zero is infinite.
        if whole and "divide by zero" in str(error):
            # Unless statistics tell that the rows with the zero cannot match; and the others may leave their range too.
            with contextlib.suppress(pilum.InvalidInputError, pa.ArrowInvalid):
                want = table.slice(0, 0)
                if isinstance(divisor, str):
                    want = table.filter(pc.field(divisor) != 0).filter(condition)
                assert_same(kept(table, condition), want, str(condition))
        return
    assert_same(kept(table, condition), want, str(condition))


@st.composite
def computed(draw: st.DrawFn, depth: int = 3) -> pc.Expression:
    """Return a random computation over the columns."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(
            st.one_of(
                st.sampled_from("ijfg").map(pc.field),
                st.integers(-9, 9).map(pc.scalar),
                st.sampled_from([0.1, 0.25, -3.5]).map(pc.scalar),
            )
        )
    left, right = draw(computed(depth - 1)), draw(computed(depth - 1))
    two = [left + right, left - right, left * right, left / right]
    return draw(st.sampled_from([*two, pc.negate_checked(left), pc.abs_checked(left)]))


@many()
@given(tables(), computed(), computed(), st.sampled_from(COMPARISONS))
def test_arithmetic_is_that_of_pyarrow_where_that_answers(table, left, right, compare):
    condition = compare(left, right)
    try:
        want = table.filter(condition)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return
    assert_same(kept(table, condition), want, str(condition))


@many()
@given(
    tables(),
    st.sampled_from("ijfg"),
    st.lists(st.none() | st.integers(-12, 12), max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_a_list_with_and_without_null_is_that_of_pyarrow(table, name, listed, skips, negated):
    value_set = pa.array(listed, pa.int8()).cast(table.schema.field(name).type, safe=False)
    # pyarrow finds -0.0 in no list that has 0.0, though it is equal.
    for place in (2, 3):
        table = table.set_column(place, table.schema.names[place], pc.add(table[place], 0.0))
    condition = pc.is_in(pc.field(name), value_set, skip_nulls=skips)
    condition = ~condition if negated else condition
    assert_same(kept(table, condition), table.filter(condition), str(condition))


TEXTS = ["", "a", "ab", "b%", "_a", "A", "ä", "日", "it's", "`"]
START = dt.datetime(2020, 1, 1)
MANY_COLUMNS = {
    "i": (pa.int64(), st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))),
    "t": (pa.int8(), st.integers(-128, 127)),
    "f": (pa.float64(), st.sampled_from([math.nan, -0.0, 0.0, 0.1, -1.5, 2.0, math.inf, -math.inf])),
    "g": (pa.float32(), st.sampled_from([math.nan, -0.0, 0.0, 0.1, -1.5, 2.0, math.inf, -math.inf])),
    "s": (pa.string(), st.sampled_from(TEXTS)),
    "l": (pa.large_string(), st.sampled_from(TEXTS)),
    "c": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(TEXTS)),
    "b": (pa.bool_(), st.booleans()),
    "x": (pa.binary(), st.sampled_from([b"", b"\x00", b"a", b"\xff"])),
    "d": (pa.date32(), st.integers(-3, 3).map(lambda days: START.date() + dt.timedelta(days))),
    "ts": (pa.timestamp("us"), st.integers(-3, 3).map(lambda n: START + dt.timedelta(microseconds=n))),
    "tz": (
        pa.timestamp("ms", "UTC"),
        st.integers(-3, 3).map(lambda n: START.replace(tzinfo=dt.UTC) + dt.timedelta(0, n)),
    ),
    "m": (pa.decimal128(9, 2), st.integers(-300, 300).map(lambda n: Decimal(n) / 100)),
    "du": (pa.duration("us"), st.integers(-3, 3).map(lambda n: dt.timedelta(microseconds=n))),
    "a b`": (pa.int32(), st.integers(-3, 3)),
    "st": (
        pa.struct([("n", pa.int32()), ("y.z", pa.struct([("w", pa.string())]))]),
        st.fixed_dictionaries(
            {
                "n": st.none() | st.integers(-3, 3),
                "y.z": st.none() | st.fixed_dictionaries({"w": st.none() | st.sampled_from(TEXTS)}),
            }
        ),
    ),
}
NESTED = {("st", "n"): "a b`", ("st", "y.z", "w"): "s"}


@st.composite
def wide_tables(draw: st.DrawFn) -> pa.Table:
    """Return a table of a column of each type, nulls among them."""
    rows = draw(st.integers(0, 10))
    arrays = {
        name: pa.array(draw(st.lists(st.none() | one, min_size=rows, max_size=rows)), type_)
        for name, (type_, one) in MANY_COLUMNS.items()
    }
    return pa.table(arrays)


@st.composite
def operands(draw: st.DrawFn) -> tuple[pc.Expression, str]:
    """Return a column, or a field of a struct, and the name of a column of the same type."""
    name = draw(st.sampled_from([*(name for name in MANY_COLUMNS if name != "st"), *NESTED]))
    return pc.field(name), name if isinstance(name, str) else NESTED[name]


@st.composite
def leaves(draw: st.DrawFn) -> pc.Expression:
    """Return a condition on one column or two."""
    operand, like = draw(operands())
    type_, one = MANY_COLUMNS[like]
    value_type = type_.value_type if pa.types.is_dictionary(type_) else type_
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return draw(st.sampled_from([operand.is_null(), operand.is_valid()]))
    if kind == 1 and not pa.types.is_floating(type_):
        listed = draw(st.lists(st.none() | one, max_size=4))
        return pc.is_in(operand, pa.array(listed, value_type), skip_nulls=draw(st.booleans()))
    if kind == 2 and pa.types.is_floating(type_):
        return draw(
            st.sampled_from(
                [
                    pc.is_nan(operand),
                    pc.is_finite(operand),
                    pc.is_inf(operand),
                    operand.is_null(nan_is_null=True),
                    pc.floor(operand) == draw(one),
                    pc.ceil(operand) < draw(one),
                    pc.trunc(operand) >= draw(one),
                ]
            )
        )
    if kind == 3 and like in {"s", "l"}:
        text = draw(st.sampled_from(TEXTS))
        tests = [pc.starts_with, pc.ends_with, pc.match_substring, pc.match_like]
        if draw(st.booleans()):
            pattern = draw(st.sampled_from(["^a", "b$", "[a-y]{2}", "x|%", "", ".", "^$"]))
            return pc.match_substring_regex(operand, pattern, ignore_case=draw(st.booleans()))
        return draw(st.sampled_from(tests))(operand, text)
    if kind == 4 and like == "s":
        return draw(
            st.sampled_from([pc.utf8_upper(operand) == "A", pc.utf8_length(operand) > 1, pc.utf8_lower(operand) < "b"])
        )
    compare = draw(st.sampled_from(COMPARISONS))
    if kind == 5:
        return compare(operand, pc.field(like))
    if kind == 6 and like in {"i", "t", "f", "g"}:
        return compare(operand, pc.field(draw(st.sampled_from("itfg"))))
    return compare(operand, pa.scalar(draw(one), value_type))


def conditions() -> st.SearchStrategy[pc.Expression]:
    """Return random conditions."""
    return st.recursive(
        leaves() | st.just(pc.field("b")),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
            st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
            inner.map(operator.invert),
            st.tuples(inner, inner).map(lambda two: pc.xor(*two)),
            st.tuples(inner, inner, inner).map(lambda three: pc.if_else(*three)),
        ),
        max_leaves=6,
    )


@many()
@given(wide_tables(), conditions())
def test_any_condition_keeps_the_rows_that_pyarrow_keeps(table, condition):
    try:
        want = table.filter(condition)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return
    assert_same(kept(table, condition), want, str(condition))


def test_a_condition_in_substrait_is_one(tmp_path):
    table = pa.table({"a": [1, 2, None], "s": ["x", "yy", "z"]})
    ds = pilum.write_dataset(table, tmp_path / "t")
    told = bytes(((pc.field("a") > 1) | (pc.field("s") == "z")).to_substrait(table.schema))
    assert ds.to_table(filter=told)["s"].to_pylist() == ["yy", "z"]
    assert ds.count_rows(told) == 2
    assert ds.delete(told).rows == 2
    power = bytes((pc.power(pc.field("a"), 2) == 4).to_substrait(table.schema))
    with pytest.raises(pilum.UnsupportedError, match="function power"):
        ds.to_table(filter=power)
    with pytest.raises(pilum.InvalidInputError, match="a Substrait expression"):
        ds.to_table(filter=told[:-40])
    other = bytes((pc.field("b") > 1).to_substrait(pa.schema([("b", pa.int64())])))
    with pytest.raises(pilum.InvalidInputError, match="unknown column b"):
        ds.to_table(filter=other)


def test_what_there_is_no_function_for_is_named(tmp_path):
    ds = pilum.write_dataset(pa.table({"a": [1], "s": ["x"]}), tmp_path / "t")
    for condition, name in [
        (pc.power(pc.field("a"), 2) == 4, "power"),
        (pc.utf8_reverse(pc.field("s")) == "x", "utf8_reverse"),
        (pc.field("a").cast("int8", safe=False) == 1, "cuts off"),
    ]:
        with pytest.raises(pilum.UnsupportedError, match=name):
            ds.to_table(filter=condition)
    with pytest.raises(pilum.InvalidInputError, match="unknown column b; did you mean a"):
        ds.to_table(filter=pc.field("b") == 1)


def test_an_integer_divided_by_zero_is_named(tmp_path):
    ds = pilum.write_dataset(pa.table({"a": [5, 0, None]}), tmp_path / "t")
    assert ds.to_table(filter=pc.field("a") / 2 == 2)["a"].to_pylist() == [5]
    assert ds.to_table(filter="a / 2 = 2.5")["a"].to_pylist() == [5]
    assert ds.to_table(filter="10 // a = 2")["a"].to_pylist() == [5]
    with pytest.raises(pilum.InvalidInputError, match=r"DIVIDE\(10, a\).*an integer is divided by zero"):
        ds.to_table(filter=pc.scalar(10) / pc.field("a") == 2)
