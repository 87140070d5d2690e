"""How the commands show their results to people. The JSON of the same is made in `commands.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from pilum.cli.shell import console, grid, row, size, width
from pilum.json_values import json_values
from pilum.skiff.arguments import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from pilum.stores import Diagnosis

MOST = 20
"""Lines of a list that are shown; the rest is counted. `--json` has all."""


def facts(pairs: dict[str, Any]) -> None:
    """Show names and values."""
    table = grid("", "")
    table.show_header = False
    for name, value in pairs.items():
        row(table, name.replace("_", " "), value)
    console().print(table)


def _list(title: str, lines: list[Any], *headings: str) -> None:
    if not lines:
        return
    table = grid(*headings, title=f"\n{title}")
    for line in lines[:MOST]:
        row(table, *line)
    console().print(table)
    if len(lines) > MOST:
        console().print(f"... and {len(lines) - MOST} more: --json lists them")


def lines(found: list[Any], *headings: str) -> None:
    """Show a list, all of it."""
    table = grid(*headings)
    for line in found:
        row(table, *line)
    console().print(table)


def statistics(found: list[dict[str, Any]]) -> None:
    """Show statistics of columns; what is only a bound is marked."""
    table = grid("column", "type", ">nulls", "min", "max", "", ">bytes")
    for it in found:
        low, high = (_short(it[side]) for side in ("min", "max"))
        row(table, it["column"], it["type"], it["null_count"], low, high, "" if it["exact"] else "bounds", it["bytes"])
    console().print(table)


def _short(value: Any) -> str | None:
    text = None if value is None else _cell(value)
    return text if text is None or len(text) <= 24 else f"{text[:23]}…"


def verified(report: dict[str, Any]) -> None:
    """Show what verification found."""
    out, problems = console(), report["problems"]
    version = f" version {report['version']}" if report["version"] else ""
    verdict = Text("sound", "bold green") if report["ok"] else Text(counted(len(problems), "problem"), "bold red")
    head = Text(f"{report['uri']}{version}: ").append_text(verdict)
    out.print(head.append(f" ({counted(report['num_files'], 'file')}, {counted(report['num_rows'], 'row')})"))
    _list("Problems", [(it["check"], it["path"], it["reason"]) for it in problems], "check", "path", "reason")
    _list("Not covered by a checksum", [(it["path"], it["reason"]) for it in report["uncovered"]], "path", "reason")
    _list("Named by no version", [(path,) for path in report["orphans"]], "path")


def examined(found: Diagnosis) -> None:
    """Show whether a store can be trusted."""
    verdict = Text("can be trusted", "bold green") if found else Text("cannot be trusted", "bold red")
    console().print(Text(f"{found.uri}: ").append_text(verdict))
    checks = [("ok" if check.ok else "FAILED", check.name, check.finding) for check in found.checks]
    _list("Checks", list(checks), "", "check", "finding")


def columns(found: list[dict[str, Any]]) -> None:
    """Show a schema, members below their struct."""
    table = grid(">id", "column", "type", "null")
    for it in found:
        row(table, it["id"], it["name"], it["data_type"], "yes" if it["nullable"] else "no")
    console().print(table)


def versions(history: list[dict[str, Any]], tags: dict[str, int]) -> None:
    """Show versions, the newest last, with the tags that name them."""
    table = grid(">version", "time", "operation", ">rows", "tags")
    for it in history:
        names = ", ".join(name for name, version in sorted(tags.items()) if version == it["version"])
        row(table, it["version"], it["timestamp"], it["operation"], it["num_rows"], names)
    console().print(table)


def tags(found: dict[str, int]) -> None:
    """Show tags."""
    table = grid("tag", ">version")
    for name, version in sorted(found.items()):
        row(table, name, version)
    console().print(table)


def cleaned(told: dict[str, Any]) -> None:
    """Show what went, or would go."""
    verb = "would remove" if told["dry_run"] else "removed"
    console().print(f"{verb} {len(told['versions'])} versions and {len(told['files'])} files, {size(told['bytes'])}")
    _list("Files", [(path,) for path in told["files"]], "path")


MIN_CELL = 8
"""Characters of a column of `head` at least: columns that do not fit beside each other are counted instead."""


def rows(batches: Iterable[pa.RecordBatch], names: list[str]) -> None:
    """Show rows, one line for each, as wide as the terminal; written batch by batch, so that many rows are no problem."""
    line = width()
    widths: list[int] = []
    for number, batch in enumerate(batches):
        cells = [[_cell(value) for value in _values(column)] for column in batch.columns]
        if number == 0:
            widths = _widths(names, cells, line)
            _lines([[name] for name in names], widths)
        _lines(cells, widths)
    if not widths:
        widths = _widths(names, [[] for _ in names], line)
        _lines([[name] for name in names], widths)
    if len(widths) < len(names):
        rest = f"... and {len(names) - len(widths)} more columns: {', '.join(map(_cell, names[len(widths) :]))}"
        click.echo(rest if len(rest) <= line else f"{rest[: line - 1]}…")


def _values(column: pa.Array) -> list[Any]:
    """Return values of Python, or as in JSON where Python has none, such as for years beyond 9999."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        return json_values(column)
    return values


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    # A cell is one line: characters that would break it, or speak to the terminal, are escaped.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value)[:MAX_CELL])


MAX_CELL = 1000
"""Characters of a value that are looked at."""


