"""Kartothek's functions that write: new datasets, updates, and single partitions that are committed later."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pilum import _pilum
from pilum.exceptions import InvalidInputError
from pilum.kartothek import writing
from pilum.kartothek.eager.inputs import check_version, form_of, frames_of, layout_of
from pilum.kartothek.eager.results import (
    DatasetMetadata,
    DatasetMissingError,
    MetaPartition,
    as_kartothek,
    dataset_and_store,
    metadata_of,
    open_dataset,
)
from pilum.kartothek.stores import opened

if TYPE_CHECKING:
    from pilum.location import Location


@as_kartothek
def store_dataframes_as_dataset(
    store: Any,
    dataset_uuid: str,
    dfs: Any,
    metadata: Mapping[str, Any] | None = None,
    partition_on: Sequence[str] | None = None,
    df_serializer: Any = None,
    overwrite: bool = False,
    secondary_indices: Sequence[str] | str | None = None,
    metadata_storage_format: str = "json",
    metadata_version: int = 4,
) -> DatasetMetadata:
    """Write frames as a new dataset, each as one partition, or one for each value of the partition keys."""
    check_version(metadata_version)
    form = form_of(metadata_storage_format)
    frames = frames_of(dfs)
    if not frames:
        raise ValueError("No DataFrames were passed")
    with opened(store, dataset_uuid, writing=True) as where:
        writing.create(
            where,
            dataset_uuid,
            frames,
            partition_on=writing.names_of(partition_on),
            indices=writing.names_of(secondary_indices),
            metadata=metadata,
            overwrite=overwrite,
            form=form,
            layout=layout_of(df_serializer),
        )
        return metadata_of(open_dataset(where, dataset_uuid))


def _merged(
    where: Location, uuid: str, metadata: Mapping[str, Any] | None, merger: Callable[[list[Any]], Any] | None
) -> Mapping[str, Any] | None:
    """Return the user metadata that `merger`, a function of the caller, makes of the stored and the new metadata."""
    if merger is None or not metadata:
        return metadata
    try:
        known = open_dataset(where, uuid).metadata
    except _pilum.NotFoundError:
        known = {}
    known.pop("creation_time", None)
    merged: Mapping[str, Any] = merger([known, dict(metadata)])
    lost = [name for name in known if name not in merged]
    if lost:
        raise _pilum.UnsupportedError(
            f"metadata_merger: the function removed {lost}; let it set these members to None instead"
        )
    return merged


@as_kartothek
def update_dataset_from_dataframes(
    df_list: Any,
    store: Any = None,
    dataset_uuid: str | None = None,
    delete_scope: Iterable[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    df_serializer: Any = None,
    metadata_merger: Callable[[list[Any]], Any] | None = None,
    central_partition_metadata: bool = True,
    default_metadata_version: int = 4,
    partition_on: Sequence[str] | None = None,
    load_dynamic_metadata: bool = True,
    sort_partitions_by: str | Sequence[str] | None = None,
    secondary_indices: Sequence[str] | str | None = None,
    factory: Any = None,
) -> DatasetMetadata:
    """Add frames to a dataset and remove partitions, in one commit. The dataset is made if there is none."""
    del central_partition_metadata, load_dynamic_metadata
    check_version(default_metadata_version)
    uuid, store = dataset_and_store(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writer = writing.update(
            where,
            uuid,
            frames_of(df_list),
            delete_scope=delete_scope,
            metadata=_merged(where, uuid, metadata, metadata_merger),
            partition_on=None if partition_on is None else writing.names_of(partition_on),
            indices=None if not secondary_indices else writing.names_of(secondary_indices),
            must_exist=False,
            layout=layout_of(df_serializer, sort_partitions_by),
        )
        committed = metadata_of(open_dataset(where, uuid))
        del writer  # it kept the committed document until it was open
        return committed


@as_kartothek
def write_single_partition(
    store: Any = None,
    dataset_uuid: str | None = None,
    data: Any = None,
    metadata: Mapping[str, Any] | None = None,
    df_serializer: Any = None,
    overwrite: bool = False,
    metadata_merger: Any = None,
    metadata_version: int = 4,
    partition_on: Sequence[str] | None = None,
    factory: Any = None,
    secondary_indices: Sequence[str] | str | None = None,
) -> MetaPartition:
    """Write the files of one partition. `commit_dataset` adds it to the dataset, which must exist."""
    del metadata, overwrite, metadata_merger
    check_version(metadata_version)
    if data is None:
        raise TypeError("The parameter `data` is not optional")
    uuid, store = dataset_and_store(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writer = writing.writer_of(where, uuid)
        found = writer.layout()
        if found is None:
            raise DatasetMissingError(
                f"{where.shown}: there is no dataset {uuid!r}; call create_empty_dataset_header first"
            )
        keys, indexed, schemas = found
        if partition_on is not None and writing.names_of(partition_on) != keys:
            raise InvalidInputError(f"partition_on={list(partition_on)}: dataset {uuid!r} is partitioned by {keys}")
        indexed = sorted({*indexed, *writing.names_of(secondary_indices)})
        (frame,) = frames_of(data) or [writing.Frame({})]
        staged = writing.stage(writer, frame, keys, indexed, layout_of(df_serializer), writer.new_marker())
        try:
            _check_schemas(staged, {table for table, _ in schemas}, writer)
        except BaseException:
            with contextlib.suppress(_pilum.PilumError):
                writer.discard(staged)
            raise
    written = [json.loads(text) for text in staged]
    return MetaPartition(
        label=written[0]["label"] or None,
        files=dict(written[0]["files"]),
        partition_keys=keys,
        staged=staged,
    )


def _check_schemas(staged: list[str], tables: set[str], writer: _pilum.KartothekWriter) -> None:
    found = set(json.loads(staged[0])["schemas"])
    if tables and found != tables:
        raise InvalidInputError(f"the rows have the tables {sorted(found)}, but the dataset has {sorted(tables)}")
    writer.check(staged)


@as_kartothek
def commit_dataset(
    store: Any = None,
    dataset_uuid: str | None = None,
    new_partitions: Iterable[MetaPartition] | None = None,
    output_dataset_uuid: str | None = None,
    delete_scope: Iterable[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    df_serializer: Any = None,
    metadata_merger: Callable[[list[Any]], Any] | None = None,
    default_metadata_version: int = 4,
    partition_on: Iterable[str] | None = None,
    factory: Any = None,
    secondary_indices: Iterable[str] | None = None,
) -> DatasetMetadata:
    """Add partitions that are written, remove others, and set user metadata, in one commit."""
    del output_dataset_uuid, df_serializer, secondary_indices
    check_version(default_metadata_version)
    partitions = [] if new_partitions is None else list(new_partitions)
    scope = [] if delete_scope is None else list(delete_scope)
    if not partitions and not metadata and not scope:
        raise ValueError("Need to provide either new data, new metadata or a delete scope. None of it was provided.")
    uuid, store = dataset_and_store(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        staged = [text for partition in partitions for text in partition.staged]
        writer = writing.writer_of(where, uuid)
        writer.update(
            staged,
            removed=writer.in_scope(writing.scope_of(scope)),
            metadata=writing.json_members(_merged(where, uuid, metadata, metadata_merger)),
            partition_on=None if partition_on is None else list(partition_on),
            existing="require",
        )
        return metadata_of(open_dataset(where, uuid))


@as_kartothek
def create_empty_dataset_header(
    store: Any,
    dataset_uuid: str,
    table_meta: Mapping[str, Any],
    partition_on: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    metadata_storage_format: str = "json",
    metadata_version: int = 4,
) -> DatasetMetadata:
    """Write a dataset without partitions. Until the first update, readers find its data files by listing the store."""
    import pyarrow as pa

    check_version(metadata_version)
    form = form_of(metadata_storage_format)
    keys = writing.names_of(partition_on)
    tables = {}
    for table, schema in table_meta.items():
        plain = schema.internal() if hasattr(schema, "internal") else schema
        tables[table] = pa.schema(plain).remove_metadata().empty_table()
    with opened(store, dataset_uuid, writing=True) as where:
        writer = writing.writer_of(where, dataset_uuid)
        staged = writing.stage(writer, writing.Frame(tables), keys, [], {}, writer.new_marker(), schema_only=True)
        writer.update(
            staged,
            removed=[],
            metadata=writing.json_members(metadata),
            partition_on=keys,
            indices=[],
            existing="replace" if overwrite else "refuse",
            form=form,
            implicit=True,
        )
        return metadata_of(open_dataset(where, dataset_uuid))
