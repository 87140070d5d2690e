"""Reference sets over files of other formats: HDF5 and NetCDF4 through kerchunk, Parquet by its footer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from pilum.arguments import address, addresses, checked, count, members, text
from pilum.exceptions import UnsupportedError
from pilum.location import Location
from pilum.parquet import inspect
from pilum.references.opened import References, open_set
from pilum.references.options import strings


@checked(source=address, url=text, inline_threshold=count, allow=strings, storage_options=members)
def from_hdf5(
    source: str | os.PathLike[str],
    *,
    url: str | None = None,
    inline_threshold: int = 500,
    allow: Iterable[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> References:
    """Return the references of an HDF5 or NetCDF4 file: each array of the file as an array of zarr, its chunks where they lie.

    kerchunk reads the file; it needs `pip install kerchunk h5py`.

    Args:
        source: A path, or a URL of a protocol that fsspec knows.
        url: What the references name as their file; `source`.
        inline_threshold: Chunks of fewer bytes are held in the set.
        allow: As in `open`.
        storage_options: Options of fsspec's file system for `source`.

    Raises:
        UnsupportedError: kerchunk or h5py is not installed.
        FileNotFoundError: There is no such file.
        OSError: It is no HDF5 file.
    """
    try:
        import fsspec
        from kerchunk.hdf import SingleHdf5ToZarr
    except ImportError as error:
        message = f"references over HDF5 files need kerchunk and h5py ({error}): pip install kerchunk h5py"
        raise UnsupportedError(message) from error
    name = os.fspath(source)
    with fsspec.open(name, "rb", **(storage_options or {})) as file:
        found: dict[str, Any] = SingleHdf5ToZarr(file, url or name, inline_threshold=inline_threshold).translate()
    return open_set(found, allow=allow)


@checked(uri=addresses, allow=strings, storage_options=members)
def from_parquet(
    uri: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    allow: Iterable[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> References:
    """Return one reference per column chunk of Parquet files: the key `column/row_group`, the range of its bytes.

    The ranges serve to fetch or copy single chunks; they are pages of Parquet, which zarr cannot decode. Row groups are counted
    through all files, in the order in which they are given.

    Args:
        uri: A file, or several.
        allow: As in `open`.
        storage_options: Options of the store.

    Raises:
        CorruptError: A file is no Parquet file.
    """
    uris = [uri] if isinstance(uri, (str, os.PathLike)) else list(uri)
    document: dict[str, Any] = {}
    row_group = 0
    for one in uris:
        where = Location.of(one, storage_options)
        for group in inspect(one, pages=False, storage_options=storage_options)["row_groups"]:
            for chunk in group["columns"]:
                pages = [chunk["dictionary_page_offset"], chunk["data_page_offset"]]
                start = min(offset for offset in pages if offset is not None)
                document[f"{chunk['path']}/{row_group}"] = [where.uri, start, chunk["compressed_bytes"]]
            row_group += 1
    return open_set(document, allow=allow, storage_options=storage_options)
