"""Conversion of a table of a Kartothek dataset to a pilum table, and of tables and Parquet files to a Kartothek dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pilum.arguments import FileArguments, checked, flag, members, shown, text, word
from pilum.dataset import Written
from pilum.dataset import dataset as open_table
from pilum.exceptions import InvalidInputError
from pilum.kartothek.dataset import Dataset, write
from pilum.kartothek.opened import Opened
from pilum.kartothek.writing import COMPRESSION, TABLE, LayoutArguments
from pilum.location import Location, StorageOptions
from pilum.progress import Progress, reporting
from pilum.sources import PlannedRows
from pilum.writing import Mode, write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from pilum.kartothek.reading import Reading


def _opened(name: str, value: Any) -> None:
    """Accept an opened dataset."""
    if not isinstance(value, Opened):
        raise InvalidInputError(f"{name}: pass a pilum.kartothek.Dataset, not {shown(value)}")


@checked(FileArguments, dataset=_opened, table=text)
def to_pilum(
    dataset: Reading,
    table_uri: str | os.PathLike[str],
    *,
    table: str | None = None,
    predicates: Any = None,
    columns: Sequence[str] | Mapping[str, Any] | None = None,
    mode: Mode = "create",
    memory_limit: int | None = None,
    table_storage_options: StorageOptions | None = None,
    progress: bool | Progress | None = None,
    **options: Unpack[FileArguments],
) -> Written:
    """Copy the rows of a table of a Kartothek dataset into a pilum table, as one version of it.

    Partitions are decoded by several threads while other batches are written. Memory is bounded by a few batches.

    Args:
        dataset: The dataset.
        table_uri: The table, as in `pilum.write_dataset`.
        table: The table of the dataset, as in `Dataset.scanner`.
        predicates: Copy only rows for which these are true, as in `Dataset.scanner`.
        columns: Names, or a dict of names and expressions. None copies all columns.
        mode: As in `pilum.write_dataset`: `"create"`, `"append"` or `"overwrite"`.
        memory_limit: Bytes of decoded batches that may wait to be written.
        table_storage_options: Credentials and settings of the store of the table.
        progress: True for a bar (needs tqdm), or a callable `(done_rows, total_rows | None)`.
        **options: As in `pilum.write_dataset`: `compat`, `durability` and others.

    Returns:
        The new version, with `rows`, `bytes`, `attempts` and `was_committed_before`.
    """
    scanner = dataset.scanner(table, predicates, columns, memory_limit=memory_limit)
    where = Location.of(table_uri, table_storage_options)
    known = dataset.count_rows(table) if progress and predicates is None else None
    return Written(write_rows(PlannedRows(scanner, known), where, mode=mode, progress=progress, **options), where)


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of `from_pilum`: the new Kartothek dataset, and the number of its rows and partitions."""

    dataset: Dataset
    rows: int
    partitions: int


class _Counted:
    """Passes batches to the writer of a dataset: counts their rows, reports progress, and keeps an exception of the source."""

    __slots__ = ("_report", "_total", "error", "num_rows")

    def __init__(self, report: Progress | None, total: int | None) -> None:
        self._report = report
        self._total = total
        self.num_rows = 0
        self.error: BaseException | None = None

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                yield batch
                # The generator resumes here when the writer asks for the next batch: it has taken this one.
                self.num_rows += batch.num_rows
                if self._report is not None:
                    self._report(self.num_rows, self._total)
        except GeneratorExit:
            raise
        except BaseException as error:
            # The Arrow C stream between source and writer carries only the text of an exception.
            self.error = error
            raise


@checked(
    LayoutArguments,
    table=text,
    metadata=members,
    overwrite=flag,
    metadata_format=word("json", "msgpack"),
    compression=COMPRESSION,
)
def from_pilum(
    source: Any,
    store_uri: str | os.PathLike[str],
    dataset_uuid: str,
    *,
    columns: Sequence[str] | Mapping[str, Any] | None = None,
    filter: Any = None,  # noqa: A002 - the word that users know
    table: str = TABLE,
    partition_on: str | Sequence[str] | None = None,
    secondary_indices: str | Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    metadata_format: Literal["json", "msgpack"] = "json",
    memory_limit: int | None = None,
    storage_options: StorageOptions | None = None,
    progress: bool | Progress | None = None,
    **layout: Unpack[LayoutArguments],
) -> Copied:
    """Copy the rows of a pilum table, or of Parquet files, into a new Kartothek dataset, as one commit.

    The function reads and writes `max_rows_per_file` rows at a time, which bounds the memory. These rows become one partition,
    or one partition for each value of the partition keys.

    Args:
        source: A `pilum.Dataset`, its address, or a `pilum.parquet.Dataset`.
        store_uri: The store: a folder or a URL.
        dataset_uuid: The name of the dataset.
        columns: Names, or a dict of names and expressions. None copies all columns.
        filter: Copy only rows for which this is true, as in `pilum.Dataset.scanner`.
        table: The table of the dataset.
        partition_on: As in `write`.
        secondary_indices: As in `write`.
        metadata: As in `write`.
        overwrite: As in `write`.
        metadata_format: As in `write`.
        memory_limit: Bytes of decoded batches that may wait to be written.
        storage_options: Credentials and settings of the store of the dataset.
        progress: True for a bar (needs tqdm), or a callable `(done_rows, total_rows | None)`.
        **layout: As in `write`.

    Returns:
        The new dataset, and the number of its rows and partitions.

    Raises:
        AlreadyExistsError: The store has a dataset of this name: pass `overwrite=True` to replace it, or another name.
        UnsupportedError: A column has a type that Kartothek cannot read; the message names it.
        InvalidInputError: A key is null, or a value has no place, such as a timestamp finer than microseconds.

    Example:
        `pilum.kartothek.from_pilum(ds, "store", "sales", partition_on="city", secondary_indices=["item"]).rows`
    """
    if isinstance(source, (str, os.PathLike)):
        source = open_table(source)
    if not hasattr(source, "scanner") or not hasattr(source, "count_rows"):
        raise InvalidInputError(
            f"source: pass a pilum.Dataset, its address or a pilum.parquet.Dataset, not a {type(source).__name__}; "
            "`write` takes rows of other libraries"
        )
    import pyarrow as pa

    scanner = source.scanner(columns, filter, memory_limit=memory_limit)
    total = source.count_rows() if progress and filter is None else None
    with reporting(progress, f"writing {dataset_uuid}") as report:
        counted = _Counted(report, total)
        rows = pa.RecordBatchReader.from_batches(scanner.schema, counted.of(scanner.to_batches()))
        try:
            written = write(
                {table: rows},
                store_uri,
                dataset_uuid,
                partition_on=partition_on,
                secondary_indices=secondary_indices,
                metadata=metadata,
                overwrite=overwrite,
                metadata_format=metadata_format,
                storage_options=storage_options,
                **layout,
            )
        except BaseException:
            if counted.error is not None:
                raise counted.error from None
            raise
    return Copied(written, counted.num_rows, len(written.labels))
