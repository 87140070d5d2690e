"""Kartothek's functions that build indices, collect garbage, delete and copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilum.kartothek import writing
from pilum.kartothek.eager.results import DatasetMetadata, as_kartothek, dataset_and_store, metadata_of, open_dataset
from pilum.kartothek.stores import opened


@as_kartothek
def build_dataset_indices(store: Any, dataset_uuid: str, columns: Sequence[str], factory: Any = None) -> None:
    """Build indices from the data. The user metadata is kept."""
    uuid, store = dataset_and_store(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writing.writer_of(where, uuid).build_indices(writing.names_of(columns))


@as_kartothek
def garbage_collect_dataset(dataset_uuid: str | None = None, store: Any = None, factory: Any = None) -> None:
    """Remove the files that nothing refers to, and earlier versions. Files of a write in progress stay."""
    uuid, store = dataset_and_store(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writing.writer_of(where, uuid).collect_garbage(keep_versions=1, dry_run=False)


@as_kartothek
def delete_dataset(dataset_uuid: str | None = None, store: Any = None, factory: Any = None) -> None:
    """Remove a dataset with all of its files."""
    uuid, store = dataset_and_store(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writing.writer_of(where, uuid).delete()


@as_kartothek
def copy_dataset(
    source_dataset_uuid: str, store: Any, target_dataset_uuid: str | None = None, target_store: Any = None
) -> dict[str, DatasetMetadata]:
    """Copy a dataset to another name or store. Return the metadata of the copy by the key of its document."""
    uuid = target_dataset_uuid or source_dataset_uuid
    target_store = store if target_store is None else target_store
    with opened(store, source_dataset_uuid) as source, opened(target_store, uuid, writing=True) as target:
        if source_dataset_uuid == uuid and source.uri == target.uri:
            raise ValueError("Cannot copy to a dataset with the same UUID within the same store!")
        writing.writer_of(source, source_dataset_uuid).copy_to(writing.writer_of(target, uuid), [])
        return {f"{uuid}.by-dataset-metadata.json": metadata_of(open_dataset(target, uuid))}
