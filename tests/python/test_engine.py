"""The engine's border: what crosses it, what is refused there, what an error looks like on the other side."""

from __future__ import annotations

import errno
import os
import pickle
import time

import pyarrow as pa
import pytest

import pilum
from pilum import _pilum

TABLE = pa.table({"a": pa.array(range(50_000), pa.int64()), "s": [f"row {i}" for i in range(50_000)]})

CLASSES = {
    "corrupt": (_pilum.CorruptError, Exception),
    "not_found": (_pilum.NotFoundError, FileNotFoundError),
    "already_exists": (_pilum.AlreadyExistsError, FileExistsError),
    "unsupported": (_pilum.UnsupportedError, NotImplementedError),
    "invalid_input": (_pilum.InvalidInputError, ValueError),
    "conflict": (_pilum.ConflictError, Exception),
    "commit_unknown": (_pilum.CommitUnknownError, Exception),
    "store": (_pilum.StoreError, OSError),
    "limit": (_pilum.LimitError, MemoryError),
    "bug": (_pilum.InternalError, Exception),
}


@pytest.fixture
def uri(tmp_path):
    path = tmp_path / "t"
    pilum.write_dataset(TABLE, path, max_rows_per_file=10_000, durability="none")
    return str(path)


class Rows:
    """Exports Arrow and is nothing else."""

    def __init__(self, stream=None, array=None):
        if stream is not None:
            self.__arrow_c_stream__ = stream.__arrow_c_stream__
        if array is not None:
            self.__arrow_c_array__ = array.__arrow_c_array__


def files(path):
    return [name for _, _, names in os.walk(path) for name in names]


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_is_caught_by_kind_by_class_and_by_the_builtin_class(kind):
    class_, builtin = CLASSES[kind]
    assert issubclass(class_, pilum.PilumError)
    assert issubclass(class_, builtin)
    assert class_.kind == kind
    assert getattr(pilum, class_.__name__) is class_
    raised = pickle.loads(pickle.dumps(class_("what happened")))
    assert type(raised) is class_
    assert str(raised) == "what happened"


def test_an_error_of_the_system_keeps_its_number(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        pilum.dataset(tmp_path / "missing")
    assert missing.value.errno == errno.ENOENT
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError) as refusal:
        pilum.write_dataset(TABLE, tmp_path / "file" / "t")
    assert isinstance(refusal.value, pilum.StoreError)
    assert refusal.value.errno == errno.ENOTDIR


@pytest.mark.parametrize("option", [{"limit": -1}, {"offset": -1}, {"batch_rows": 1 << 70}, {"fragments": [-1]}])
def test_a_number_that_none_can_be_is_invalid_input(uri, option):
    with pytest.raises(pilum.InvalidInputError):
        pilum.dataset(uri).to_table(**option)


def test_another_layout_of_the_same_values_is_handed_out_on_request(uri):
    wished = pa.schema([("a", pa.int64()), ("s", pa.large_string())])
    table = pa.table(pilum.dataset(uri).scanner(), schema=wished)
    assert table.schema == wished
    assert table.column("s").to_pylist() == TABLE.column("s").to_pylist()


def test_other_values_are_not_handed_out_on_request(uri):
    scan = _pilum.open(uri).scan(columns=["a"])
    wished = pa.schema([("a", pa.int8())]).__arrow_c_schema__()
    capsule = scan.__arrow_c_stream__(wished)
    reader = pa.RecordBatchReader._import_from_c_capsule(capsule)
    assert reader.schema == pa.schema([("a", pa.int64())])
    with pytest.raises(pilum.InvalidInputError, match="others were asked for"):
        scan.__arrow_c_stream__(pa.schema([("b", pa.int64())]).__arrow_c_schema__())


def test_text_that_is_none_does_not_reach_a_file(tmp_path):
    broken = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    with pytest.raises(pilum.InvalidInputError, match="`s`"):
        pilum.write_dataset(pa.table({"s": broken}), tmp_path / "t")
    assert not files(tmp_path)


def test_a_row_that_is_missing_as_a_whole_is_refused(tmp_path):
    rows = pa.StructArray.from_arrays([pa.array([1, 2])], names=["a"], mask=pa.array([False, True]))
    with pytest.raises(pilum.InvalidInputError, match="row"):
        _pilum.write_dataset(Rows(array=rows), str(tmp_path / "t"))
    assert not files(tmp_path)


def test_values_without_columns_are_refused(tmp_path):
    with pytest.raises(pilum.InvalidInputError, match="columns"):
        _pilum.write_dataset(Rows(stream=pa.chunked_array([[1, 2]])), str(tmp_path / "t"))


def test_a_stream_is_pulled_without_knowing_who_made_it(tmp_path):
    written = _pilum.write_dataset(Rows(stream=TABLE), str(tmp_path / "t"))
    assert (written.rows, written.version) == (TABLE.num_rows, 1)
    assert pilum.dataset(tmp_path / "t").to_table().equals(TABLE)


def test_progress_grows_and_ends_with_all_rows(tmp_path):
    told = []

    def batches():
        for batch in TABLE.to_batches(max_chunksize=5_000):
            time.sleep(0.02)
            yield batch

    pilum.write_dataset(batches(), tmp_path / "t", schema=TABLE.schema, progress=lambda *rows: told.append(rows))
    done = [rows for rows, _ in told]
    assert done == sorted(set(done))
    assert done[-1] == TABLE.num_rows
    assert len(done) > 2
    pilum.write_dataset(TABLE, tmp_path / "u", progress=lambda *rows: told.append(rows))
    assert told[-1] == (TABLE.num_rows, TABLE.num_rows)


def test_an_exception_of_the_progress_ends_the_write_and_leaves_no_file(tmp_path):
    def batches():
        while True:
            yield TABLE.to_batches()[0]

    def full(done_rows, _):
        if done_rows > 200_000:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        pilum.write_dataset(batches(), tmp_path / "t", schema=TABLE.schema, max_rows_per_file=60_000, progress=full)
    assert not files(tmp_path)


def test_the_engine_can_be_called_while_it_works(uri, tmp_path):
    counted = []
    there = pilum.dataset(uri)
    # The rows come from a scan, and the progress asks for another.
    pilum.write_dataset(there, tmp_path / "copy", progress=lambda *_: counted.append(there.count_rows("a < 10")))
    assert pilum.dataset(tmp_path / "copy").to_table().equals(TABLE)
    assert set(counted) == {10}


def test_a_running_scan_is_its_process_own(uri):
    version = _pilum.open(uri)
    running = iter(version.scan(batch_rows=1_000))
    first = next(running)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            next(running)
        except pilum.InvalidInputError:
            status = 0 if version.count_rows() == TABLE.num_rows else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    rest = sum(batch.num_rows for batch in running)
    assert first.num_rows + rest == TABLE.num_rows


def test_children_forked_while_others_work_do_not_hang(uri, tmp_path):
    import threading

    done = threading.Event()

    def write():
        while not done.is_set():
            pilum.write_dataset(TABLE, tmp_path / "other", mode="overwrite", durability="none")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        there = pilum.dataset(uri)
        for _ in range(10):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = 0 if there.take([7]).column("a").to_pylist() == [7] else 2
                finally:
                    os._exit(status)
            deadline = time.monotonic() + 30
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
                assert time.monotonic() < deadline, "the child hangs"
                time.sleep(0.005)
            assert ended[1] == 0
    finally:
        done.set()
        writer.join()
