"""Random predicates in the SQL that pilum and DuckDB share, over random tables that give their statistics something to do."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

EPOCH = dt.datetime(2026, 1, 1)
WORDS = ["", "a", "ab", "abc", "b", "ba", "Abc", "a%b", "a_", "x!y", "é", "日本", "it's", "zz", "aaaaaaaaaaaaaaaaaaaa"]

SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64(), False),
        ("t", pa.int8()),
        ("i", pa.int32()),
        ("k", pa.int64()),
        ("u", pa.uint16()),
        # Extremes, which arithmetic would take out of their range and floats could not tell apart: for comparisons alone.
        ("e", pa.int64()),
        ("v", pa.uint64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("m", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("c", pa.dictionary(pa.int8(), pa.string())),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("tm", pa.timestamp("ms")),
        ("st", pa.struct([("n", pa.int32()), ("w", pa.string())])),
    ]
)


def table(r: random.Random) -> pa.Table:
    """Return a random table. `row` counts; other columns are random, constant or in order, with few or many nulls."""
    rows = r.choice([0, 1, 5, 40, 100, 250])
    columns = [_column(r, field, rows) for field in SCHEMA]
    return pa.table(columns, schema=SCHEMA)


def _column(r: random.Random, field: pa.Field, rows: int) -> pa.Array:
    if field.name == "row":
        return pa.array(range(rows), field.type)
    if pa.types.is_struct(field.type):
        members = [_column(r, member, rows) for member in field.type]
        return pa.StructArray.from_arrays(members, fields=list(field.type), mask=pa.array(_holes(r, rows), pa.bool_()))
    make = _MAKERS[field.name]
    values = [make(r) for _ in range(rows)]
    order = r.random()
    if order < 0.5:
        values.sort(key=lambda value: (isinstance(value, float) and math.isnan(value), value))
    elif order < 0.6:
        values = values[:1] * rows
    values = [None if hole else value for value, hole in zip(values, _holes(r, rows), strict=True)]
    if pa.types.is_dictionary(field.type):
        words = sorted({value for value in values if value is not None})
        keys = pa.array([None if value is None else words.index(value) for value in values], field.type.index_type)
        return pa.DictionaryArray.from_arrays(keys, pa.array(words, pa.string()))
    return pa.array(values, field.type)


def _holes(r: random.Random, rows: int) -> list[bool]:
    share = r.choice([0, 0, 0.1, 0.5, 1])
    first = r.randrange(rows + 1)
    if r.random() < 0.3:  # all in one place, so that some pages hold nothing else
        return [first <= row < first + rows * share for row in range(rows)]
    return [r.random() < share for _ in range(rows)]


def _double(r: random.Random) -> float:
    return r.choice([r.randint(-40, 40) / 4, r.randint(-40, 40) / 4, 0.1, -0.0, math.nan, math.inf, -math.inf, 1e300])


_MAKERS: dict[str, Callable[[random.Random], Any]] = {
    "t": lambda r: r.choice([r.randint(-9, 9), -128, 127]),
    "i": lambda r: r.choice([r.randint(-20, 20), r.randint(-1000, 1000)]),
    "k": lambda r: r.choice([r.randint(-20, 20), r.randint(-(2**30), 2**30)]),
    "u": lambda r: r.choice([r.randint(0, 30), 65535]),
    "e": lambda r: r.choice([r.randint(-9, 9), 2**63 - 1, -(2**63), 2**53 + 1, 2**63 - 2]),
    "v": lambda r: r.choice([r.randint(0, 9), 2**64 - 1, 2**63, 2**53 + 1]),
    "f": _double,
    "g": lambda r: r.choice([r.randint(-40, 40) / 4, 0.1, 2.7, -0.0, math.nan, math.inf]),
    "m": lambda r: Decimal(r.choice([r.randint(-900, 900), r.randint(-(10**9) + 1, 10**9 - 1)])).scaleb(-2),
    "s": lambda r: r.choice(WORDS),
    "c": lambda r: r.choice(WORDS[:6]),
    "b": lambda r: r.random() < 0.5,
    "d": lambda r: EPOCH.date() + dt.timedelta(days=r.randint(-400, 400)),
    "ts": lambda r: EPOCH + dt.timedelta(hours=r.randint(-9000, 9000), microseconds=r.choice([0, 0, 1, 999_999])),
    "tm": lambda r: EPOCH + dt.timedelta(hours=r.randint(-9000, 9000), milliseconds=r.choice([0, 1])),
    "n": lambda r: r.randint(-9, 9),
    "w": lambda r: r.choice(WORDS),
}

COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


class Predicates:
    """Predicates over the columns of `SCHEMA`, as many as asked for."""

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def condition(self, depth: int = 3) -> str:
        """Return a condition: of three-valued logic over conditions, or about values."""
        r = self.r
        if depth and r.random() < 0.55:
            one, two = self.condition(depth - 1), self.condition(depth - 1)
            return r.choice([f"({one} AND {two})", f"({one} OR {two})", f"NOT ({one})", f"({one} AND {two} AND b)"])
        return r.choice(
            [self.of_numbers, self.of_numbers, self.of_extremes, self.of_texts, self.of_moments, self.of_any]
        )()

    def of_numbers(self) -> str:
        """Return a condition about numbers."""
        r, one = self.r, self.number(2)
        return r.choice(
            [
                f"{one} {r.choice(COMPARISONS)} {self.number(1)}",
                f"{self.whole_column()} {r.choice(COMPARISONS)} {self.number_literal()}",
                f"{one} BETWEEN {self.number_literal()} AND {self.number(1)}",
                f"{one} {self.maybe_not()}IN ({self.several(self.number_literal)})",
                f"{self.whole_column()} {self.maybe_not()}IN ({self.several(self.number_literal)})",
                f"COALESCE({self.number(1)}, {self.number_literal()}) {r.choice(COMPARISONS)} {one}",
                f"CASE WHEN {self.condition(1)} THEN {self.number(1)} ELSE {self.number_literal()} END = {one}",
            ]
        )

    def of_extremes(self) -> str:
        """Return a condition about integers next to the ends of their types."""
        r = self.r
        ends = ["9223372036854775807", "-9223372036854775808", "9223372036854775806", "18446744073709551615", "0", "3"]
        ends += ["9223372036854775808", "9007199254740993", "-1", "2.5", "-7"]
        column = r.choice(["e", "v"])
        return r.choice(
            [
                f"{column} {r.choice(COMPARISONS)} {r.choice(ends)}",
                f"{column} {r.choice(COMPARISONS)} {r.choice(['e', 'v', 'i', 'u', 'k'])}",
                f"{column} {self.maybe_not()}IN ({self.several(lambda: r.choice(ends))})",
            ]
        )

    def of_texts(self) -> str:
        """Return a condition about texts."""
        r, one = self.r, self.text(1)
        like = r.choice(["LIKE", "LIKE", "ILIKE"])
        return r.choice(
            [
                f"{one} {r.choice(COMPARISONS)} {self.text(1)}",
                f"{self.text(0)} {r.choice(COMPARISONS)} {quoted(r.choice(WORDS))}",
                f"{one} {self.maybe_not()}{like} {quoted(self.pattern())}",
                f"s LIKE {quoted(r.choice(WORDS) + '%')}",
                f"{one} {like} {quoted(self.pattern())} ESCAPE '!'",
                f"{one} LIKE {self.text(0)}",
                f"{r.choice(['STARTS_WITH', 'ENDS_WITH', 'CONTAINS'])}({one}, {quoted(r.choice(WORDS))})",
                f"{one} {self.maybe_not()}IN ({self.several(lambda: quoted(r.choice(WORDS)))})",
                f"LENGTH({one}) {r.choice(COMPARISONS)} {r.randint(0, 5)}",
            ]
        )

    def of_moments(self) -> str:
        """Return a condition about dates and timestamps."""
        r, one = self.r, self.moment(1)
        part = r.choice(["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"])
        return r.choice(
            [
                f"{one} {r.choice(COMPARISONS)} {self.moment(1)}",
                f"{one} {r.choice(COMPARISONS)} {self.moment_literal()}",
                f"{self.moment(0)} BETWEEN {self.moment_literal()} AND {self.moment_literal()}",
                f"{self.moment(0)} {self.maybe_not()}IN ({self.several(self.moment_literal)})",
                f"{part}({one}) {r.choice(COMPARISONS)} {r.choice([0, 1, 2, 6, 12, 2025, 2026])}",
                f"YEAR({self.moment(0)}) = {r.choice([2025, 2026])}",
                f"CAST({one} AS DATE) {r.choice(COMPARISONS)} {self.date()}",
            ]
        )

    def of_any(self) -> str:
        """Return a condition about any value."""
        r = self.r
        value = r.choice(
            [lambda: self.number(1), lambda: self.text(1), lambda: self.moment(1), lambda: "b", lambda: "st.n"]
        )
        return r.choice(
            [
                f"{value()} IS {self.maybe_not()}NULL",
                "b",
                f"b {r.choice(COMPARISONS)} {r.choice(['TRUE', 'FALSE', 'NULL'])}",
                f"{self.number(1)} = NULL",
                f"row {r.choice(COMPARISONS)} {r.randint(-1, 260)}",
                f"row % {r.randint(2, 9)} = {r.randint(0, 3)}",
            ]
        )

    def number(self, depth: int) -> str:
        """Return a number; small enough that arithmetic seldom leaves its type."""
        r = self.r
        if depth == 0 or r.random() < 0.4:
            return r.choice([self.whole_column(), self.whole_column(), r.choice("fgm")])
        one = self.number(depth - 1)
        two = self.number_literal() if r.random() < 0.7 else self.number(depth - 1)
        wide = f"CAST({self.whole_column()} AS BIGINT)"
        return r.choice(
            [
                f"({one} + {two})",
                f"({one} - {two})",
                f"({wide} * {two})",
                f"({one} / {two})",
                f"({wide} // {r.choice([0, 1, 3, -2, 7])})",
                f"({one} % {r.choice([2, 3, 7, 0])})",
                f"(- {wide})",
                f"ABS({wide})",
                f"CAST({one} AS {r.choice(['BIGINT', 'DOUBLE', 'FLOAT', 'INTEGER', 'DECIMAL(18, 3)'])})",
                f"LENGTH({self.text(0)})",
            ]
        )

    def whole_column(self) -> str:
        """Return a column of integers."""
        return self.r.choice(["t", "i", "k", "u", "i", "k", "row", "st.n"])

    def number_literal(self) -> str:
        """Return a number as it is written."""
        r = self.r
        return r.choice(
            [
                str(r.randint(-20, 20)),
                str(r.randint(-300, 300)),
                f"{r.randint(-40, 40) / 4}",
                "0.1",
                "2.7",
                "1e0",
                "2.5e-1",
            ]
        )

    def text(self, depth: int) -> str:
        """Return a text."""
        r = self.r
        if depth == 0 or r.random() < 0.6:
            return r.choice(["s", "s", "c", "st.w"])
        return r.choice(
            [
                f"LOWER({self.text(0)})",
                f"UPPER({self.text(0)})",
                f"COALESCE({self.text(0)}, {quoted(r.choice(WORDS))})",
                f"CAST({self.whole_column()} AS VARCHAR)",
                f"CASE WHEN {self.condition(0)} THEN {self.text(0)} END",
            ]
        )

    def pattern(self) -> str:
        """Return a pattern of LIKE; `!` only where it escapes something."""
        r = self.r
        return "".join(r.choice(["a", "b", "%", "_", "c", "日", "!%", "!_", "A"]) for _ in range(r.randint(0, 4)))

    def moment(self, depth: int) -> str:
        """Return a date or a timestamp."""
        r = self.r
        if depth == 0 or r.random() < 0.6:
            return r.choice(["d", "ts", "tm"])
        span = r.choice(["1 day", "36 hours", "1 month", "15 minutes", "1 second", "2 years"])
        return f"({self.moment(0)} {r.choice('+-')} INTERVAL '{span}')"

    def moment_literal(self) -> str:
        """Return a date or a timestamp as it is written."""
        r = self.r
        at = EPOCH + dt.timedelta(hours=r.randint(-9000, 9000), microseconds=r.choice([0, 0, 1, 1000]))
        return r.choice([self.date(), f"TIMESTAMP '{at}'"])

    def date(self) -> str:
        """Return a date as it is written."""
        return f"DATE '{EPOCH.date() + dt.timedelta(days=self.r.randint(-400, 400))}'"

    def several(self, one: Callable[[], str]) -> str:
        """Return the members of a list, NULL among them at times."""
        members = [one() for _ in range(self.r.choice([1, 2, 3, 7]))]
        return ", ".join([*members, "NULL"] if self.r.random() < 0.15 else members)

    def maybe_not(self) -> str:
        """Return NOT now and then."""
        return self.r.choice(["", "", "NOT "])


def quoted(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("'", "''") + "'"
