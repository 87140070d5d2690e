"""Thousands of random conditions of `pyarrow.compute` keep the rows that pyarrow keeps."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from pilum import pyarrow_expr
from support.sql_expressions import TEXTS, rows

CASES = 5_000 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
SEEDS = 5

PATTERNS = ["^a", "b$", "[a-y]{2}", "x|%", ".", "ä"]


class Conditions:
    """Random expressions of pyarrow over the columns of `rows`."""

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def number(self, depth: int) -> pc.Expression:
        r = self.r
        if depth <= 0:
            return r.choice(
                [pc.field("i"), pc.field("j"), pc.field("f"), pc.field("g"), pc.field("st", "x"), pc.scalar(3)]
            )
        form = r.randrange(9)
        if form < 3:
            operate = [pc.add, pc.subtract, pc.multiply][form]
            return operate(pc.field(r.choice("ij")), pc.scalar(r.randrange(-3, 4)))
        if form == 3:
            return r.choice([pc.floor, pc.ceil, pc.trunc, pc.abs])(pc.field(r.choice("fg")))
        if form == 4:
            return r.choice([pc.utf8_length, pc.binary_length])(self.text(0))
        if form == 5:
            return r.choice([pc.year, pc.month, pc.day])(pc.field(r.choice(["day", "ts"])))
        if form == 6:
            return r.choice([pc.hour, pc.minute, pc.second])(pc.field("ts"))
        if form == 7:
            return pc.list_value_length(pc.field(r.choice("lw")))
        return pc.coalesce(pc.field("i"), pc.field("st", "x"))

    def text(self, depth: int) -> pc.Expression:
        of = pc.field(self.r.choice(["s", "p"]))
        return self.r.choice([pc.utf8_upper, pc.utf8_lower])(of) if depth > 0 and self.r.random() < 0.5 else of

    def leaf(self) -> pc.Expression:
        r = self.r
        compare = r.choice(
            [
                lambda a, b: a == b,
                lambda a, b: a != b,
                lambda a, b: a < b,
                lambda a, b: a <= b,
                lambda a, b: a > b,
                lambda a, b: a >= b,
            ]
        )
        form = r.randrange(9)
        if form < 2:
            return compare(self.number(1), self.number(r.randrange(2)))
        if form == 2:
            return compare(self.text(1), r.choice([pc.scalar(r.choice(TEXTS)), self.text(0)]))
        if form == 3:
            name = r.choice(["i", "f", "s", "day", "ts", "m", "k"])
            return r.choice([pc.field(name).is_null(), pc.field(name).is_valid()])
        if form == 4:
            values: list[Any] = [r.choice([None, *range(-4, 5)]) for _ in range(r.randrange(5))]
            return pc.is_in(pc.field("i"), pa.array(values, pa.int64()), skip_nulls=r.random() < 0.5)
        if form == 5:
            values = [r.choice([None, *TEXTS]) for _ in range(r.randrange(5))]
            return pc.is_in(pc.field("s"), pa.array(values, pa.string()), skip_nulls=r.random() < 0.5)
        if form == 6:
            of = pc.field(r.choice("fg"))
            return r.choice([pc.is_nan(of), pc.is_finite(of), pc.is_inf(of), of.is_null(nan_is_null=True)])
        if form == 7:
            if r.random() < 0.4:
                return pc.match_substring_regex(self.text(0), r.choice(PATTERNS), ignore_case=r.random() < 0.3)
            test = r.choice([pc.starts_with, pc.ends_with, pc.match_substring])
            return test(self.text(1), r.choice([text for text in TEXTS if text]))
        return pc.match_like(pc.field("s"), r.choice(["a%", "%b", "_", "%", "a_", "%x%"]))

    def condition(self, depth: int) -> pc.Expression:
        r = self.r
        if depth <= 0 or r.random() < 0.3:
            return pc.field("k") if r.random() < 0.1 else self.leaf()
        form, inner = r.randrange(5), self.condition
        if form == 0:
            return inner(depth - 1) & inner(depth - 1)
        if form == 1:
            return inner(depth - 1) | inner(depth - 1)
        if form == 2:
            return ~inner(depth - 1)
        if form == 3:
            return pc.xor(inner(depth - 1), inner(depth - 1))
        return pc.if_else(inner(depth - 1), inner(depth - 1), inner(depth - 1))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_conditions_keep_the_rows_of_pyarrow(seed: int, tmp_path: Path) -> None:
    r = random.Random(seed)
    made = Conditions(r)
    t = rows(r, 40)
    t = t.append_column("row", pa.array(range(t.num_rows)))
    ds = pilum.write_dataset(t, tmp_path / "t", max_rows_per_page=8, durability="none").dataset
    compared = 0
    for _ in range(CASES // SEEDS):
        condition = made.condition(r.randrange(4))
        try:
            want = t.filter(condition)["row"].to_pylist()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        compared += 1
        assert ds.to_table(columns=["row"], filter=condition)["row"].to_pylist() == want, f"seed {seed}: {condition}"
        if compared % 10 == 0:
            walked = pyarrow_expr.expression(condition)
            assert ds.to_table(columns=["row"], filter=walked)["row"].to_pylist() == want, f"seed {seed}: {walked}"
    assert compared > 0.8 * CASES / SEEDS, compared
