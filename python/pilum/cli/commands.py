"""The commands: those that read, and those that keep a table tidy."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import click

from pilum import _pilum, dataset, describe_file, verify_file
from pilum import doctor as examine
from pilum.cli import kartothek, parquet, refs, rows, show, stats
from pilum.cli.kinds import Kind, kind_of, only
from pilum.cli.shell import PROBLEM, Commands, as_version, bar, command, settings, write_json
from pilum.cli.skiff import convert, inspect_stream
from pilum.exceptions import CorruptError, InvalidInputError, UnsupportedError
from pilum.json_values import json_rows

if TYPE_CHECKING:
    from pilum.dataset import Dataset

FORMAT = click.option("--format", "path", metavar="FILE", help="URI is a Skiff stream of this format, JSON or YSON.")
VERSION = click.option(
    "--version", "version", metavar="N|TAG", help="The number of a version, or a tag; by default the newest version."
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_pilum.__version__, message="pilum %(version)s")
def pilum() -> None:
    """Look into versioned columnar tables, verify them, keep them tidy.

    URI is a path, or a file://, s3://, gs://, az:// or http(s):// address, of a table; many commands take a .lance data file,
    Parquet files, Arrow files, reference sets and, with --format, Skiff streams too. Exit codes: 0 success, 1 a problem was
    found or the work failed, 2 wrong use.
    """


pilum.add_command(convert)
pilum.add_command(refs.refs)


def _open(uri: str, options: tuple[str, ...], version: str | None = None) -> Dataset:
    only(uri, "table")
    return dataset(uri, version=as_version(version), storage_options=settings(options))


@pilum.command()
@VERSION
@FORMAT
@command
def verify(uri: str, options: tuple[str, ...], as_json: bool, version: str | None, path: str | None) -> int:
    """Read every file of a version, or a file of another kind, and check it.

    Exit code 1 if anything is wrong. JSON: ok, uri, version, num_files, num_rows, problems [{path, check, reason}], uncovered
    [{path, reason}] (files without checksums: no problem), orphans (files that no version names: no problem).
    """
    kind = _kind(uri, version, path)
    try:
        if kind == "file":
            report = verify_file(uri, storage_options=settings(options)).to_dict()
        elif kind == "parquet":
            report = parquet.verify(uri, options)
        elif kind != "table":
            report = rows.verify(uri, kind, options, path)
        else:
            table = _open(uri, options, version)
            uri = table.uri
            with bar("verifying", as_json) as progress:
                report = table.verify(progress=progress).to_dict()
    except (CorruptError, UnsupportedError) as error:
        # A table that cannot be opened is a finding of the verification, not a failure of the command.
        report = _unopened(" ".join(str(error).split()), uri)
    report = {"ok": report.pop("ok"), "uri": uri, **report}
    if as_json:
        write_json(report)
    else:
        show.verified(report)
    return 0 if report["ok"] else PROBLEM


def _kind(uri: str, version: str | None, path: str | None = None) -> Kind:
    """Return what an address is, and refuse the version of what has none."""
    kind = kind_of(uri, path)
    if version is not None:
        only(uri, "table")
    return kind


def _unopened(reason: str, uri: str) -> dict[str, Any]:
    problem = {"path": uri, "check": "manifest", "reason": reason}
    return {
        "ok": False,
        "version": None,
        "problems": [problem],
        "uncovered": [],
        "orphans": [],
        "num_files": 0,
        "num_rows": 0,
    }


@pilum.command()
@VERSION
@FORMAT
@click.option("--rows", "max_rows", default=10, show_default=True, help="The rows of a Skiff stream to show.")
@command
def inspect(
    uri: str, options: tuple[str, ...], as_json: bool, version: str | None, path: str | None, max_rows: int
) -> int | None:
    """Show what a table, one .lance file, Parquet files or a reference set consist of.

    JSON: kind, "table" or "file", and under that name what `Dataset.describe` or `describe_file` returns; for a table also
    versions and tags. Parquet: kind "parquet", files (what `pilum.parquet.inspect` returns of each). With --format: kind
    "skiff", format (a line per column), dump (an annotated hex dump), rows, fault (null, or why the stream ends early; exit
    code 1).
    """
    kind = _kind(uri, version, path)
    if kind == "skiff":
        return inspect_stream(uri, path, max_rows, as_json)
    if kind == "kartothek":
        kartothek.inspect(uri, options, as_json)
        return None
    if kind == "parquet":
        parquet.inspect(uri, options, as_json)
        return None
    if kind == "references":
        refs.inspect(uri, options, as_json)
        return None
    if kind == "arrow":
        opened = rows.reader(uri, kind, options)
        found = {"columns": rows.columns(opened.schema), "num_rows": sum(batch.num_rows for batch in opened)}
        if as_json:
            write_json({"kind": "arrow", "file": found})
        else:
            show.facts({"file": uri, "rows": found["num_rows"]})
            show.columns(found["columns"])
        return None
    if kind == "file":
        file = describe_file(uri, storage_options=settings(options))
        if as_json:
            write_json({"kind": "file", "file": file})
        else:
            show.file(file)
        return None
    table = _open(uri, options, version)
    described = table.describe()
    history, tags = _history(table), table.tags.list()
    if as_json:
        write_json({"kind": "table", "table": described, "versions": history, "tags": tags})
    else:
        show.table(described, history, tags)
    return None


def _history(table: Dataset) -> list[dict[str, Any]]:
    return [
        {
            "version": version.version,
            "timestamp": version.timestamp.isoformat(),
            "operation": version.operation,
            "num_rows": version.num_rows,
            "properties": version.properties,
        }
        for version in table.versions()
    ]


@pilum.command()
@VERSION
@FORMAT
@command
def schema(uri: str, options: tuple[str, ...], as_json: bool, version: str | None, path: str | None) -> None:
    """Show the columns of a table or of a file. JSON: columns [{id, name, data_type, nullable}], depth first for a table."""
    kind = _kind(uri, version, path)
    if kind == "kartothek":
        kartothek.schema(uri, options, as_json)
        return
    if kind == "parquet":
        parquet.schema(uri, options, as_json)
        return
    if kind == "table":
        columns = _open(uri, options, version).describe()["columns"]
    elif kind == "file":
        described = describe_file(uri, storage_options=settings(options))["columns"]
        columns = [{word: it[word] for word in ("id", "name", "data_type", "nullable")} for it in described]
    else:
        columns = rows.columns(rows.reader(uri, kind, options, path).schema)
    if as_json:
        write_json({"columns": columns})
    else:
        show.columns(columns)


@pilum.command()
@VERSION
@FORMAT
@click.option("-n", "--rows", "num_rows", type=click.IntRange(0), default=5, show_default=True, help="Rows to show.")
@click.option("--columns", metavar="A,B,..", help="Columns to show, in this order; by default all.")
@click.option("--filter", "condition", metavar="SQL", help="Show rows for which this is true.")
@command
def head(
    uri: str,
    options: tuple[str, ...],
    as_json: bool,
    version: str | None,
    path: str | None,
    num_rows: int,
    columns: str | None,
    condition: str | None,
) -> None:
    """Show the first rows. Of a reference set, a row is a key.

    JSON: rows, a list of objects. Numbers that JSON does not have are the texts "nan", "inf" and "-inf"; decimals are texts
    with all digits, bytes are base64; dates, times and durations are texts of ISO 8601, instants in UTC; a map is a list of
    pairs.
    """
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    kind = _kind(uri, version, path)
    found: Any
    if kind == "file":
        raise InvalidInputError(f"{uri}: rows of one data file are read through its table")
    if kind == "parquet":
        found = parquet.scanner(uri, options, names, condition, num_rows)
    elif kind == "kartothek":
        found = kartothek.scanner(uri, options, names, condition, num_rows)
    elif kind == "table":
        found = _open(uri, options, version).scanner(names, condition, limit=num_rows)
    else:
        found = rows.first(uri, kind, options, path, names, condition, num_rows)
    is_scan = kind in {"kartothek", "parquet", "table"}
    if as_json:
        write_json({"rows": json_rows(found.to_table() if is_scan else found)})
    else:
        show.rows(found if is_scan else found.to_batches(), found.schema.names)


@pilum.command()
@VERSION
@FORMAT
@click.option("--filter", "condition", metavar="SQL", help="Count rows for which this is true.")
@command
def count(
    uri: str, options: tuple[str, ...], as_json: bool, version: str | None, path: str | None, condition: str | None
) -> None:
    """Count rows; of a reference set, keys. JSON: num_rows."""
    kind = _kind(uri, version, path)
    if kind == "kartothek":
        num_rows = kartothek.count(uri, options, condition)
    elif kind == "parquet":
        num_rows = parquet.count(uri, options, condition)
    elif kind == "table":
        num_rows = _open(uri, options, version).count_rows(condition)
    elif kind == "file":
        if condition is not None:
            raise InvalidInputError(f"{uri}: rows of one data file are filtered through its table")
        num_rows = describe_file(uri, storage_options=settings(options))["num_rows"]
    else:
        num_rows = rows.count(uri, kind, options, path, condition)
    if as_json:
        write_json({"num_rows": num_rows})
    else:
        click.echo(num_rows)


@pilum.command(name="stats")
@VERSION
@FORMAT
@click.option("--exact", is_flag=True, help="Of a table: read the columns whose statistics are only bounds.")
@command
def statistics(
    uri: str, options: tuple[str, ...], as_json: bool, version: str | None, path: str | None, exact: bool
) -> None:
    """Show nulls, minimum, maximum and bytes of each column.

    Of a table and of one .lance file the page statistics are read, of other files the rows. What is unknown is null. JSON:
    columns [{column, type, null_count, min, max, exact, bytes}]; without exact, they are bounds. Values are those of `head`.
    """
    kind = _kind(uri, version, path)
    if kind == "table":
        found = stats.of_table(_open(uri, options, version).statistics(exact=exact, typed=True))
    elif kind == "parquet":
        found = stats.of_parquet(uri, options)
    elif kind == "file":
        found = stats.of_file(uri, options)
    else:
        found = stats.of_others(uri, kind, options, path)
    if as_json:
        write_json({"columns": found})
    else:
        show.statistics(found)


@pilum.command()
@command
def versions(uri: str, options: tuple[str, ...], as_json: bool) -> None:
    """List the versions. JSON: versions [{version, timestamp, operation, num_rows, properties}], tags {name: version}."""
    table = _open(uri, options)
    history, tags = _history(table), table.tags.list()
    if as_json:
        write_json({"versions": history, "tags": tags})
    else:
        show.versions(history, tags)


@pilum.command()
@VERSION
@click.option("--with", "other", metavar="N|TAG", help="The version to compare with; by default the one before.")
@command
def diff(uri: str, options: tuple[str, ...], as_json: bool, version: str | None, other: str | None) -> None:
    """Show what changed between two versions.

    JSON: from, to, added, removed, updated (rows; null without stable row ids), exact, added_columns, removed_columns,
    altered_columns.
    """
    table = _open(uri, options, version)
    earlier = as_version(other)
    if earlier is None:
        before = [it.version for it in table.versions() if it.version < table.version]
        if not before:
            raise click.UsageError(f"version {table.version} has none before it: name another one by --with")
        earlier = before[-1]
    found = table.diff(earlier)
    words = ("added", "removed", "updated", "exact", "added_columns", "removed_columns", "altered_columns")
    changes = {word: getattr(found, word) for word in words}
    told: dict[str, Any] = {"from": found.from_version, "to": found.to_version, **changes}
    if not as_json:
        told = {word: ", ".join(it) or "none" if isinstance(it, list) else it for word, it in told.items()}
    _tell(told, as_json)


@pilum.command()
@click.option(
    "--target-rows", type=click.IntRange(1), default=1_048_576, show_default=True, help="Rows of a large fragment."
)
@command
def compact(uri: str, options: tuple[str, ...], as_json: bool, target_rows: int) -> None:
    """Join small fragments and drop deleted rows. JSON: version, fragments_removed, fragments_added, rows, bytes."""
    done = _open(uri, options).compact(target_rows=target_rows)
    words = ("version", "fragments_removed", "fragments_added", "rows", "bytes")
    _tell({word: getattr(done, word) for word in words}, as_json)


@pilum.command()
@click.option(
    "--older-than",
    metavar="DAYS",
    type=click.FloatRange(0),
    default=14,
    show_default=True,
    help="Remove versions older than this.",
)
@click.option(
    "--keep-versions", type=click.IntRange(1), help="Keep this many of the newest versions, whatever their age."
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and change nothing.")
@command
def cleanup(
    uri: str, options: tuple[str, ...], as_json: bool, older_than: float, keep_versions: int | None, dry_run: bool
) -> None:
    """Remove old versions and files that no version names. JSON: dry_run, versions, files, bytes."""
    table = _open(uri, options)
    age = dt.timedelta(days=older_than)
    done = table.cleanup(older_than=age, keep_versions=keep_versions, dry_run=dry_run)
    told = {"dry_run": dry_run, "versions": done.versions, "files": done.files, "bytes": done.bytes}
    if as_json:
        write_json(told)
    else:
        show.cleaned(told)


@pilum.command()
@click.option(
    "--version", "version", metavar="N|TAG", required=True, help="The version to restore: its number, or a tag."
)
@command
def restore(uri: str, options: tuple[str, ...], as_json: bool, version: str) -> None:
    """Make rows and schema of a version the newest ones. JSON: version, the new one, and restored."""
    table = _open(uri, options, version)
    _tell({"version": table.restore().version, "restored": table.version}, as_json)


@pilum.command()
@VERSION
@click.option("--create", metavar="NAME", help="Give the version this tag.")
@click.option("--delete", metavar="NAME", help="Remove this tag; the version stays.")
@command
def tag(
    uri: str, options: tuple[str, ...], as_json: bool, version: str | None, create: str | None, delete: str | None
) -> None:
    """List, create or delete tags. JSON: tags {name: version}, after the change."""
    table = _open(uri, options, version)
    if delete is not None:
        table.tags.delete(delete)
    if create is not None:
        table.tags.create(create)
    tags = table.tags.list()
    if as_json:
        write_json({"tags": tags})
    else:
        show.tags(tags)


@pilum.command()
@click.option("--rounds", type=click.IntRange(1), default=8, show_default=True, help="The number of races.")
@command
def doctor(uri: str, options: tuple[str, ...], as_json: bool, rounds: int) -> int:
    """Examine whether a store keeps the rules that tables rely on, with writers that race each other.

    Nothing is left behind. Exit code 1 if the store cannot be trusted. JSON: trusted, uri, checks [{name, ok, finding}].
    """
    found = examine(uri, rounds=rounds, storage_options=settings(options))
    if as_json:
        write_json(found.to_dict())
    else:
        show.examined(found)
    return 0 if found else PROBLEM


def _tell(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        write_json(told)
    else:
        show.facts(told)
