"""Record batches through an external program that reads and writes Skiff."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from pilum.exceptions import InvalidInputError, PilumError, StoreError
from pilum.skiff.codec import decode, encode

if TYPE_CHECKING:
    import pyarrow as pa

    from pilum.skiff.formats import Format

STDERR_BYTES = 64 << 10
"""How much of the end of stderr an error shows."""

GRACE_SECONDS = 1.0
"""How long stderr is read after the program ended: another process that it started may hold stderr open for ever."""


def pipe_batches(
    batches: Iterator[pa.RecordBatch],
    command: str | Sequence[str],
    format_in: Format,
    format_out: Format,
    env: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a program makes of rows: Skiff in its stdin, Skiff from its stdout.

    One thread writes to the program and one reads its stderr, so that no full pipe can stop all three. The program is fed no
    faster than it reads, and read no faster than the rows are taken. It is ended when the rows are no longer wanted. Processes
    that the program leaves behind can hold its stdin and stderr: neither is waited for when the program has ended and its
    stdout is closed.

    Raises:
        InvalidInputError: The command or the environment is no text.
        StoreError: The program cannot be started, or it ended with a code other than 0, or by a signal; the message has the end
            of its stderr.
        CorruptError: It ended well, and what it wrote is not in `format_out`.
    """
    arguments = check_command(command)
    check_environment(env)
    try:
        program = subprocess.Popen(  # noqa: S603
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=None if env is None else {**os.environ, **env},
            start_new_session=True,
        )
    except OSError as error:
        raise StoreError(f"the program `{_name(command)}` cannot be started: {error}") from error
    if program.stdin is None or program.stdout is None or program.stderr is None:
        raise StoreError(f"the program `{_name(command)}` was started without pipes")
    feeder = _Feeder(batches, program.stdin, format_in)
    errors = _Tail(program.stderr)
    feeder.start()
    errors.start()
    is_done = False
    try:
        fault: PilumError | None = None
        try:
            for _, batch in decode(program.stdout, format_out):
                yield batch
        except PilumError as error:
            # A program that failed cuts its output; its exit code and stderr say more.
            fault = error
        program.stdout.close()
        code = program.wait() if fault is None else _wait_or_end(program)
        feeder.stop()
        errors.stop(GRACE_SECONDS)
        is_done = True
        if feeder.raised is not None:
            raise feeder.raised
        if code != 0:
            raise StoreError(_failure(command, code, errors.text())) from fault
        if fault is not None:
            raise fault
    finally:
        if not is_done:
            _end(program)
            program.stdout.close()
            feeder.stop()
            errors.stop(0)


def check_command(command: object) -> list[str]:
    """Return the program and its arguments; a text is a line for `/bin/sh`.

    Raises:
        InvalidInputError: There is no program, or an argument is no text.
    """
    if isinstance(command, (str, bytes)) or not isinstance(command, Sequence):
        words: list[object] = ["/bin/sh", "-c", command]
        is_empty = isinstance(command, str) and not command.strip()
    else:
        words = [str(word) if isinstance(word, os.PathLike) else word for word in command]
        is_empty = not words or words[0] == ""
    arguments = [word for word in words if isinstance(word, str) and "\0" not in word]
    if is_empty or len(arguments) < len(words):
        raise InvalidInputError(
            f"command={command!r}: a line for /bin/sh is expected, or a list with the program and its arguments, all of them "
            "str without NUL characters"
        )
    return arguments


def check_environment(env: object) -> None:
    """Refuse what is no environment of a program.

    Raises:
        InvalidInputError: It is no mapping, or a name or a value is no text.
    """
    if env is None:
        return
    if not isinstance(env, Mapping):
        raise InvalidInputError(f"env: a mapping of str to str is expected, not {type(env).__name__}")
    for name, value in env.items():
        is_text = isinstance(name, str) and isinstance(value, str)
        if not is_text or not name or "=" in name or "\0" in name + value:
            # The value may be a secret: it is not shown.
            raise InvalidInputError(
                f"env: {name!r}: names and values must be str without NUL; a name must not be empty or contain `=`"
            )


def _wait_or_end(program: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a program whose output is of no use any more."""
    try:
        return program.wait(timeout=5)
    except subprocess.TimeoutExpired:
        _end(program)
        # It was going on when it was ended: what it wrote is the fault, not how it ended.
        return 0


def _end(program: subprocess.Popen[bytes]) -> None:
    # The program may be a shell with children: all of them are in its session. Its number is its own until it is waited for.
    if program.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
    program.wait()


def _name(command: str | Sequence[str]) -> str:
    return command if isinstance(command, str) else " ".join(map(str, command))


def _failure(command: str | Sequence[str], code: int, stderr: str) -> str:
    name = _name(command)
    how = f"with exit code {code}" if code > 0 else f"by signal {signal.Signals(-code).name}"
    said = f"; the end of its stderr:\n{stderr}" if stderr else "; it wrote nothing to stderr"
    return f"the program `{name}` ended {how}{said}"


class _Pipe(threading.Thread):
    """Moves bytes through a pipe until it is stopped: waiting for the pipe never lasts longer than it is wanted."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(daemon=True)
        os.set_blocking(file.fileno(), False)
        self._file = file
        # Its end of file ends every wait.
        self._ended, self._end = os.pipe()

    def _is_ready(self, event: int) -> bool:
        """Wait until the pipe is ready; return whether it is still wanted."""
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        poll.register(self._file, event)
        return self._ended not in dict(poll.poll())

    def stop(self, grace: float = 0) -> None:
        """Give the pipe so many seconds to come to its end, and end the thread."""
        self.join(grace)
        os.close(self._end)
        self.join()
        os.close(self._ended)


class _Stopped(Exception):  # noqa: N818
    """The pipe is not wanted any more."""


class _Feeder(_Pipe):
    """Writes the rows to the program. What goes wrong is kept for the thread that reads."""

    def __init__(self, batches: Iterator[pa.RecordBatch], stdin: IO[bytes], format: Format) -> None:
        super().__init__(stdin)
        self._batches = batches
        self._format = format
        self.raised: BaseException | None = None

    def write(self, data: bytes) -> int:
        """Write some of the bytes as soon as the program takes them."""
        while self._is_ready(select.POLLOUT):
            written = self._file.write(data)
            # Another process may have filled the pipe in between.
            if written is not None:
                return written
        raise _Stopped

    def run(self) -> None:
        try:
            encode(self._batches, self, self._format)
        except (BrokenPipeError, _Stopped):
            # The program needs no more rows, as `head` does not; its exit code says whether that is well.
            pass
        except BaseException as error:  # noqa: BLE001
            self.raised = error
        finally:
            with suppress(BrokenPipeError):
                self._file.close()


class _Tail(_Pipe):
    """Reads stderr to its end and keeps the last bytes."""

    def __init__(self, stderr: IO[bytes]) -> None:
        super().__init__(stderr)
        self._kept = b""

    def run(self) -> None:
        with self._file:
            while self._is_ready(select.POLLIN):
                data = self._file.read(STDERR_BYTES)
                if data == b"":
                    return
                self._kept = (self._kept + (data or b""))[-STDERR_BYTES:]

    def text(self) -> str:
        """Return what was read last."""
        return self._kept.decode(errors="replace").strip()
