"""`ds.to_pyarrow()`: a dataset of pyarrow into which DuckDB, Polars and pyarrow push columns, filters and limits."""

from __future__ import annotations

import inspect
import pickle
import random
import time

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import pilum
from pilum.pyarrow_dataset import TableDataset
from support.comparing import assert_same

ROWS = 200_000


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    count = np.arange(ROWS)
    table = pa.table(
        {
            "id": count,
            "v": pa.array(count % 7, mask=count % 11 == 0),
            "s": [f"k{value:06}" for value in count],
            "f": np.where(count % 1000 == 0, np.nan, count * 0.5),
            "t": pa.array(count * 1_000_000, pa.timestamp("us")),
            "z": pa.array(count * 1_000_000, pa.timestamp("us", "UTC")),
            "d": pa.array((count // 1000).astype("i4"), pa.date32()),
            "dec": pa.array(count).cast(pa.decimal128(21, 2)),
            "st": pa.array([{"x": int(value)} for value in count]),
        }
    )
    path = tmp_path_factory.mktemp("pyarrow") / "t"
    return pilum.write_dataset(table, path, max_rows_per_page=1000, max_rows_per_file=50_000, durability="none")


@pytest.fixture
def rows(ds):
    return ds.to_pyarrow()


def test_it_is_a_dataset_of_pyarrow(ds, rows):
    assert isinstance(rows, pads.Dataset)
    assert rows.schema == ds.schema
    assert rows.count_rows() == ROWS
    assert_same(rows.to_table(), ds.to_table())
    assert rows.partition_expression.equals(pc.scalar(True))
    assert "pilum" in repr(rows)


QUERIES = [
    "SELECT s FROM rows WHERE id BETWEEN 77000 AND 77199",
    "SELECT id FROM rows WHERE s = 'k077000'",
    "SELECT id, v FROM rows WHERE s LIKE 'k0770%' LIMIT 3",
    "SELECT count(*) FROM rows WHERE t >= TIMESTAMP '1970-01-03 07:33:00'",
    "SELECT count(id) FROM rows WHERE z < TIMESTAMPTZ '1970-01-01 00:03:00+00'",
    "SELECT id FROM rows WHERE dec = 77",
    "SELECT id FROM rows WHERE dec > 199990.5",
    "SELECT id FROM rows WHERE st.x = 5",
    "SELECT count(*), min(id) FROM rows WHERE d = DATE '1970-01-05'",
    "SELECT count(*) FROM rows WHERE id IN (1, 5, 199000)",
    "SELECT count(*) FROM rows WHERE f > 99990.0",
    "SELECT count(*) FROM rows WHERE f = 'NaN'::DOUBLE",
    "SELECT count(*) FROM rows WHERE NOT f <= 99990.0",
    "SELECT count(*) FROM rows WHERE id > 199990 OR id < 5",
    "SELECT count(*) FROM rows WHERE v IS NULL AND id < 100",
    "SELECT v, count(*) FROM rows WHERE v <> 3 AND id < 100 GROUP BY v ORDER BY v",
    "SELECT count(*) FROM rows",
    "SELECT a.id FROM rows a JOIN rows b ON a.id = b.id + 1 WHERE a.id < 4 ORDER BY 1",
]


@pytest.mark.parametrize("query", QUERIES)
def test_duckdb_answers_as_on_the_same_rows_in_memory(query, ds, rows):
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        got = db.sql(query).fetchall()
        db.register("rows", ds.to_table())
        assert got == db.sql(query).fetchall()


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT id, s FROM rows WHERE id BETWEEN 77000 AND 77199", "id BETWEEN 77000 AND 77199"),
        ("SELECT id, s FROM rows WHERE s = 'k077000'", "s = 'k077000'"),
        ("SELECT id, s FROM rows WHERE s LIKE 'k0770%'", "s >= 'k0770' AND s < 'k0771'"),
        ("SELECT id, d FROM rows WHERE d = DATE '1970-01-05'", "d = DATE '1970-01-05'"),
        ("SELECT id, dec FROM rows WHERE dec > 199990.5", "dec > 199990.50"),
        ("SELECT id FROM rows WHERE id > 199990 OR id < 5", "id > 199990 OR id < 5"),
        ("SELECT id FROM rows WHERE id < 200 AND v = 3", "id < 200 AND v = 3"),
    ],
)
def test_duckdb_reads_as_many_pages_as_a_scan_of_ours(query, condition, ds, rows):
    own = ds.scanner(["id"], condition)
    count = own.to_table().num_rows
    assert len(duckdb.sql(query).fetchall()) == count
    for name in ("pages_total", "pages_pruned", "fragments_pruned", "rows_scanned", "rows_returned"):
        assert getattr(rows.metrics, name) == getattr(own.metrics, name), name
    assert rows.metrics.pages_pruned > 0.8 * rows.metrics.pages_total


