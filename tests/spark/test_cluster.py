"""Jobs of Spark whose workers, executors and drivers die, or whose store does not answer: each row is written exactly once.

`local-cluster` runs two executors in processes of their own; the tests need not start a cluster. The standalone cluster has a
master, and two workers on two addresses: so Spark starts speculative copies of tasks, and a driver can die without the cluster.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.spark_processes import SECONDS, jobs, standalone
from support.stores import Request, moto_server, options, proxy

ROWS = 4000


def whole(batches=1):
    """Return what a table has into which 0 to `batches * ROWS` was written once."""
    rows = ROWS * batches
    return {"rows": rows, "distinct": rows, "sum": rows * (rows - 1) // 2, "ok": True}


def check(found, expected):
    assert {name: found[name] for name in expected} == expected


@pytest.mark.timeout(SECONDS)
def test_two_executors_of_a_local_cluster(tmp_path):
    found = jobs("local-cluster[2,1,1024]", tmp_path, "plain")
    check(found["plain"], {**whole(2), "executors": 2, "seen": 2 * ROWS, "filtered": 2 * ROWS - 10, "version": 2})


@pytest.mark.timeout(2 * SECONDS)
def test_a_standalone_cluster_whose_processes_die(tmp_path):
    # The proxy forwards the request that writes the manifest, and drops its answer; it drops all later requests. So the commit
    # succeeds, and the writer cannot find out.
    told = []

    def forget(request: Request):
        if request.is_manifest or told:
            told.append(request.path)
            return "forget" if request.is_manifest else "lose"
        return "pass"

    with moto_server() as moto, proxy(moto.url, forget) as deaf, standalone(tmp_path) as master:
        bucket = f"s3://{moto.new_bucket()}/t"
        # The driver dies between the data and the commit.
        jobs(master, tmp_path, "dying_driver", code=-9)
        assert len(list(Path(tmp_path, "driver", "data").iterdir())) >= 1
        assert not list(Path(tmp_path, "driver").glob("_versions/*")), "rows are visible before the commit"
        store = {"uri": bucket, "deaf": options(deaf, max_retries="0"), "direct": moto.options()}
        names = ["next_driver", "killed_executor", "speculation", "lost_answer"]
        # By default, only tests in one process cover these jobs.
        more = ["killed_worker", "stream", "pinned"] if "PILUM_TEST_SCALE" in os.environ else []
        found = jobs(master, tmp_path, *names, *more, PILUM_TEST_STORE=json.dumps(store))
    # The second driver commits with the same id: the table has each row once, and a cleanup removes files of the first driver.
    check(found["next_driver"], {**whole(), "version": 1, "exact": True})
    assert found["next_driver"]["taken"] >= 1
    check(found["killed_executor"], {**whole(), "died": True, "version": 1, "exact": True})
    check(found["speculation"], {**whole(), "attempts": 2, "version": 1, "exact": True})
    check(found["lost_answer"], {**whole(), "unknown": True, "before": True, "version": 1, "orphans": 0})
    assert told
    if not more:
        return
    check(found["killed_worker"], {**whole(2), "died": True, "version": 2, "exact": True})
    check(found["stream"], whole(3))
    rows = ROWS * (ROWS - 1) // 2
    check(found["pinned"], {"sums": [rows], "counts": [ROWS]})
    assert found["pinned"]["commits"] >= 3
