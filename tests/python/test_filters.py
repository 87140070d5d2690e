"""Conditions of every spelling mean the same rows, whatever the type of the column."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from support.comparing import assert_same

UTC = dt.UTC

# Two values of each type, the smaller one first.
PAIRS = [
    (pa.int8(), -3, 7),
    (pa.int16(), -300, 700),
    (pa.int32(), -(2**31), 2**31 - 1),
    (pa.int64(), -(2**63) + 1, 2**63 - 1),
    (pa.uint8(), 0, 255),
    (pa.uint32(), 0, 2**32 - 1),
    (pa.uint64(), 0, 2**64 - 1),
    (pa.float32(), -1.5, 0.25),
    (pa.float64(), 1e-300, 1e300),
    (pa.decimal128(20, 3), Decimal("-1.125"), Decimal("12345678901234567.001")),
    (pa.string(), "", "it's 日本"),
    (pa.large_string(), "a", "b"),
    (pa.binary(), b"\x00", b"\xff\x00"),
    (pa.date32(), dt.date(1969, 12, 31), dt.date(2026, 1, 2)),
    (pa.timestamp("us"), dt.datetime(1969, 1, 1, 1, 2, 3, 4), dt.datetime(2026, 1, 2, 3, 4, 5, 6)),
    (pa.timestamp("ms"), dt.datetime(1969, 1, 1, 1, 2, 3, 4000), dt.datetime(2026, 1, 2)),
    (pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 1, tzinfo=UTC), dt.datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
    (pa.timestamp("s", "Europe/Berlin"), dt.datetime(2026, 1, 1, tzinfo=UTC), dt.datetime(2026, 7, 2, tzinfo=UTC)),
    (pa.time64("us"), dt.time(0, 0, 1), dt.time(23, 59, 59, 999999)),
    (pa.duration("us"), dt.timedelta(days=-1), dt.timedelta(seconds=5, microseconds=7)),
    (pa.bool_(), False, True),
]


def test_one_tuple_alone_is_refused_with_the_list_that_was_meant(tmp_path):
    ds = pilum.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "t", durability="none").dataset
    with pytest.raises(pilum.InvalidInputError, match=r"passed in a list: \[\('a', '>', 1\)\]"):
        ds.to_table(filter=("a", ">", 1))
    assert ds.count_rows([("a", ">", 1)]) == 1


@pytest.mark.parametrize(("type_", "low", "high"), PAIRS, ids=[str(type_) for type_, _, _ in PAIRS])
def test_a_python_value_is_compared_with_a_column_of_its_type(type_, low, high, tmp_path):
    ds = pilum.write_dataset(pa.table({"c": pa.array([low, None, high, high], type_)}), tmp_path / "t")
    c = pilum.col("c")
    assert ds.count_rows(c == high) == 2
    assert ds.count_rows(c != high) == 1
    assert ds.count_rows(c < high) == 1
    assert ds.count_rows(c >= low) == 3
    assert ds.count_rows(c.isin([low, high])) == 3
    assert ds.count_rows([("c", "not in", [low])]) == 2
    assert ds.count_rows(c.between(low, high)) == 3
    assert ds.count_rows(c.is_null()) == 1
    assert ds.to_table(filter=c == low)["c"].to_pylist() == pa.array([low], type_).to_pylist()


TABLE = pa.table(
    {
        "n": pa.array([None if i % 9 == 0 else i % 100 for i in range(3000)], pa.int64()),
        "s": pa.array([None if i % 7 == 0 else f"{'ab'[i % 2]}{i % 30}" for i in range(3000)]),
        "f": pa.array([None if i % 5 == 0 else i / 8 for i in range(3000)]),
    }
)


def pyarrow_condition(r: random.Random, depth: int = 2) -> pc.Expression:
    """Return a random condition; division and functions with a meaning of their own aside."""
    if depth and r.random() < 0.7:
        one, two = pyarrow_condition(r, depth - 1), pyarrow_condition(r, depth - 1)
        return r.choice([one & two, one | two, ~one])
    n, s, f = pc.field("n"), pc.field("s"), pc.field("f")
    return r.choice(
        [
            n > r.randint(-5, 105),
            n == r.randint(0, 99),
            n + 1 < r.randint(0, 99),
            n.isin([r.randint(0, 99) for _ in range(3)]),
            n.isin([r.randint(0, 99), None]),
            s.is_null(),
            s == f"a{r.randint(0, 30)}",
            s < f"b{r.randint(0, 30)}",
            pc.match_like(s, f"_{r.randint(0, 3)}%"),
            pc.starts_with(s, "b1"),
            f <= r.randint(0, 400) / 2,
            f.is_valid(),
            pc.utf8_length(s) == 2,
        ]
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return pilum.write_dataset(TABLE, tmp_path_factory.mktemp("filters") / "t", max_rows_per_page=200)


@pytest.mark.parametrize("seed", range(150))
def test_a_pyarrow_condition_keeps_the_rows_that_pyarrow_keeps(table, seed):
    expression = pyarrow_condition(random.Random(seed))
    assert_same(table.to_table(filter=expression), TABLE.filter(expression), str(expression))


@pytest.mark.parametrize("seed", range(50))
def test_columns_beside_those_of_the_condition(table, seed):
    r = random.Random(seed)
    expression = pyarrow_condition(r)
    columns = r.sample(TABLE.column_names, r.randint(1, 3))
    want = TABLE.filter(expression).select(columns)
    assert_same(table.to_table(columns, expression, limit=40, offset=3), want.slice(3, 40), str(expression))
    assert table.count_rows(expression) == want.num_rows