def test_polars_pushes_columns_filters_and_limits(rows, ds):
    lazy = pl.scan_pyarrow_dataset(rows)
    got = lazy.filter(pl.col("id").is_between(77_000, 77_199)).select("s").collect()
    assert got["s"].to_list() == [f"k{value:06}" for value in range(77_000, 77_200)]
    assert rows.metrics.rows_scanned <= 1000
    assert lazy.head(3).collect().equals(ds.to_polars(limit=3))
    assert lazy.select(pl.len()).collect().item() == ROWS


def test_every_method_of_a_dataset_is_written_for_tables(rows):
    """A method that a new release of pyarrow adds must not run on the C++ object, which has no rows."""
    own = {name for name in dir(pads.Dataset) if not name.startswith("_")}
    missing = [name for name in own if getattr(TableDataset, name) is getattr(pads.Dataset, name)]
    assert missing == []
    for name in ("scanner", "to_table", "to_batches", "head", "take", "count_rows"):
        ours = list(inspect.signature(getattr(TableDataset, name)).parameters)
        assert {"columns", "filter", "batch_size"} - set(ours) <= ({"columns"} if name == "count_rows" else set())


def test_the_methods_answer_as_those_of_the_rows_in_memory(ds, rows):
    memory = pads.dataset(ds.to_table())
    where = (pc.field("id") > 1000) & (pc.field("v") == 3)
    names = ["v", "id"]
    assert_same(rows.to_table(names, filter=where), memory.to_table(names, filter=where))
    assert rows.count_rows(where) == memory.count_rows(where)
    assert_same(rows.head(5, names, filter=where), memory.head(5, names, filter=where))
    assert rows.head(3).num_rows == 3
    assert_same(rows.take([5, 1, 5], names), memory.take([5, 1, 5], names))
    assert_same(rows.take([5, 1], names, where), memory.take([5, 1], names, where))
    assert_same(
        rows.filter(where).filter(pc.field("id") < 2000).to_table(),
        memory.filter(where & (pc.field("id") < 2000)).to_table(),
    )
    assert rows.filter(where).count_rows() == memory.count_rows(where)
    batches = list(rows.to_batches(names, batch_size=100, use_threads=False))
    assert max(batch.num_rows for batch in batches) <= 100
    assert_same(pa.Table.from_batches(batches), memory.to_table(names))
    made = {"w": pc.field("v") + 1, "id": pc.field("id"), "up": pc.utf8_upper(pc.field("s"))}
    assert_same(rows.to_table(made, filter=where), memory.to_table(made, filter=where))
    assert_same(rows.head(2, made), memory.head(2, made))
    few = rows.filter(pc.field("id") < 5)
    assert few.sort_by([("id", "descending")]).to_table()["id"].to_pylist() == [4, 3, 2, 1, 0]
    assert rows.replace_schema(rows.schema).count_rows() == ROWS
    with pytest.raises(pilum.UnsupportedError, match="schema"):
        rows.replace_schema(pa.schema([("id", pa.int8())]))


def test_joins_are_those_of_the_rows_in_memory():
    table = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    rows = pilum.write_dataset(table, "memory://joins").to_pyarrow()
    joined = rows.join(rows.filter(pc.field("id") < 3), "id", join_type="inner", right_suffix="_r").to_table()
    assert sorted(joined["v_r"].to_pylist()) == ["a", "b"]
    assert (
        pads.dataset(table)
        .join(rows.filter(pc.field("id") < 2)._in_memory(), "id", right_suffix="_r")
        .to_table()
        .num_rows
        == 3
    )


def test_scanners_are_those_of_pyarrow(rows, tmp_path):
    where = pc.field("id") < 10
    assert isinstance(rows.scanner(), pads.Scanner)
    assert rows.scanner(["id"], where).to_table()["id"].to_pylist() == list(range(10))
    assert rows.scanner(["id"], where).count_rows() == 10
    assert rows.scanner(columns=["s", "id"]).projected_schema.names == ["s", "id"]
    assert rows.scanner(filter=where).to_reader().read_all().num_rows == 10
    assert rows.scanner(columns=[], filter=where).to_table().num_rows == 10
    # pyarrow writes a dataset by its scanner.
    pads.write_dataset(rows, tmp_path / "copy", format="parquet")
    assert pq.read_table(tmp_path / "copy").num_rows == ROWS


def test_fragments_are_datasets_of_their_own(rows, ds):
    parts = list(rows.get_fragments())
    assert [part.count_rows() for part in parts] == [50_000] * 4
    assert_same(pa.concat_tables([part.to_table(["id"]) for part in parts]), ds.to_table(["id"]))
    assert [part.count_rows() for part in rows.get_fragments(pc.field("id") < 60_000)] == [50_000, 10_000, 0, 0]
    assert parts[1].head(1, ["id"])["id"].to_pylist() == parts[1].take([0], ["id"])["id"].to_pylist() == [50_000]
    assert parts[1].physical_schema == ds.schema


def test_it_can_be_pickled(rows):
    again = pickle.loads(pickle.dumps(rows.filter(pc.field("id") < 10)))
    assert again.to_table(["id"])["id"].to_pylist() == list(range(10))


