"""What releases of ours wrote: read for ever, and written again byte for byte."""

from __future__ import annotations

import runpy
import shutil

import lance
import pyarrow as pa
import pytest

import pilum
from support.comparing import assert_same
from support.data_file import EXTENSION, SCHEMA, DataFile, fields
from support.golden import ROOT as PEERS
from support.releases import ROOT, Release, after, all_releases, by_key, replay

RELEASES = all_releases()
DECLARED = b"pilum:"
"""What the keys of declared types begin with."""


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
    schemas = DataFile.of(old).schema_bytes, DataFile.of(new).schema_bytes
    if release.version != "0.1.0" and DECLARED in schemas[1] and schemas[0] != schemas[1]:
        assert_same_but_for_declared_types(DataFile.of(old), DataFile.of(new), theirs)
        return
    if release.version == pilum.__version__:
        assert old.read_bytes() == new.read_bytes(), theirs
        return
    # The name of the writer's version, and what covers it, differ: everything else does not.
    a, b = DataFile.of(old), DataFile.of(new)
    assert a.versions == b.versions, theirs
    if release.version == "0.1.0" and b.has_extension:
        assert_same_but_for_the_place_of_checksums(a, b, theirs)
        return
    assert a.pages == b.pages, theirs
    assert a.without_writer() == b.without_writer(), theirs
    for left, right in zip(fields(a.metadata), fields(b.metadata), strict=True):
        assert left == right or left[0] == right[0] == EXTENSION, theirs


def assert_same_but_for_declared_types(old: DataFile, new: DataFile, name: str) -> None:
    """Types and items that v1 does not know were in the fields, and are declared in their metadata now: nothing else moved."""
    assert new.pages == old.pages, name
    assert new.field_ids == old.field_ids, name
    assert new.versions == old.versions, name
    assert [field for field in new.without_writer() if field[0] != SCHEMA] == [
        field for field in old.without_writer() if field[0] != SCHEMA
    ], name
    for left, right in zip(fields(old.metadata), fields(new.metadata), strict=True):
        assert left == right or left[0] == right[0] == EXTENSION, name


def assert_same_but_for_the_place_of_checksums(old: DataFile, new: DataFile, name: str) -> None:
    """Checksum arrays were behind the embedded manifest and are before the page table now: positions moved by their size."""
    moved = new.page_table_at - old.page_table_at
    assert moved > 0, name
    assert new.content[: old.page_table_at] == old.content[: old.page_table_at], name
    sums = new.content[old.page_table_at : new.page_table_at]
    assert sums in old.content[len(old.pages) :], name
    assert len(new.pages) == len(old.pages) + moved, name
    # Positions of dictionaries are in the fields of the schema, of everything else in the last message.
    assert [field for field in old.without_writer() if field[0] != SCHEMA] == [
        field for field in new.without_writer() if field[0] != SCHEMA
    ], name
    assert [number for number, _ in fields(old.metadata)] == [number for number, _ in fields(new.metadata)], name
    assert old.batch_offsets == new.batch_offsets, name


def test_a_release_is_never_written_twice(monkeypatch, capsys):
    before = {path: path.stat().st_mtime_ns for path in (ROOT / pilum.__version__).rglob("*")}
    script = runpy.run_path(str(ROOT / "make_release.py"))
    assert script["main"]() == 1
    assert "written once" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (ROOT / pilum.__version__).rglob("*")} == before
