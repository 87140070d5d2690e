"""The dataset as users have it, and how it is opened."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pilum.arguments import checked, flag, members, positive, text, word
from pilum.kartothek.opened import open_engine
from pilum.kartothek.reading import Reading
from pilum.kartothek.writing import (
    COMPRESSION,
    TABLE,
    Changing,
    LayoutArguments,
    create,
    frames_of,
    names_of,
    place_of,
    warn_of_misread_keys,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pilum.location import StorageOptions


class Dataset(Changing, Reading):
    """A Kartothek dataset at the state of one commit."""

    __slots__ = ()


@checked(version=positive, slashes=word("join", "ignore"), timestamp_unit=word("ns", "us"))
def dataset(
    store_uri: str | os.PathLike[str],
    dataset_uuid: str,
    *,
    version: int | None = None,
    asof: dt.datetime | None = None,
    slashes: Literal["join", "ignore"] | None = None,
    timestamp_unit: Literal["ns", "us"] = "ns",
    storage_options: StorageOptions | None = None,
) -> Dataset:
    """Open a Kartothek dataset: its metadata document and the schema of each table. No data file is opened.

    Args:
        store_uri: The store: a folder or a URL. `hfs://PATH` is taken as the folder.
        dataset_uuid: The name of the dataset.
        version: The number of an earlier version to open, as `Dataset.versions` lists it.
        asof: Open the newest version that is not after this time.
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
    where = place_of(store_uri, storage_options)
    options: dict[str, Any] = {"slashes": slashes, "timestamp_unit": timestamp_unit}
    newest = Dataset(open_engine(where, dataset_uuid, options), where, options)
    if version is not None:
        return newest.checkout(version)
    return newest if asof is None else newest.asof(asof)


@checked(
    LayoutArguments,
    table=text,
    metadata=members,
    overwrite=flag,
    metadata_format=word("json", "msgpack"),
    compression=COMPRESSION,
)
def write(
    data: Any,
    store_uri: str | os.PathLike[str],
    dataset_uuid: str,
    *,
    table: str = TABLE,
    partition_on: str | Sequence[str] | None = None,
    secondary_indices: str | Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    metadata_format: Literal["json", "msgpack"] = "json",
    storage_options: StorageOptions | None = None,
    **layout: Unpack[LayoutArguments],
) -> Dataset:
    """Write a new dataset, as one commit. Kartothek 5.3.0 reads it and can append to it.

    Args:
        data: Rows in any form that `pilum.write_dataset` takes, or a dict of them by table.
        store_uri: The store: a folder or a URL.
        dataset_uuid: The name of the dataset: letters, digits, `+`, `-` and `_`.
        table: The table of `data`.
        partition_on: Columns whose values go into the paths: numbers, strings, dates, timestamps without zone. A slash in a
            value is written as `%2F`. Nulls are refused.
        secondary_indices: Columns with an index that tells which partitions have a value.
        metadata: User metadata: anything that JSON can hold.
        overwrite: Replace a dataset of this name. Its files stay until garbage collection.
        metadata_format: The form of the document of a new dataset.
        storage_options: Credentials and settings of the store.
        **layout: `sort_by` sorts the rows of each file; `num_buckets` divides the rows of each key into so many files, by the
            hash of the columns `bucket_by`, or of all; `compression`; `row_group_rows`; `max_rows_per_file` begins a new
            partition after so many rows of `data`, which bounds the memory.

    Raises:
        AlreadyExistsError: The store has a dataset of this name: pass `overwrite=True` to replace it, or another name.
        UnsupportedError: A column has a type that Kartothek cannot read; the message names it.
        InvalidInputError: A key is null, or a value has no place, such as a timestamp finer than microseconds.
    """
    where = place_of(store_uri, storage_options)
    create(
        where,
        dataset_uuid,
        frames_of(data, table),
        partition_on=names_of(partition_on),
        indices=names_of(secondary_indices),
        metadata=metadata,
        overwrite=overwrite,
        form=metadata_format,
        layout=layout,
    )
    options: dict[str, Any] = {"slashes": None, "timestamp_unit": "ns"}
    written = Dataset(open_engine(where, dataset_uuid, options), where, options)
    warn_of_misread_keys(written)
    return written
