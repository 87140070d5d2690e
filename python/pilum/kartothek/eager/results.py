"""What Kartothek's functions return: partitions and the metadata of a dataset; and what they raise."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pilum import _pilum
from pilum.kartothek.dataset import Dataset
from pilum.kartothek.opened import open_engine

if TYPE_CHECKING:
    from pilum.location import Location

_OPTIONS: dict[str, Any] = {"slashes": None, "timestamp_unit": "ns"}
F = TypeVar("F", bound=Callable[..., Any])


class DatasetExistsError(_pilum.AlreadyExistsError, RuntimeError):
    """The store has a dataset of this name already. Kartothek raises a `RuntimeError`."""


class DatasetMissingError(_pilum.NotFoundError, KeyError):
    """The store has no dataset of this name. Kartothek raises a `KeyError`."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


@dataclass
class MetaPartition:
    """A partition: its label, its files by table, and, after a read, the frame of each table."""

    label: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    partition_keys: list[str] = field(default_factory=list)
    staged: list[str] = field(default_factory=list, repr=False)
    """Partitions that `write_single_partition` wrote, for `commit_dataset`."""

    @property
    def tables(self) -> list[str]:
        """The tables."""
        return list(self.files or self.data)


@dataclass(frozen=True)
class Partition:
    """A partition of the metadata: its label and its files by table."""

    label: str
    files: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the partition as the document has it."""
        return {"files": dict(self.files)}


@dataclass(frozen=True)
class DatasetMetadata:
    """The metadata of a dataset, as its document has it."""

    uuid: str
    metadata: dict[str, Any]
    partitions: dict[str, Partition]
    partition_keys: list[str]
    indices: dict[str, str | None]
    table_meta: dict[str, Any]
    """The schema of each table, as pyarrow has it."""
    explicit_partitions: bool = True
    metadata_version: int = 4

    @property
    def tables(self) -> list[str]:
        """The tables."""
        return list(self.table_meta)

    @property
    def secondary_indices(self) -> dict[str, str | None]:
        """The key of the index file of each indexed column."""
        return dict(self.indices)

    def to_dict(self) -> dict[str, Any]:
        """Return the document."""
        document: dict[str, Any] = {
            "dataset_metadata_version": self.metadata_version,
            "dataset_uuid": self.uuid,
            "metadata": dict(self.metadata),
            "indices": dict(self.indices),
            "partition_keys": list(self.partition_keys),
        }
        if self.explicit_partitions:
            document["partitions"] = {label: it.to_dict() for label, it in self.partitions.items()}
        return document

    def to_json(self) -> bytes:
        """Return the document as JSON."""
        return json.dumps(self.to_dict()).encode()

    def __repr__(self) -> str:
        return f"DatasetMetadata(uuid={self.uuid}, tables={self.tables}, partitions={len(self.partitions)})"


def as_kartothek(function: F) -> F:
    """Wrap a function so that its errors also have the classes of the errors that Kartothek raises."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (DatasetExistsError, DatasetMissingError):
            raise
        except _pilum.AlreadyExistsError as error:
            raise DatasetExistsError(str(error)) from error
        except _pilum.NotFoundError as error:
            raise DatasetMissingError(str(error)) from error

    return call  # type: ignore[return-value]


def open_dataset(where: Location, uuid: str) -> Dataset:
    """Open a dataset with the options of these functions."""
    return Dataset(open_engine(where, uuid, _OPTIONS), where, _OPTIONS)


def metadata_of(dataset: Dataset) -> DatasetMetadata:
    """Return the metadata of an opened dataset."""
    files = dataset.partitions
    return DatasetMetadata(
        uuid=dataset.uuid,
        metadata=dataset.metadata,
        partitions={label: Partition(label, dict(files[label].files)) for label in dataset.labels},
        partition_keys=list(dataset.partition_keys),
        indices={column: index.key for column, index in dataset.indices.items()},
        table_meta={table: dataset.schema(table) for table in dataset.tables},
        explicit_partitions=dataset.engine.is_explicit,
    )


def dataset_and_store(dataset_uuid: str | None, store: Any, factory: Any) -> tuple[str, Any]:
    """Return the name of the dataset and its store, from the arguments or else from a factory."""
    if factory is not None:
        factory = factory() if callable(factory) and not hasattr(factory, "dataset_uuid") else factory
        store = getattr(factory, "store_factory", None) if store is None else store
        dataset_uuid = getattr(factory, "dataset_uuid", None) if dataset_uuid is None else dataset_uuid
    if dataset_uuid is None or store is None:
        raise ValueError("Need to supply either a `factory` or `dataset_uuid` and `store`")
    return dataset_uuid, store
