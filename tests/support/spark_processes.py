"""Starts processes for tests of Spark: scripts that have their own session, and a standalone cluster from pip's PySpark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parent

SECONDS = 240
"""Timeout of a script, in seconds. It is long, because other tests may keep the machine busy."""

WORKERS = ("127.0.0.1", "127.0.0.2")
"""Addresses of the workers. They differ, because Spark starts no speculative copy of a task on the host that runs the task."""


def environment(**more: str) -> dict[str, str]:
    """Return the variables of this process without those of its Spark session: another process must not use its gateway."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_GATEWAY", "SPARK_REMOTE"))
    }
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**inherited, **python, "SPARK_LOCAL_IP": "127.0.0.1", **more}


def run(script: str, *arguments: str, code: int = 0, **variables: str) -> str:
    """Run a script of this folder in another process, check its exit code, and return its output."""
    done = subprocess.run(
        [sys.executable, str(SUPPORT / script), *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def jobs(master: str, folder: Path, *names: str, code: int = 0, **variables: str) -> dict[str, dict[str, Any]]:
    """Run jobs of `spark_cluster_job.py` in one session, and return the result of each."""
    found: dict[str, dict[str, Any]] = {}
    for line in run("spark_cluster_job.py", master, str(folder), *names, code=code, **variables).splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    assert code or set(found) == set(names)
    return found


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Start a master and two workers with one core each, and give the address of the master."""
    import pyspark

    home = Path(pyspark.__file__).parent
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, address: str, *command: str) -> Path:
        log = folder / f"{name}.log"
        variables = environment(
            SPARK_HOME=str(home), SPARK_DAEMON_MEMORY="256m", SPARK_DAEMON_JAVA_OPTS=quick, SPARK_LOCAL_IP=address
        )
        program = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{command[0]}", *command[1:]]
        with log.open("wb") as out:
            started.append(subprocess.Popen(program, env=variables, stdout=out, stderr=subprocess.STDOUT))
        return log

    def seen(log: Path, pattern: str, times: int = 1) -> re.Match[str]:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = list(re.finditer(pattern, log.read_text()))
            if len(found) >= times:
                return found[0]
            assert all(it.poll() is None for it in started), (
                f"a process of the cluster ended:\n{log.read_text()[-4000:]}"
            )
            time.sleep(0.1)
        raise AssertionError(f"{pattern} is not in {log}:\n{log.read_text()[-4000:]}")

    try:
        log = start("master", WORKERS[0], "master.Master", "--host", WORKERS[0], "--port", "0", "--webui-port", "0")
        master = seen(log, r"spark://[0-9.]+:[0-9]+")[0]
        for number, host in enumerate(WORKERS):
            options = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            work = str(folder / f"work-{number}")
            start(f"worker-{number}", host, "worker.Worker", master, *options, "--work-dir", work)
        seen(log, "Registering worker", len(WORKERS))
        yield master
    finally:
        # End the workers before the master: a worker ends its executors.
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
