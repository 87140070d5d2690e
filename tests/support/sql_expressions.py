"""Random SQL expressions of every type, in text that DuckDB reads too, and rows for them."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa

TEXTS = ["", "a", "ab", "abc", " b ", "xyx", "äöü", "a%b", "a_", "A\nb", "zzz", "1", "2.5", "aab"]
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int32()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("m", pa.decimal128(12, 2)),
        ("s", pa.string()),
        ("p", pa.string()),
        ("k", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("l", pa.list_(pa.int64())),
        ("w", pa.list_(pa.string())),
        ("st", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ("mp", pa.map_(pa.string(), pa.int64())),
    ]
)


def rows(r: random.Random, count: int) -> pa.Table:
    """Return rows in which every column has nulls and the edges of its type."""

    def maybe(value: Any) -> Any:
        return None if r.random() < 0.15 else value

    def row() -> dict[str, Any]:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=r.randrange(-(10**15), 2 * 10**15))
        return {
            "i": maybe(r.randrange(-9, 10)),
            "j": maybe(r.choice([0, 1, -1, 7, 1000])),
            "f": maybe(r.choice([0.0, -0.0, 1.5, -2.5, 1e10, math.nan, math.inf, -math.inf, r.uniform(-100, 100)])),
            "g": maybe(r.choice([0.0, 0.5, -1.25, 3.0, 1024.0])),
            "m": maybe(Decimal(r.randrange(-100_000, 100_000)).scaleb(-2)),
            "s": maybe(r.choice(TEXTS)),
            "p": maybe(r.choice(TEXTS)),
            "k": maybe(r.random() < 0.5),
            "day": maybe(moment.date()),
            "ts": maybe(moment),
            "l": maybe([maybe(r.randrange(-3, 4)) for _ in range(r.randrange(4))]),
            "w": maybe([maybe(r.choice(TEXTS)) for _ in range(r.randrange(4))]),
            "st": maybe({"x": maybe(r.randrange(5)), "y": maybe(r.choice(TEXTS))}),
            "mp": maybe([(key, maybe(r.randrange(5))) for key in r.sample(["a", "b", "c"], r.randrange(3))]),
        }

    return pa.Table.from_pylist([row() for _ in range(count)], SCHEMA)


class Expressions:
    """Random expressions by type, in text that DuckDB reads too."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.used: Counter[str] = Counter()

    def pick(self, depth: int, leaves: list[str], forms: list[tuple[str, str]]) -> str:
        """Return a leaf, or a form with its capital letters filled: `I` an integer, `N` a number, `T` a text, and so on."""
        if depth <= 0 or self.r.random() < 0.25:
            return self.r.choice(leaves)
        name, form = self.r.choice(forms)
        self.used[name] += 1
        places = {
            "I": self.integer,
            "N": self.number,
            "F": self.floating,
            "T": self.text,
            "B": self.condition,
            "D": self.moment,
        }
        return "".join(places[c](depth - 1) if c in places else c for c in form)

    def integer(self, depth: int) -> str:
        return self.pick(
            depth,
            ["i", "j", "st.x", str(self.r.randrange(-4, 9))],
            [
                ("+", "(I + I)"),
                ("-", "(I - I)"),
                ("*", "(I * I)"),
                ("//", "(I // I)"),
                ("%", "(I % I)"),
                ("negation", "(- I)"),
                ("length", "length(T)"),
                ("len", "len(l)"),
                ("abs", "abs(I)"),
                ("strpos", "strpos(T, T)"),
                ("position", "position(T in T)"),
                ("instr", "instr(T, T)"),
                *((part, f"{part}(D)") for part in ("year", "month", "day", "hour", "minute", "second")),
                *(
                    (f"date_part {part}", f"date_part('{part}', D)")
                    for part in ("quarter", "week", "dow", "isodow", "doy", "millisecond", "microsecond", "year")
                ),
                *((f"extract {part}", f"extract({part} from D)") for part in ("month", "week", "hour", "quarter")),
                ("list item", "l[I]"),
                ("member", "st['x']"),
                ("key", "mp['a']"),
                ("computed key", "mp[T]"),
                ("case", "case when B then I else I end"),
                ("coalesce", "coalesce(I, I)"),
                ("cast", "cast(I as bigint)"),
                ("round", "round(I, -1)"),
                ("floor", "cast(floor(I) as bigint)"),
            ],
        )

    def floating(self, depth: int) -> str:
        return self.pick(
            depth,
            ["f", "1.5e0", "-2.5e0", "g"],
            [
                ("/", "(I / I)"),
                ("+", "(F + F)"),
                ("-", "(F - F)"),
                ("*", "(F * I)"),
                ("%", "(F % I)"),
                ("round", "round(F)"),
                ("round digits", f"round(F, {self.r.randrange(-2, 4)})"),
                ("floor", "floor(F)"),
                ("ceil", "ceil(F)"),
                ("ceiling", "ceiling(F)"),
                ("trunc", "trunc(F)"),
                ("abs", "abs(F)"),
                ("epoch", "date_part('epoch', D)"),
                ("cast", "cast(I as double)"),
                ("try_cast", "try_cast(T as double)"),
            ],
        )

    def decimal(self, depth: int) -> str:
        return self.pick(
            depth,
            ["m"],
            [
                ("round decimal", f"round(m, {self.r.randrange(-3, 4)})"),
                ("round decimal", "round(m)"),
                ("floor decimal", "floor(m)"),
                ("ceil decimal", "ceil(m)"),
                ("trunc decimal", "trunc(m)"),
                ("trunc digits", f"trunc(m, {self.r.randrange(0, 3)})"),
                ("abs decimal", "abs(m)"),
                ("decimal +", "(m + I)"),
            ],
        )

    def number(self, depth: int) -> str:
        return self.r.choice([self.integer, self.integer, self.floating, self.decimal])(depth)

    def text(self, depth: int) -> str:
        literal = "'" + self.r.choice([text for text in TEXTS if "\n" not in text]) + "'"
        # DuckDB has two answers for positions in front of a text, one for literals and one for columns.
        start = self.r.randrange(5)
        return self.pick(
            depth,
            ["s", "p", "st.y", literal],
            [
                ("||", "(T || T)"),
                ("concat", "concat(T, T)"),
                ("concat three", "concat(T, T, T)"),
                ("substring", f"substring(T, {start}, length(T))"),
                ("substr", f"substr(T, {start})"),
                ("substring from", f"substring(T from {start} for {self.r.randrange(4)})"),
                ("trim", "trim(T)"),
                ("ltrim", "ltrim(T)"),
                ("rtrim", "rtrim(T)"),
                ("trim set", "trim(T, T)"),
                ("ltrim set", "ltrim(T, T)"),
                ("rtrim set", "rtrim(T, T)"),
                ("trim both", "trim(both 'ab' from T)"),
                ("trim leading", "trim(leading 'a' from T)"),
                ("replace", "replace(T, T, T)"),
                ("lower", "lower(T)"),
                ("upper", "upper(T)"),
                ("list text", "w[I]"),
                ("member text", "st['y']"),
                ("case text", "case when B then T end"),
                ("coalesce text", "coalesce(T, T)"),
                ("cast text", "cast(I as varchar)"),
            ],
        )

    def moment(self, depth: int) -> str:
        unit = self.r.choice(
            ["second", "minute", "hour", "day", "week", "month", "quarter", "year", "millisecond", "microsecond"]
        )
        return self.pick(
            depth,
            ["day", "ts", "TIMESTAMP '2024-02-29 23:59:59.5'", "DATE '2021-01-03'"],
            [
                ("date_trunc", f"date_trunc('{unit}', D)"),
                ("datetrunc", f"datetrunc('{unit}', D)"),
                ("cast date", "cast(ts as date)"),
                ("cast timestamp", "cast(day as timestamp)"),
            ],
        )

    def pattern(self) -> str:
        # Anchors stay at the ends: DuckDB drops them elsewhere, and finds '$a' in 'a'.
        parts = ["a", "b", "x", "[a-c]", ".", ".*", "(a|x)", "b?", "ä", "z{2}", "[^a]", r"\d"]
        middle = "".join(self.r.choice(parts) for _ in range(self.r.randrange(1, 4)))
        return f"'{self.r.choice(['', '^'])}{middle}{self.r.choice(['', '$'])}'"

    def condition(self, depth: int) -> str:
        return self.pick(
            depth,
            ["k", "k", "TRUE", "(i > 0)"],
            [
                *((op, f"(N {op} N)") for op in ("=", "<>", "<", "<=", ">", ">=")),
                ("text order", "(T < T)"),
                ("text equality", "(T = T)"),
                ("time order", "(D < D)"),
                ("and", "(B and B)"),
                ("or", "(B or B)"),
                ("not", "(not B)"),
                ("is null", "(N is null)"),
                ("is not null", "(T is not null)"),
                ("is true", "(B is true)"),
                ("is not false", "(B is not false)"),
                ("is distinct from", "(I is distinct from I)"),
                ("is not distinct from", "(T is not distinct from T)"),
                ("in", "(I in (I, 2, null, -1))"),
                ("not in", "(T not in (T, 'a'))"),
                ("between", "(I between I and I)"),
                ("like", "(T like T)"),
                ("ilike", "(T ilike '%A%')"),
                ("regexp_matches", f"regexp_matches(T, {self.pattern()})"),
                ("similar to", f"(T similar to {self.pattern()})"),
                ("not similar to", f"(T not similar to {self.pattern()})"),
                ("starts_with", "starts_with(T, T)"),
                ("ends_with", "ends_with(T, T)"),
                ("contains", "contains(T, T)"),
                ("isnan", "isnan(F)"),
                ("isfinite", "isfinite(F)"),
                ("isinf", "isinf(F)"),
                ("list_contains", "list_contains(l, I)"),
                ("list_contains text", "list_contains(w, T)"),
                ("list_has", "list_has(l, 1)"),
            ],
        )

    def any(self) -> str:
        kind = self.r.choice([self.integer, self.floating, self.decimal, self.text, self.moment, self.condition])
        return kind(self.r.choice([1, 1, 2, 3]))
