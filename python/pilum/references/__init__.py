"""Reference sets of kerchunk: keys of a zarr store that stand for ranges of other files.

    from pilum import references

    r = references.open("s3://bucket/set.json", allow=["s3://archive"])
    r["temperature/0.0"]                       # bytes
    r.to_parquet("set.parq")                   # or to_json, to_arrow
    fs = references.FileSystem("set.parq")     # fsspec's ReferenceFileSystem by its arguments, for zarr and xarray

Missing keys and unreachable targets are different errors: zarr replaces a missing chunk by fill values, and must not do that
for a file that could not be read.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pilum.arguments import checked, flag, text
from pilum.references.combined import combine
from pilum.references.errors import MissingKeyError, ReferenceNotReachable, TargetRefusedError
from pilum.references.opened import References, from_arrow
from pilum.references.opened import open_set as open  # noqa: A004 - the name in the API
from pilum.references.tables import from_dataset
from pilum.references.validate import validate

if TYPE_CHECKING:
    from pilum.references.archives import from_hdf5, from_parquet
    from pilum.references.filesystem import FileSystem
    from pilum.references.zarr_store import ZarrStore

__all__ = [
    "FileSystem",
    "MissingKeyError",
    "ReferenceNotReachable",
    "References",
    "TargetRefusedError",
    "ZarrStore",
    "combine",
    "from_arrow",
    "from_dataset",
    "from_hdf5",
    "from_parquet",
    "open",
    "register",
    "validate",
]


_ON_DEMAND = {
    "FileSystem": "pilum.references.filesystem",
    "ZarrStore": "pilum.references.zarr_store",
    "from_hdf5": "pilum.references.archives",
    "from_parquet": "pilum.references.archives",
}
"""Names whose modules are imported when they are asked for: two of them import fsspec or zarr."""


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(importlib.import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@checked(protocol=text, replace_reference=flag)
def register(protocol: str = "pilum-reference", *, replace_reference: bool = False) -> None:
    """Make `FileSystem` known to fsspec as a protocol; with `replace_reference` as `reference` too."""
    import fsspec

    fsspec.register_implementation(protocol, "pilum.references.filesystem.FileSystem", clobber=True)
    if replace_reference:
        fsspec.register_implementation("reference", "pilum.references.filesystem.FileSystem", clobber=True)
