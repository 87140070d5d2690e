"""Kartothek's eager functions by their names, arguments and results.

A pipeline moves by changing one import:

    from pilum.kartothek.eager import read_table, update_dataset_from_dataframes

Results are pandas frames. Where Kartothek 5.3.0 answers wrong and pilum right, a warning says so once. Differences:

- updates compare and swap: two writers that add partitions both win;
- `delete_scope` on a column without index, and an empty scope, are refused: Kartothek deletes everything;
- `build_dataset_indices` keeps the user metadata, `copy_dataset` replaces the prefix of keys only, `delete_dataset` removes
  both forms of the document;
- frames of single partitions have the types of the schema, not the widths of their files;
- `store` is a URL, a function, or a store object: see `pilum.kartothek.stores`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pilum import _pilum
from pilum.exceptions import InvalidInputError
from pilum.kartothek import writing
from pilum.kartothek.dataset import Dataset
from pilum.kartothek.opened import open_engine
from pilum.kartothek.stores import opened

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from pilum.location import Location

SINGLE_TABLE = writing.TABLE
_OPTIONS: dict[str, Any] = {"slashes": None, "timestamp_unit": "ns"}
_warned: set[str] = set()
F = TypeVar("F", bound=Callable[..., Any])


class DatasetExistsError(_pilum.AlreadyExistsError, RuntimeError):
    """There is a dataset of this name. Kartothek raises a `RuntimeError`."""


class DatasetMissingError(_pilum.NotFoundError, KeyError):
    """There is no such dataset. Kartothek raises a `KeyError`."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


@dataclass(frozen=True)
class ParquetSerializer:
    """How data files are written: compression, and rows of a row group."""

    compression: str = "SNAPPY"
    chunk_size: int | None = None


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
    """What a dataset is made of."""

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


def _as_kartothek(function: F) -> F:
    """Raise what Kartothek raises, beside the classes of pilum."""

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


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=5)


def _open(where: Location, uuid: str) -> Dataset:
    return Dataset(open_engine(where, uuid, _OPTIONS), where, _OPTIONS)


def _metadata_of(dataset: Dataset) -> DatasetMetadata:
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


def _given(dataset_uuid: str | None, store: Any, factory: Any) -> tuple[str, Any]:
    """Return name and store, from the arguments or from a factory of a dataset."""
    if factory is not None:
        factory = factory() if callable(factory) and not hasattr(factory, "dataset_uuid") else factory
        store = getattr(factory, "store_factory", None) if store is None else store
        dataset_uuid = getattr(factory, "dataset_uuid", None) if dataset_uuid is None else dataset_uuid
    if dataset_uuid is None or store is None:
        raise ValueError("Need to supply either a `factory` or `dataset_uuid` and `store`")
    return dataset_uuid, store


def _frame(table: pa.Table, *, dates_as_object: bool) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(
        date_as_object=dates_as_object, coerce_temporal_nanoseconds=True, ignore_metadata=True
    )
    return frame


def _columns_of(columns: Any, table: str) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        found = columns.get(table)
        return None if found is None else list(found)
    return list(columns)


def _warn_of_quirks(dataset: Dataset, predicates: Any) -> None:
    keys = set(dataset.partition_keys)
    for table in dataset.tables:
        for one in dataset.schema(table):
            if one.name in keys and str(one.type) == "bool":
                _warn_once(
                    f"dataset {dataset.uuid!r}: partition key {one.name!r} is bool, which Kartothek 5.3.0 always reads as "
                    "True; pilum reads what was written"
                )
    indexed = set(dataset.indices)
    for conjunction in predicates or []:
        for column, operator, value in conjunction:
            if column in indexed and (operator == "!=" or value is None):
                _warn_once(
                    f"dataset {dataset.uuid!r}: Kartothek 5.3.0 loses the null rows of {column!r} in a predicate with "
                    f"{operator!r}, because they are in no index; pilum returns them"
                )


def _checked_predicates(predicates: Any) -> Any:
    if predicates is None:
        return None
    if not predicates or not all(predicates):
        raise ValueError("Empty predicates")
    return [list(conjunction) for conjunction in predicates]


