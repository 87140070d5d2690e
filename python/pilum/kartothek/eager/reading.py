"""Kartothek's functions that read: a table as one frame, or a frame for each partition."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilum.exceptions import InvalidInputError
from pilum.kartothek import writing
from pilum.kartothek.eager.results import MetaPartition, as_kartothek, dataset_and_store, open_dataset
from pilum.kartothek.stores import opened

if TYPE_CHECKING:
    import pandas as pd

    from pilum.kartothek.dataset import Dataset

_warned: set[str] = set()


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=5)


def _columns_of(columns: Any, table: str) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        found = columns.get(table)
        return None if found is None else list(found)
    return list(columns)


@dataclass(frozen=True)
class _Frames:
    """How the rows of a table become a frame; columns and categoricals are for all tables, or a dict by table."""

    columns: Any
    categoricals: Any
    dates_as_object: bool

    def of(self, dataset: Dataset, table: str, predicates: Any, labels: list[str] | None) -> pd.DataFrame:
        """Return the rows of some partitions, or of all, as one frame."""
        known = dataset.schema(table).names
        names = _columns_of(self.columns, table)
        categoricals = _columns_of(self.categoricals, table) or []
        for argument, given in (("columns", names or []), ("categoricals", categoricals)):
            unknown = [name for name in given if name not in known]
            if unknown:
                raise InvalidInputError(
                    f"{argument}: table {table!r} of dataset {dataset.uuid!r} has no column {unknown}; it has {known}"
                )
        rows = dataset.to_table(table, predicates, names, labels=labels)
        frame: pd.DataFrame = rows.to_pandas(
            date_as_object=self.dates_as_object, coerce_temporal_nanoseconds=True, ignore_metadata=True
        )
        for column in categoricals:
            if column in frame.columns:
                frame[column] = frame[column].astype("category")
        return frame


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
    frames_of: _Frames,
    predicates: Any,
    label_filter: Callable[[str], bool] | None,
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
        return {table: frames_of.of(dataset, table, conditions, labels) for table in wanted}

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


@as_kartothek
def read_table(
    dataset_uuid: str | None = None,
    store: Any = None,
    table: str | None = writing.TABLE,
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
    uuid, store = dataset_and_store(dataset_uuid, store, factory)
    with opened(store, uuid) as where:
        dataset = open_dataset(where, uuid)
        predicates = _checked_predicates(predicates)
        _warn_of_quirks(dataset, predicates)
        labels = None if label_filter is None else [label for label in dataset.labels if label_filter(label)]
        return _Frames(columns, categoricals, dates_as_object).of(dataset, table, predicates, labels)


@as_kartothek
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


@as_kartothek
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
    uuid, store = dataset_and_store(dataset_uuid, store, factory)
    with opened(store, uuid) as where:
        dataset = open_dataset(where, uuid)
        if concat_partitions_on_primary_index:
            dispatch_by = list(dataset.partition_keys)
        files = dataset.partitions
        read = _read(
            dataset,
            tables=tables,
            frames_of=_Frames(columns, categoricals, dates_as_object),
            predicates=predicates,
            label_filter=label_filter,
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
