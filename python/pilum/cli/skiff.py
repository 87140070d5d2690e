"""The commands that know Skiff streams: `convert`, and `inspect --format`."""

from __future__ import annotations

from pathlib import Path

import click

from pilum.cli.parquet import convert as convert_parquet
from pilum.cli.shell import command, settings, write_json
from pilum.exceptions import InvalidInputError
from pilum.skiff.convert import convert as convert_rows
from pilum.skiff.convert import existing
from pilum.skiff.formats import Format

SHOWN_BYTES = 16 << 20
"""How much of a stream `inspect` looks at."""


def is_stream(uri: str) -> bool:
    """Return whether an address is a file whose ending says that it is a Skiff stream."""
    return uri.endswith(".skiff") and Path(uri).is_file()


def inspect_stream(uri: str, path: str | None, max_rows: int, as_json: bool) -> None:
    """Show the format and the first rows of a stream, field by field.

    Raises:
        InvalidInputError: There is no format.
    """
    if path is None:
        raise InvalidInputError(f"{uri}: a Skiff stream is read by its format only; pass --format FILE")
    fmt = Format.load(path)
    with existing(uri).open("rb") as file:
        start = file.read(SHOWN_BYTES)
        num_more = max(0, existing(uri).stat().st_size - len(start))
        dump = fmt.annotate_start(start, num_more, max_rows)
    if as_json:
        write_json({"kind": "skiff", "format": fmt.explain(), "dump": dump})
    else:
        click.echo(fmt.explain())
        click.echo(dump, nl=False)


@click.command()
@click.option(
    "--format", "path", metavar="FILE", help="The format of the Skiff stream, JSON or YSON: a file, or the text itself."
)
@click.option("--table", default=0, show_default=True, help="The table of the format.")
@click.option("--text", is_flag=True, help="Take the strings of a stream as text; without it they are binary.")
@command
@click.argument("target")
def convert(
    uri: str, options: tuple[str, ...], as_json: bool, target: str, path: str | None, table: int, text: bool
) -> None:
    """Convert URI to TARGET: Parquet to a table and back, and a Skiff stream from and to tables, Parquet and Arrow files.

    What an address is, its ending tells: .skiff, .parquet, .arrow; anything else is a table, but for a local folder of Parquet
    files. JSON: rows.
    """
    fmt = None if path is None else Format.load(path, strings="text" if text else "binary")
    rows = convert_parquet(uri, target, options, as_json) if fmt is None else None
    if rows is None:
        rows = convert_rows(uri, target, fmt, table=table, storage_options=settings(options))
    if as_json:
        write_json({"rows": rows})
    else:
        click.echo(f"{rows} rows")
