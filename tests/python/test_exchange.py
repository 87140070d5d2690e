"""Frames and tables of other libraries, in and out, through the Arrow exchange protocols."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same

TABLE = pa.table({"n": pa.array([1, None, 3], pa.int64()), "s": pa.array(["a", "", None])})


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t")


def test_polars_in_and_out(uri):
    frame = pl.DataFrame({"n": [1, None, 3], "s": ["a", "", None], "c": pl.Series(["x", "y", "x"])})
    pilum.write_dataset(frame, uri)
    ds = pilum.dataset(uri)
    assert ds.to_polars().equals(frame)
    assert pl.DataFrame(ds).equals(frame)
    assert pl.from_arrow(ds).struct.unnest().equals(frame)
    assert ds.to_polars(["n"], "n > 1")["n"].to_list() == [3]


def test_duckdb_in_and_out(uri):
    pilum.write_dataset(
        duckdb.sql("SELECT range AS n, CASE WHEN range % 2 = 0 THEN 'even' END AS s FROM range(5000)"), uri
    )
    ds = pilum.dataset(uri)
    assert ds.count_rows() == 5000
    with duckdb.connect() as db:
        db.register("rows", ds.to_reader())
        assert db.sql("SELECT count(*), count(s), sum(n) FROM rows").fetchall() == [(5000, 2500, 12497500)]
        db.register("again", pa.table(ds))
        assert db.sql("SELECT max(n) FROM again").fetchall() == [(4999,)]


def test_pandas_in_and_out(uri):
    frame = pd.DataFrame(
        {"n": [1, 2, 3], "f": [0.5, np.nan, -1.0], "s": ["a", None, ""], "t": pd.date_range("2026-01-01", periods=3)}
    )
    pilum.write_dataset(frame, uri)
    pd.testing.assert_frame_equal(pilum.dataset(uri).to_pandas(), frame, check_dtype=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TABLE,
        lambda: TABLE.to_batches()[0],
        lambda: TABLE.to_reader(),
        lambda: iter(TABLE.to_batches(max_chunksize=1)),
        lambda: TABLE.to_batches(max_chunksize=2),
        lambda: (batch for batch in TABLE.to_batches()),
        lambda: pl.from_arrow(TABLE),
    ],
    ids=["table", "batch", "reader", "iterator", "list", "generator", "polars"],
)
def test_whatever_holds_batches_can_be_written(make, uri):
    pilum.write_dataset(make(), uri, schema=TABLE.schema)
    assert_same(pilum.dataset(uri).to_table(), TABLE)


def test_a_dataset_is_a_stream_for_others(uri):
    ds = pilum.write_dataset(TABLE, uri)
    assert_same(pa.table(ds), TABLE)
    assert_same(pa.table(ds.scanner(["s"])), TABLE.select(["s"]))
    copy = pilum.write_dataset(ds, uri + "-copy")
    assert_same(copy.to_table(), TABLE)


def test_a_schema_casts_without_loss_or_not_at_all(uri):
    wanted = pa.schema([("n", pa.int32()), ("s", pa.large_string())])
    pilum.write_dataset(TABLE, uri, schema=wanted)
    assert_same(pilum.dataset(uri).to_table(), TABLE.cast(wanted))
    with pytest.raises(pilum.PilumError, match=r"300|int8|range"):
        pilum.write_dataset(pa.table({"n": [1, 300]}), uri + "2", schema=pa.schema([("n", pa.int8())]))


@pytest.mark.parametrize("rubbish", [3, "text", None, {"a": [1]}, [1, 2], iter([]), object()])
def test_what_holds_no_batches_is_refused(rubbish, uri):
    with pytest.raises(pilum.InvalidInputError):
        pilum.write_dataset(rubbish, uri)


def test_an_error_while_the_rows_are_made_is_the_error_that_is_raised(uri):
    class BrokenError(Exception):
        pass

    def rows():
        yield TABLE.to_batches()[0]
        raise BrokenError("the source broke")

    with pytest.raises(BrokenError, match="the source broke"):
        pilum.write_dataset(rows(), uri)
    with pytest.raises(pilum.NotFoundError):
        pilum.dataset(uri)


def test_unaligned_buffers_are_taken(uri):
    # Sockets and files give buffers at any address; Arrow asks for 8 bytes, machines for the width of the value.
    values = pa.array([1, 2, 3], pa.decimal128(20, 2))
    raw = b"\x00" * 8 + values.buffers()[1].to_pybytes()
    shifted = pa.Array.from_buffers(values.type, 3, [None, pa.py_buffer(raw).slice(8)])
    odd = pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(b"\x00" + b"\x07" + b"\x00" * 15).slice(1)])
    pilum.write_dataset(pa.table({"d": shifted}), uri)
    assert pilum.dataset(uri).to_table()["d"].to_pylist() == values.to_pylist()
    pilum.write_dataset(pa.table({"i": odd}), uri, mode="overwrite")
    assert pilum.dataset(uri).to_table()["i"].to_pylist() == [7, 0]
