"""References over pilum tables, opened by zarr and xarray."""

import fsspec
import numpy as np
import pyarrow as pa
import pytest
import xarray
import zarr

import pilum
from pilum import references


def rows(count, first):
    at = np.arange(first, first + count)
    return pa.table(
        {
            "i": pa.array(at, pa.int32()),
            "f": pa.array(np.sqrt(at)),
            "h": pa.array((at % 100).astype("f2")),
            "text": pa.array([str(it) for it in at]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(count * 3), pa.float32()), 3),
            "t": pa.array(at, pa.timestamp("us")),
            "s": pa.array([{"x": int(it)} for it in at]),
        }
    )


@pytest.mark.parametrize("counts", [[5000], [1024, 5000], [1000, 1000, 37], [7, 5, 3]])
def test_columns_are_arrays_with_the_values_of_the_table(tmp_path, counts):
    for at, count in enumerate(counts):
        mode = "append" if at else "create"
        ds = pilum.write_dataset(rows(count, at), tmp_path / "table", mode=mode, max_rows_per_page=1024)
    refs = references.from_dataset(ds)
    table = ds.to_table()
    fs = references.FileSystem(refs, asynchronous=True, remote_protocol="file")
    group = zarr.open_group(zarr.storage.FsspecStore(fs, read_only=True), mode="r")
    for name in ("i", "f", "h"):
        np.testing.assert_array_equal(group[name][...], table[name].to_numpy())
    np.testing.assert_array_equal(group["s/x"][...], table["s"].combine_chunks().field("x").to_numpy())
    np.testing.assert_array_equal(group["v"][...].ravel(), table["v"].combine_chunks().flatten().to_numpy())
    assert group.attrs["pilum_version"] == ds.version
    refs.to_json(tmp_path / "refs.json")
    storage = {"fo": str(tmp_path / "refs.json"), "remote_protocol": "file"}
    with xarray.open_dataset(
        "reference://", engine="zarr", backend_kwargs={"consolidated": False, "storage_options": storage}
    ) as opened:
        np.testing.assert_array_equal(opened["t"].values, table["t"].to_numpy())


def test_what_zarr_cannot_hold_is_refused(tmp_path):
    ds = pilum.write_dataset(rows(10, 0), tmp_path / "a")
    with pytest.raises(pilum.UnsupportedError, match="'text'"):
        references.from_dataset(ds, columns=["text"])
    nulls = pilum.write_dataset(pa.table({"x": pa.array([1, None])}), tmp_path / "b")
    with pytest.raises(pilum.UnsupportedError, match="nulls"):
        references.from_dataset(nulls)
    assert "x/0" in references.from_dataset(nulls, nulls="zero")
    deleted = pilum.dataset(tmp_path / "a")
    deleted.delete("i < 3")
    with pytest.raises(pilum.UnsupportedError, match="compact"):
        references.from_dataset(pilum.dataset(tmp_path / "a"))


def test_fsspec_opens_what_is_written(tmp_path):
    ds = pilum.write_dataset(rows(100, 0), tmp_path / "table")
    references.from_dataset(ds, columns=["i"]).to_json(tmp_path / "refs.json", version=0)
    fs = fsspec.filesystem(
        "reference", fo=str(tmp_path / "refs.json"), remote_protocol="file", skip_instance_cache=True
    )
    assert np.frombuffer(fs.cat("i/0"), "<i4").tolist() == list(range(100))
