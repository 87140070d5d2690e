"""`ds.lazy()`: which predicates are pushed down, and that every result is that of Polars on the same rows."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
import zoneinfo
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import pilum
from pilum.lazy import condition

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
DAY = dt.datetime(2026, 1, 1)
CASES = 5000 * int(os.environ.get("PILUM_TEST_SCALE", "1"))


def holes(r: random.Random, values: list) -> list:
    return [None if r.random() < 0.1 else value for value in values]


def rows(r: random.Random, count: int) -> pa.Table:
    """Return columns of many types; most of them rise, so that the statistics of pages exclude some."""
    rising = sorted(r.randint(-200, 200) for _ in range(count))
    moments = [DAY + dt.timedelta(hours=value, microseconds=value) for value in rising]
    odd = [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 2.0**53, 1e300]
    floats = [value * 0.5 if r.random() < 0.9 else r.choice(odd) for value in rising]
    names = ["", "a", "ab", "ä", "z'", "\U0001f600", "Ab", "%"]
    columns = {
        "row": pa.array(range(count), pa.int64()),
        "i8": pa.array(holes(r, [max(-128, min(127, value)) for value in rising]), pa.int8()),
        "i64": pa.array(holes(r, [value if r.random() < 0.9 else value * 2**54 + 1 for value in rising]), pa.int64()),
        "u8": pa.array(holes(r, [abs(value) for value in rising]), pa.uint8()),
        "u64": pa.array(holes(r, [2**64 - 1 - abs(value) for value in rising]), pa.uint64()),
        "f32": pa.array(holes(r, floats), pa.float64()).cast(pa.float32(), safe=False),
        "f64": pa.array(holes(r, floats), pa.float64()),
        "b": pa.array(holes(r, [value > 0 for value in rising])),
        "s": pa.array(holes(r, [r.choice(names) + str(value) * (r.random() < 0.5) for value in rising])),
        "ls": pa.array(holes(r, [f"{value + 200:04}" for value in rising]), pa.large_string()),
        "c": pa.array(holes(r, [r.choice(names) for _ in rising])).dictionary_encode(),
        "bin": pa.array(holes(r, [bytes([value % 256, 0]) for value in rising]), pa.binary()),
        "d": pa.array(holes(r, [(DAY + dt.timedelta(days=value)).date() for value in rising])),
        "t_s": pa.array(holes(r, moments), pa.timestamp("us")).cast(pa.timestamp("s"), safe=False),
        "t_ms": pa.array(holes(r, moments), pa.timestamp("us")).cast(pa.timestamp("ms"), safe=False),
        "t_us": pa.array(holes(r, moments), pa.timestamp("us")),
        "t_ns": pa.array(holes(r, moments), pa.timestamp("us")).cast(pa.timestamp("ns")),
        "z_utc": pa.array(holes(r, moments), pa.timestamp("us", "UTC")),
        "z_berlin": pa.array(holes(r, moments), pa.timestamp("us", "Europe/Berlin")),
        "time": pa.array(
            holes(r, [(moment.hour * 3600 + moment.minute) * 10**9 + 7 for moment in moments]), pa.time64("ns")
        ),
        "dec": pa.array(holes(r, [Decimal(value) / 4 for value in rising]), pa.decimal128(20, 2)),
        "list": pa.array([[value] for value in rising]),
        "struct": pa.array([{"x": value} for value in rising]),
    }
    return pa.table(columns)


class Predicates:
    """Random predicates of Polars over the columns of `rows`."""

    def __init__(self, r: random.Random, frame: pl.DataFrame) -> None:
        self.r = r
        self.frame = frame
        self.values = {name: frame[name].drop_nulls().unique().to_list() for name in frame.columns}

    def any(self, depth: int = 3) -> pl.Expr:
        if depth == 0 or self.r.random() < 0.3:
            return self.leaf()
        match self.r.randrange(4):
            case 0:
                return self.any(depth - 1) & self.any(depth - 1)
            case 1:
                return self.any(depth - 1) | self.any(depth - 1)
            case 2:
                return ~self.any(depth - 1)
        return self.leaf()

    def literal(self, name: str) -> object:
        value = self.r.choice(self.values[name])
        kind = self.frame.schema[name]
        nudge = self.r.choice([0, 0, 0, -1, 1])
        if kind.is_float():
            value = self.r.choice([value, value, 0.1, self.r.uniform(-50, 50)])
        elif kind.is_integer():
            low, high = (kind.min(), kind.max())
            value = max(pl.select(low).item(), min(pl.select(high).item(), value + nudge))
        elif kind == pl.Decimal:
            value = value + nudge * self.r.choice([Decimal("0.01"), Decimal("0.001"), Decimal(1)])
        elif kind == pl.Date:
            value = value + dt.timedelta(days=nudge)
        elif kind == pl.Datetime:
            value = value + nudge * self.r.choice(
                [dt.timedelta(microseconds=1), dt.timedelta(milliseconds=1), dt.timedelta(hours=1)]
            )
        elif kind == pl.String:
            value = self.r.choice([value, value[:1], value + "a"])
        return value

    def compared(self, column: pl.Expr, value: object) -> pl.Expr:
        match self.r.randrange(8):
            case 0:
                return column < value
            case 1:
                return column <= value
            case 2:
                return column > value
            case 3:
                return column >= value
            case 4:
                return column == value
            case 5:
                return column != value
            case 6:
                return column.eq_missing(value)
        return column.ne_missing(value)

    def leaf(self) -> pl.Expr:
        name = self.r.choice([name for name in self.frame.columns if name not in {"list", "struct"}])
        column, kind = pl.col(name), self.frame.schema[name]
        match self.r.randrange(12):
            case 0:
                return column.is_null() if self.r.random() < 0.5 else column.is_not_null()
            case 1:
                values = pl.Series([self.literal(name) for _ in range(self.r.randrange(6))], dtype=kind, strict=False)
                values = values.extend(pl.Series([None], dtype=kind)) if self.r.random() < 0.3 else values
                return column.is_in(values.implode(), nulls_equal=self.r.random() < 0.3)
            case 2 if kind != pl.Boolean and not isinstance(kind, pl.Categorical):
                closed = self.r.choice(["both", "left", "right", "none"])
                return column.is_between(pl.lit(self.literal(name)), pl.lit(self.literal(name)), closed=closed)
            case 3 if kind == pl.String:
                return column.str.starts_with(self.r.choice(["", "a", "ä", "A", "z'", "00"]))
            case 4 if kind.is_integer():
                return self.compared(column, self.r.choice([-0.5, 0.5, 1.0, 2.0**53, 1e19, -1e300, 17.25]))
            case 5 if kind == pl.Date:
                return self.compared(column, DAY + dt.timedelta(hours=self.r.randint(-3000, 3000)))
            case 6:
                return self.r.choice([pl.col("b"), ~pl.col("b"), pl.col("b") == True, pl.lit(True), pl.lit(False)])  # noqa: E712
            case 7:
                return self.unknown()
        value = self.literal(name)
        if kind == pl.Datetime and kind.time_zone is not None:
            value = pl.lit(value).dt.convert_time_zone(kind.time_zone)
        return (
            self.compared(column, value)
            if self.r.random() < 0.8 or kind == pl.Boolean
            else self.compared(value if isinstance(value, pl.Expr) else pl.lit(value), column)
        )

    def unknown(self) -> pl.Expr:
        """Return a predicate that is never pushed down."""
        return self.r.choice(
            [
                pl.col("f64").is_nan(),
                pl.col("i64") % 3 == 1,
                pl.col("i8") > pl.col("f64"),
                pl.col("s").str.contains("a"),
                pl.col("d").dt.weekday() < 4,
                pl.col("list").list.len() > 0,
                pl.col("struct").struct.field("x") > 3,
                pl.col("f32") > pl.col("f32").mean(),
                pl.col("i64").is_null() == pl.col("b"),
                pl.any_horizontal(pl.col("b"), pl.col("i8") > 0),
            ]
        )


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    path = tmp_path_factory.mktemp("lazy") / "t"
    table = rows(random.Random(14), 1000)
    return pilum.write_dataset(table, path, max_rows_per_page=64, max_rows_per_file=300, durability="none")


@pytest.fixture
def pushed(monkeypatch):
    """Return a list that gets every condition that is given to the engine, None where there is none."""
    seen = []

    def spy(predicate, schema):
        seen.append(condition(predicate, schema))
        return seen[-1]

    monkeypatch.setattr("pilum.lazy.condition", spy)
    return seen


def test_random_predicates_answer_as_polars_does(ds, pushed):
    seed = int(os.environ.get("PILUM_TEST_SEED", "5"))
    r = random.Random(seed)
    frame, lazy = ds.to_polars(), ds.lazy()
    predicates = Predicates(r, frame)
    checked = 0
    for case in range(CASES):
        predicate = predicates.any()
        try:
            want = frame.filter(predicate)
        except pl.exceptions.PolarsError:
            continue
        # Most cases compare row numbers alone, which is quicker; every twentieth one compares whole rows.
        query = lazy.filter(predicate)
        if case % 20:
            query, want = query.select("row"), want.select("row")
        got = query.collect()
        assert got.equals(want), f"seed {seed}, case {case}: {predicate}: {got.height} rows, {want.height} expected"
        checked += 1
    assert checked > 0.9 * CASES
    known = sum(text is not None for text in pushed)
    assert known > 0.4 * checked, f"{known} of {checked} predicates were pushed"


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        (pl.col("i64") > 5, "(`i64` > 5)"),
        (pl.lit(5) > pl.col("i64"), "(`i64` < 5)"),
        (pl.col("i64") > 1.5, "(`i64` > 1)"),
        ((pl.col("i64") > 5) & pl.col("s").str.contains("a"), "((`i64` > 5))"),
        ((pl.col("i64") > 5) | pl.col("s").str.contains("a"), None),
        (~pl.col("b"), "(NOT `b`)"),
        (pl.col("f32") > 0.1, "(`f32` > 0.10000000149011612e0)"),
        (pl.col("f64") > math.nan, None),
        (pl.col("s").is_in(["a", "it's"]), "(`s` IN ('a', 'it''s'))"),
        (pl.col("d") > dt.datetime(2026, 1, 1, 12), "(`d` > DATE '2026-01-01')"),
        (pl.col("t_us") == DAY, "(`t_us` = TIMESTAMP '2026-01-01 00:00:00.000000000')"),
        (pl.col("z_utc") == DAY.replace(tzinfo=dt.UTC), "(`z_utc` = TIMESTAMP '2026-01-01 00:00:00.000000000+00:00')"),
        (pl.col("dec") <= Decimal("-1.25"), "(`dec` <= -1.25)"),
        (pl.col("i64") + 1 > 5, None),
        (pl.col("struct").struct.field("x") > 1, None),
        (pl.col("i64").is_in(list(range(5000))), "(`i64` BETWEEN 0 AND 4999)"),
    ],
    ids=str,
)
def test_what_is_pushed(predicate, sql, ds, pushed):
    ds.lazy().filter(predicate).collect()
    assert pushed == [sql]


def scans(ds, monkeypatch):
    """Return a list that gets the arguments of every scan, and its scanner."""
    seen = []
    original = pilum.Dataset.scanner

    def spy(self, columns=None, condition=None, **options):
        scan = original(self, columns, condition, **options)
        seen.append((columns, condition, options.get("limit"), scan))
        return scan

    monkeypatch.setattr(pilum.Dataset, "scanner", spy)
    return seen


def test_columns_and_the_number_of_rows_are_pushed(ds, monkeypatch):
    seen = scans(ds, monkeypatch)
    lazy = ds.lazy()
    assert lazy.select("s", "i8").head(7).collect().shape == (7, 2)
    columns, condition, limit, _ = seen.pop()
    assert (sorted(columns), condition, limit) == (["i8", "s"], None, 7)
    assert lazy.select(pl.len()).collect().item() == 1000
    assert len(seen.pop()[0]) <= 1
    # A limit counts rows before the predicate here, and after it there.
    frame = ds.to_polars()
    above = pl.col("i64") > 0
    assert lazy.head(500).filter(above).collect().equals(frame.head(500).filter(above))
    assert lazy.filter(above).head(5).collect().equals(frame.filter(above).head(5))
    assert lazy.filter(above).select("s").collect().equals(frame.filter(above).select("s"))
    assert lazy.slice(990, 20).collect().equals(frame.slice(990, 20))
    assert lazy.tail(3).collect().equals(frame.tail(3))


def test_a_selective_predicate_reads_as_many_pages_as_a_scan_of_ours(tmp_path, monkeypatch):
    table = pa.table({"id": np.arange(200_000), "v": np.arange(200_000) % 7})
    ds = pilum.write_dataset(table, tmp_path / "t", max_rows_per_page=1000, max_rows_per_file=50_000, durability="none")
    own = ds.scanner(["id", "v"], "id BETWEEN 77000 AND 77199")
    assert own.to_table().num_rows == 200
    seen = scans(ds, monkeypatch)
    assert ds.lazy().filter(pl.col("id").is_between(77_000, 77_199)).collect().height == 200
    (*_, scan) = seen.pop()
    for count in ("pages_total", "pages_pruned", "fragments_pruned", "rows_scanned"):
        assert getattr(scan.metrics, count) == getattr(own.metrics, count)
    assert (scan.metrics.pages_total - scan.metrics.pages_pruned, scan.metrics.rows_scanned) == (1, 1000)


def test_a_query_that_ends_early_ends_the_scan(tmp_path, monkeypatch):
    table = pa.table({"id": np.arange(3_000_000)})
    ds = pilum.write_dataset(table, tmp_path / "t", durability="none")
    seen = scans(ds, monkeypatch)
    assert ds.lazy().filter(pl.col("id") % 2 == 0).head(3).collect()["id"].to_list() == [0, 2, 4]
    (*_, scan) = seen.pop()
    assert scan.metrics.rows_returned < 3_000_000


def test_a_lazy_frame_stays_at_its_version(tmp_path):
    ds = pilum.write_dataset(pa.table({"a": [1, 2, None]}), tmp_path / "t")
    lazy = ds.lazy().filter(pl.col("a") > 1)
    ds.append(pa.table({"a": [3]}))
    assert lazy.collect().to_dicts() == [{"a": 2}]
    left, right = ds.lazy(), pilum.dataset(ds.uri).lazy()
    assert left.join(right, on="a").collect().height == 2


def test_errors_keep_their_words(tmp_path):
    ds = pilum.write_dataset(pa.table({"a": list(range(1000))}), tmp_path / "t")
    with pytest.raises(pl.exceptions.PolarsError, match="no_such"):
        ds.lazy().filter(pl.col("no_such") > 1).collect()
    path = next((tmp_path / "t" / "data").iterdir())
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(Exception, match=path.name):
        pilum.dataset(ds.uri).lazy().collect()


EXTREMES = {
    "time32[s]": pa.array([0, 3600, 86_399, None], pa.time32("s")),
    "time32[ms]": pa.array([0, 1, 86_399_999, None], pa.time32("ms")),
    "time64[us]": pa.array([0, 1, 86_399_999_999, None], pa.time64("us")),
    "large_binary": pa.array([b"", b"\xff", b"a", None], pa.large_binary()),
    "string_view": pa.array(["", "a", "é", None], pa.string_view()),
    "binary_view": pa.array([b"", b"\xff", b"a", None], pa.binary_view()),
    "int8": pa.array([-128, 127, 0, None], pa.int8()),
    "uint16": pa.array([0, 65_535, 3, None], pa.uint16()),
    "int64": pa.array([-(2**63), 2**63 - 1, 0, None], pa.int64()),
    "uint64": pa.array([2**64 - 1, 0, 2**63, None], pa.uint64()),
    "date32": pa.array([-(2**31), 2**31 - 1, 0, None], pa.int32()).cast(pa.date32()),
    "timestamp[s, UTC]": pa.array([0, -1, 10**9, None], pa.timestamp("s", "UTC")),
    "timestamp[ms]": pa.array([-62_135_596_800_000, 253_402_300_799_999, 0, None], pa.timestamp("ms")),
    "timestamp[us]": pa.array([-(2**63) + 1, 2**63 - 1, 0, None], pa.timestamp("us")),
    "timestamp[ns]": pa.array([-(2**63) + 1, 2**63 - 1, 0, None], pa.timestamp("ns")),
    "decimal(38, 0)": pa.array([Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0), None], pa.decimal128(38, 0)),
    "decimal(38, 38)": pa.array([Decimal("0." + "9" * 38), Decimal(0), None, None], pa.decimal128(38, 38)),
    "halffloat": pa.array([1.5, math.inf, math.nan, None], pa.float16()),
    "float": pa.array([3.4e38, 1e-45, -math.inf, None], pa.float32()),
    "double": pa.array([1.7e308, 5e-324, -0.0, None], pa.float64()),
    "null": pa.nulls(4),
    "duration": pa.array([1, 2, 3, None], pa.duration("us")),
    "date64": pa.array([0, 86_400_000, None, 0], pa.date64()),
    "fixed_size_binary": pa.array([b"ab", b"cd", None, b"ef"], pa.binary(2)),
    "dictionary": pa.array(["x", "y", None, "x"]).dictionary_encode(),
}
OPERATORS = ["__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "eq_missing", "ne_missing"]


@pytest.mark.parametrize("kind", EXTREMES)
@pytest.mark.filterwarnings("ignore:Comparisons with None")
def test_the_least_and_the_largest_values_compare_as_in_polars(kind, tmp_path):
    values = EXTREMES[kind]
    ds = pilum.write_dataset(pa.table({"x": values}), tmp_path / "t", max_rows_per_page=1, durability="none")
    frame, lazy = ds.to_polars(), ds.lazy()
    dtype = frame.schema["x"]
    number = {"date32": pa.int32()}.get(kind, pa.int64() if kind.startswith("timestamp") else None)
    for value in values[:3] if number is None else values.cast(number)[:3]:
        if number is not None:
            # Beyond the years that Python has, a value is named by its number.
            literal = pl.lit(value.as_py()).cast(pl.Int32 if number == pa.int32() else pl.Int64).cast(dtype)
        else:
            literal = pl.lit(value.as_py(), dtype=None if kind == "dictionary" else dtype)
        for operator in OPERATORS:
            predicate = getattr(pl.col("x"), operator)(literal)
            for each in (predicate, ~predicate):
                try:
                    want = frame.filter(each)
                except pl.exceptions.PolarsError:
                    with pytest.raises(pl.exceptions.PolarsError):
                        lazy.filter(each).collect()
                    continue
                assert lazy.filter(each).collect().equals(want), str(each)
