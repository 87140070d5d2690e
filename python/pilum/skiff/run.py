"""A function of record batches as a YTsaurus job: stdin in, the streams of the output tables out."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pilum import _pilum
from pilum.arguments import checked
from pilum.exceptions import InvalidInputError
from pilum.skiff.arguments import counted, integer, one_of, true_or_false
from pilum.skiff.codec import decode
from pilum.skiff.formats import Format, check_format
from pilum.skiff.streams import Sink, Source, flush, writer_of

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_OUTPUT = "YT_FIRST_OUTPUT_TABLE_FD"
"""The environment variable with the file descriptor of the first output table."""


OPTIONS = tuple(
    name for name, it in inspect.signature(decode).parameters.items() if it.kind is inspect.Parameter.KEYWORD_ONLY
)
"""The options of `decode`. `run` has the same options."""


class Ran(NamedTuple):
    """What a job did."""

    rows_in: int
    rows_out: list[int]


@checked(decode, mode=None, batch_rows=None, batch_bytes=None)
def run(
    func: Callable[[Any], Any],
    stdin: Source | None = None,
    stdout: Sink | Sequence[Sink] | None = None,
    format_in: Format | None = None,
    format_out: Format | None = None,
    *,
    mode: Literal["map", "reduce"] = "map",
    with_table: bool = False,
    **options: Any,
) -> Ran:
    """Run a function over the rows of a stream and write what it gives.

    While it runs, what it prints goes to stderr: a line of text among the rows would end the operation. When rows come from
    file descriptor 0, the function and the programs that it starts find no input there, so that nothing takes rows away.

    Args:
        func: In `map` mode a function from an iterator of record batches to an iterator of record batches, the same as for
            `mapInArrow`. In `reduce` mode a function that is called for every key with a `pyarrow.Table` of its rows (a list of
            one table per input table, where there are several), control columns included, and returns a table, a batch, an
            iterator of them, or None. It may give pairs of an output table's number and rows; rows without a number belong to
            output table 0.
        stdin: Where the rows are read from; None is file descriptor 0.
        stdout: Where the rows of every output table are written; None is file descriptors 1, 4, 7 and so on, of which the
            environment variable `YT_FIRST_OUTPUT_TABLE_FD` sets the first one.
        format_in: The schemas of the input tables. `reduce` needs `$key_switch` in every one of them.
        format_out: The schemas of the output tables.
        mode: `"map"` or `"reduce"`.
        with_table: Whether the function gets pairs of an input table's number and a batch.
        options: As for `decode`; `reduce` takes the order of the stream only.

    Raises:
        CorruptError: The input is malformed; the rows before the fault were given to the function.
        InvalidInputError: The output format refuses a value, or the function gives something else than rows.
        BrokenPipeError: The reader of an output table closed it.
        SystemExit: The function ended the process. The job is not complete, whatever the exit code is.
    """
    if not callable(func):
        raise InvalidInputError(f"func: a function is expected, not {type(func).__name__}")
    true_or_false("with_table", with_table)
    format_in, format_out = check_job(format_in, format_out, mode, options)
    if mode == "reduce":
        options["cut_at_key_switch"] = True
    with _outputs(stdout, len(format_out)) as writers, _input(stdin) as source:
        counts = _Counts()
        batches = counts.counted(decode(source, format_in, **options))
        if mode == "map":
            results = func(batches if with_table else (batch for _, batch in batches))
        else:
            results = _reduced(func, _groups(batches), len(format_in))
        # `table` of every encoder differs: all rows of an output stream are tagged 0.
        encoders = [_pilum.SkiffEncoder(format_out.engine, "output", False, True) for _ in writers]
        for table, rows in map(_numbered, _iterated(results)):
            if not 0 <= table < len(encoders):
                raise InvalidInputError(
                    f"the function gave rows for output table {table}; format_out has {counted(len(encoders), 'table')}; "
                    "the first one is table 0"
                )
            encoders[table].encode(table, rows, writers[table])
        return Ran(counts.rows, [encoder.num_rows for encoder in encoders])


def check_job(
    format_in: Format | None, format_out: Format | None, mode: str, options: Mapping[str, Any]
) -> tuple[Format, Format]:
    """Check what a job is given before it reads a row, and return its formats.

    Raises:
        InvalidInputError: A format or an option that no job can run with.
    """
    format_in = check_format(format_in, "format_in")
    format_out = check_format(format_out, "format_out")
    one_of("mode", mode, "map", "reduce")
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise InvalidInputError(
            f"run has no option {', '.join(map(repr, unknown))}; it has those of decode: {', '.join(OPTIONS)}"
        )
    if mode == "reduce":
        for table, schema in enumerate(format_in.schemas):
            if "$key_switch" not in schema.names:
                raise InvalidInputError(
                    f"reduce needs the column $key_switch in every input table; table {table} has none: add it to the "
                    "format, and enable_key_switch to the control attributes of the operation"
                )
        if options.get("order", "stream") != "stream":
            raise InvalidInputError(
                'reduce needs the rows in the order of the stream, where the keys change: leave order="table" out'
            )
    # A stream without rows checks the other options.
    for _ in decode(b"", format_in, **options):
        pass
    return format_in, format_out


def check_input() -> None:
    """Check that there is an input.

    Raises:
        InvalidInputError: File descriptor 0 is closed.
    """
    try:
        os.fstat(0)
    except OSError:
        raise InvalidInputError(
            "rows are read from file descriptor 0 (stdin), which is closed; pass stdin, or redirect it from a file"
        ) from None


def check_descriptors(num_tables: int) -> list[int]:
    """Return the file descriptors of the output tables.

    Raises:
        InvalidInputError: One of them is not open.
    """
    first = _first_descriptor()
    descriptors = [first + 3 * table for table in range(num_tables)]
    for table, descriptor in enumerate(descriptors):
        try:
            os.fstat(descriptor)
        except (OSError, OverflowError):
            raise InvalidInputError(
                f"output table {table} is written to file descriptor {descriptor}, which is not open; pass stdout, or set "
                f"{FIRST_OUTPUT} to the first descriptor"
            ) from None
    return descriptors


class _Counts:
    def __init__(self) -> None:
        self.rows = 0

    def counted(self, batches: Iterator[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for table, batch in batches:
            self.rows += batch.num_rows
            yield table, batch


def _iterated(results: Any) -> Iterable[Any]:
    if results is None:
        raise InvalidInputError("the function returned None: yield record batches, or return an iterator of them")
    if _is_rows(results):
        return [results]
    if not isinstance(results, Iterable):
        raise InvalidInputError(
            f"the function returned {type(results).__name__}: yield record batches, or return an iterator of them"
        )
    return results


def _is_rows(value: Any) -> bool:
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")


def _numbered(result: Any) -> tuple[int, Any]:
    given, rows = result if isinstance(result, tuple) and len(result) == 2 else (0, result)
    table = integer(given)
    if table is None or not _is_rows(rows):
        raise InvalidInputError(
            f"the function gave {type(rows).__name__}: record batches, or pairs of an output table's number and a batch, "
            "are expected"
        )
    return table, rows


def _groups(batches: Iterator[tuple[int, pa.RecordBatch]]) -> Iterator[list[tuple[int, pa.RecordBatch]]]:
    """Give the batches of every key. A key's rows may span batches; every key begins a new one."""
    group: list[tuple[int, pa.RecordBatch]] = []
    for table, batch in batches:
        if group and batch.column("$key_switch")[0].as_py():
            yield group
            group = []
        group.append((table, batch))
    if group:
        yield group


