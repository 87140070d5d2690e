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


class _Servers:
    """Processes of Spark's own programs, each with a log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, program: str, *arguments: str, **variables: str) -> Path:
        """Start a program of pip's PySpark, and return the file that gets its log."""
        import pyspark

        home = Path(pyspark.__file__).parent
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            command = [str(home / "bin" / program), *arguments]
            given = environment(SPARK_HOME=str(home), **variables)
            self.started.append(subprocess.Popen(command, env=given, stdout=out, stderr=subprocess.STDOUT))
        return log

    def seen(self, log: Path, pattern: str, times: int = 1) -> re.Match[str]:
        """Wait until a log has a pattern so many times, and return its first match."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = list(re.finditer(pattern, log.read_text()))
            if len(found) >= times:
                return found[0]
            assert all(it.poll() is None for it in self.started), f"a process ended:\n{log.read_text()[-4000:]}"
            time.sleep(0.1)
        raise AssertionError(f"{pattern} is not in {log}:\n{log.read_text()[-4000:]}")

    def stop(self) -> None:
        """End the processes, the last one first."""
        for process in reversed(self.started):
            process.terminate()
        for process in reversed(self.started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Start a master and two workers with one core each, and give the address of the master."""
    servers = _Servers(folder)
    quick = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

    def start(name: str, address: str, *command: str) -> Path:
        program = (f"org.apache.spark.deploy.{command[0]}", *command[1:])
        return servers.start(name, "spark-class", *program, SPARK_LOCAL_IP=address, **quick)

    try:
        log = start("master", WORKERS[0], "master.Master", "--host", WORKERS[0], "--port", "0", "--webui-port", "0")
        master = servers.seen(log, r"spark://[0-9.]+:[0-9]+")[0]
        for number, host in enumerate(WORKERS):
            options = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            work = str(folder / f"work-{number}")
            start(f"worker-{number}", host, "worker.Worker", master, *options, "--work-dir", work)
        servers.seen(log, "Registering worker", len(WORKERS))
        yield master
    finally:
        # End the workers before the master: a worker ends its executors.
        servers.stop()


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start a server of Spark Connect on a free port, and give its address."""
    servers = _Servers(folder)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    try:
        log = servers.start(
            "connect", "spark-submit", "--master", "local[2]", *options, "--class", server, "spark-internal"
        )
        port = servers.seen(log, r"Spark Connect server started at: \S+:([0-9]+)")[1]
        yield f"sc://127.0.0.1:{port}"
    finally:
        servers.stop()
