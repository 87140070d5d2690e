"""Numbers of 39 to 76 digits are literals in every spelling of a condition and of an assigned value."""

from __future__ import annotations

import decimal
import pickle
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum

BIG = Decimal("12345678901234567890123456789012345678901234567890.12")
TYPE = pa.decimal256(60, 2)
VALUES = [Decimal("1.00"), BIG, -BIG, None]

SPELLINGS: dict[str, Callable[[Decimal], Any]] = {
    "SQL": lambda value: f"m >= {value:f}",
    "operator": lambda value: pilum.col("m") >= value,
    "literal": lambda value: pilum.col("m") >= pilum.lit(value),
    "tuple": lambda value: [("m", ">=", value)],
    "pyarrow": lambda value: pc.field("m") >= pa.scalar(value),
    "another process": lambda value: pickle.loads(pickle.dumps(pilum.col("m") >= value)),
}


@pytest.fixture
def ds(tmp_path: Path) -> pilum.Dataset:
    rows = pa.table({"id": [1, 2, 3, 4], "m": pa.array(VALUES, TYPE), "x": [1.0, 1e45, -1e45, None]})
    return pilum.write_dataset(rows, tmp_path / "t", durability="none").dataset


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_condition_compares_every_digit(ds: pilum.Dataset, spelling: str) -> None:
    step = Decimal("0.01")
    with decimal.localcontext(prec=80):
        for value in (BIG, BIG + step, BIG - step, -BIG, -BIG + step, Decimal(10**58), Decimal("1e-50")):
            found = ds.to_table(filter=SPELLINGS[spelling](value))["id"].to_pylist()
            wanted = [at for at, held in enumerate(VALUES, 1) if held is not None and held >= value]
            assert found == wanted, value


def test_random_numbers_compare_as_in_python(ds: pilum.Dataset) -> None:
    source = random.Random(14)
    with decimal.localcontext(prec=160):
        held = [Decimal(source.randrange(-(10**76) + 1, 10**76)).scaleb(-source.choice([20])) for _ in range(50)]
        table = pa.table({"m": pa.array(held, pa.decimal256(76, 20))})
        rows = pilum.write_dataset(table, f"{ds.uri}-random", durability="none").dataset
        for _ in range(60):
            near = source.choice(held)
            value = near + Decimal(source.choice([-1, 0, 1])).scaleb(-source.choice([20, 0]))
            if len(value.as_tuple().digits) > 76:
                continue
            for name, spelling in SPELLINGS.items():
                assert rows.count_rows(spelling(value)) == sum(it >= value for it in held), (name, value)


def test_lists_hold_wide_numbers(ds: pilum.Dataset) -> None:
    for condition in (
        f"m IN ({BIG}, 1)",
        pilum.col("m").isin([BIG, Decimal(1)]),
        [("m", "in", [BIG, Decimal(1)])],
    ):
        assert ds.to_table(filter=condition)["id"].to_pylist() == [1, 2]


def test_whole_numbers_compare_exactly_with_floats(ds: pilum.Dataset) -> None:
    exact = int(1e45)
    for value in (exact - 1, exact, exact + 1, -exact, 10**75, -(10**75)):
        wanted = [at for at, held in enumerate([1.0, 1e45, -1e45], 1) if int(held) >= value]
        assert ds.to_table(filter=pilum.col("x") >= value)["id"].to_pylist() == wanted, value
        assert ds.to_table(filter=f"x >= {value}")["id"].to_pylist() == wanted, value


def test_a_wide_number_is_assigned_with_every_digit(ds: pilum.Dataset) -> None:
    def assigned(value: Any) -> Decimal:
        written = ds.update({"m": value}, where="id = 1").dataset
        return written.to_table(filter="id = 1")["m"][0].as_py()

    for value in (BIG, pilum.lit(BIG), f"{BIG}", f"CAST('{BIG}' AS DECIMAL(60, 2))"):
        assert assigned(value) == BIG
        assert assigned(1) == 1
    assert assigned(10**50) == 10**50
    for value in (10**58, Decimal("1234567890123456789012345678901234567890.001")):
        with pytest.raises(pilum.InvalidInputError, match="`m`"):
            assigned(value)
    with pytest.raises(pilum.InvalidInputError, match="`x`"):
        ds.update({"x": BIG}, where="id = 1")


def test_more_than_76_digits_are_refused(ds: pilum.Dataset) -> None:
    for value in (10**76, -(10**76), 10**5000, Decimal("1e77"), Decimal("1e-77"), Decimal("1e999999")):
        with pytest.raises(pilum.InvalidInputError, match="more than 76 digits"):
            ds.count_rows(pilum.col("m") == value)
