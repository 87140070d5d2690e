"""Events of the engine arrive in Python's `logging` below the logger `pilum`, and only where a level is enabled."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

import pilum

ROWS = pa.table({"id": pa.array(range(1000), pa.int64())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    pilum.write_dataset(ROWS, tmp_path / "t", durability="none")
    return str(tmp_path / "t")


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, where no test has touched `logging`."""
    script = textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True, timeout=60
    )


def test_records_have_a_logger_a_level_a_target_and_fields(uri: str) -> None:
    told = python(
        """
        import json, logging, sys
        import pilum
        class Kept(logging.Handler):
            def emit(self, record):
                print(json.dumps([record.name, record.levelname, record.target, record.fields, record.getMessage(),
                                  record.pathname, record.lineno, record.created]))
        logging.getLogger("pilum").addHandler(Kept())
        logging.getLogger("pilum").setLevel(logging.DEBUG)
        pilum.dataset(sys.argv[1]).count_rows()
        """,
        uri,
    ).stdout
    records = [json.loads(line) for line in told.splitlines()]
    (started,) = [record for record in records if "threads" in record[3]]
    name, level, target, fields, message, path, line, created = started
    assert (name, level, target) == ("pilum.python", "DEBUG", "pilum::python")
    assert message == f"start the threads that read and write threads={fields['threads']}"
    assert path.endswith("runtime.rs")
    assert line > 0
    assert abs(created - time.time()) < 60


def test_events_of_each_part_have_their_own_logger(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="pilum.store.publish")
    ds = pilum.write_dataset(ROWS, tmp_path / "t")
    assert {record.name for record in caplog.records} == {"pilum.store.publish"}
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
    published = [record.fields["path"] for record in caplog.records]
    assert any(path.endswith(".manifest") and path.startswith(ds.uri) for path in published), published
    caplog.clear()
    caplog.set_level(logging.INFO, logger="pilum.store.publish")
    ds.append(ROWS)
    assert caplog.records == []


def test_an_automatic_cleanup_that_fails_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ds = pilum.write_dataset(ROWS, tmp_path / "t")
    ds.tags.create("kept", 1)
    ds = ds.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    (tag,) = (tmp_path / "t").rglob("kept.json")
    tag.write_text("no tag")
    caplog.clear()
    assert ds.append(ROWS).count_rows() == 2000
    (record,) = [it for it in caplog.records if it.levelno >= logging.WARNING]
    assert (record.name, record.levelname) == ("pilum.table.cleanup", "WARNING")
    assert record.fields["uri"] == ds.uri
    assert "kept" in record.fields["error"]
    assert record.getMessage().startswith("an automatic cleanup failed")


def test_a_program_that_configures_nothing_sees_nothing(uri: str) -> None:
    for first in ("", "import logging; "):
        told = python(first + "import sys, pilum; pilum.dataset(sys.argv[1]).append(pilum.dataset(sys.argv[1]))", uri)
        assert (told.stdout, told.stderr) == ("", "")


def test_importing_pilum_and_using_it_does_not_import_logging(uri: str) -> None:
    code = """
        import sys
        import pilum
        pilum.dataset(sys.argv[1]).count_rows()
        print("logging" in sys.modules)
    """
    assert python(code, uri).stdout == "False\n"


def test_a_level_is_asked_for_at_every_call(uri: str) -> None:
    """It may be set, and set back, at any time; nothing is recorded before, and nothing of it afterwards."""
    told = python(
        """
        import logging, os, sys
        import pilum
        class Kept(logging.Handler):
            def emit(self, record):
                seen.append(record.name)
        seen = []
        logging.getLogger("pilum").addHandler(Kept())
        def child(level):
            if (pid := os.fork()) == 0:
                logging.getLogger("pilum.python").setLevel(level)
                pilum.dataset(sys.argv[1]).count_rows()
                os._exit(len(seen))
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(child(logging.DEBUG), child(logging.INFO), child(logging.NOTSET))
        logging.disable(logging.CRITICAL)
        print(child(logging.DEBUG))
        """,
        uri,
    ).stdout
    assert told == "1 0 0\n0\n"


def test_forked_children_log_their_own_events_and_do_not_hang(uri: str) -> None:
    """The process forks while one of its threads works and logs: each child starts its own threads, and logs an event for that.

    The handler of the program keeps records in memory. The handlers of pytest write to a file: if the fork happens during a
    write, the lock of the file stays locked in the child, and Python does not release it there.
    """
    told = python(
        """
        import logging, os, sys, threading, time
        import pilum
        class Kept(logging.Handler):
            def emit(self, record):
                seen.append(record.fields)
        seen = []
        logging.getLogger("pilum").addHandler(Kept())
        logging.getLogger("pilum").setLevel(logging.DEBUG)
        done = threading.Event()
        def work():
            row = pilum.dataset(sys.argv[1]).to_table(limit=1)
            while not done.is_set():
                pilum.dataset(sys.argv[1]).append(row, durability="none")
        def child():
            if (pid := os.fork()) == 0:
                status = 1
                try:
                    seen.clear()
                    pilum.dataset(sys.argv[1]).count_rows()
                    status = 0 if any("threads" in fields for fields in seen) else 2
                finally:
                    os._exit(status)
            deadline = time.monotonic() + 30
            while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
                if time.monotonic() > deadline:
                    return "the child hangs"
                time.sleep(0.005)
            return os.waitstatus_to_exitcode(ended[1])
        worker = threading.Thread(target=work)
        worker.start()
        try:
            print(*[child() for _ in range(10)])
        finally:
            done.set()
            worker.join()
        """,
        uri,
    )
    assert told.stdout == "0 " * 9 + "0\n"


def test_a_handler_may_fail_and_may_call_the_engine(uri: str) -> None:
    told = python(
        """
        import logging, sys
        import pilum
        class Odd(logging.Handler):
            def emit(self, record):
                pilum.dataset(sys.argv[1]).count_rows()
                raise KeyError("of the handler")
        logging.getLogger("pilum").addHandler(Odd())
        logging.getLogger("pilum").setLevel(1)
        print(pilum.dataset(sys.argv[1]).count_rows())
        """,
        uri,
    )
    assert told.stdout == "1000\n"
    assert "of the handler" in told.stderr
    assert "Fatal" not in told.stderr


def test_a_call_runs_the_same_functions_with_and_without_logging(uri: str) -> None:
    """At the default levels of `logging`, the engine calls none of its functions."""
    ds = pilum.dataset(uri)

    def called() -> list[str]:
        names = []

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                names.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

        sys.setprofile(note)
        try:
            ds.take([3])
        finally:
            sys.setprofile(None)
        return names

    logging.disable(logging.CRITICAL)
    try:
        without = called()
    finally:
        logging.disable(logging.NOTSET)
    assert any("take" in name for name in without)
    assert called() == without


def test_a_profile_function_sees_the_calls_of_logging(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    """Shows that the test above would find calls of `logging`, if there were any."""
    caplog.set_level(logging.DEBUG, logger="pilum")
    names = set()
    sys.setprofile(lambda frame, event, _: names.add(frame.f_code.co_name))
    try:
        pilum.dataset(uri).append(ROWS)
    finally:
        sys.setprofile(None)
    assert "makeRecord" in names