def _reduced(
    func: Callable[[Any], Any], groups: Iterator[list[tuple[int, pa.RecordBatch]]], num_tables: int
) -> Iterator[Any]:
    import pyarrow as pa

    schemas: dict[int, pa.Schema] = {}
    for group in groups:
        parts: list[list[pa.RecordBatch]] = [[] for _ in range(num_tables)]
        for table, batch in group:
            parts[table].append(batch)
            schemas[table] = batch.schema
        tables = [pa.Table.from_batches(part, schemas.get(table, pa.schema([]))) for table, part in enumerate(parts)]
        result = func(tables[0] if num_tables == 1 else tables)
        if result is None:
            continue
        if isinstance(result, tuple):
            yield result
        else:
            yield from _iterated(result)


@contextmanager
def _outputs(stdout: Sink | Sequence[Sink] | None, num_tables: int) -> Iterator[list[Callable[[bytes], int | None]]]:
    """Yield a function per output table that takes its bytes, with prints kept out of all of them."""
    if stdout is not None:
        sinks: list[Any] = list(stdout) if isinstance(stdout, (list, tuple)) else [stdout]
        writers = [writer_of(sink) for sink in sinks]
        if len(writers) != num_tables:
            raise InvalidInputError(f"stdout has {len(writers)} outputs, and format_out has {num_tables} tables")
        for sink in filter(_is_descriptor_1, sinks):
            flush(sink)
        with _stdout_to_stderr(1 if any(map(_is_descriptor_1, sinks)) else None) as moved:
            if moved is not None:
                writers = [
                    writer_of(moved) if _is_descriptor_1(sink) else writer
                    for sink, writer in zip(sinks, writers, strict=True)
                ]
            yield writers
        for sink in sinks:
            flush(sink)
        return
    descriptors = check_descriptors(num_tables)
    with _stdout_to_stderr(1 if 1 in descriptors else None) as moved:
        yield [writer_of(moved if descriptor == 1 and moved is not None else descriptor) for descriptor in descriptors]


def _is_descriptor_1(sink: Any) -> bool:
    """Return whether a sink writes its bytes as they are to file descriptor 1, where C code and other programs print."""
    if isinstance(sink, (io.FileIO, io.BufferedWriter)):
        return not sink.closed and sink.fileno() == 1
    return isinstance(sink, int) and not isinstance(sink, bool) and sink == 1


def _first_descriptor() -> int:
    text = os.environ.get(FIRST_OUTPUT, "1")
    try:
        return int(text)
    except ValueError:
        raise InvalidInputError(f"{FIRST_OUTPUT}={text!r}: the number of a file descriptor is expected") from None


@contextmanager
def _stdout_to_stderr(descriptor: int | None) -> Iterator[int | None]:
    """Send what is printed to stderr, what C code prints too, and yield another descriptor for the stream of `descriptor`."""
    printed = sys.stdout
    moved = None
    if descriptor is not None:
        if printed is not None:
            printed.flush()
        moved = os.dup(descriptor)
        try:
            os.dup2(2, descriptor)
        except OSError:
            # stderr is closed too: discard what the function prints.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
    sys.stdout = sys.stderr
    try:
        yield moved
    finally:
        sys.stdout = printed
        if descriptor is not None and moved is not None:
            os.dup2(moved, descriptor)
            os.close(moved)


@contextmanager
def _input(stdin: Source | None) -> Iterator[Source]:
    """Yield the source of the rows; while it is file descriptor 0, others that read there find the end of a file."""
    if stdin is not None:
        yield stdin
        return
    check_input()
    moved = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        yield moved
    finally:
        os.dup2(moved, 0)
        os.close(moved)
