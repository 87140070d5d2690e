"""Signals, forks, threads: the engine lives in other people's processes."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same
from support.stores import moto_server

ROWS = 200_000
TABLE = pa.table({"n": pa.array(range(ROWS), pa.int64()), "s": [f"row {i}" for i in range(ROWS)]})


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("processes") / "t")
    pilum.write_dataset(TABLE, path, max_rows_per_file=50_000, max_rows_per_page=1000)
    return path


def total(uri: str) -> int:
    return sum(sum(batch.column(0).to_pylist()) for batch in pilum.dataset(uri).to_batches(["n"]))


def run(task: pilum.ScanTask) -> int:
    return sum(batch.num_rows for batch in task.to_batches())


EXPECTED = ROWS * (ROWS - 1) // 2


@pytest.mark.timeout(60)
def test_a_child_reads_after_the_parent_did(uri):
    ds = pilum.dataset(uri)
    assert total(uri) == EXPECTED
    for _ in range(3):
        child = os.fork()
        if child == 0:
            # Both a table opened before the fork and one opened after it; the exit code is all that comes back.
            code = 1
            try:
                held = sum(batch.num_rows for batch in ds.to_batches(["n"]))
                taken = ds.take([5, 199_999]).num_rows
                code = 0 if (held, taken, total(uri)) == (ROWS, 2, EXPECTED) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert total(uri) == EXPECTED


@pytest.mark.timeout(60)
def test_children_that_delete_after_the_parent_did_name_their_files_apart(tmp_path):
    path = tmp_path / "t"
    ds = pilum.write_dataset(pa.table({"n": list(range(100))}), path)
    ds.delete("n = 0")
    ds = pilum.dataset(path)
    children = []
    for number in range(1, 5):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                ds.delete(f"n = {number}")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    ds = pilum.dataset(path)
    assert ds.to_table()["n"].to_pylist() == list(range(5, 100))
    assert ds.verify().ok
    deletions = [name.name.split("-") for name in (path / "_deletions").iterdir()]
    assert len({name[2] for name in deletions}) == len(deletions)


@pytest.mark.timeout(60)
def test_a_child_writes_after_the_parent_did(uri, tmp_path):
    path = tmp_path / "t"
    pilum.write_dataset(TABLE, path)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            pilum.dataset(path).append(TABLE)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pilum.dataset(path).append(TABLE).count_rows() == 3 * ROWS


@pytest.mark.timeout(120)
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_of_every_kind_run_tasks(uri, method):
    total(uri)
    tasks = pilum.dataset(uri).scanner(["n"]).tasks(4)
    assert len(tasks) == 4
    with multiprocessing.get_context(method).Pool(4) as pool:
        assert sum(pool.map(run, tasks)) == ROWS


def test_ctrl_c_ends_a_long_scan(uri):
    code = f"""
        import sys, pilum
        ds = pilum.dataset({uri!r})
        print("reading", flush=True)
        try:
            while True:
                ds.to_table()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(7)
    """
    interrupted(code)


def test_ctrl_c_ends_a_long_write(tmp_path):
    code = f"""
        import itertools, sys, pilum, pyarrow as pa
        batch = pa.record_batch({{"n": pa.array(range(1000), pa.int64())}})
        def rows():
            print("writing", flush=True)
            yield from itertools.repeat(batch)
        try:
            pilum.write_dataset(rows(), {str(tmp_path / "t")!r}, schema=batch.schema)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(7)
    """
    interrupted(code)
    with pytest.raises(pilum.NotFoundError):
        pilum.dataset(tmp_path / "t")


def interrupted(code: str) -> None:
    # Who runs the tests in the background lets them ignore Ctrl-C, and a child would too.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    with subprocess.Popen(
        [sys.executable, "-c", heard + textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail("Ctrl-C did not end it within 20 s")
        assert process.returncode == 7, err
        assert "interrupted" in out


@pytest.mark.timeout(120)
def test_other_threads_run_while_the_engine_works():
    """The store is served by threads of this process: an engine that kept the interpreter's lock would wait in vain."""
    with moto_server() as moto:
        uri, options = f"s3://{moto.new_bucket()}/t", moto.options()
        ds = pilum.write_dataset(TABLE, uri, max_rows_per_file=50_000, storage_options=options)
        assert ds.count_rows("s LIKE '%7%' AND n % 3 = 1") > 0
        assert ds.take([7, 199_999])["n"].to_pylist() == [7, 199_999]
        assert sum(batch.num_rows for batch in ds.to_batches(["n"])) == ROWS
        assert ds.delete("n < 10").count_rows() == ROWS - 10
        assert ds.append(TABLE.slice(0, 10)).compact().version > 3


def test_threads_share_a_dataset(uri):
    ds = pilum.dataset(uri)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda place: ds.take([place, place + 1])["n"].to_pylist(), range(0, 2000, 10)))
    assert counts == [[place, place + 1] for place in range(0, 2000, 10)]


def append(uri: str, number: int) -> int:
    return (
        pilum.dataset(uri).append(pa.table({"writer": pa.array([number] * 3, pa.int64())}), durability="none").version
    )


@pytest.mark.timeout(120)
def test_writers_in_processes_of_their_own_lose_nothing(tmp_path):
    path = str(tmp_path / "t")
    pilum.write_dataset(pa.table({"writer": pa.array([], pa.int64())}), path)
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        versions = pool.starmap(append, [(path, number) for number in range(24)])
    assert sorted(versions) == list(range(2, 26))
    got = pilum.dataset(path).to_table()["writer"].to_pylist()
    assert sorted(got) == sorted(number for number in range(24) for _ in range(3))


def test_a_scan_that_is_left_early_lets_go(uri):
    open_before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        batches = pilum.dataset(uri).to_batches(batch_rows=100)
        next(batches)
        batches.close()
        reader = pilum.dataset(uri).to_reader(batch_rows=100)
        reader.read_next_batch()
        del reader
    assert len(os.listdir("/proc/self/fd")) <= open_before + 8


def test_a_reader_does_not_see_what_is_written_meanwhile(tmp_path):
    path = tmp_path / "t"
    ds = pilum.write_dataset(TABLE, path, max_rows_per_file=10_000)
    batches = ds.to_batches(["n"], batch_rows=1000)
    first = next(batches)
    pilum.write_dataset(TABLE.slice(0, 1), path, mode="overwrite")
    rest = pa.Table.from_batches([first, *batches])
    assert_same(rest, TABLE.select(["n"]))


def test_bits_of_a_stream_outlive_the_dataset(uri):
    reader = pilum.dataset(uri).to_reader(["s"])
    batch = reader.read_next_batch()
    del reader
    assert batch.column(0)[0].as_py() == "row 0"
