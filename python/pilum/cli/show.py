"""How answers look to people. The JSON form of the same is made where the command is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from pilum.cli.shell import console, grid, row, size

if TYPE_CHECKING:
    import pyarrow as pa

    from pilum.stores import Diagnosis

MOST = 20
"""Lines of a list before the rest is counted: `--json` has them all."""


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


def verified(report: dict[str, Any]) -> None:
    """Show what verification found."""
    out, problems = console(), report["problems"]
    version = f" version {report['version']}" if report["version"] else ""
    verdict = Text("sound", "bold green") if report["ok"] else Text(f"{len(problems)} problems", "bold red")
    head = Text(f"{report['uri']}{version}: ").append_text(verdict)
    out.print(head.append(f" ({report['num_files']} files, {report['num_rows']} rows)"))
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


def rows(found: pa.Table) -> None:
    """Show rows as they would be written in Python."""
    table = grid(*found.column_names)
    for values in zip(*(column.to_pylist() for column in found.columns), strict=True):
        row(table, *("null" if value is None else value for value in values))
    console().print(table)


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
