"""What all commands share: output, exit codes, options of the store."""

from __future__ import annotations

import base64
import difflib
import errno
import functools
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

import pilum

PROBLEM = 1
"""Exit code: a problem was found, or the work failed."""
MISUSE = 2
"""Exit code: wrong use, as click has it."""

F = TypeVar("F", bound=Callable[..., Any])


def settings(pairs: tuple[str, ...]) -> dict[str, str] | None:
    """Return `--option key=value` as the engine takes it. A bad pair is named by its position: it may be a secret."""
    options = {}
    for place, pair in enumerate(pairs, start=1):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--option number {place} is not key=value")
        options[key] = value
    return options or None


def as_version(word: str | None) -> int | str | None:
    """Return a version's number, or the name of a tag."""
    return int(word) if word is not None and word.isdecimal() else word


def command(function: F) -> F:
    """Give a command what all have: the address, `--json`, settings of the store, errors of one line."""

    @functools.wraps(function)
    def run(**arguments: Any) -> None:
        as_json = arguments["as_json"]
        try:
            try:
                code = function(**arguments)
            except pilum.InvalidInputError as error:
                code = _failed(error, as_json, MISUSE)
            except pilum.PilumError as error:
                code = _failed(error, as_json, PROBLEM)
            # What is still in a buffer fails here, and not when the interpreter ends.
            sys.stdout.flush()
        except KeyboardInterrupt:
            click.echo("pilum: interrupted", err=True)
            sys.exit(130)
        except OSError as error:
            _end_of_output(error)
        sys.exit(code or 0)

    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="Write one JSON document to standard output."),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of the store, such as a region or a credential; may be repeated. Never shown.",
        ),
        click.argument("uri"),
    ):
        run = decorate(run)
    return run  # type: ignore[return-value]


def _failed(error: pilum.PilumError, as_json: bool, code: int) -> int:
    message = " ".join(str(error).split())
    if as_json:
        write_json({"error": {"kind": error.kind, "message": message}})
    click.echo(f"pilum: {message}", err=True)
    return code


def _end_of_output(error: OSError) -> None:
    """End the command because standard output takes no more: the reader left, or the disk is full."""
    # The interpreter flushes standard output when it ends; what is left of the buffer must go nowhere.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno in {errno.EPIPE, errno.ESHUTDOWN}:
        # A reader such as `head` has seen enough.
        sys.exit(0)
    click.echo(f"pilum: cannot write to standard output: {error.strerror or error}", err=True)
    sys.exit(PROBLEM)


class Commands(click.Group):
    """A group of commands that names the nearest command when one is misspelt."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), 1)
            if not near:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx) from None


def is_file(uri: str) -> bool:
    """Return whether an address is that of one data file: named so, and no folder."""
    path = os.path.expanduser(uri)  # noqa: PTH111 - unlike those of Path, these functions answer for any text
    return uri.endswith(".lance") and not os.path.isdir(path) and (os.path.isfile(path) or "/data/" in uri)  # noqa: PTH112, PTH113


def write_json(document: Any) -> None:
    """Write one document, keys in their documented order. Values that JSON does not have are texts."""
    click.echo(json.dumps(plain(document), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes as base64, NaN and infinities as texts, dates and decimals as texts."""
    match value:
        case None | bool() | int():
            return value
        case str():
            # A text may hold half of a surrogate pair, which no encoding of JSON has.
            return value.encode("utf-8", "replace").decode()
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case Mapping():
            return {key if isinstance(key, str) else str(plain(key)): plain(its) for key, its in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def console() -> Console:
    """Return standard output: colours and lines on a terminal, plain text in a pipe, where nothing is cut."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 200, soft_wrap=not sys.stdout.isatty())


def width() -> int:
    """Return how many characters a line of output may have: those of the terminal, 80 in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 80


@contextmanager
def bar(what: str, as_json: bool) -> Iterator[Callable[[int, int | None], None] | None]:
    """Show a bar on standard error while something works; nothing where nobody looks."""
    if as_json or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def show(done: int, total: int | None) -> None:
            progress.update(task, completed=done, total=total)

        yield show


def grid(*headings: str, title: str | None = None) -> Table:
    """Return an empty table; headings that begin with `>` stand right."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(
            heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left", overflow="fold"
        )
    return table


def row(table: Table, *cells: object) -> None:
    """Add a row. What it holds is text: names of files and columns are no markup."""
    table.add_row(*(Text("" if cell is None else str(cell)) for cell in cells))


def size(num_bytes: int | None) -> str:
    """Return a size for people."""
    if num_bytes is None:
        return "?"
    value = float(num_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{num_bytes} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError
