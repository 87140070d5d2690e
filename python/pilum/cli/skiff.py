"""The commands that know Skiff streams: `convert`, and `inspect --format`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pilum.cli.convert import convert as convert_files
from pilum.cli.kinds import kind_of
from pilum.cli.rows import format_of
from pilum.cli.shell import PROBLEM, command, settings, write_json
from pilum.exceptions import CorruptError, InvalidInputError, LimitError
from pilum.skiff.arguments import counted
from pilum.skiff.codec import decode
from pilum.skiff.convert import check_table_name, existing
from pilum.skiff.convert import convert as convert_rows

if TYPE_CHECKING:
    from pilum.skiff.formats import Format

SHOWN_BYTES = 16 << 20
"""How much of a stream `inspect` looks at for the dump."""


def inspect_stream(uri: str, path: str | None, max_rows: int, as_json: bool) -> int:
    """Show the format and the first rows of a stream, field by field, read all of it, and return the exit code.

    Raises:
        InvalidInputError: There is no format.
    """
    if path is None:
        raise InvalidInputError(f"{uri}: a Skiff stream is read by its format only; pass --format FILE")
    fmt = format_of(path)
    with existing(uri).open("rb") as file:
        start = file.read(SHOWN_BYTES)
        num_more = max(0, existing(uri).stat().st_size - len(start))
        dump = fmt.annotate_start(start, num_more, max_rows)
    rows, fault = _read(uri, fmt)
    if as_json:
        write_json({"kind": "skiff", "format": fmt.explain(), "dump": dump, "rows": rows, "fault": fault})
    else:
        click.echo(fmt.explain())
        click.echo(dump, nl=False)
        click.echo(counted(rows, "row"))
    if fault is None:
        return 0
    click.echo(f"pilum: {uri}: {fault}", err=True)
    return PROBLEM


def _read(uri: str, fmt: Format) -> tuple[int, str | None]:
    """Return the number of rows, and what is wrong behind them."""
    size = existing(uri).stat().st_size
    rows = 0
    with existing(uri).open("rb", buffering=0) as file:
        try:
            for _, batch in decode(file, fmt, errors="strict"):
                rows += batch.num_rows
        except (CorruptError, LimitError) as error:
            # A stream may end with the tag FF FF, which nothing in its format announces.
            is_end = getattr(error, "error_class", "") == "BadTableTag" and getattr(error, "offset", -1) == size - 2
            file.seek(max(0, size - 2))
            return rows, None if is_end and file.read() == b"\xff\xff" else str(error)
    return rows, None


@click.command()
@click.option(
    "--format", "path", metavar="FILE", help="The format of the Skiff stream, JSON or YSON: a file, or the text itself."
)
@click.option("--table", default=0, show_default=True, help="The table of the format.")
@click.option("--text", is_flag=True, help="Take the strings of a stream as text; without it they are binary.")
@click.option("--partition-on", multiple=True, metavar="COLUMN", help="A partition key of a new Kartothek dataset.")
@click.option(
    "--index", "indices", multiple=True, metavar="COLUMN", help="A secondary index of a new Kartothek dataset."
)
@command
@click.argument("target")
def convert(
    uri: str,
    options: tuple[str, ...],
    as_json: bool,
    target: str,
    path: str | None,
    table: int,
    text: bool,
    partition_on: tuple[str, ...],
    indices: tuple[str, ...],
) -> None:
    """Convert URI to TARGET: tables, Parquet, Arrow files and Skiff streams into each other; tables and Parquet to Kartothek.

    The ending of an address tells its kind: .skiff, .parquet, .arrow (.ipc, .feather), .by-dataset-metadata.json of a Kartothek
    dataset, .json and .parq of reference sets, which become reference sets. Any other address is a table, except a local folder
    of Parquet files or of a Kartothek dataset. A target that exists is not replaced. JSON: rows.
    """
    kinds = kind_of(uri), kind_of(target)
    if kinds[1] == "table":
        check_table_name(target)
    if "skiff" in kinds:
        fmt = None if path is None else format_of(path, "text" if text else "binary")
        rows = convert_rows(uri, target, fmt, table=table, storage_options=settings(options))
    elif path is not None:
        raise InvalidInputError(f"--format: neither {uri} nor {target} is a .skiff file")
    else:
        rows = convert_files(uri, target, options, as_json, partition_on, indices)
    if as_json:
        write_json({"rows": rows})
    else:
        click.echo(counted(rows, "row"))
