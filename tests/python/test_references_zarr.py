"""zarr 3, xarray and dask on reference sets through `ZarrStore`, and references over HDF5 and Parquet files."""

import multiprocessing
import pickle

import dask
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray
import zarr

import pilum
from pilum import references
from pilum.references.chunks import chunk_decoders, decoded

ROWS, COLUMNS = 60, 50
PACKED = np.arange(ROWS * COLUMNS, dtype="i4").reshape(ROWS, COLUMNS)


@pytest.fixture
def archive(tmp_path):
    """Return an HDF5 file with a plain and a compressed array of two dimensions, and its values."""
    path = tmp_path / "archive.h5"
    values = np.arange(ROWS * COLUMNS, dtype="f8").reshape(ROWS, COLUMNS)
    values[3, 4] = np.nan
    with h5py.File(path, "w") as file:
        file.create_dataset("plain", data=values, chunks=(7, 11))
        file.create_dataset("group/packed", data=PACKED, chunks=(20, 50), compression="gzip", shuffle=True)
        file["plain"].attrs["units"] = "m"
    return path, values


def test_an_hdf5_file_is_read_by_zarr_and_xarray(archive):
    path, values = archive
    refs = references.from_hdf5(path)
    group = zarr.open_group(references.ZarrStore(refs), mode="r")
    np.testing.assert_array_equal(group["plain"][...], values)
    np.testing.assert_array_equal(group["group/packed"][5:33, 7:], PACKED[5:33, 7:])
    assert sorted(group) == ["group", "plain"]
    # xarray would take values equal to the fill value of the file, 0, for missing ones.
    options = {"consolidated": False, "chunks": None, "mask_and_scale": False}
    opened = xarray.open_zarr(references.ZarrStore(refs), **options)
    np.testing.assert_array_equal(opened["plain"].values, values)
    assert opened["plain"].attrs["units"] == "m"


def test_sets_of_every_form_give_zarr_the_same_values(archive, tmp_path):
    path, values = archive
    refs = references.from_hdf5(path, inline_threshold=0)
    refs.to_json(tmp_path / "zero.json", version=0)
    refs.to_json(tmp_path / "one.json", version=1)
    refs.to_parquet(tmp_path / "set.parq", record_size=7)
    for name in ("zero.json", "one.json", "set.parq"):
        store = references.ZarrStore(tmp_path / name)
        np.testing.assert_array_equal(zarr.open_array(store, path="plain", mode="r")[...], values)


def test_a_missing_chunk_is_the_fill_value_and_an_unreachable_one_an_error(archive):
    path, values = archive
    refs = references.from_hdf5(path, inline_threshold=0)
    missing = zarr.open_array(references.ZarrStore(refs.changed({"plain/0.0": None})), path="plain", mode="r")
    assert (missing[:7, :11] == missing.fill_value).all()
    np.testing.assert_array_equal(missing[7:], values[7:])
    gone = refs.changed({"plain/0.0": (str(path) + ".gone", 0, 616)})
    with pytest.raises(references.ReferenceNotReachable):
        zarr.open_array(references.ZarrStore(gone), path="plain", mode="r")[...]
    refused = refs.changed({"plain/0.0": ("http://169.254.169.254/x", 0, 616)})
    with pytest.raises(references.TargetRefusedError):
        zarr.open_array(references.ZarrStore(refused), path="plain", mode="r")[...]


def test_neighbours_that_zarr_asks_for_at_once_are_one_call(archive, monkeypatch):
    path, values = archive
    refs = references.from_hdf5(path, inline_threshold=0)
    calls = []
    read_many = references.References.read_many
    monkeypatch.setattr(
        references.References, "read_many", lambda self, wanted: calls.append(len(wanted)) or read_many(self, wanted)
    )
    with zarr.config.set({"async.concurrency": 100}):
        array = zarr.open_array(references.ZarrStore(refs), path="plain", mode="r")
        calls.clear()
        np.testing.assert_array_equal(array[...], values)
    assert calls == [array.nchunks]


def test_byte_ranges_are_those_of_the_value(tmp_path):
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    (tmp_path / "f").write_bytes(bytes(range(100)))
    store = references.ZarrStore({"k": [str(tmp_path / "f"), 10, 20], "i": "inline"})
    prototype = default_buffer_prototype()
    whole = bytes(range(10, 30))
    for asked, wanted in [
        (None, whole),
        (RangeByteRequest(2, 5), whole[2:5]),
        (RangeByteRequest(15, 500), whole[15:]),
        (OffsetByteRequest(18), whole[18:]),
        (SuffixByteRequest(4), whole[-4:]),
        (SuffixByteRequest(400), whole),
    ]:
        assert sync(store.get("k", prototype, asked)).to_bytes() == wanted
    both = sync(store.get_partial_values(prototype, [("i", RangeByteRequest(0, 2)), ("none", None), ("k", None)]))
    assert [it and it.to_bytes() for it in both] == [b"in", None, whole]
    assert sync(store.getsize("k")) == 20
    with pytest.raises(FileNotFoundError):
        sync(store.getsize("none"))
    with pytest.raises(pilum.UnsupportedError):
        references.ZarrStore({}, read_only=False)
    with pytest.raises(ValueError, match="read-only"):
        zarr.create_array(store, name="new", shape=(1,), dtype="i4")


