"""Tables that releases of pylance wrote, read to the last bit, at every version."""

from __future__ import annotations

import shutil

import lance
import pytest

import pilum
from support.comparing import assert_same
from support.golden import Golden, all_golden, all_versions

VERSIONS = all_versions()
TABLES = all_golden()


def test_the_golden_tables_are_there():
    assert len(TABLES) == 63
    assert len(VERSIONS) == 144


@pytest.mark.parametrize(
    ("golden", "version"), VERSIONS, ids=[f"{golden.name}-v{version}" for golden, version in VERSIONS]
)
def test_every_version_reads_equal_to_what_its_writer_reads(golden: Golden, version: int):
    expected = golden.expected["versions"][str(version)]
    ds = pilum.dataset(golden.uri, version=version)
    assert ds.version == version
    assert ds.count_rows() == expected["num_rows"]
    # A few old versions have no expectation on file: then pylance says it on the spot.
    stored = golden.folder / expected["expected"]
    want = golden.arrow(stored.name) if stored.exists() else lance.dataset(golden.uri, version=version).to_table()
    assert_same(ds.to_table(), want, golden.name)
    fragments = [(fragment.id, fragment.num_deleted) for fragment in ds.fragments]
    assert fragments == [(f["id"], f["num_deletions"]) for f in expected["fragments"]]
    assert sum(fragment.num_rows for fragment in ds.fragments) == expected["num_rows"]


@pytest.mark.parametrize("golden", TABLES, ids=lambda golden: golden.name)
def test_newest_version_and_tags(golden: Golden):
    expected = golden.expected
    ds = pilum.dataset(golden.uri)
    assert ds.version == ds.latest_version() == expected["latest_version"]
    assert [version.version for version in ds.versions()] == sorted(int(version) for version in expected["versions"])
    tags = expected.get("tags", {})
    assert ds.tags.list() == tags
    for name, version in tags.items():
        assert pilum.dataset(golden.uri, version=name).version == version
    assert ds.data_format == "0.1"
    assert ds.compat == "lance"


@pytest.mark.parametrize("golden", TABLES, ids=lambda golden: golden.name)
def test_each_column_by_itself_and_rows_by_position(golden: Golden):
    want = golden.arrow("expected.arrow")
    ds = pilum.dataset(golden.uri)
    for name in want.column_names:
        assert_same(ds.to_table(columns=[name]), want.select([name]), f"{golden.name}.{name}")
    rows = want.num_rows
    if rows:
        places = [rows - 1, 0, rows // 2, rows // 3, 0]
        assert_same(ds.take(places), want.take(places), f"{golden.name} take")
        assert_same(ds.take(list(range(rows))), want, f"{golden.name} take all")
    assert_same(ds.to_table(limit=3, offset=max(0, rows - 5)), want.slice(max(0, rows - 5), 3), f"{golden.name} limit")


@pytest.mark.parametrize(
    "golden", [g for g in TABLES if (g.folder / "expected_rowids.arrow").exists()], ids=lambda g: g.name
)
def test_row_ids_and_addresses(golden: Golden):
    want = golden.arrow("expected_rowids.arrow")
    got = pilum.dataset(golden.uri).to_table(with_row_id=True, with_row_address=True)
    for name in ("_rowid", "_rowaddr"):
        if name in want.column_names:
            assert got[name].to_pylist() == want[name].to_pylist(), f"{golden.name}.{name}"


@pytest.mark.parametrize("golden", TABLES, ids=lambda golden: golden.name)
def test_rewritten_by_pilum_it_is_what_it_was(golden: Golden, tmp_path):
    want = golden.arrow("expected.arrow")
    pilum.write_dataset(want, tmp_path / "copy")
    assert_same(pilum.dataset(tmp_path / "copy").to_table(), want, golden.name)


def test_a_tag_outlives_what_it_was_copied_from(tmp_path):
    golden = Golden("restore_tags")
    shutil.copytree(golden.uri, tmp_path / "copy")
    ds = pilum.dataset(tmp_path / "copy")
    ds.tags.create("first", 1)
    assert pilum.dataset(tmp_path / "copy", version="first").version == 1
    assert lance.dataset(str(tmp_path / "copy")).tags.list()["first"]["version"] == 1
    ds.tags.delete("first")
    assert "first" not in ds.tags.list()
