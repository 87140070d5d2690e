"""Converts the rows and the settings that Kartothek's functions take to the form that the writer of pilum takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pilum.exceptions import InvalidInputError
from pilum.kartothek import writing
from pilum.kartothek.eager.results import MetaPartition


@dataclass(frozen=True)
class ParquetSerializer:
    """How data files are written: the compression, and the rows of a row group (`chunk_size`)."""

    compression: str = "SNAPPY"
    chunk_size: int | None = None


def frames_of(dfs: Any) -> list[writing.Frame]:
    """Return the rows that Kartothek's functions take, in all of their forms. The index of a pandas frame is left out."""
    found = _frames(dfs)
    return [writing.Frame({table: _arrow(rows) for table, rows in one.tables.items()}, one.label) for one in found]


def _frames(dfs: Any) -> list[writing.Frame]:
    """Return what Kartothek takes as input: frames, dicts of them, dicts with a label, pairs of table and frame, and lists."""
    if dfs is None:
        return []
    if isinstance(dfs, MetaPartition):
        return [writing.Frame(dict(dfs.data), dfs.label)]
    if isinstance(dfs, Mapping):
        if "data" in dfs and not _is_frame(dfs["data"]):
            return [writing.Frame(dict(dfs["data"]), dfs.get("label"))]
        return [writing.Frame({table: rows for table, rows in dfs.items() if table != "label"}, dfs.get("label"))]
    if _is_frame(dfs):
        return [writing.Frame({writing.TABLE: dfs})]
    if isinstance(dfs, (list, tuple)) or hasattr(dfs, "__iter__"):
        return [frame for one in dfs for frame in _frames(one)]
    raise ValueError(f"Unexpected type during parsing encountered: ({type(dfs)}, {dfs})")


def _is_frame(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or (hasattr(data, "columns") and hasattr(data, "index"))


def _arrow(rows: Any) -> Any:
    import pyarrow as pa

    if not (hasattr(rows, "columns") and hasattr(rows, "index") and hasattr(rows, "dtypes")):
        return rows
    try:
        table = pa.Table.from_pandas(rows, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"the frame cannot be written: {error}") from error
    return table.replace_schema_metadata(None)


def layout_of(df_serializer: Any, sort_partitions_by: Any = None) -> writing.LayoutArguments:
    """Return how data files are written."""
    layout: writing.LayoutArguments = {"sort_by": sort_partitions_by}
    if df_serializer is not None:
        compression = str(getattr(df_serializer, "compression", "SNAPPY")).lower()
        layout["compression"] = compression  # type: ignore[typeddict-item]
        layout["row_group_rows"] = getattr(df_serializer, "chunk_size", None)
    return layout


def check_version(version: int) -> None:
    """Refuse versions of the metadata other than 4, as Kartothek does."""
    if version != 4:
        raise NotImplementedError(
            f"Support for dataset metadata version {version} was removed; only version 4 is written"
        )


def form_of(metadata_storage_format: str) -> Literal["json", "msgpack"]:
    """Return the form of the metadata document."""
    form = metadata_storage_format.lower()
    if form == "json":
        return "json"
    if form == "msgpack":
        return "msgpack"
    raise ValueError(f"Unknown metadata storage format encountered: {metadata_storage_format}")
