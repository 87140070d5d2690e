"""Every way of writing a condition ends in the tree that it means, shown as SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from pilum.conditions import condition

UTC = dt.UTC


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (np.bool_(False), "FALSE"),
        (-3, "-3"),
        (np.int64(7), "7"),
        (2**63, "9223372036854775808"),
        (1.5, "1.5"),
        (1e300, "1e300"),
        (float("nan"), "CAST('NaN' AS DOUBLE)"),
        (float("-inf"), "CAST('-Infinity' AS DOUBLE)"),
        (Decimal("1E+2"), "100"),
        (Decimal("0.10"), "0.10"),
        ("it's", "'it''s'"),
        (b"\x00\xff", "X'00ff'"),
        (dt.date(2026, 1, 2), "DATE '2026-01-02'"),
        (dt.datetime(2026, 1, 2, 3, 4, 5), "TIMESTAMP '2026-01-02 03:04:05'"),
        (dt.datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "TIMESTAMP '2026-01-02 03:04:05.000006Z'"),
        (dt.time(1, 2, 3), "TIME '01:02:03'"),
        (dt.timedelta(seconds=-1, microseconds=1), "INTERVAL '0 months 0 days -999999000 nanoseconds'"),
        (pa.scalar(5, pa.uint8()), "5"),
        (pilum.col("a"), "a"),
    ],
)
def test_a_value_becomes_a_literal(value, sql):
    assert pilum.lit(value).sql == sql


def test_a_value_without_a_literal_is_refused_by_type():
    with pytest.raises(pilum.InvalidInputError, match="object"):
        pilum.lit(object())


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        (pilum.col("a") > 3, "a > 3"),
        (pilum.col("a.b") == "x", "a.b = 'x'"),
        (pilum.col("we`ird") != 1, '"we`ird" <> 1'),
        ((pilum.col("a") >= 1) & ~(pilum.col("b") < 2), "a >= 1 AND NOT b < 2"),
        ((pilum.col("a") + 1) * 2 <= pilum.col("b") / 3, "(a + 1) * 2 <= b / 3"),
        (pilum.col("a").isin([1, None]) | pilum.col("b").is_null(), "a IN (1, NULL) OR b IS NULL"),
        (pilum.col("a").isin([]), "a IN ()"),
        (pilum.col("s").like("a%"), "s LIKE 'a%'"),
        (pilum.col("a").between(1, 2), "a BETWEEN 1 AND 2"),
        (pilum.col("a").is_not_null(), "a IS NOT NULL"),
        (pilum.lit(1) == pilum.col("a"), "1 = a"),
        ("qty > 3", "qty > 3"),
        (None, None),
        ([[("qty", ">", 3), ("name", "in", ["a", "b"])]], "qty > 3 AND name IN ('a', 'b')"),
        ([("a", "==", 1), ("b", "not in", (2,))], "a = 1 AND b NOT IN (2)"),
        ([[("a", "!=", 1)], [("b", "<=", 2)]], "a <> 1 OR b <= 2"),
    ],
)
def test_a_condition_becomes_sql(written, sql):
    found = condition(written)
    assert (found if found is None else str(found)) == sql


@pytest.mark.parametrize(
    "written", [3, [], [[]], [("a", ">")], [("a", "~", 1)], [("a", "in", "text")], [[1]], [(1, "=", 1)]]
)
def test_what_is_no_condition_is_refused(written):
    with pytest.raises(pilum.InvalidInputError):
        condition(written)


def test_a_condition_has_no_truth_value():
    with pytest.raises(TypeError, match=r"& \| ~"):
        bool(pilum.col("a") > 1)


FIELD = pc.field


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        ((FIELD("a") > 3) & ~(FIELD("b") == "x"), "IEEE(a > 3) AND NOT b = 'x'"),
        ((FIELD("a") < 3) | (FIELD("a.b") != 1.5), 'a < 3 OR "a.b" <> 1.5e0'),
        (FIELD("a", "b") == True, "a.b = TRUE"),  # noqa: E712 - this makes an expression
        (FIELD("a").isin([1, 2]), "COALESCE(a IN (1, 2), FALSE)"),
        (FIELD("a").isin([1, None]), "a IS NULL OR COALESCE(a IN (1), FALSE)"),
        (pc.is_in(FIELD("a"), pa.array([1, None]), skip_nulls=True), "COALESCE(a IN (1), FALSE)"),
        (pc.is_in(FIELD("a"), pa.array([None], pa.int8()), skip_nulls=True), "FALSE"),
        (FIELD("a").is_null() | FIELD("b").is_valid(), "a IS NULL OR b IS NOT NULL"),
        (pc.match_like(FIELD("s"), "a%"), "s LIKE 'a%'"),
        (pc.match_like(FIELD("s"), "a%", ignore_case=True), "s ILIKE 'a%'"),
        (pc.starts_with(FIELD("s"), "it's"), "STARTS_WITH(s, 'it''s')"),
        (FIELD("a").cast(pa.int8()) >= 1, "IEEE(CAST(a AS TINYINT) >= 1)"),
        (FIELD("a") + 1 <= FIELD("b") / 2, "IEEE(a + 1 <= DIVIDE(b, 2))"),
        (pc.year(FIELD("t")) == 2020, "YEAR(t) = 2020"),
        (FIELD("t") >= dt.datetime(2020, 1, 1), "t >= TIMESTAMP '2020-01-01 00:00:00'"),
        (pc.coalesce(FIELD("a"), 1) == pc.utf8_length(FIELD("s")), "IEEE(COALESCE(a, 1) = LENGTH(s))"),
    ],
)
def test_a_pyarrow_expression_becomes_sql(expression, sql):
    assert str(condition(expression)) == sql


def test_a_pyarrow_function_that_there_is_not_is_named():
    with pytest.raises(pilum.UnsupportedError, match="utf8_reverse"):
        condition(pc.utf8_reverse(FIELD("s")) == "x")


def test_a_pyarrow_cast_that_cuts_off_is_refused():
    with pytest.raises(pilum.UnsupportedError, match="safe=False"):
        condition(FIELD("f").cast(pa.int64(), safe=False) == 1)
