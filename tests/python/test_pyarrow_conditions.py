"""A condition of `pyarrow.compute` keeps the rows that pyarrow keeps, whatever the numbers."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pilum
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
        return st.one_of(st.integers(-12, 12).map(lambda n: n / 4), st.sampled_from([1e300, -1e300, 5e-324, -0.0]))
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


def kept(table: pa.Table, condition: pc.Expression) -> pa.Table:
    """Return the rows that pilum keeps."""
    uri = f"memory://pyarrow-conditions/{next(NUMBERS)}"
    return pilum.write_dataset(table, uri, max_rows_per_page=4).to_table(filter=condition)


COMPARISONS = [
    lambda left, right: left == right,
    lambda left, right: left != right,
    lambda left, right: left < right,
    lambda left, right: left >= right,
]
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
            want = table.slice(0, 0)
            if isinstance(divisor, str):
                want = table.filter(pc.field(divisor) != 0).filter(condition)
            # Unless statistics tell that the rows with the zero cannot match.
            with contextlib.suppress(pilum.InvalidInputError):
                assert_same(kept(table, condition), want, str(condition))
        return
    if table.filter(pc.is_nan(quotient.cast(pa.float64()))).num_rows:
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
    condition = pc.is_in(pc.field(name), value_set, skip_nulls=skips)
    condition = ~condition if negated else condition
    assert_same(kept(table, condition), table.filter(condition), str(condition))


def test_an_integer_divided_by_zero_is_named(tmp_path):
    ds = pilum.write_dataset(pa.table({"a": [5, 0, None]}), tmp_path / "t")
    assert ds.to_table(filter=pc.field("a") / 2 == 2)["a"].to_pylist() == [5]
    assert ds.to_table(filter="a / 2 = 2.5")["a"].to_pylist() == [5]
    assert ds.to_table(filter="10 // a = 2")["a"].to_pylist() == [5]
    with pytest.raises(pilum.InvalidInputError, match=r"DIVIDE\(10, a\).*an integer is divided by zero"):
        ds.to_table(filter=pc.scalar(10) / pc.field("a") == 2)
