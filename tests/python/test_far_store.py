"""Requests and bytes of reads from a remote store, compared with those of pylance on its own files of the same format.

The store of the tests counts the requests and bytes; no test depends on time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import pilum
from support.far_store import FarStore, far_store

ROWS = 200_000
OPEN = 2  # requests: one lists the versions, one reads the newest manifest
FOOTER = 64 << 10  # bytes of the end of a file, which are read with its size
TASK = 1 << 20  # bytes of rows that one task reads
GAP = 512 << 10  # bytes between two ranges up to which one request reads both, however short the ranges are


def rows() -> pa.Table:
    """Return numbers in order, numbers and floats at random, and text."""
    r = np.random.default_rng(5)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "v": r.integers(0, 1000, ROWS),
            "f": r.random(ROWS),
            "s": [f"{n:016x}" for n in r.integers(0, 2**62, ROWS)],
            "c": [f"city {n:03d}" for n in r.integers(0, 500, ROWS)],
        }
    )


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarStore]:
    folder = tmp_path_factory.mktemp("far")
    table = rows()
    pilum.write_dataset(table, folder / "ours", durability="none")
    lance.write_dataset(table, str(folder / "theirs"), data_storage_version="legacy")
    with far_store(folder) as store:
        yield store


Read = Callable[[Any], pa.Table]


def cost(far: FarStore, name: str, engine: Any, read: Read) -> tuple[int, int, pa.Table]:
    """Open a table and read from it; return the requests, the bytes and the rows."""
    far.forget()
    rows = read(engine.dataset(far.uri(far.folder / name), storage_options=far.options()))
    return far.requests, far.bytes_sent, rows


def places(count: int) -> list[int]:
    return sorted(random.Random(3).sample(range(ROWS), count))


def test_opening_takes_two_requests(far):
    requests, sent, _ = cost(far, "ours", pilum, lambda ds: ds.count_rows())
    assert requests == OPEN
    assert sent < 4096


@pytest.mark.parametrize("name", ["ours", "theirs"])
def test_scattered_rows_take_no_more_requests_than_pylance(far, name):
    chosen = places(100)
    requests, sent, got = cost(far, name, pilum, lambda ds: ds.take(chosen))
    theirs, _, want = cost(far, "theirs", lance, lambda ds: ds.take(chosen))
    assert got.equals(want.cast(got.schema))
    assert requests <= theirs
    if name == "ours":
        # A value lies in one or two blocks of 512 bytes, and the characters of a text in one or two more. One request reads
        # blocks that are less than 4 KiB apart, and the gaps that it reads are no longer than the blocks around them.
        values = len(chosen) * (5 + 2)
        assert sent <= 2 * values * (1024 + 2048) + FOOTER
        assert sent <= whole_size(far, name) / 3


def whole_size(far: FarStore, name: str) -> int:
    return sum(file.stat().st_size for file in (far.folder / name / "data").iterdir())


def test_one_row_is_the_footer_and_its_blocks(far):
    requests, sent, got = cost(far, "ours", pilum, lambda ds: ds.take([ROWS // 2]))
    assert got.num_rows == 1
    # For each of five columns a block and its checksum, then the characters of the texts of two columns.
    assert requests <= OPEN + 1 + 2 * 5 + 2 * 2
    assert sent <= FOOTER + GAP + 2 * 5 * 1024 + 2 * 2 * 1024 + 1024


def test_a_second_row_needs_no_metadata(far):
    ds = pilum.dataset(far.uri(far.folder / "ours"), storage_options=far.options())
    ds.take([1], columns=["v"])
    far.forget()
    assert ds.take([ROWS - 1], columns=["v"]).num_rows == 1
    assert far.requests <= 2, far.asked  # the block and its checksum
    assert far.bytes_sent <= GAP + 2048


FILTERS = {
    "a thousandth in order": (f"id >= {ROWS // 3} AND id < {ROWS // 3 + ROWS // 1000}", None),
    "beyond everything": ("id > 1000000", None),
    "by prefix": ("s LIKE '1f%'", None),
    "a hundredth, scattered": ("v >= 7 AND v <= 16", ["id", "f"]),
}


@pytest.mark.parametrize("name", ["ours", "theirs"])
@pytest.mark.parametrize("what", FILTERS)
def test_filters_take_no_more_requests_than_pylance(far, what, name):
    condition, columns = FILTERS[what]
    read = lambda ds: ds.to_table(filter=condition, columns=columns)  # noqa: E731 - for both engines
    requests, sent, got = cost(far, name, pilum, read)
    theirs, _, want = cost(far, "theirs", lance, read)
    assert got.equals(want.cast(got.schema))
    assert requests <= theirs
    whole = whole_size(far, name)
    # Each page of a column is requested once. A gap that is read is no longer than the ranges around it, or than GAP. In the
    # worst case every task reads one such gap for the column of the condition, and one for the other columns.
    tasks = whole // TASK + 1
    assert sent <= 2 * (whole + FOOTER) + 2 * tasks * GAP
    if what == "beyond everything":
        assert requests <= OPEN + (1 if name == "ours" else 3)
    if name == "ours" and what == "a thousandth in order":
        # By statistics, only one page of the ordered column has to be read. Of the other columns, the scan reads only the rows
        # that pass the filter.
        assert sent < whole / 5


def test_statistics_that_were_read_exclude_pages_without_a_request(far):
    ds = pilum.dataset(far.uri(far.folder / "ours"), storage_options=far.options())
    assert ds.to_table(filter="id > 1000000").num_rows == 0
    far.forget()
    for condition in ("id < 0", "id + 1 > 1000000", "v IN (1000, 5000)", "s LIKE 'x%' AND id < 0"):
        ds.to_table(filter=condition)
    # The statistics of the other columns are near the footer.
    assert far.requests == 0, far.asked


def test_many_fragments_are_opened_once_each(tmp_path):
    for start in range(0, 400, 20):
        added = pa.table({"id": range(start, start + 20)})
        pilum.write_dataset(added, tmp_path / "t", mode="append" if start else "create", durability="none")
    with far_store(tmp_path) as far:
        ds = pilum.dataset(far.uri(tmp_path / "t"), storage_options=far.options())
        far.forget()
        assert ds.to_table().num_rows == 400
        assert far.requests == 20, far.asked  # the read of the footer reads a small file whole
        far.forget()
        assert ds.to_table(filter="id = 333")["id"].to_pylist() == [333]
        assert far.requests == 0, far.asked
        assert ds.take([5, 399, 250])["id"].to_pylist() == [5, 399, 250]
        assert far.requests == 0, far.asked