def _read(
    dataset: Dataset,
    *,
    tables: Sequence[str] | None,
    columns: Any,
    predicates: Any,
    categoricals: Any,
    label_filter: Callable[[str], bool] | None,
    dates_as_object: bool,
    dispatch_by: Sequence[str] | None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield label and frames of each partition, or of each value of `dispatch_by`."""
    predicates = _checked_predicates(predicates)
    _warn_of_quirks(dataset, predicates)
    wanted = list(tables) if tables is not None else dataset.tables
    labels = dataset.labels if predicates is None or not wanted else dataset.dispatch(predicates, table=wanted[0])
    if label_filter is not None:
        labels = [label for label in labels if label_filter(label)]

    def frames(labels: list[str], conditions: Any) -> dict[str, Any]:
        found = {}
        for table in wanted:
            names = _columns_of(columns, table)
            rows = dataset.to_table(table, conditions, names, labels=labels)
            frame = _frame(rows, dates_as_object=dates_as_object)
            for column in _columns_of(categoricals, table) or []:
                if column in frame.columns:
                    frame[column] = frame[column].astype("category")
            found[table] = frame
        return found

    if dispatch_by is None:
        for label in labels:
            yield label, frames([label], predicates)
        return
    yield from _by_value(dataset, wanted[0], labels, predicates, list(dispatch_by), frames)


def _by_value(
    dataset: Dataset,
    table: str,
    labels: list[str],
    predicates: Any,
    dispatch_by: list[str],
    frames: Callable[[list[str], Any], dict[str, Any]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the frames of each combination of values, sorted; nulls are in no index."""
    unknown = [name for name in dispatch_by if name not in dataset.indices and name not in dataset.partition_keys]
    if unknown:
        raise RuntimeError(f"dispatch_by: {unknown} are neither partition keys nor indexed columns")
    if not dispatch_by:
        yield "", frames(labels, predicates)
        return
    keys = dataset.to_table(table, predicates, dispatch_by, labels=labels).group_by(dispatch_by).aggregate([])
    for row in keys.sort_by([(column, "ascending") for column in dispatch_by]).to_pylist():
        if any(value is None for value in row.values()):
            continue
        extra = [(column, "==", value) for column, value in row.items()]
        conditions = [[*conjunction, *extra] for conjunction in predicates or [[]]]
        yield json.dumps(row, default=str), frames(labels, conditions)


@_as_kartothek
def read_table(
    dataset_uuid: str | None = None,
    store: Any = None,
    table: str | None = SINGLE_TABLE,
    columns: Any = None,
    concat_partitions_on_primary_index: bool = False,
    predicate_pushdown_to_io: bool = True,
    categoricals: Any = None,
    label_filter: Callable[[str], bool] | None = None,
    dates_as_object: bool = False,
    predicates: list[list[tuple[str, str, Any]]] | None = None,
    factory: Any = None,
) -> pd.DataFrame:
    """Return a table of a dataset as one frame, with a fresh index and the columns in the order of the schema."""
    del concat_partitions_on_primary_index, predicate_pushdown_to_io
    if not isinstance(table, str):
        raise TypeError("Argument `table` needs to be a string")
    uuid, store = _given(dataset_uuid, store, factory)
    with opened(store, uuid) as where:
        dataset = _open(where, uuid)
        predicates = _checked_predicates(predicates)
        _warn_of_quirks(dataset, predicates)
        labels = None if label_filter is None else [label for label in dataset.labels if label_filter(label)]
        names = _columns_of(columns, table)
        if names is not None:
            order = dataset.schema(table).names
            unknown = [name for name in names if name not in order]
            if unknown:
                raise InvalidInputError(f"columns: table {table!r} of dataset {uuid!r} has no column {unknown}")
        rows = dataset.to_table(table, predicates, names, labels=labels)
        frame = _frame(rows, dates_as_object=dates_as_object)
    for column in _columns_of(categoricals, table) or []:
        frame[column] = frame[column].astype("category")
    return frame


@_as_kartothek
def read_dataset_as_dataframes(
    dataset_uuid: str | None = None,
    store: Any = None,
    tables: list[str] | None = None,
    columns: Any = None,
    concat_partitions_on_primary_index: bool = False,
    predicate_pushdown_to_io: bool = True,
    categoricals: Any = None,
    label_filter: Callable[[str], bool] | None = None,
    dates_as_object: bool = False,
    predicates: list[list[tuple[str, str, Any]]] | None = None,
    factory: Any = None,
    dispatch_by: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Return for each partition a dict of table and frame."""
    found = read_dataset_as_metapartitions(
        dataset_uuid,
        store,
        tables,
        columns,
        concat_partitions_on_primary_index,
        predicate_pushdown_to_io,
        categoricals,
        label_filter,
        dates_as_object,
        predicates,
        factory,
        dispatch_by,
    )
    return [partition.data for partition in found]


@_as_kartothek
def read_dataset_as_metapartitions(
    dataset_uuid: str | None = None,
    store: Any = None,
    tables: list[str] | None = None,
    columns: Any = None,
    concat_partitions_on_primary_index: bool = False,
    predicate_pushdown_to_io: bool = True,
    categoricals: Any = None,
    label_filter: Callable[[str], bool] | None = None,
    dates_as_object: bool = False,
    predicates: list[list[tuple[str, str, Any]]] | None = None,
    factory: Any = None,
    dispatch_by: list[str] | None = None,
    dispatch_metadata: bool = True,
) -> list[MetaPartition]:
    """Return the partitions with the frame of each table."""
    del predicate_pushdown_to_io, dispatch_metadata
    uuid, store = _given(dataset_uuid, store, factory)
    with opened(store, uuid) as where:
        dataset = _open(where, uuid)
        if concat_partitions_on_primary_index:
            dispatch_by = list(dataset.partition_keys)
        files = dataset.partitions
        read = _read(
            dataset,
            tables=tables,
            columns=columns,
            predicates=predicates,
            categoricals=categoricals,
            label_filter=label_filter,
            dates_as_object=dates_as_object,
            dispatch_by=dispatch_by,
        )
        return [
            MetaPartition(
                label=label,
                files=dict(files[label].files) if label in files else {},
                data=data,
                partition_keys=list(dataset.partition_keys),
            )
            for label, data in read
        ]


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
        return [writing.Frame({SINGLE_TABLE: dfs})]
    if isinstance(dfs, (list, tuple)) or hasattr(dfs, "__iter__"):
        return [frame for one in dfs for frame in _frames(one)]
    raise ValueError(f"Unexpected type during parsing encountered: ({type(dfs)}, {dfs})")


def _is_frame(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or (hasattr(data, "columns") and hasattr(data, "index"))


def _plain(frames: list[writing.Frame]) -> list[writing.Frame]:
    """Leave out the index of pandas, as Kartothek does, and read frames with its types."""
    return [writing.Frame({table: _arrow(rows) for table, rows in one.tables.items()}, one.label) for one in frames]


def _arrow(rows: Any) -> Any:
    import pyarrow as pa

    if not (hasattr(rows, "columns") and hasattr(rows, "index") and hasattr(rows, "dtypes")):
        return rows
    try:
        table = pa.Table.from_pandas(rows, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"the frame cannot be written: {error}") from error
    return table.replace_schema_metadata(None)


def _layout(df_serializer: Any, sort_partitions_by: Any = None) -> writing.LayoutArguments:
    layout: writing.LayoutArguments = {"sort_by": sort_partitions_by}
    if df_serializer is not None:
        compression = str(getattr(df_serializer, "compression", "SNAPPY")).lower()
        layout["compression"] = compression  # type: ignore[typeddict-item]
        layout["row_group_rows"] = getattr(df_serializer, "chunk_size", None)
    return layout


def _one_version(version: int) -> None:
    if version != 4:
        raise NotImplementedError(
            f"Support for dataset metadata version {version} was removed; only version 4 is written"
        )


@_as_kartothek
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
    _one_version(metadata_version)
    if metadata_storage_format.lower() not in ("json", "msgpack"):
        raise ValueError(f"Unknown metadata storage format encountered: {metadata_storage_format}")
    frames = _plain(_frames(dfs))
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
            form="msgpack" if metadata_storage_format.lower() == "msgpack" else "json",
            layout=_layout(df_serializer),
        )
        return _metadata_of(_open(where, dataset_uuid))


def _merged(
    where: Location, uuid: str, metadata: Mapping[str, Any] | None, merger: Callable[[list[Any]], Any] | None
) -> Mapping[str, Any] | None:
    """Return the user metadata that a function of the caller makes of the stored and the new one."""
    if merger is None or not metadata:
        return metadata
    try:
        known = _open(where, uuid).metadata
    except _pilum.NotFoundError:
        known = {}
    known.pop("creation_time", None)
    merged: Mapping[str, Any] = merger([known, dict(metadata)])
    lost = [name for name in known if name not in merged]
    if lost:
        raise _pilum.UnsupportedError(f"metadata_merger: it removes {lost}; set these members to null instead")
    return merged


@_as_kartothek
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
    _one_version(default_metadata_version)
    uuid, store = _given(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writing.update(
            where,
            uuid,
            _plain(_frames(df_list)),
            delete_scope=delete_scope,
            metadata=_merged(where, uuid, metadata, metadata_merger),
            partition_on=None if partition_on is None else writing.names_of(partition_on),
            indices=None if not secondary_indices else writing.names_of(secondary_indices),
            must_exist=False,
            layout=_layout(df_serializer, sort_partitions_by),
        )
        return _metadata_of(_open(where, uuid))


@_as_kartothek
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
    _one_version(metadata_version)
    if data is None:
        raise TypeError("The parameter `data` is not optional")
    uuid, store = _given(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writer = writing.writer_of(where, uuid)
        found = writer.layout()
        if found is None:
            raise DatasetMissingError(f"{where.shown}: there is no dataset {uuid!r}; make its header first")
        keys, indexed, schemas = found
        if partition_on is not None and writing.names_of(partition_on) != keys:
            raise InvalidInputError(f"partition_on={list(partition_on)}: dataset {uuid!r} is partitioned by {keys}")
        indexed = sorted({*indexed, *writing.names_of(secondary_indices)})
        (frame,) = _plain(_frames(data)) or [writing.Frame({})]
        staged = writing.stage(writer, frame, keys, indexed, _layout(df_serializer), writer.new_marker())
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
        raise InvalidInputError(f"the rows have the tables {sorted(found)}, and the dataset {sorted(tables)}")
    writer.check(staged)


@_as_kartothek
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
    _one_version(default_metadata_version)
    partitions = [] if new_partitions is None else list(new_partitions)
    scope = [] if delete_scope is None else list(delete_scope)
    if not partitions and not metadata and not scope:
        raise ValueError("Need to provide either new data, new metadata or a delete scope. None of it was provided.")
    uuid, store = _given(dataset_uuid, store, factory)
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
        return _metadata_of(_open(where, uuid))


@_as_kartothek
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
    """Write a dataset without partitions, whose data files are found by listing the store until the first update."""
    import pyarrow as pa

    _one_version(metadata_version)
    if metadata_storage_format.lower() not in ("json", "msgpack"):
        raise ValueError(f"Unknown metadata storage format encountered: {metadata_storage_format}")
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
            form="msgpack" if metadata_storage_format.lower() == "msgpack" else "json",
            implicit=True,
        )
        return _metadata_of(_open(where, dataset_uuid))


@_as_kartothek
def build_dataset_indices(store: Any, dataset_uuid: str, columns: Sequence[str], factory: Any = None) -> None:
    """Build indices from the data. The user metadata is kept."""
    uuid, store = _given(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writing.writer_of(where, uuid).build_indices(writing.names_of(columns))


@_as_kartothek
def garbage_collect_dataset(dataset_uuid: str | None = None, store: Any = None, factory: Any = None) -> None:
    """Remove the files that nothing refers to, and earlier versions. Files of a write in progress stay."""
    uuid, store = _given(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writing.writer_of(where, uuid).collect_garbage(keep_versions=1, dry_run=False)


@_as_kartothek
def delete_dataset(dataset_uuid: str | None = None, store: Any = None, factory: Any = None) -> None:
    """Remove a dataset with all of its files."""
    uuid, store = _given(dataset_uuid, store, factory)
    with opened(store, uuid, writing=True) as where:
        writing.writer_of(where, uuid).delete()


@_as_kartothek
def copy_dataset(
    source_dataset_uuid: str, store: Any, target_dataset_uuid: str | None = None, target_store: Any = None
) -> dict[str, DatasetMetadata]:
    """Copy a dataset to another name or store. Return the key of the new document with what it says."""
    uuid = target_dataset_uuid or source_dataset_uuid
    target_store = store if target_store is None else target_store
    with opened(store, source_dataset_uuid) as source, opened(target_store, uuid, writing=True) as target:
        if source_dataset_uuid == uuid and source.uri == target.uri:
            raise ValueError("Cannot copy to a dataset with the same UUID within the same store!")
        writing.writer_of(source, source_dataset_uuid).copy_to(writing.writer_of(target, uuid), [])
        return {f"{uuid}.by-dataset-metadata.json": _metadata_of(_open(target, uuid))}
