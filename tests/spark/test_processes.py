"""Processes of their own: a driver that dies, Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.spark import staging

SUPPORT = Path(__file__).resolve().parent.parent / "support"
SECONDS = 240


def run(script, *arguments, code=0):
    """Run a script in a process of its own and return what it printed."""
    # Without the session of these tests: its variables name a gateway that the other process must not use.
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_GATEWAY", "SPARK_REMOTE"))
    }
    clean |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, str(SUPPORT / script), *arguments],
        env=clean,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
    return done.stdout


@pytest.mark.timeout(SECONDS)
def test_a_driver_that_dies_before_and_after_its_commit(tmp_path):
    uri = tmp_path / "t"
    run("spark_driver_job.py", str(tmp_path), "before", code=-9)
    assert not list(uri.glob("_versions/*")), "rows are visible before the commit"
    run("spark_driver_job.py", str(tmp_path), "after", code=-9)
    # The answer was lost; the next run learns it from the table before it computes anything.
    planned = staging.prepare(pa.schema([("id", pa.int64())]), str(uri), commit_id="day 7")
    assert planned.done is not None
    assert (planned.done.version, planned.done.was_committed_before) == (1, True)
    assert sorted(pilum.dataset(str(uri)).to_table()["id"].to_pylist()) == list(range(1000))


@pytest.mark.timeout(SECONDS)
def test_spark_connect_reads_writes_and_streams(tmp_path):
    assert run("spark_connect_job.py", str(tmp_path)).splitlines()[-1] == "Connect: done"
