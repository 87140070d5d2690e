"""Clusters of Spark whose workers and executors die.

`local-cluster` has two executors, processes of their own, and nothing to start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).resolve().parent.parent / "support"
ROWS = 4000
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


def jobs(master, folder, *names):
    lines = run("spark_cluster_job.py", master, str(folder), *names).splitlines()
    found = {}
    for line in lines:
        if line.startswith("{"):
            found.update(json.loads(line))
    assert set(found) == set(names)
    return found


def whole(batches=1):
    """Return what a table has into which 0 to `batches * ROWS` was written once."""
    rows = ROWS * batches
    return {"rows": rows, "distinct": rows, "sum": rows * (rows - 1) // 2, "ok": True}


def check(found, expected):
    assert {name: found[name] for name in expected} == expected


@pytest.mark.timeout(SECONDS)
def test_two_executors_of_a_local_cluster(tmp_path):
    found = jobs("local-cluster[2,1,1024]", tmp_path, "plain", "killed_worker")
    check(found["plain"], {**whole(2), "executors": 2, "seen": 2 * ROWS, "filtered": 2 * ROWS - 10, "version": 2})
    check(found["killed_worker"], {**whole(2), "died": True, "exact": True, "version": 2})
