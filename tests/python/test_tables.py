"""Opening, reading, history: the public names and what they promise."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same

ROWS = 5000
TABLE = pa.table(
    {
        "n": pa.array(range(ROWS), pa.int64()),
        "f": pa.array([None if i % 5 == 0 else i / 2 for i in range(ROWS)], pa.float64()),
        "s": pa.array([None if i % 7 == 0 else "" if i % 7 == 1 else f"row {i}" for i in range(ROWS)]),
        "l": pa.array([None if i % 11 == 0 else list(range(i % 4)) for i in range(ROWS)], pa.list_(pa.int32())),
        "p": pa.StructArray.from_arrays(
            [pa.array(range(ROWS)), pa.array([str(i) for i in range(ROWS)])], names=["x", "y"]
        ),
    }
)


@pytest.fixture
def uri(tmp_path):
    pilum.write_dataset(TABLE, tmp_path / "t", max_rows_per_file=2000, max_rows_per_page=500)
    return str(tmp_path / "t")


def test_importing_is_light():
    told = subprocess.run(
        [sys.executable, "-c", "import sys, pilum; print([m for m in ('pyarrow', 'numpy', 'pyspark') if m in sys.modules])"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert told.strip() == "[]"
    # By what it loads, and not by the clock: about 75 small modules of the standard library and its own.
    count = "import sys; before = set(sys.modules); import pilum; print(len(set(sys.modules) - before))"
    told = subprocess.run([sys.executable, "-c", count], check=True, capture_output=True, text=True).stdout
    assert int(told) < 120, f"importing pilum loads {told.strip()} modules"


def test_what_was_written_is_read(uri):
    ds = pilum.dataset(uri)
    assert_same(ds.to_table(), TABLE)
    assert ds.schema == TABLE.schema
    assert (ds.uri, ds.version, ds.data_format, ds.compat) == (uri, 1, "0.1", "lossless")
    assert ds.count_rows() == len(ds) == ROWS
    assert_same(ds.head(3), TABLE.slice(0, 3))
    assert sum(fragment.num_rows for fragment in ds.fragments) == ROWS
    assert [fragment.id for fragment in ds.fragments] == [0, 1, 2]
    columns = "n: int64, f: double, s: string, l: list<item: int32>, p: struct<x: int64, y: string>"
    assert repr(ds) == f"<pilum.Dataset {uri} version 1: 5,000 rows, 5 columns ({columns})>"


def test_a_write_tells_what_it_did(tmp_path):
    seen = []
    written = pilum.write_dataset(TABLE, tmp_path / "t", progress=lambda done, total: seen.append((done, total)))
    assert (written.rows, written.attempts, written.version) == (ROWS, 1, 1)
    on_disk = sum(file.stat().st_size for file in (tmp_path / "t" / "data").iterdir())
    assert written.bytes == on_disk
    assert written.dataset == written == pilum.dataset(tmp_path / "t")
    assert seen[-1][0] == ROWS
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_progress_bar_is_shown_on_request(tmp_path, capsys):
    pilum.write_dataset(TABLE, tmp_path / "t", progress=True)
    assert "rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(["s", "n"], ["s", "n"]), (["n"], ["n"]), (None, TABLE.column_names), (["l", "p"], ["l", "p"])],
)
def test_projection_is_in_the_order_asked_for(uri, columns, expected):
    assert_same(pilum.dataset(uri).to_table(columns), TABLE.select(expected))


@pytest.mark.parametrize(
    ("limit", "offset"), [(0, 0), (1, 0), (10, 495), (None, 4999), (10, 4995), (7000, 0), (5, 5000), (3, 9999)]
)
def test_limit_and_offset_are_of_the_result(uri, limit, offset):
    want = TABLE.slice(offset, ROWS if limit is None else limit)
    assert_same(pilum.dataset(uri).to_table(limit=limit, offset=offset), want)


@pytest.mark.parametrize(
    ("condition", "keep"),
    [
        ("n >= 4990", lambda row: row["n"] >= 4990),
        ("f IS NULL AND n < 100", lambda row: row["f"] is None and row["n"] < 100),
        ("s = ''", lambda row: row["s"] == ""),
        ("NOT (f > 10)", lambda row: row["f"] is not None and not row["f"] > 10),
        ([("n", "in", [3, 4999, 70000])], lambda row: row["n"] in (3, 4999)),
        (pilum.col("s").is_null() & (pilum.col("n") > 4000), lambda row: row["s"] is None and row["n"] > 4000),
    ],
)
def test_a_condition_keeps_the_rows_where_it_is_true(uri, condition, keep):
    want = TABLE.filter(pa.array([bool(keep(row)) for row in TABLE.to_pylist()]))
    ds = pilum.dataset(uri)
    assert_same(ds.to_table(filter=condition), want)
    assert ds.count_rows(condition) == want.num_rows
    assert_same(ds.to_table(["l"], condition, limit=3, offset=1), want.select(["l"]).slice(1, 3))


def test_batches_are_no_larger_than_asked_for(uri):
    batches = list(pilum.dataset(uri).to_batches(batch_rows=300))
    assert max(batch.num_rows for batch in batches) <= 300
    assert_same(pa.Table.from_batches(batches), TABLE)
    assert_same(pilum.dataset(uri).to_reader(["n"]).read_all(), TABLE.select(["n"]))


def test_a_scanner_can_run_again_and_say_what_it_did(uri):
    scanner = pilum.dataset(uri).scanner(["n", "s"], filter="n < 10")
    assert scanner.count_rows() == 10
    assert_same(scanner.to_table(), scanner.to_table())
    assert scanner.schema == TABLE.select(["n", "s"]).schema
    assert isinstance(scanner.explain(), str)
    assert scanner.explain()
    assert scanner.metrics.rows_returned == 10
    assert 0 < scanner.metrics.peak_bytes < 10_000


def test_a_scan_tells_what_its_statistics_left_out(tmp_path):
    ds = pilum.write_dataset(
        pa.table({"n": range(10_000)}), tmp_path / "t", max_rows_per_file=1000, max_rows_per_page=100
    )
    scanner = ds.scanner(filter="n BETWEEN 4250 AND 4349")
    text = scanner.explain(analyze=True)
    done = scanner.metrics
    assert (done.fragments_pruned, done.pages_total, done.pages_pruned) == (9, 100, 98)
    assert (done.rows_scanned, done.rows_returned) == (200, 100)
    assert "filter: n BETWEEN 4250 AND 4349 (reads n)" in text
    assert "left out by statistics: 9 fragments, 98 of 100 pages" in text
    assert "rows: 200 looked at, 100 returned" in text
    assert "left out" not in scanner.explain()
    assert ds.scanner(filter="n >= 0").explain(analyze=True).count("0 fragments, 0 of 100 pages") == 1


@pytest.mark.parametrize(
    "places", [[], [0], [4999], [3, 3, 3], [4999, 0, 1999, 2000, 2001], list(range(0, ROWS, 37))[::-1]]
)
def test_take_keeps_order_and_repeats(uri, places):
    ds = pilum.dataset(uri)
    indices = pa.array(places, pa.int64())
    assert_same(ds.take(places), TABLE.take(indices))
    assert_same(ds.take(indices, ["s", "f"]), TABLE.select(["s", "f"]).take(indices))


def test_rows_are_taken_by_their_id(uri, tmp_path):
    ids = [(2 << 32) + 7, 5, 5, 1 << 32]
    places = pa.array([4007, 5, 5, 2000], pa.int64())
    assert_same(pilum.dataset(uri).take_rows(ids, ["n"]), TABLE.select(["n"]).take(places))
    stable = pilum.write_dataset(TABLE, tmp_path / "stable", stable_row_ids=True)
    assert_same(stable.take_rows([4999, 0]), TABLE.take(pa.array([4999, 0], pa.int64())))
    with pytest.raises(pilum.PilumError, match="77777"):
        stable.take_rows([77777])


def test_row_ids_and_addresses_are_columns(uri):
    got = pilum.dataset(uri).to_table(["n"], with_row_id=True, with_row_address=True)
    assert got.schema.field("_rowid").type == pa.uint64()
    assert got["_rowaddr"].to_pylist()[1999:2001] == [1999, 1 << 32]


def test_row_ids_and_addresses_are_returned_with_computed_columns(uri):
    ds = pilum.dataset(uri)
    wanted = ds.to_table(columns=["n"], with_row_id=True, with_row_address=True, filter="n > 1990")
    found = ds.to_table(columns={"n": None}, with_row_id=True, with_row_address=True, filter="n > 1990")
    assert found.schema == wanted.schema
    assert found.equals(wanted)
    assert ds.to_table({"b": "n + 1"}, with_row_address=True).column_names == ["b", "_rowaddr"]
    assert ds.to_table({"_rowid": None, "b": "n"}, with_row_id=True).column_names == ["_rowid", "b"]
    with pytest.raises(pilum.InvalidInputError, match="with_row_id adds a column of this name"):
        ds.to_table({"_rowid": "n"}, with_row_id=True)


def test_asof_the_time_of_a_version_opens_this_version(tmp_path):
    ds = pilum.write_dataset(pa.table({"a": [0]}), tmp_path / "t").dataset
    for number in range(1, 20):
        ds = ds.append(pa.table({"a": [number]})).dataset
    for version in ds.versions():
        # Manifests store times in nanoseconds, and Python has only microseconds: the rounded time must still open the version.
        assert pilum.dataset(tmp_path / "t", asof=version.timestamp).version == version.version


def test_history_can_be_walked(tmp_path):
    before = dt.datetime.now(dt.UTC)
    ds = pilum.write_dataset(TABLE, tmp_path / "t", properties={"why": "first"})
    time.sleep(0.01)
    between = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    ds = ds.append(TABLE.slice(0, 10))
    ds = ds.overwrite(TABLE.slice(0, 3).select(["n"]))
    assert (ds.version, ds.latest_version(), ds.count_rows()) == (3, 3, 3)
    history = ds.versions()
    assert [version.version for version in history] == [1, 2, 3]
    assert [version.num_rows for version in history] == [ROWS, ROWS + 10, 3]
    assert history[0].properties.get("why") == "first"
    assert history[0].timestamp >= before - dt.timedelta(seconds=1)
    assert_same(ds.checkout(1).to_table(), TABLE)
    assert pilum.dataset(tmp_path / "t", version=2).count_rows() == ROWS + 10
    assert pilum.dataset(tmp_path / "t", asof=between).version == 1
    assert pilum.dataset(tmp_path / "t", asof=dt.datetime.now()).version == 3
    with pytest.raises(pilum.NotFoundError):
        pilum.dataset(tmp_path / "t", asof=before - dt.timedelta(days=1))
    restored = ds.checkout(1).restore()
    assert restored.version == 4
    assert_same(restored.to_table(), TABLE)
    assert_same(pilum.dataset(tmp_path / "t").to_table(), TABLE)


def test_tags_name_versions(uri):
    ds = pilum.dataset(uri)
    ds.append(TABLE)
    ds.tags.create("first")
    ds.tags.create("second.v-2_x", 2)
    assert ds.tags.list() == {"first": 1, "second.v-2_x": 2}
    assert pilum.dataset(uri, version="second.v-2_x").version == 2
    assert ds.checkout("first").version == 1
    with pytest.raises(pilum.AlreadyExistsError):
        ds.tags.create("first", 2)
    ds.tags.delete("first")
    for missing in (lambda: ds.tags.delete("first"), lambda: pilum.dataset(uri, version="first")):
        with pytest.raises(pilum.NotFoundError, match="first"):
            missing()


def test_datasets_compare_and_travel_by_pickle(uri):
    ds = pilum.dataset(uri)
    again = pickle.loads(pickle.dumps(ds))
    assert again == ds
    assert hash(again) == hash(ds)
    assert_same(again.to_table(), TABLE)
    ds.append(TABLE)
    assert pickle.loads(pickle.dumps(ds)).version == 1
    assert ds != ds.checkout(2)


def test_tasks_divide_a_scan_without_loss(uri):
    ds = pilum.dataset(uri)
    scanner = ds.scanner(["n", "s"], filter="n % 2 = 0")
    for count in (1, 2, 3, 9):
        tasks = pickle.loads(pickle.dumps(scanner.tasks(count)))
        assert len(tasks) == min(count, 3)
        parts = [task.to_reader().read_all() for task in tasks]
        assert_same(pa.concat_tables(parts), scanner.to_table())
    tasks = scanner.tasks(2)
    ds.append(TABLE)
    assert sum(task.to_reader().read_all().num_rows for task in tasks) == ROWS // 2
    assert len(scanner.tasks()) == 1
    with pytest.raises(pilum.InvalidInputError, match="limit"):
        ds.scanner(limit=3).tasks()


def test_the_same_commit_id_commits_once(tmp_path):
    first = pilum.write_dataset(TABLE, tmp_path / "t", commit_id="create")
    again = pilum.write_dataset(TABLE, tmp_path / "t", commit_id="create")
    assert first.version == again.version == 1
    for _ in range(3):
        assert pilum.dataset(tmp_path / "t").append(TABLE, commit_id="job 7").version == 2
    assert pilum.dataset(tmp_path / "t").append(TABLE, commit_id="job 8").version == 3
    assert pilum.dataset(tmp_path / "t").append(TABLE, commit_id="job 7").version in (2, 3)
    assert pilum.dataset(tmp_path / "t").count_rows() == 3 * ROWS


def test_a_table_in_memory_is_a_table():
    uri = "memory://somewhere/t"
    ds = pilum.write_dataset(TABLE, uri)
    ds = ds.append(TABLE)
    assert_same(pilum.dataset(uri).to_table(), pa.concat_tables([TABLE, TABLE]))
    assert_same(pilum.dataset(uri, version=1).take([7, 4000]), TABLE.take([7, 4000]))


@pytest.mark.parametrize(
    "shape", [list, tuple, iter, pa.array, lambda them: np.array(them, np.uint16), lambda them: [*map(np.int64, them)]]
)
@pytest.mark.parametrize("step", [2, 700])
def test_positions_come_in_any_sequence(uri, shape, step):
    """So many at once that two threads gather them, and few."""
    places = [*range(0, ROWS, step), *range(1, ROWS, 2 * step), 3, 3]
    assert_same(pilum.dataset(uri).take(shape(places)), TABLE.take(places))


def test_a_file_url_and_a_path_are_the_same_table(uri):
    assert_same(pilum.dataset(f"file://{uri}").to_table(), TABLE)


def test_a_relative_path_is_relative_to_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pilum.write_dataset(TABLE, "here")
    tasks = pilum.dataset("here").scanner().tasks()
    monkeypatch.chdir("/")
    assert sum(task.to_reader().read_all().num_rows for task in tasks) == ROWS


def test_pieces_are_written_apart_and_committed_once(tmp_path):
    uri = str(tmp_path / "t")
    pieces = [
        piece for start in (0, 2500) for piece in pilum.fragments.write(TABLE.slice(start, 2500), uri, mode="create")
    ]
    assert all(isinstance(piece, bytes) for piece in pieces)
    with pytest.raises(pilum.NotFoundError):
        pilum.dataset(uri)
    made = pilum.commit(uri, pilum.Create(pieces))
    assert (made.version, made.rows) == (1, ROWS)
    assert_same(made.to_table(), TABLE)
    more = pilum.fragments.write(TABLE.slice(0, 10), uri)
    appended = pilum.commit(uri, pilum.Append(more), read_version=1, commit_id="x", properties={"by": "two"})
    assert_same(appended.to_table(), pa.concat_tables([TABLE, TABLE.slice(0, 10)]))
    again = pilum.commit(uri, pilum.Append(more), read_version=1, commit_id="x")
    assert (again.version, appended.rows, again.rows, again.bytes) == (2, 10, 0, 0)
    replaced = pilum.commit(uri, pilum.Overwrite(pilum.fragments.write(TABLE.select(["n"]), uri, mode="overwrite")))
    assert_same(replaced.to_table(), TABLE.select(["n"]))
    with pytest.raises(pilum.InvalidInputError, match="pieces"):
        pilum.commit(uri, pilum.Append([]))


def test_two_appends_from_the_same_version_both_land(tmp_path):
    uri = str(tmp_path / "t")
    pilum.write_dataset(TABLE, uri)
    one, two = (pilum.fragments.write(TABLE.slice(0, size), uri) for size in (10, 20))
    pilum.commit(uri, pilum.Append(one), read_version=1)
    assert pilum.commit(uri, pilum.Append(two), read_version=1).version == 3
    assert pilum.dataset(uri).count_rows() == ROWS + 30


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_every_mode_makes_a_table_where_there_is_none(tmp_path, mode):
    ds = pilum.write_dataset(TABLE, tmp_path / "not" / "yet" / "t", mode=mode)
    assert ds.version == 1
    assert_same(ds.to_table(), TABLE)


def test_an_empty_table_has_columns_and_no_rows(tmp_path):
    ds = pilum.write_dataset(TABLE.schema.empty_table(), tmp_path / "t")
    assert_same(ds.to_table(), TABLE.schema.empty_table())
    assert (ds.count_rows(), ds.fragments, ds.scanner().tasks()) == (0, [], [])
    assert_same(ds.take([]), TABLE.schema.empty_table())
    assert_same(ds.append(TABLE).to_table(), TABLE)
