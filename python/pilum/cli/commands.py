"""The commands: those that read, and those that keep a table tidy."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import click

from pilum import _pilum, dataset, describe_file, verify_file
from pilum import doctor as examine
from pilum.cli import kartothek, parquet, show
from pilum.cli.shell import PROBLEM, Commands, as_version, bar, command, is_file, settings, write_json
from pilum.cli.skiff import convert, inspect_stream, is_stream
from pilum.exceptions import CorruptError, UnsupportedError

if TYPE_CHECKING:
    from pilum.dataset import Dataset

VERSION = click.option(
    "--version", "version", metavar="N|TAG", help="The number of a version, or a tag; by default the newest version."
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_pilum.__version__, message="pilum %(version)s")
def pilum() -> None:
    """Look into versioned columnar tables, verify them, keep them tidy.

    URI is a path, or a file://, s3://, gs://, az:// or http(s):// address. Exit codes: 0 success, 1 a problem was found or
    the work failed, 2 wrong use.
    """


pilum.add_command(convert)


def _open(uri: str, options: tuple[str, ...], version: str | None = None) -> Dataset:
    return dataset(uri, version=as_version(version), storage_options=settings(options))


@pilum.command()
@VERSION
@command
def verify(uri: str, options: tuple[str, ...], as_json: bool, version: str | None) -> int:
    """Read every file of a version, or one .lance file, and check it.

    Exit code 1 if anything is wrong. JSON: ok, uri, version, num_files, num_rows, problems [{path, check, reason}], uncovered
    [{path, reason}] (files without checksums: no problem), orphans (files that no version names: no problem).
    """
    try:
        if is_file(uri):
            found = verify_file(uri, storage_options=settings(options))
        else:
            table = _open(uri, options, version)
            uri = table.uri
            with bar("verifying", as_json) as progress:
                found = table.verify(progress=progress)
    except (CorruptError, UnsupportedError) as error:
        # A table that cannot be opened is a finding of the verification, not a failure of the command.
        report = _unopened(" ".join(str(error).split()), uri)
    else:
        report = found.to_dict()
    report = {"ok": report.pop("ok"), "uri": uri, **report}
    if as_json:
        write_json(report)
    else:
        show.verified(report)
    return 0 if report["ok"] else PROBLEM


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
@click.option("--format", "path", metavar="FILE", help="URI is a Skiff stream of this format, JSON or YSON.")
@click.option("--rows", "max_rows", default=10, show_default=True, help="The rows of a Skiff stream to show.")
@command
def inspect(
    uri: str, options: tuple[str, ...], as_json: bool, version: str | None, path: str | None, max_rows: int
) -> int | None:
    """Show what a table, one .lance file, or Parquet files consist of.

    JSON: kind, "table" or "file", and under that name what `Dataset.describe` or `describe_file` returns; for a table also
    versions and tags. Parquet: kind "parquet", files (what `pilum.parquet.inspect` returns of each). With --format: kind
    "skiff", format (a line per column), dump (an annotated hex dump), rows, fault (null, or why the stream ends early; exit
    code 1).
    """
    if path is not None or is_stream(uri):
        return inspect_stream(uri, path, max_rows, as_json)
    if kartothek.is_kartothek(uri):
        kartothek.inspect(uri, options, as_json)
        return None
    if parquet.is_parquet(uri):
        parquet.inspect(uri, options, as_json)
        return None
    if is_file(uri):
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
@command
def schema(uri: str, options: tuple[str, ...], as_json: bool, version: str | None) -> None:
    """Show the columns of a table or of Parquet files. JSON: columns [{id, name, data_type, nullable}], depth first."""
    if kartothek.is_kartothek(uri):
        kartothek.schema(uri, options, as_json)
        return
    if parquet.is_parquet(uri):
        parquet.schema(uri, options, as_json)
        return
    columns = _open(uri, options, version).describe()["columns"]
    if as_json:
        write_json({"columns": columns})
    else:
        show.columns(columns)


@pilum.command()
@VERSION
@click.option("-n", "--rows", "num_rows", type=click.IntRange(0), default=5, show_default=True, help="Rows to show.")
@click.option("--columns", metavar="A,B,..", help="Columns to show, in this order; by default all.")
@click.option("--filter", "condition", metavar="SQL", help="Show rows for which this is true.")
@command
def head(
    uri: str,
    options: tuple[str, ...],
    as_json: bool,
    version: str | None,
    num_rows: int,
    columns: str | None,
    condition: str | None,
) -> None:
    """Show the first rows. JSON: rows, a list of objects; values that JSON does not have are texts, bytes in base64."""
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    scanner: Any
    if kartothek.is_kartothek(uri):
        scanner = kartothek.scanner(uri, options, names, condition, num_rows)
    elif parquet.is_parquet(uri):
        scanner = parquet.scanner(uri, options, names, condition, num_rows)
    else:
        scanner = _open(uri, options, version).scanner(names, condition, limit=num_rows)
    if as_json:
        write_json({"rows": scanner.to_table().to_pylist()})
    else:
        show.rows(scanner, scanner.schema.names)


@pilum.command()
@VERSION
@click.option("--filter", "condition", metavar="SQL", help="Count rows for which this is true.")
@command
def count(uri: str, options: tuple[str, ...], as_json: bool, version: str | None, condition: str | None) -> None:
    """Count rows. JSON: num_rows."""
    if kartothek.is_kartothek(uri):
        num_rows = kartothek.count(uri, options, condition)
    elif parquet.is_parquet(uri):
        num_rows = parquet.count(uri, options, condition)
    else:
        num_rows = _open(uri, options, version).count_rows(condition)
    if as_json:
        write_json({"num_rows": num_rows})
    else:
        click.echo(num_rows)


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