def test_listings_are_those_of_a_store_of_zarr(tmp_path):
    from zarr.core.sync import sync

    async def listed(keys):
        return sorted([key async for key in keys])

    keys = ["zarr.json", "a/zarr.json", "a/c/0/1", "ab/zarr.json", "a/b/c"]
    store = references.ZarrStore(dict.fromkeys(keys, "x"))
    plain = zarr.storage.MemoryStore({key: zarr.core.buffer.cpu.Buffer.from_bytes(b"x") for key in keys})
    for prefix in ("", "a", "a/", "a/c", "none"):
        assert sync(listed(store.list_dir(prefix))) == sync(listed(plain.list_dir(prefix))), prefix
        assert sync(listed(store.list_prefix(prefix))) == sync(listed(plain.list_prefix(prefix))), prefix
    assert sync(listed(store.list())) == sorted(keys)
    assert sync(store.exists("a/b/c"))
    assert not sync(store.exists("a/b"))


def summed(refs):
    return float(np.nansum(zarr.open_array(references.ZarrStore(refs), path="plain", mode="r")[...]))


def test_a_process_that_is_forked_reads_on(archive):
    """Both before and after the parent has read, with a set that the parent opened."""
    path, values = archive
    refs = references.from_hdf5(path)
    wanted = float(np.nansum(values))
    for _ in range(2):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert len(refs.read("plain/0.0")) == 616
            sums = pool.map_async(forked, [pickle.dumps(refs)] * 4).get(60)
        assert sums == [wanted] * 4
    assert summed(refs) == wanted


def forked(pickled):
    """Sum in a child with a loop of its own: zarr's thread does not survive a fork, the engine must."""
    refs = pickle.loads(pickled)
    shape, chunks = (ROWS, COLUMNS), (7, 11)
    out = np.empty(shape)
    for key in refs.keys("plain/"):
        row, _, column = key.removeprefix("plain/").partition(".")
        if not row.isdigit():
            continue
        top, left = int(row) * chunks[0], int(column) * chunks[1]
        part = np.frombuffer(refs[key], "f8").reshape(chunks)[: shape[0] - top, : shape[1] - left]
        out[top : top + chunks[0], left : left + chunks[1]] = part
    return float(np.nansum(out))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask_computes_as_on_the_file_itself(archive, scheduler):
    path, values = archive
    refs = references.from_hdf5(path)
    opened = xarray.open_zarr(references.ZarrStore(refs), consolidated=False, chunks={})
    with dask.config.set(scheduler=scheduler, num_workers=2):
        assert float(opened["plain"].sum()) == float(np.nansum(values))
        np.testing.assert_array_equal((opened["plain"] * 2)[5:9].compute().values, values[5:9] * 2)


def test_column_chunks_of_parquet_files_are_ranges(tmp_path):
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for at, path in enumerate(files):
        table = pa.table({"x": range(at, at + 100), "s": [{"m": str(it)} for it in range(100)]})
        pq.write_table(table, path, row_group_size=40)
    refs = references.from_parquet(files)
    assert sorted(refs.keys()) == sorted(f"{name}/{at}" for name in ("x", "s.m") for at in range(6))
    for at in range(6):
        chunk = pq.ParquetFile(files[at // 3]).metadata.row_group(at % 3).column(0)
        start = chunk.dictionary_page_offset
        assert refs[f"x/{at}"] == files[at // 3].read_bytes()[start : start + chunk.total_compressed_size]
    (tmp_path / "c.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(pilum.CorruptError):
        references.from_parquet(tmp_path / "c.parquet")


def test_chunks_are_decoded_as_by_zarr(archive):
    path, _ = archive
    refs = references.from_hdf5(path)
    arrays = chunk_decoders(refs)
    packed = decoded("group/packed/1.0", refs["group/packed/1.0"], arrays)
    np.testing.assert_array_equal(np.frombuffer(packed, "<i4").reshape(20, 50), PACKED[20:40])
    assert decoded("plain/.zattrs", b"as it is", arrays) == b"as it is"
    columns = zarr.storage.MemoryStore()
    array = zarr.create_array(columns, name="f", shape=(4, 6), chunks=(2, 3), dtype="<i2", zarr_format=2, order="F")
    array[...] = np.arange(24).reshape(4, 6)
    stored = {key: bytes(value.to_bytes()) for key, value in columns._store_dict.items()}
    made = references.from_arrow(
        pa.table({"key": list(stored), "path": pa.nulls(len(stored), pa.string()), "offset": pa.nulls(len(stored), pa.int64()),
                  "size": pa.nulls(len(stored), pa.int64()), "raw": list(stored.values())})
    )  # fmt: skip
    chunk = decoded("f/1.1", made["f/1.1"], chunk_decoders(made))
    np.testing.assert_array_equal(np.frombuffer(chunk, "<i2").reshape(2, 3), np.arange(24).reshape(4, 6)[2:, 3:])
    with pytest.raises(pilum.CorruptError, match=r"'plain/0\.0'"):
        decoded("plain/0.0", b"short", arrays)
    metadata = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<i4", "compressor": {"id": "unknown"}}
    unknown = references.open({"x/.zarray": metadata})
    with pytest.raises(pilum.UnsupportedError, match="no codec 'unknown'"):
        chunk_decoders(unknown)
    damaged = references.open({"x/.zarray": "[]"})
    with pytest.raises(pilum.InvalidInputError, match=r"x/\.zarray"):
        chunk_decoders(damaged)
