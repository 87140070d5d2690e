"""`pilum stats`: what is known of the columns of a table, of a data file, and of files of other formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pilum import describe_file, parquet
from pilum.cli import rows
from pilum.cli.shell import settings
from pilum.json_values import json_values
from pilum.statistics import count, leaves

if TYPE_CHECKING:
    import pyarrow as pa

    from pilum.cli.kinds import Kind


def of_table(found: pa.Table) -> list[dict[str, Any]]:
    """Return typed statistics as JSON."""
    sides = {side: [json_values_of(it) for it in found.column(side)] for side in ("min", "max")}
    plain = found.drop_columns(["min", "max"]).to_pylist()
    return [_line({**it, "min": low, "max": high}) for it, low, high in zip(plain, *sides.values(), strict=True)]


def json_values_of(scalar: pa.Scalar) -> Any:
    """Return the value of a union as JSON has it."""
    import pyarrow as pa

    value = scalar.value
    return None if value is None or not value.is_valid else json_values(pa.array([value], value.type))[0]


def _line(found: dict[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in ("column", "type", "null_count", "min", "max", "exact", "bytes")}


def of_rows(reader: pa.RecordBatchReader, bytes_of: Callable[[str], int | None]) -> list[dict[str, Any]]:
    """Return statistics of rows that are read for them; all are exact."""
    paths, schema = leaves(reader.schema), reader.schema
    counted = count((_leaves_of(batch, paths) for batch in reader), len(paths))
    found = []
    for path, it in zip(paths, counted, strict=True):
        low, high = (None, None) if it.min_max is None else json_values(it.min_max)
        kind: pa.DataType = schema.field(path[0]).type
        for name in path[1:]:
            kind = kind.field(name).type
        column = ".".join(path)
        of_column = {"column": column, "type": str(kind), "null_count": it.null_count, "min": low, "max": high}
        found.append(_line({**of_column, "exact": True, "bytes": bytes_of(column)}))
    return found


def _leaves_of(batch: pa.RecordBatch, paths: list[tuple[str, ...]]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = []
    for path in paths:
        array = batch.column(path[0])
        for name in path[1:]:
            # Unlike `StructArray.field`, it is null where the struct is.
            array = pc.struct_field(array, name)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, [str(place) for place in range(len(arrays))])


def of_parquet(uri: str, options: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return statistics of the rows of Parquet files, with the bytes of their column chunks."""
    files = parquet.dataset(uri, storage_options=settings(options))
    sizes: dict[str, int] = {}
    for file in files.files:
        described = parquet.inspect(file.path, pages=False, storage_options=settings(options))
        for group in described["row_groups"]:
            for chunk in group["columns"]:
                sizes[chunk["path"]] = sizes.get(chunk["path"], 0) + chunk["compressed_bytes"]

    def bytes_of(column: str) -> int:
        return sum(size for path, size in sizes.items() if path == column or path.startswith(f"{column}."))

    return of_rows(files.to_reader(), bytes_of)


def of_file(uri: str, options: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return what the page statistics of one data file say. Texts and bytes are cut there, so theirs are bounds."""
    described = describe_file(uri, storage_options=settings(options))
    nested = {it["name"] for it in described["columns"] if it["layout"] == "struct"}
    found = []
    for column in described["columns"]:
        above = column["name"].rpartition(".")[0]
        if column["layout"] == "struct" or (above and above not in nested):
            # Items of a list are part of its bytes.
            continue
        below = [it for it in described["columns"] if f"{it['name']}.".startswith(f"{column['name']}.")]
        found.append(_of_pages(column, [page for it in below for page in it["pages"]]))
    return found


def _of_pages(column: dict[str, Any], pages: list[dict[str, Any]]) -> dict[str, Any]:
    own, kind = column["pages"], column["data_type"]
    nulls = [page["null_count"] for page in own]
    known = None not in nulls
    full = [page for page in own if page["null_count"] != page["num_rows"]]
    has = known and all(page["min"] is not None and page["max"] is not None for page in full)
    is_number = kind.startswith(("int", "uint", "float", "double", "decimal"))
    key: Callable[[str], Any] = Decimal if is_number else str
    low = min((page["min"] for page in full), key=key) if has and full else None
    high = max((page["max"] for page in full), key=key) if has and full else None
    sizes = [page["num_bytes"] for page in pages]
    is_sure = known and (not full or (has and not kind.endswith(("string", "binary", "float", "double"))))
    is_plain = is_number and not kind.startswith("decimal")
    return _line(
        {
            "column": column["name"],
            "type": kind,
            "null_count": sum(nulls) if known else None,
            "min": _number(low) if is_plain else low,
            "max": _number(high) if is_plain else high,
            "exact": is_sure,
            "bytes": None if None in sizes else sum(sizes),
        }
    )


def _number(text: str | None) -> Any:
    """Return a number as JSON has it; infinities stay texts."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def of_others(uri: str, kind: Kind, options: tuple[str, ...], skiff_format: str | None) -> list[dict[str, Any]]:
    """Return statistics of the rows of an Arrow file, a Skiff stream or a reference set; bytes are unknown."""
    return of_rows(rows.reader(uri, kind, options, skiff_format), lambda _: None)
