"""Drivers that die, and Spark Connect. These tests run in other processes, and share one server of Spark Connect."""

from __future__ import annotations

import pyarrow as pa
import pytest

import pilum
from pilum.spark import staging
from support.spark_processes import SECONDS, connect_server, run


@pytest.fixture(scope="module")
def connected(tmp_path_factory):
    """Run everything that needs the server in one process, and return its folder and what it printed."""
    folder = tmp_path_factory.mktemp("connect")
    with connect_server(folder) as remote:
        return folder, run("spark_connect_job.py", remote, str(folder)).splitlines()


@pytest.mark.timeout(SECONDS)
def test_a_driver_that_dies_before_and_after_its_commit(connected):
    folder, lines = connected
    # A driver that dies before its commit leaves no version.
    assert "before the commit: 0 versions" in lines
    assert "after the commit: 1 versions" in lines
    # The answer was lost; the next run learns it from the table before it computes anything.
    uri = str(folder / "dying")
    planned = staging.prepare(pa.schema([("id", pa.int64())]), uri, commit_id="day 7")
    assert planned.done is not None
    assert (planned.done.version, planned.done.was_committed_before) == (1, True)
    assert sorted(pilum.dataset(uri).to_table()["id"].to_pylist()) == list(range(1000))


@pytest.mark.timeout(SECONDS)
def test_spark_connect_reads_writes_and_streams(connected):
    assert connected[1][-1] == "Connect: done"
