"""Reference sets in Spark."""

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
