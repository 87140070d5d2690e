"""What all commands share: where output goes, how errors end, how a table is found."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
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
            code = function(**arguments)
        except pilum.InvalidInputError as error:
            _fail(error, as_json, MISUSE)
        except pilum.PilumError as error:
            _fail(error, as_json, PROBLEM)
        except BrokenPipeError:
            # Whoever read has seen enough. Nothing may be flushed into the pipe any more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except KeyboardInterrupt:
            click.echo("pilum: interrupted", err=True)
            sys.exit(130)
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


def _fail(error: pilum.PilumError, as_json: bool, code: int) -> None:
    message = " ".join(str(error).split())
    if as_json:
        write_json({"error": {"kind": error.kind, "message": message}})
    click.echo(f"pilum: {message}", err=True)
    sys.exit(code)


def is_file(uri: str) -> bool:
    """Return whether an address is that of one data file: named so, and no folder."""
    return uri.endswith(".lance") and not Path(uri).is_dir() and (Path(uri).is_file() or "/data/" in uri)


def write_json(document: Any) -> None:
    """Write one document, keys in their documented order."""
    click.echo(json.dumps(document, ensure_ascii=False, default=str))


def console() -> Console:
    """Return standard output: colours and lines on a terminal, plain text in a pipe, where nothing is cut."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 200, soft_wrap=not sys.stdout.isatty())


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
