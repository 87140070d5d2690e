"""What releases of ours wrote is read for ever; what this release wrote is written again byte for byte."""

from __future__ import annotations

import runpy
import shutil

import lance
import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same
from support.data_file import DataFile, fields
from support.golden import ROOT as PEERS
from support.releases import ROOT, Release, after, all_releases, by_key, replay

RELEASES = all_releases()


def ids(release: Release) -> str:
    return f"{release.version}-{release.name}"


def test_this_release_has_golden_tables():
    """A new release makes its folder: `python tests/golden/make_release.py`."""
    assert pilum.__version__ in {release.version for release in RELEASES}
    made = {release.name for release in RELEASES if release.version == pilum.__version__}
    assert made >= {"every_leaf", "every_dictionary", "nested", "deletions", "plain_v1_names_tags", "no_rows"}
    assert PEERS.parent == ROOT


@pytest.mark.parametrize("release", RELEASES, ids=ids)
def test_every_version_reads_as_it_was_written(release: Release):
    expected = release.expected()
    assert expected
    for version, want in expected.items():
        ds = pilum.dataset(release.uri, version=version)
        assert_same(by_key(ds.to_table()), want, f"version {version}")
        assert ds.count_rows() == want.num_rows
        got = by_key(ds.to_table(with_row_id=True))
        assert len(set(got["_rowid"].to_pylist())) == want.num_rows
        plain = ds.compat == "lance"
        if plain and want.num_rows:
            assert_same(by_key(lance.dataset(str(release.uri), version=version).to_table()), want, f"pylance {version}")
        elif not plain:
            with pytest.raises(Exception, match="cannot be read by this version"):
                lance.dataset(str(release.uri), version=version)
    report = pilum.dataset(release.uri).verify()
    assert (report.problems, report.uncovered, report.orphans) == ([], [], [])
    steps = release.recipe["steps"]
    assert pilum.dataset(release.uri).tags.list() == dict(step["tag"] for step in steps if "tag" in step)


@pytest.mark.parametrize("release", RELEASES, ids=ids)
def test_an_old_table_goes_on(release: Release, tmp_path):
    """This library appends to, deletes from and compacts what the release left."""
    shutil.copytree(release.uri, tmp_path / "t")
    ds = pilum.dataset(tmp_path / "t")
    rows = by_key(ds.to_table())
    more = release.rows(0)
    ds.append(more)
    pilum.dataset(tmp_path / "t").delete("k % 9 = 4")
    pilum.dataset(tmp_path / "t").compact()
    want = after({"delete": [9, 4]}, None, pa.concat_tables([rows, more]))
    assert want is not None
    assert_same(by_key(pilum.dataset(tmp_path / "t").to_table()), by_key(want))
    names = {len(file.name) == 29 for file in (tmp_path / "t" / "_versions").glob("*.manifest")}
    assert len(names) == 1


@pytest.mark.parametrize("release", RELEASES, ids=ids)
def test_written_again_the_files_are_the_same(release: Release, tmp_path):
    """Data files and bitmaps byte for byte, versions by version; names, which are random, by their place."""
    replay(release.recipe["steps"], release.rows, tmp_path / "t")
    compared = 0
    for version in sorted(release.expected()):
        old, new = (pilum.dataset(uri, version=version) for uri in (release.uri, tmp_path / "t"))
        assert len(old.fragments) == len(new.fragments)
        for theirs, mine in zip(old.fragments, new.fragments, strict=True):
            assert (theirs.id, theirs.num_rows, theirs.num_deleted) == (mine.id, mine.num_rows, mine.num_deleted)
            for a, b in zip(theirs.files, mine.files, strict=True):
                assert_same_file(release, a, b, tmp_path / "t")
                compared += 1
    assert compared or release.name == "no_rows"
    assert bitmaps(release.uri) == bitmaps(tmp_path / "t")


def bitmaps(uri) -> list[bytes]:
    return sorted(file.read_bytes() for file in (uri / "_deletions").glob("*.bin"))


def assert_same_file(release: Release, theirs: str, mine: str, uri) -> None:
    old, new = release.uri / theirs, uri / mine
    if release.version == pilum.__version__:
        assert old.read_bytes() == new.read_bytes(), theirs
        return
    assert_same_pages(DataFile.of(old), DataFile.of(new), theirs)


def assert_same_pages(old: DataFile, new: DataFile, name: str) -> None:
    """What is beside the pages may differ from an earlier release.

    Checksum arrays lie before the page table since 0.2.0. Since 0.3.0 fields say in their metadata what v1 does not know, and
    more columns have statistics.
    """
    assert new.page_table_at >= old.page_table_at, name
    assert new.content[: old.page_table_at] == old.content[: old.page_table_at], name
    assert new.page_table == old.page_table, name
    assert new.batch_offsets == old.batch_offsets, name
    assert new.versions == old.versions, name
    assert new.field_ids == old.field_ids, name
    numbers = [{number for number, _ in fields(file.metadata)} for file in (old, new)]
    assert numbers[0] <= numbers[1], name


def test_a_release_is_never_written_twice(monkeypatch, capsys):
    before = {path: path.stat().st_mtime_ns for path in (ROOT / pilum.__version__).rglob("*")}
    script = runpy.run_path(str(ROOT / "make_release.py"))
    assert script["main"]() == 1
    assert "written once" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (ROOT / pilum.__version__).rglob("*")} == before
