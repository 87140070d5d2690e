"""The dataset as users have it, and how it is opened."""

from __future__ import annotations

import os
from typing import Any, Literal

from pilum.arguments import checked
from pilum.kartothek.opened import open_engine
from pilum.kartothek.reading import Reading
from pilum.location import Location, StorageOptions


class Dataset(Reading):
    """A Kartothek dataset at the state of one commit."""

    __slots__ = ()


@checked(store_uri=None, dataset_uuid=None)
def dataset(
    store_uri: str | os.PathLike[str],
    dataset_uuid: str,
    *,
    slashes: Literal["join", "ignore"] | None = None,
    timestamp_unit: Literal["ns", "us"] = "ns",
    storage_options: StorageOptions | None = None,
) -> Dataset:
    """Open a Kartothek dataset: its metadata document and the schema of each table. No data file is opened.

    Args:
        store_uri: The store: a folder or a URL. `hfs://PATH` is taken as the folder.
        dataset_uuid: The name of the dataset.
        slashes: Kartothek does not encode slashes in partition values. `"join"` reads the values that were written;
            `"ignore"` reads the part before the slash, as Kartothek 5.3.0 does. None joins, and warns if there is such a value.
        timestamp_unit: The unit of timestamps without zone. Kartothek stores microseconds and reads nanoseconds; `"us"` also
            reads times before 1677 and after 2262.
        storage_options: Credentials and settings of the store, as in `pilum.dataset`.

    Raises:
        NotFoundError: There is no such dataset, or the schema of a table is missing.
        CorruptError: The document is damaged, or belongs to another dataset.
        UnsupportedError: The document has another version than 4.
        InvalidInputError: The name has characters that names of datasets do not have.
    """
    where = Location.of(_plain(os.fspath(store_uri)), storage_options)
    options: dict[str, Any] = {"slashes": slashes, "timestamp_unit": timestamp_unit}
    return Dataset(open_engine(where, dataset_uuid, options), where, options)


def _plain(uri: str) -> str:
    """Return the folder of a store URL of Kartothek for the file system; other addresses as they are."""
    if not uri.startswith("hfs://"):
        return uri
    return uri.removeprefix("hfs://").split("?", 1)[0]
