"""References over a pilum table: every numeric column is a zarr array, and no value is copied.

A page of fixed-width values without compression is what an uncompressed zarr chunk is. A chunk is as long as the greatest
common divisor of the pages' first rows, so every page is a whole number of chunks.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import checked, names, word
from pilum.exceptions import UnsupportedError
from pilum.files import describe_file
from pilum.references.errors import translates
from pilum.references.opened import References
from pilum.references.options import document_bytes, open_options, string, table

if TYPE_CHECKING:
    import pyarrow as pa

    from pilum.dataset import Dataset

_EPOCH = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


@dataclass(frozen=True)
class Page:
    """Plain values of consecutive rows in a data file."""

    first_row: int
    num_rows: int
    file: str
    position: int
    file_bytes: int


@checked(ds=table, prefix=string, columns=names, nulls=word("error", "zero"))
@translates
def from_dataset(
    ds: Dataset,
    *,
    prefix: str | None = None,
    columns: list[str] | None = None,
    nulls: Literal["error", "zero"] = "error",
) -> References:
    """Return references over one version of a table, for zarr 2, zarr 3 and xarray. The root's attributes name the version.

    The references hold file names and positions: keep the version, for example by a tag, as long as they are used.

    Args:
        ds: The table. Deleted rows are refused: compact it first.
        prefix: What stands in URLs before the names of data files; the address of the table.
        columns: Names, `"a.b"` for the member of a struct; all columns that can be arrays. Those are numbers, times, dates and
            fixed-size binary, and fixed-size lists of them.
        nulls: What a null is: `"error"` refuses the column, `"zero"` takes the zero that lies there.

    Raises:
        UnsupportedError: Rows were deleted, or a column has nulls, compressed pages, or a type that is no array.
    """
    if any(fragment.num_deleted for fragment in ds.fragments):
        raise UnsupportedError(f"{ds.uri} version {ds.version}: rows were deleted; compact the table first")
    types = dict(_leaves(ds.schema))
    wanted = [name for name, kind in types.items() if _dtype(kind) is not None] if columns is None else list(columns)
    pages = _pages(ds, wanted, nulls)
    base = (prefix if prefix is not None else str(ds.uri)).rstrip("/")
    attributes = {"pilum_table": base, "pilum_version": ds.version}
    document: dict[str, Any] = {".zgroup": '{"zarr_format":2}', ".zattrs": json.dumps(attributes)}
    for name in wanted:
        if name not in types or _dtype(types[name]) is None:
            kind = types.get(name, "no column of this name")
            raise UnsupportedError(f"column {name!r} ({kind}) cannot be a zarr array")
        document |= _array(ds, name, types[name], pages[name], base)
    options = open_options(allow=["*"] if "://" in base else [])
    location = f"{base}/references.json"
    return References(_pilum.ReferenceSet.from_document(document_bytes(document), location, options), location, options)


def _leaves(schema: Any, above: str = "") -> list[tuple[str, pa.DataType]]:
    import pyarrow as pa

    leaves = []
    for field in schema:
        name = above + field.name
        if pa.types.is_struct(field.type):
            leaves += _leaves([field.type.field(at) for at in range(field.type.num_fields)], f"{name}.")
        else:
            leaves.append((name, field.type))
    return leaves


def _dtype(kind: pa.DataType) -> tuple[str, int, list[int], dict[str, Any]] | None:
    """Return numpy's type, bytes per value, the lengths of lists within a row, and attributes; None for no array."""
    import pyarrow as pa

    inner: list[int] = []
    while pa.types.is_fixed_size_list(kind):
        inner.append(kind.list_size)
        kind = kind.value_type
    attributes: dict[str, Any] = {}
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        letter = "f" if pa.types.is_floating(kind) else "i" if pa.types.is_signed_integer(kind) else "u"
        width = kind.bit_width // 8
        dtype = f"{'|' if width == 1 else '<'}{letter}{width}"
    elif pa.types.is_timestamp(kind):
        dtype, width = "<i8", 8
        attributes = {"units": f"{_EPOCH[kind.unit]} since 1970-01-01", "calendar": "proleptic_gregorian"}
        if kind.tz:
            attributes["time_zone"] = kind.tz
    elif pa.types.is_date(kind):
        width = kind.bit_width // 8
        unit = "days" if width == 4 else "milliseconds"
        dtype, attributes = f"<i{width}", {"units": f"{unit} since 1970-01-01", "calendar": "proleptic_gregorian"}
    elif pa.types.is_duration(kind):
        dtype, width, attributes = "<i8", 8, {"units": _EPOCH[kind.unit]}
    elif pa.types.is_fixed_size_binary(kind) and kind.byte_width:
        dtype, width = f"|V{kind.byte_width}", kind.byte_width
    else:
        return None
    return dtype, width, inner, attributes


