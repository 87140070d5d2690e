"""A driver that dies: it writes a DataFrame with a commit id, and is killed before or after the commit.

python spark_driver_job.py REMOTE URI before|after
"""

from __future__ import annotations

import os
import signal
import sys
import warnings

warnings.filterwarnings("ignore", category=FutureWarning)
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import SparkSession  # noqa: E402

from pilum import spark as ps  # noqa: E402
from pilum.spark import staging  # noqa: E402


def main() -> None:
    """Write a DataFrame, and die before or after the commit."""
    remote, uri, when = sys.argv[1:]
    session = SparkSession.builder.remote(remote).getOrCreate()
    commit = staging.commit

    def dying_commit(*arguments):
        if when == "after":
            commit(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    staging.commit = dying_commit
    ps.write(session.range(0, 1000, 1, 3), uri, commit_id="day 7")


if __name__ == "__main__":
    main()
