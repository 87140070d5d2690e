"""Hundreds of random tables in both directions between pilum and the real pylance."""

from __future__ import annotations

import random
import shutil
import sys

import check_written_lance as judge
import lance
import pyarrow as pa
import pyarrow.ipc
import pytest

import pilum
from support.comparing import assert_same
from support.random_tables import anything, ordinary, split

# A test runs a handful of seeds, so that a report names few tests and a failure few seeds.
SEEDS = 300
PER_TEST = 10
GROUPS = [range(start, start + PER_TEST) for start in range(0, SEEDS, PER_TEST)]


def ids(group: range) -> str:
    return f"seeds-{group.start}-{group.stop - 1}"


def options(seed: int, rows: int) -> dict[str, int]:
    """Return page and file sizes; small ones for small tables only, since the peer takes long over thousands of them."""
    r = random.Random(f"options {seed}")
    least = rows // 100
    return {
        "max_rows_per_page": max(least, r.choice([1, 7, 64, 1000, 1024, 5000])),
        "max_rows_per_file": max(least, r.choice([10, 1024, 1500, 10**6])),
    }


def reader(table: pa.Table, seed: int) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, split(table, seed))


def judged(path, expected, capsys, monkeypatch) -> tuple[int, str]:
    """Run the real pylance over a table, as a command would: open, read, filter, append, delete, compact, evolve."""
    judge.FAILED.clear()
    monkeypatch.setattr(sys, "argv", ["check_written_lance.py", str(path), str(expected)])
    code = judge.main()
    return code, capsys.readouterr().out


@pytest.mark.parametrize("seeds", GROUPS, ids=ids)
def test_what_pilum_writes_pylance_reads_and_goes_on_with(seeds, tmp_path, capsys, monkeypatch):
    for seed in seeds:
        # The judge compares through Python values and filters by them: NaN, -0.0 and the ends of time are beyond it.
        table = ordinary(seed, extremes=False)
        path, expected = tmp_path / f"{seed}.pilum", tmp_path / f"{seed}.arrow"
        ds = pilum.write_dataset(reader(table, seed), path, durability="none", **options(seed, table.num_rows))
        assert ds.compat == "lance", f"seed {seed}: an ordinary table is marked as more than that"
        with pa.OSFile(str(expected), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        code, said = judged(path, expected, capsys, monkeypatch)
        assert code == 0, f"seed {seed}: {table.schema}\n{said}"
        assert_same(pilum.dataset(path).to_table(), table, f"seed {seed}")
        shutil.rmtree(path)


@pytest.mark.parametrize("seeds", GROUPS, ids=ids)
def test_what_pylance_writes_pilum_reads(seeds, tmp_path):
    for seed in seeds:
        table = ordinary(seed)
        path = str(tmp_path / f"{seed}.lance")
        r = random.Random(f"peer {seed}")
        theirs = lance.write_dataset(
            reader(table, seed),
            path,
            schema=table.schema,
            data_storage_version="legacy",
            max_rows_per_group=r.choice([7, 64, 1024, 5000]),
            max_rows_per_file=r.choice([10, 1024, 10**6]),
            enable_stable_row_ids=r.random() < 0.3,
        )
        if table.num_rows and r.random() < 0.3:
            lance.write_dataset(table.slice(0, 5), path, mode="append", schema=theirs.schema)
        if table.num_rows > 2 and r.random() < 0.5:
            lance.dataset(path).delete(f"_rowid % {r.choice([2, 3, 50])} = 1")
        ds = pilum.dataset(path)
        for version in ds.versions():
            want = lance.dataset(path, version=version.version).to_table()
            assert_same(ds.checkout(version.version).to_table(), want, f"seed {seed} version {version.version}")
        shutil.rmtree(path)


@pytest.mark.parametrize("seeds", GROUPS, ids=ids)
def test_nothing_is_lost_of_what_lance_v1_cannot_hold(seeds, tmp_path):
    for seed in seeds:
        table = anything(seed)
        path = tmp_path / f"{seed}.pilum"
        ds = pilum.write_dataset(reader(table, seed), path, durability="none", **options(seed, table.num_rows))
        assert_same(ds.to_table(), table, f"seed {seed}")
        if ds.compat != "lance":
            with pytest.raises(Exception, match=r"cannot be read|not supported|unsupported|feature"):
                lance.dataset(str(path)).to_table()
        else:
            assert_same(lance.dataset(str(path)).to_table(), table, f"seed {seed}, as pylance reads it")
        shutil.rmtree(path)
