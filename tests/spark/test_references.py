"""Reference sets in Spark."""

import numcodecs
import numpy as np

from pilum import spark as ps


def test_keys_and_bytes_are_rows(spark, tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(100)))
    (tmp_path / "b").write_bytes(bytes(range(100, 200)))
    refs = {f"x/{it}": [str(tmp_path / "ab"[it % 2]), it, 3] for it in range(20)}
    refs |= {"x/.zarray": "{}", "y/0": "other", "x/w": [str(tmp_path / "a")]}
    df = ps.read_references(spark, refs, prefix="x/", tasks=3)
    found = {row.key: bytes(row.data) for row in df.collect()}
    assert len(found) == 22
    assert found["x/7"] == bytes([107, 108, 109])
    assert found["x/.zarray"] == b"{}"
    assert found["x/w"] == bytes(range(100))


def test_chunks_are_decoded_in_the_tasks(spark, tmp_path):
    values = np.arange(100, dtype="<i4")
    packed = numcodecs.Zlib(1).encode(values)
    (tmp_path / "f").write_bytes(packed)
    metadata = {"zarr_format": 2, "shape": [100], "chunks": [100], "dtype": "<i4", "filters": None, "order": "C"}
    metadata["compressor"] = {"id": "zlib", "level": 1}
    refs = {"x/.zarray": metadata, "x/0": [str(tmp_path / "f")]}
    found = {row.key: bytes(row.data) for row in ps.read_references(spark, refs, decode=True).collect()}
    assert np.array_equal(np.frombuffer(found["x/0"], "<i4"), values)
    assert found["x/.zarray"].startswith(b"{")