def test_a_filter_that_the_engine_lacks_is_evaluated_by_pyarrow(rows, ds):
    memory = pads.dataset(ds.to_table())
    lacking = [
        pc.utf8_reverse(pc.field("s")) == "000000k",
        pc.bit_wise_and(pc.field("id"), 1023) == 1,
        (pc.field("id") < 5000)
        & (pc.day_of_week(pc.field("t")) == 3)
        & (pc.utf8_capitalize(pc.field("s")) == "K000007"),
    ]
    for where in lacking:
        assert_same(rows.to_table(["v", "s"], filter=where), memory.to_table(["v", "s"], filter=where))
        assert_same(rows.scanner(["v"], where).to_table(), memory.scanner(["v"], filter=where).to_table())
        assert_same(rows.head(1, ["id"], where), memory.head(1, ["id"], filter=where))
        assert rows.count_rows(where) == memory.count_rows(where)
        assert sum(batch.num_rows for batch in rows.to_batches(filter=where)) == memory.count_rows(where)
    with pytest.raises(pa.ArrowInvalid, match="no_such"):
        rows.to_table(filter=pc.field("no_such") > 1)
    with pytest.raises(pilum.InvalidInputError, match="no_such"):
        rows.to_table(["no_such"])
    with pytest.raises(pilum.InvalidInputError, match="no_such"):
        rows.to_table(["no_such"], filter=lacking[0])
    with pytest.raises(pilum.InvalidInputError, match="batch_size"):
        rows.to_table(batch_siz=1)


def test_functions_that_go_around_the_methods_fail_and_never_see_an_empty_table(rows):
    for use in (
        lambda: pads.Dataset.to_table(pads.dataset([rows, rows])),
        lambda: pads.UnionDataset(rows.schema, [rows]).count_rows(),
        lambda: acero.Declaration("scan", acero.ScanNodeOptions(rows)).to_table(),
        lambda: pads.Scanner.from_dataset(rows).to_table(),
    ):
        with pytest.raises(FileNotFoundError, match=r"TableDataset of pilum"):
            use()


def test_a_slow_consumer_does_not_make_the_scan_run_ahead(tmp_path):
    table = pa.table({name: np.arange(2_000_000) for name in "abcdefgh"})
    ds = pilum.write_dataset(table, tmp_path / "t", durability="none")
    rows = ds.to_pyarrow()
    reader = rows.scanner().to_reader()
    for _ in range(5):
        reader.read_next_batch()
        time.sleep(0.05)
    # The table has 128 MB; 130 batches of half a MiB may be read ahead.
    assert rows.metrics.rows_returned * 64 < 80 << 20


def test_random_filters_answer_as_pyarrow_does(rows, ds):
    r = random.Random(7)
    memory = pads.dataset(ds.to_table(["id", "v", "f", "s"]).slice(0, 3000))
    small = pilum.write_dataset(memory.to_table(), "memory://random-filters", max_rows_per_page=100).to_pyarrow()

    def leaf():
        name = r.choice(["id", "v", "f", "s"])
        column = pc.field(name)
        if r.random() < 0.2:
            return r.choice(
                [column.is_null(), column.is_valid(), column.isin(memory.head(5, [name])[name].combine_chunks())]
            )
        values = {"s": f"k{r.randrange(3000):06}", "f": r.choice([r.randrange(3000), r.random() * 1500])}
        value = values.get(name, r.randrange(3000))
        return r.choice([column < value, column <= value, column == value, column != value, column > value])

    def any_of(depth):
        if depth == 0:
            return leaf()
        return r.choice(
            [lambda: any_of(depth - 1) & leaf(), lambda: any_of(depth - 1) | leaf(), lambda: ~any_of(depth - 1)]
        )()

    for _ in range(300):
        where = any_of(r.randrange(4))
        assert small.to_table(["id"], where).equals(memory.to_table(["id"], filter=where)), str(where)


def test_what_pyarrow_refuses_about_the_rows_is_an_error_of_the_arguments(tmp_path):
    ds = pilum.write_dataset(pa.table({"id": [3, 1], "x": ["a", "b"]}), tmp_path / "t")
    rows = ds.to_pyarrow()
    refused = {
        "sort_by": lambda: rows.sort_by("nope"),
        "join": lambda: rows.join(rows, "nope"),
        "join with a number": lambda: rows.join(3, "id"),
        "take": lambda: rows.take([7], filter=pc.field("id") == 3),
        "filter": lambda: rows.filter(3),
        "head": lambda: rows.head(None),
        "head of too many": lambda: rows.head(2**70),
        "replace_schema": lambda: rows.replace_schema(3),
    }
    for name, call in refused.items():
        with pytest.raises(pilum.InvalidInputError) as refusal:
            call()
        words = (ds.uri, "num_rows", "filter", "schema")
        assert any(word in str(refusal.value) for word in words), name
    with pytest.raises(pilum.UnsupportedError, match="cast the result"):
        rows.replace_schema(pa.schema([("id", pa.int8())]))
    assert rows.replace_schema(rows.schema).sort_by("id").to_table().column("id").to_pylist() == [1, 3]
    assert [it.count_rows() for it in rows.get_fragments()] == [2]
    assert rows.join(pa.dataset.dataset(pa.table({"id": [1], "y": [9]})), "id").to_table().num_rows == 2
