"""What the commands do with a Parquet file, or with a folder of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pilum import parquet
from pilum.cli import show
from pilum.cli.shell import console, grid, row, settings, size, write_json
from pilum.exceptions import CorruptError

ENDINGS = (".parquet", ".parq", ".pq")


def is_parquet(uri: str) -> bool:
    """Return whether an address is a Parquet file by its ending, or a local folder of such files that is no table."""
    path = Path(os.path.expanduser(uri))  # noqa: PTH111 - unlike `Path.expanduser`, it answers for any text
    if not path.is_dir():
        return uri.endswith(ENDINGS)
    if (path / "_versions").is_dir():
        return False
    return any(file.suffix in ENDINGS for file in path.rglob("*"))


def inspect(uri: str, options: tuple[str, ...], as_json: bool) -> None:
    """Show one file; of a folder, each file."""
    files = parquet.dataset(uri, hive=False, storage_options=settings(options)).files
    found = [parquet.inspect(file.path, storage_options=settings(options)) for file in files]
    if as_json:
        write_json({"kind": "parquet", "files": found})
        return
    for described in found:
        _show(described)


def _show(described: dict[str, Any]) -> None:
    show.facts(
        {
            "file": described["path"],
            "size": size(described["num_bytes"]),
            "written by": described["created_by"] or "unknown",
            "rows": f"{described['num_rows']} in {described['num_row_groups']} row groups",
            "metadata": ", ".join(pair["key"] for pair in described["key_value_metadata"]) or "none",
        }
    )
    columns = grid("column", "type", ">definition levels", ">repetition levels", title="Columns")
    for leaf in described["columns"]:
        kind = (
            leaf["physical_type"]
            if leaf["logical_type"] is None
            else f"{leaf['physical_type']} ({leaf['logical_type']})"
        )
        row(columns, leaf["path"], kind, leaf["max_definition_level"], leaf["max_repetition_level"])
    chunks = grid(
        *(">row group", "column", ">values", ">bytes", ">unpacked", "compression", "encodings", ">pages", "checksums"),
        *(">nulls", "min", "max", "page index", "Bloom filter"),
        title="Column chunks",
    )
    for group in described["row_groups"]:
        for chunk in group["columns"]:
            statistics = chunk["statistics"] or {}
            checksums = sorted({page["checksum"] for page in chunk["pages"]})
            row(
                chunks,
                *(
                    group["index"],
                    chunk["path"],
                    chunk["num_values"],
                    chunk["compressed_bytes"],
                    chunk["uncompressed_bytes"],
                ),
                *(chunk["compression"], ", ".join(chunk["encodings"]), len(chunk["pages"]), ", ".join(checksums)),
                *(statistics.get("null_count"), statistics.get("min"), statistics.get("max")),
                *("no" if chunk["offset_index"] is None else "yes", "no" if chunk["bloom_filter"] is None else "yes"),
            )
    for table in (columns, chunks):
        console().print(table)


def schema(uri: str, options: tuple[str, ...], as_json: bool) -> None:
    """Show the columns."""
    fields = list(parquet.dataset(uri, storage_options=settings(options)).schema)
    found = [
        {"id": place, "name": field.name, "data_type": str(field.type), "nullable": field.nullable}
        for place, field in enumerate(fields)
    ]
    if as_json:
        write_json({"columns": found})
    else:
        show.columns(found)


def scanner(
    uri: str, options: tuple[str, ...], names: list[str] | None, condition: str | None, limit: int
) -> parquet.Scanner:
    """Plan a read of the first rows."""
    files = parquet.dataset(uri, storage_options=settings(options))
    return files.scanner(names, condition, limit=limit)


def count(uri: str, options: tuple[str, ...], condition: str | None) -> int:
    """Return the number of rows."""
    return parquet.dataset(uri, storage_options=settings(options)).count_rows(condition)


def verify(uri: str, options: tuple[str, ...]) -> dict[str, Any]:
    """Read every page of the files and compare its checksum; return what `Dataset.verify` returns."""
    files = parquet.dataset(uri, hive=False, storage_options=settings(options)).files
    problems, uncovered, num_rows = [], [], 0
    for file in files:
        try:
            described = parquet.inspect(file.path, storage_options=settings(options))
        except CorruptError as error:
            problems.append({"path": file.path, "check": "pages", "reason": " ".join(str(error).split())})
            continue
        num_rows += described["num_rows"]
        chunks = [chunk for group in described["row_groups"] for chunk in group["columns"]]
        pages = [(chunk["path"], page["checksum"]) for chunk in chunks for page in chunk["pages"]]
        wrong = sorted({column for column, checksum in pages if checksum == "wrong"})
        problems += [
            {"path": file.path, "check": "pages", "reason": f"column {column!r}: a page fails its checksum"}
            for column in wrong
        ]
        if any(checksum == "none" for _, checksum in pages):
            uncovered.append({"path": file.path, "reason": "pages without checksums"})
    if not problems:
        # Decoding finds what no checksum covers.
        for _ in parquet.dataset(uri, hive=False, storage_options=settings(options)).to_batches():
            pass
    return {
        "ok": not problems,
        "version": None,
        "problems": problems,
        "uncovered": uncovered,
        "orphans": [],
        "num_files": len(files),
        "num_rows": num_rows,
    }
