"""Tables of 20,000 columns: what reading a little of one costs, counted by the store."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import pilum
from support.far_store import FarStore, far_store

COLUMNS = 20_000
ROWS = 40


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarStore]:
    folder = tmp_path_factory.mktemp("wide")
    values = np.arange(ROWS)
    table = pa.table({f"c{number}": values + number for number in range(COLUMNS)})
    pilum.write_dataset(table, folder / "t", durability="none")
    with far_store(folder) as store:
        yield store


@pytest.fixture
def ds(far: FarStore) -> pilum.Dataset:
    opened = pilum.dataset(far.uri(far.folder / "t"), storage_options=far.options())
    assert opened.count_rows() == ROWS
    far.forget()
    return opened


def test_opening_is_a_list_and_a_manifest(far):
    far.forget()
    pilum.dataset(far.uri(far.folder / "t"), storage_options=far.options())
    assert far.requests == 2, far.asked


def test_the_first_column_costs_the_directory_and_itself(far, ds):
    assert ds.to_table(["c7777"])["c7777"].to_pylist() == list(range(7777, 7777 + ROWS))
    # The footer, the rest of the message before it, the place of the column, then its page and what verifies it.
    assert far.requests <= 9, far.asked
    size = sum(file.stat().st_size for file in (far.folder / "t" / "data").iterdir())
    assert far.bytes_sent <= size / 8


def test_another_column_costs_its_place_and_itself(far, ds):
    ds.take([0], columns=["c1"])
    far.forget()
    assert ds.take([ROWS - 1], columns=["c9999"])["c9999"].to_pylist() == [9999 + ROWS - 1]
    assert far.requests <= 5, far.asked
    assert far.bytes_sent <= 10_000


def test_a_value_of_a_column_whose_place_is_known_is_two_ranges(far, ds):
    ds.take([0], columns=["c12345"])
    far.forget()
    assert ds.take([ROWS - 1], columns=["c12345"])["c12345"].to_pylist() == [12_345 + ROWS - 1]
    assert far.requests <= 2, far.asked
    assert far.bytes_sent <= 2048


def test_a_condition_on_one_of_the_first_columns_is_pruned(far, ds):
    assert ds.to_table(["c15000"], filter="c3 > 1000000").num_rows == 0
    far.forget()
    assert ds.to_table(["c15000"], filter="c3 > 2000000").num_rows == 0
    assert far.requests == 0, far.asked


@pytest.mark.parametrize("name", ["c999", "c1000", "c19999"])
def test_columns_without_statistics_are_looked_at(far, ds, name):
    """The first thousand have statistics: a condition on another one is as good, if slower, with an answer and without."""
    first = int(name[1:])
    for _ in range(2):  # what was learnt of the columns must not tell otherwise
        assert ds.to_table([name], filter=f"{name} >= {first + 30}")[name].to_pylist() == list(
            range(first + 30, first + ROWS)
        )
        assert ds.count_rows(filter=f"{name} < {first}") == 0
        assert ds.count_rows(filter=f"{name} IS NULL") == 0
        assert ds.count_rows(filter=f"{name} <> {first} AND c3 >= 3") == ROWS - 1
        assert ds.count_rows(filter=f"NOT {name} < {first} OR c3 < 0") == ROWS
    scan = ds.scanner(columns=["c0"], filter=f"{name} < {first}")
    assert scan.to_table().num_rows == 0
    assert (scan.metrics.rows_scanned == 0) == (first < 1000)


def test_every_column_at_once(far, ds):
    got = ds.to_table()
    assert got.num_columns == COLUMNS
    assert got["c19999"].to_pylist() == list(range(19_999, 19_999 + ROWS))
    size = sum(file.stat().st_size for file in (far.folder / "t" / "data").iterdir())
    assert far.bytes_sent <= 2 * size
