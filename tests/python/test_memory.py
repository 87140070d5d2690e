"""Files that are read are mapped: under a memory limit little of them stays so, however large they are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum

ROWS = 6_000_000
LIMIT = 96 << 20
# What is mapped comes in pages of up to 2 MiB, however little of them is read. The table is 336 MB.
MOST = 2 * LIMIT


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "t"
    ids = np.arange(ROWS)
    rows = pa.table({"id": ids, "n": ids % 100, **dict.fromkeys("abcde", -ids)})
    pilum.write_dataset(rows, path, durability="none")
    return path


def run(program: str, path: Path) -> list[int]:
    """Return the numbers that a program prints, which is a process of its own."""
    words = [sys.executable, "-c", MAPPED + program, str(path), str(LIMIT)]
    ran = subprocess.run(words, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return [int(word) for word in ran.stdout.split()]


MAPPED = """
import sys
import pyarrow as pa
import pyarrow.compute as pc
import pilum

ds, limit = pilum.dataset(sys.argv[1]), int(sys.argv[2])

def mapped():
    inside, resident = False, 0
    for line in open("/proc/self/smaps"):
        words = line.split()
        if "-" in words[0] and len(words) > 4:
            inside = words[-1].endswith(".lance")
        elif inside and words[0] == "Rss:":
            resident += int(words[1]) << 10
    return resident

def most_held():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10
"""

FILTERED = """
rows, total, most = 0, 0, 0
for batch in ds.to_batches(filter="n = 7", memory_limit=limit):
    rows += batch.num_rows
    total += pc.sum(batch["e"]).as_py()
    most = max(most, mapped())
print(rows, total, most, mapped())
"""


def test_rows_scattered_over_every_page(table: Path) -> None:
    rows, total, most, left = run(FILTERED, table)
    assert (rows, total) == (ROWS // 100, -sum(range(7, ROWS, 100)))
    assert most < MOST
    assert left < LIMIT // 8


# A column so narrow that its arrays lie in the mapping.
KEPT = """
batches = list(ds.to_batches(columns=["e"], memory_limit=limit))
left = mapped()
print(sum(pc.sum(batch["e"]).as_py() for batch in batches), left)
"""


def test_arrays_that_are_kept_stay_as_they_are(table: Path) -> None:
    total, left = run(KEPT, table)
    assert total == -sum(range(ROWS))
    assert left < LIMIT // 8


MERGED = """
ids = range(7, ds.count_rows(), 100)
source = pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([-1] * len(ids), pa.int64())})
before = most_held()
merged = ds.merge_insert("id", source, memory_limit=limit, durability="none")
held = most_held() - before
changed = merged.to_table(filter="n = -1", columns=["e"])["e"]
print(merged.updated, merged.inserted, pc.sum(changed).as_py(), held)
"""


def test_rows_that_a_merge_rewrites(table: Path, tmp_path: Path) -> None:
    shutil.copytree(table, tmp_path / "t")
    updated, inserted, total, held = run(MERGED, tmp_path / "t")
    assert (updated, inserted, total) == (ROWS // 100, 0, -sum(range(7, ROWS, 100)))
    assert held < MOST
