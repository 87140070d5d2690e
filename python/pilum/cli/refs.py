"""`pilum refs`: reference sets shown, listed, read, and written in another form."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import click

from pilum import dataset, references
from pilum.cli import show
from pilum.cli.kinds import kind_of, only
from pilum.cli.shell import command, settings, write_json
from pilum.exceptions import AlreadyExistsError
from pilum.json_values import json_rows


def summary(opened: references.References) -> dict[str, Any]:
    """Return what a set consists of."""
    values = opened.locate_many(list(opened))
    whole = sum(isinstance(it, tuple) and len(it) == 1 for it in values)
    ranges = sum(isinstance(it, tuple) and len(it) == 3 for it in values)
    return {
        "num_keys": len(values),
        "num_inline": len(values) - whole - ranges,
        "num_ranges": ranges,
        "num_whole_files": whole,
        "urls": sorted(opened.urls),
    }


def inspect(uri: str, options: tuple[str, ...], as_json: bool) -> None:
    """Show what a set consists of."""
    found = summary(references.open(uri, storage_options=settings(options)))
    if as_json:
        write_json({"kind": "references", "references": found})
        return
    show.facts({**found, "urls": ", ".join(found["urls"][: show.MOST]) or "none"})


@click.command()
@click.option(
    "--keys", "prefix", metavar="PREFIX", help="List the keys that begin so, with their places; '' lists all."
)
@click.option("--get", "key", metavar="KEY", help="Write the bytes of a key to standard output.")
@click.option("--to", "target", metavar="TARGET", help="Write the set to a new .json file or .parq folder.")
@click.option(
    "--of", "names", metavar="A,B,..", help="Of a table: the columns that become arrays; by default all that can."
)
@click.option(
    "--format-version", type=click.IntRange(0, 1), default=1, show_default=True, help="Version of a .json file."
)
@command
def refs(
    uri: str,
    options: tuple[str, ...],
    as_json: bool,
    prefix: str | None,
    key: str | None,
    target: str | None,
    names: str | None,
    format_version: int,
) -> None:
    """Show a reference set of kerchunk, list its keys, read one, or write the set in another form.

    URI may be a table too: its numeric columns become zarr arrays. JSON: num_keys, num_inline, num_ranges, num_whole_files,
    urls; with --keys: keys [{key, path, offset, size}]; with --get: key, bytes (base64); with --to: target, num_keys.
    """
    # A folder of another machine that is named .parq is a set or Parquet files; here it can only be a set.
    if "://" not in uri or kind_of(uri) != "parquet":
        only(uri, "references", "table")
    given = settings(options)
    if kind_of(uri) == "table":
        columns = None if names is None else [name.strip() for name in names.split(",")]
        opened = references.from_dataset(dataset(uri, storage_options=given), columns=columns)
    else:
        opened = references.open(uri, storage_options=given)
    if key is not None:
        _get(opened, key, as_json)
    elif target is not None:
        _write(opened, target, format_version, given, as_json)
    elif prefix is not None:
        found = json_rows(opened.to_arrow(prefix).select(["key", "path", "offset", "size"]))
        if as_json:
            write_json({"keys": found})
        else:
            show.lines([list(it.values()) for it in found], "key", "path", ">offset", ">size")
    elif as_json:
        write_json(summary(opened))
    else:
        told = summary(opened)
        show.facts({**told, "urls": ", ".join(told["urls"][: show.MOST]) or "none"})


def _get(opened: references.References, key: str, as_json: bool) -> None:
    value = opened[key]
    if as_json:
        write_json({"key": key, "bytes": base64.b64encode(value).decode()})
    else:
        sys.stdout.buffer.write(value)


def _write(
    opened: references.References, target: str, version: int, given: dict[str, str] | None, as_json: bool
) -> None:
    if "://" not in target and Path(target).exists():
        raise AlreadyExistsError(f"{target}: it exists; remove it or choose another name")
    if target.endswith(".json"):
        opened.to_json(target, 0 if version == 0 else 1, storage_options=given)
    elif target.endswith((".parq", ".parquet")):
        opened.to_parquet(target, storage_options=given)
    else:
        raise click.UsageError(f"--to {target}: name it .json or .parq")
    told = {"target": target, "num_keys": len(opened)}
    if as_json:
        write_json(told)
    else:
        click.echo(f"{told['num_keys']} keys in {target}")