def _widths(names: list[str], cells: list[list[str]], line: int) -> list[int]:
    """Share a line among columns: narrow ones get what they need, the others the same. As many as fit are shown."""
    wanted = [max([len(_cell(name)), *map(len, column[:100])]) for name, column in zip(names, cells, strict=True)]
    if not wanted:
        return []
    shown = len(wanted)
    while shown > 1 and sum(min(it, MIN_CELL) + 2 for it in wanted[:shown]) - 2 > line:
        shown -= 1
    wanted = wanted[:shown]
    left = line - 2 * (shown - 1)
    widths = [0] * shown
    for place, (order, want) in enumerate(sorted(enumerate(wanted), key=lambda it: it[1])):
        widths[order] = max(1, min(want, left // (shown - place)))
        left -= widths[order]
    return widths


def _lines(cells: list[list[str]], widths: list[int]) -> None:
    text = []
    for values in zip(*cells[: len(widths)], strict=True):
        padded = (
            value.ljust(wide) if len(value) <= wide else value[: max(0, wide - 1)] + "…"
            for value, wide in zip(values, widths, strict=True)
        )
        text.append("  ".join(padded).rstrip())
    if text:
        click.echo("\n".join(text))


def table(described: dict[str, Any], history: list[dict[str, Any]], named: dict[str, int]) -> None:
    """Show a version of a table."""
    checksums, deletions = described["checksums"], [it for it in described["fragments"] if it["deletion"]]
    facts(
        {
            "table": described["uri"],
            "version": f"{described['version']} of {len(history)}, {described['timestamp']}",
            "written by": " ".join(described["writer"] or ["unknown"]),
            "format": f"{described['data_format']}, compat {described['compat']}, manifests {described['naming_scheme']}",
            "flags": f"reader: {_words(described['reader_flags'])}; writer: {_words(described['writer_flags'])}",
            "rows": f"{described['num_rows']} live, {described['num_deleted_rows']} deleted",
            "files": f"{described['num_files']}, {size(described['num_bytes'])}",
            "stable row ids": "yes" if described["has_stable_row_ids"] else "no",
            "checksums": f"{checksums['num_data_files']} of {described['num_files']} data files, "
            f"{checksums['num_deletion_files']} of {len(deletions)} deletion files, "
            f"manifest {'yes' if checksums['manifest'] else 'no'}",
        }
    )
    out = console()
    out.print("\nColumns", style="italic")
    columns(described["columns"])
    out.print("\nVersions", style="italic")
    versions(history[-MOST:], named)
    lines = [
        (it["id"], it["num_rows"], it["physical_rows"] - it["num_rows"], len(it["files"]), _bytes(it))
        for it in described["fragments"]
    ]
    _list("Fragments", lines, ">id", ">rows", ">deleted", ">files", ">size")


def _bytes(fragment: dict[str, Any]) -> str:
    sizes = [file["num_bytes"] for file in fragment["files"]]
    return size(None if None in sizes else sum(sizes))


def _words(words: list[str]) -> str:
    return ", ".join(words) or "none"


def file(described: dict[str, Any]) -> None:
    """Show one data file."""
    extension = described["extension"]
    facts(
        {
            "file": described["path"],
            "size": size(described["num_bytes"]),
            "written by": " ".join(described["writer"] or ["unknown"]),
            "rows": f"{described['num_rows']} in {len(described['batch_offsets']) - 1} batches",
            "extension": "none: a plain Lance v1 file"
            if extension is None
            else f"version {extension['version']}, {'needed' if extension['required'] else 'not needed'} to read",
            "checksums": "none"
            if extension is None or not extension["checksum_block_bytes"]
            else f"one per {extension['checksum_block_bytes']} bytes",
        }
    )
    sections = [(it["name"], it["position"], it["length"]) for it in described["sections"]]
    _list("Sections", sections, "name", ">position", ">bytes")
    _list(
        "Columns",
        [_column(it) for it in described["columns"]],
        *(">id", "column", "type", "layout", ">pages", ">bytes", "validity", ">checksums", ">nulls", "min", "max"),
    )
    pages = [
        (column["name"], batch, page["num_rows"], page["position"], page["length"], page["num_bytes"], page["encoding"])
        for column in described["columns"]
        for batch, page in enumerate(column["pages"])
    ]
    _list("Pages", pages, "column", ">batch", ">rows", ">position", ">values", ">bytes", "encoding")


def _column(column: dict[str, Any]) -> tuple[object, ...]:
    pages = column["pages"]
    sizes = [page["num_bytes"] for page in pages]
    nulls = [page["null_count"] for page in pages]
    validity = sorted({kind for page in pages for kind in page["validity"]})
    return (
        column["id"],
        column["name"],
        column["data_type"],
        column["layout"],
        len(pages),
        None if None in sizes else sum(sizes),
        ", ".join(validity) or "v1",
        sum(page["num_checksums"] for page in pages),
        None if None in nulls else sum(nulls),
        _first(pages, "min"),
        _first(pages, "max"),
    )


def _first(pages: list[dict[str, Any]], bound: str) -> str | None:
    """Return the bound of a column of one page; those of several are listed by `--json`."""
    if len(pages) != 1 or pages[0][bound] is None:
        return None
    text = str(pages[0][bound])
    return text if len(text) <= 24 else f"{text[:23]}…"