def _pages(ds: Dataset, wanted: list[str], nulls: str) -> dict[str, list[Page]]:
    """Return the pages of the columns, in the order of rows."""
    pages: dict[str, list[Page]] = {name: [] for name in wanted}
    first = 0
    for fragment in ds.fragments:
        for file in fragment.files:
            described = describe_file(f"{ds.uri}/{file}", storage_options=ds._where.storage_options)
            for column in described["columns"]:
                if column["name"] in pages:
                    _check(column, file, nulls)
                    row = first
                    for page in column["pages"]:
                        place = Page(row, page["num_rows"], file, page["position"], described["num_bytes"])
                        pages[column["name"]].append(place)
                        row += page["num_rows"]
        first += fragment.physical_rows
    for name, found in pages.items():
        if sum(page.num_rows for page in found) != first:
            raise UnsupportedError(f"column {name!r}: some fragments do not hold it; compact the table first")
    return pages


def _check(column: dict[str, Any], file: str, nulls: str) -> None:
    for page in column["pages"]:
        if page["encoding"] != "plain" or column["layout"] != "fixed":
            layout = page["encoding"] if column["layout"] == "fixed" else column["layout"]
            raise UnsupportedError(
                f"column {column['name']!r}: pages of {file} are {layout}, and zarr needs plain values; "
                "write the table without compression, or leave the column out with columns="
            )
        has_nulls = page["null_count"] or (
            page["null_count"] is None and {"bitmap", "all null"} & set(page["validity"])
        )
        if has_nulls and nulls == "error":
            raise UnsupportedError(
                f'column {column["name"]!r}: {file} has nulls, which zarr cannot tell from values; pass nulls="zero" to take '
                "the zeros that lie there, or leave the column out with columns="
            )


def _array(ds: Dataset, name: str, kind: pa.DataType, pages: list[Page], base: str) -> dict[str, Any]:
    dtype, width, inner, attributes = _dtype(kind) or ("", 0, [], {})
    path = name.replace(".", "/")
    row_bytes = width * math.prod(inner)
    rows = sum(page.num_rows for page in pages)
    length = math.gcd(*(page.first_row for page in pages)) or max(rows, 1)
    count = -(-rows // length)
    if count > 1000 and length * row_bytes < 100_000:
        message = (
            f"column {name!r}: pages begin at odd rows, so it takes {count} chunks of {length} rows; compact the table"
        )
        warnings.warn(message, UserWarning, stacklevel=4)
    metadata = {
        "zarr_format": 2,
        "shape": [rows, *inner],
        "chunks": [length, *inner],
        "dtype": dtype,
        "compressor": None,
        "filters": None,
        "fill_value": None,
        "order": "C",
    }
    dimensions = ["row", *(f"{path.replace('/', '_')}_{at}" for at in range(len(inner)))]
    keys: dict[str, Any] = {}
    above = path.rpartition("/")[0]
    while above:
        keys[f"{above}/.zgroup"] = '{"zarr_format":2}'
        above = above.rpartition("/")[0]
    keys[f"{path}/.zarray"] = json.dumps(metadata)
    keys[f"{path}/.zattrs"] = json.dumps({"_ARRAY_DIMENSIONS": dimensions, **attributes})
    tail = ".0" * len(inner)
    chunk_bytes = length * row_bytes
    for page in pages:
        for row in range(0, page.num_rows, length):
            key = f"{path}/{(page.first_row + row) // length}{tail}"
            position = page.position + row * row_bytes
            if position + chunk_bytes <= page.file_bytes:
                # The last chunk runs on into bytes beyond the shape, which zarr drops.
                keys[key] = [f"{base}/{page.file}", position, chunk_bytes]
            else:
                values = _read(ds, page, position, (page.num_rows - row) * row_bytes)
                keys[key] = values.ljust(chunk_bytes, b"\0")
    return keys


def _read(ds: Dataset, page: Page, position: int, size: int) -> bytes:
    """Read the last values of a file, where a whole chunk would reach beyond its end."""
    url = f"{ds.uri}/{page.file}"
    options = open_options(allow=["*"] if "://" in url else [], target_options=ds._where.options())
    document = document_bytes({"tail": [url, position, size]})
    engine = _pilum.ReferenceSet.from_document(document, None, options)
    return References(engine, None, options)["tail"]
