"""A table of a Kartothek dataset as a pilum table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pilum.arguments import FileArguments, checked
from pilum.dataset import Written
from pilum.location import Location, StorageOptions
from pilum.writing import Mode, write_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pilum.kartothek.reading import Reading
    from pilum.progress import Progress


class _Rows:
    """The rows of a scan for the writer: errors keep their classes, which they would lose in a C stream."""

    __slots__ = ("_batches", "_planned", "num_rows", "schema")

    def __init__(self, planned: Any, num_rows: int | None) -> None:
        self._planned = planned
        self._batches = iter(planned)
        self.schema = planned.schema
        self.num_rows = num_rows

    def read_next_batch(self) -> Any:
        return next(self._batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._planned.__arrow_c_stream__(requested_schema)


@checked(FileArguments, dataset=None, table_uri=None)
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
    rows = _Rows(scanner._planned, known)  # noqa: SLF001 - of this package
    return Written(write_rows(rows, where, mode=mode, progress=progress, **options), where)
