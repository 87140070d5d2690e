"""Where the bytes of streams come from and go to."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from pilum.exceptions import InvalidInputError


@runtime_checkable
class Readable(Protocol):
    """A binary file or a pipe."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""


@runtime_checkable
class Writable(Protocol):
    """A binary file or a pipe."""

    def write(self, data: bytes, /) -> int | None:
        """Take bytes and return how many."""


@runtime_checkable
class Socket(Protocol):
    """A connected socket."""

    def recv(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""

    def send(self, data: bytes, /) -> int:
        """Take bytes and return how many."""


Source = Readable | Socket | bytes | bytearray | memoryview | int
"""An object with `read`, a socket, bytes, or the number of a file descriptor."""

Sink = Writable | Socket | int
"""An object with `write`, a socket, or the number of a file descriptor."""


def reader_of(readable: Source) -> bytes | Callable[[int], bytes]:
    """Return bytes, or a function that returns at most so many bytes as soon as some are there."""
    source: Any = readable
    if isinstance(source, bytes):
        return source
    if isinstance(source, int) and not isinstance(source, bool):
        source = _opened(source, "rb")
    if isinstance(source, io.TextIOBase):
        raise InvalidInputError("the source is a text file: open it in binary mode, or pass its `buffer`")
    if isinstance(source, io.RawIOBase):
        return lambda size: _waited(source, source.read, size, is_reading=True)
    if isinstance(source, io.BufferedReader):
        return lambda size: _buffered(source, size)
    # `read` of a buffered reader waits for all the bytes that were asked for: a slow writer would seem to hang.
    for name in ("read1", "read", "recv"):
        read = getattr(source, name, None)
        if callable(read):
            return read  # type: ignore[no-any-return]
    try:
        return bytes(memoryview(source))
    except TypeError:
        raise InvalidInputError(
            f"cannot read from a {type(source).__name__}: pass a binary file, a socket, bytes or a file descriptor"
        ) from None


def writer_of(writable: Sink) -> Callable[[bytes], int | None]:
    """Return the function that takes bytes."""
    sink: Any = writable
    if isinstance(sink, int) and not isinstance(sink, bool):
        sink = _opened(sink, "wb")
    if isinstance(sink, io.TextIOBase):
        raise InvalidInputError("the target is a text file: open it in binary mode, or pass its `buffer`")
    if isinstance(sink, io.RawIOBase):
        return lambda data: _waited(sink, sink.write, data, is_reading=False)
    for name in ("write", "send"):
        write = getattr(sink, name, None)
        if callable(write):
            return write  # type: ignore[no-any-return]
    raise InvalidInputError(
        f"cannot write to a {type(sink).__name__}: pass a binary file, a socket or a file descriptor"
    )


def flush(writable: Sink) -> None:
    """Hand on what a buffered file holds."""
    flushing = getattr(writable, "flush", None)
    if flushing is not None:
        flushing()


def _opened(descriptor: int, mode: str) -> io.FileIO:
    try:
        return io.FileIO(descriptor, mode, closefd=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"file descriptor {descriptor}: {error}") from None
    except (OverflowError, TypeError):
        raise InvalidInputError(f"file descriptor {descriptor}: there are no descriptors of this size") from None


def _buffered(file: io.BufferedReader, size: int) -> bytes:
    """Read what is there. In non-blocking mode "nothing yet" looks like the end, until the file is ready to be read."""
    data = file.read1(size)
    if data:
        return data
    try:
        waits = os.get_blocking(file.fileno())
    except (OSError, ValueError):  # not a file of the system
        return data
    if not waits:
        _wait(file, select.POLLIN)
        return file.read1(size)
    return data


def _waited(file: Any, move: Callable[[Any], Any], argument: Any, *, is_reading: bool) -> Any:
    """Call `read` or `write` of a raw file until it moves bytes: in non-blocking mode it returns None when it cannot."""
    while True:
        moved = move(argument)
        if moved is not None:
            return moved
        _wait(file, select.POLLIN if is_reading else select.POLLOUT)


def _wait(file: Any, event: int) -> None:
    # Unlike `select`, `poll` takes descriptors of any number.
    poll = select.poll()
    poll.register(file, event)
    poll.poll()
