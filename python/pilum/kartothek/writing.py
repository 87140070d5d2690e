"""Writing and changing a dataset. Each change is one commit, which other writers neither lose nor undo."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pilum import _pilum
from pilum.arguments import checked, members, moment, name_or_names, positive, text, word
from pilum.exceptions import InvalidInputError
from pilum.exchange import rows_of
from pilum.kartothek.opened import Opened, open_engine
from pilum.location import Location, StorageOptions

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa
    from typing_extensions import Unpack

TABLE = "table"
"""The table of rows that name none."""

BOOKKEEPING = "pilum"
"""The member of the user metadata in which commits describe themselves."""

FRAME_ROWS = 1_048_576

Compression = Literal["snappy", "zstd", "gzip", "brotli", "none"]
COMPRESSION = word("snappy", "zstd", "gzip", "brotli", "none")


class LayoutArguments(TypedDict, total=False):
    """How rows become data files; see `write`."""

    sort_by: str | Sequence[str] | None
    num_buckets: int | None
    bucket_by: str | Sequence[str] | None
    compression: Compression
    row_group_rows: int | None
    max_rows_per_file: int


@dataclass(frozen=True, slots=True)
class Version:
    """A committed state of a dataset."""

    version: int
    timestamp: dt.datetime
    operation: str
    """`create`, `overwrite`, `update`, `build_indices`, `restore`, or `foreign` for a state that Kartothek wrote."""


@dataclass(frozen=True, slots=True)
class GarbageCollection:
    """What garbage collection removed, or would remove."""

    keys: Sequence[str]
    bytes: int
    versions: Sequence[int]
    """Versions that can no longer be opened."""
    kept: Sequence[str]
    """Files that nothing refers to, and that stay because a write is in progress that may commit them."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows that become one partition, or one for each value of the partition keys."""

    tables: Mapping[str, Any]
    label: str | None = None


def names_of(columns: str | Iterable[str] | None) -> list[str]:
    """Return one name, or several, as a list."""
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) else list(columns)


def plain_uri(uri: str | os.PathLike[str]) -> str:
    """Return the folder of a store URL of Kartothek for the file system; other addresses as they are."""
    uri = os.fspath(uri)
    if not uri.startswith("hfs://"):
        return uri
    return uri.removeprefix("hfs://").split("?", 1)[0]


def place_of(store_uri: str | os.PathLike[str], storage_options: StorageOptions | None) -> Location:
    """Return the address of a store."""
    return Location.of(plain_uri(store_uri), storage_options)


def writer_of(where: Location, uuid: str) -> _pilum.KartothekWriter:
    """Return the writer of a dataset."""
    return _pilum.KartothekWriter(where.uri, uuid, storage_options=where.options())


def json_members(metadata: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return user metadata as JSON texts."""
    members = []
    for name, value in (metadata or {}).items():
        if not isinstance(name, str) or name == BOOKKEEPING:
            raise InvalidInputError(f"metadata {name!r}: names are strings, and {BOOKKEEPING!r} is taken by pilum")
        try:
            members.append((name, json.dumps(value, allow_nan=False)))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"metadata {name!r}: {error}; pass what JSON can hold") from error
    return members


def scope_of(delete_scope: Iterable[Mapping[str, Any]] | None) -> list[pa.Table]:
    """Return each dict of a delete scope as a table of one row."""
    import pyarrow as pa

    batches = []
    for one in () if delete_scope is None else delete_scope:
        if not isinstance(one, Mapping) or not one:
            raise InvalidInputError(
                f"delete_scope: {one!r} names no column, and would delete every partition; write [{{'column': value}}]"
            )
        arrays = [_array_of(column, value) for column, value in one.items()]
        batches.append(pa.table(arrays, names=list(one)))
    return batches


def _array_of(column: str, value: Any) -> pa.Array:
    import pyarrow as pa

    if getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u", "f", "b", "U", "S"):
        value = value.item()
    # pyarrow infers int64 for Python integers, and refuses those that need uint64.
    is_large = isinstance(value, int) and value >= 2**63
    try:
        return pa.array([value], pa.uint64() if is_large else None)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise InvalidInputError(f"delete_scope on {column!r}: {error}") from error


def _are_rows(rows: Sequence[Any]) -> bool:
    return (
        not rows or isinstance(rows[0], Mapping) or hasattr(rows[0], "__arrow_c_array__") or hasattr(rows[0], "columns")
    )


def frames_of(data: Any, table: str) -> list[Frame]:
    """Return what users pass as rows: one set of rows, or a dict of tables, or a list of `Frame`s."""
    if data is None:
        return []
    if isinstance(data, Frame):
        return [data]
    if isinstance(data, Mapping):
        columns = [name for name, rows in data.items() if isinstance(rows, (list, tuple)) and not _are_rows(rows)]
        if columns:
            raise InvalidInputError(
                f"data: a dict has rows by table, and {columns[0]!r} has single values; "
                "pass pyarrow.table(..) of a dict of columns"
            )
        return [Frame(data)]
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, Frame) for one in data):
        return list(data)
    return [Frame({table: data})]


@contextlib.contextmanager
def staged_frames(
    writer: _pilum.KartothekWriter,
    frames: Sequence[Frame],
    partition_on: list[str],
    indices: list[str],
    layout: LayoutArguments,
) -> Iterator[list[str]]:
    """Write the files of all frames; they are removed if what follows fails."""
    staged: list[str] = []
    marker = writer.new_marker()
    try:
        for frame in frames:
            staged += stage(writer, frame, partition_on, indices, layout, marker)
    except BaseException:
        discard(writer, staged)
        raise
    with committing(writer, staged):
        yield staged


@contextlib.contextmanager
def committing(writer: _pilum.KartothekWriter, staged: list[str]) -> Iterator[None]:
    """Remove written files if their commit certainly did not happen."""
    try:
        yield
    except (
        _pilum.InvalidInputError,
        _pilum.ConflictError,
        _pilum.AlreadyExistsError,
        _pilum.NotFoundError,
        _pilum.UnsupportedError,
    ):
        discard(writer, staged)
        raise
    # After any other end, such as Ctrl-C or a lost answer, the commit may have happened: then its files must stay.


def discard(writer: _pilum.KartothekWriter, staged: list[str]) -> None:
    """Remove written files; those that cannot be removed are left for garbage collection."""
    with contextlib.suppress(_pilum.PilumError):
        writer.discard(staged)


def stage(
    writer: _pilum.KartothekWriter,
    frame: Frame,
    partition_on: list[str],
    indices: list[str],
    layout: LayoutArguments,
    marker: str,
    *,
    schema_only: bool = False,
) -> list[str]:
    """Write the files of one frame."""
    with contextlib.ExitStack() as stack:
        tables = [(name, stack.enter_context(rows_of(rows))) for name, rows in frame.tables.items()]
        num_buckets = layout.get("num_buckets")
        bucket_by = names_of(layout.get("bucket_by"))
        return writer.stage(
            tables,
            marker=marker,
            label=frame.label,
            partition_on=partition_on,
            indices=indices,
            sort_by=names_of(layout.get("sort_by")),
            num_buckets=1 if bucket_by and num_buckets is None else num_buckets,
            bucket_by=bucket_by,
            compression=layout.get("compression") or "snappy",
            row_group_rows=layout.get("row_group_rows"),
            frame_rows=layout.get("max_rows_per_file", FRAME_ROWS),
            schema_only=schema_only,
        )


def create(
    where: Location,
    uuid: str,
    frames: Sequence[Frame],
    *,
    partition_on: list[str],
    indices: list[str],
    metadata: Mapping[str, Any] | None,
    overwrite: bool,
    form: Literal["json", "msgpack"],
    layout: LayoutArguments,
) -> None:
    """Write a new dataset."""
    writer = writer_of(where, uuid)
    members = json_members(metadata)
    if not overwrite and writer.layout() is not None:
        raise _pilum.AlreadyExistsError(
            f"{where.shown}: there is a dataset {uuid!r}; update it, or pass overwrite=True"
        )
    with staged_frames(writer, frames, partition_on, indices, layout) as staged:
        writer.update(
            staged,
            removed=[],
            metadata=members,
            partition_on=partition_on,
            indices=indices,
            existing="replace" if overwrite else "refuse",
            form=form,
        )


def update(
    where: Location,
    uuid: str,
    frames: Sequence[Frame],
    *,
    delete_scope: Iterable[Mapping[str, Any]] | None,
    metadata: Mapping[str, Any] | None,
    partition_on: list[str] | None = None,
    indices: list[str] | None = None,
    must_exist: bool,
    layout: LayoutArguments,
) -> _pilum.KartothekWriter:
    """Add and remove partitions; the dataset is made if it may be.

    The writer that is returned keeps the committed document: while it lives, opening the dataset does not parse it again.
    """
    writer = writer_of(where, uuid)
    members = json_members(metadata)
    found = writer.layout()
    removed = writer.in_scope(scope_of(delete_scope))
    if found is None:
        keys, indexed = partition_on or [], indices or []
    else:
        keys, indexed, _ = found
        if partition_on is not None and partition_on != keys:
            raise InvalidInputError(
                f"partition_on={partition_on}: dataset {uuid!r} in {where.shown} is partitioned by {keys}"
            )
        unknown = [column for column in indices or [] if column not in indexed]
        if unknown:
            raise InvalidInputError(
                f"dataset {uuid!r} in {where.shown} has no index on {unknown}; build it with build_indices"
            )
    with staged_frames(writer, frames, keys, indexed, layout) as staged:
        writer.update(
            staged,
            removed=removed,
            metadata=members,
            partition_on=keys,
            indices=indexed if found is None else None,
            existing="require" if must_exist else "update",
        )
    return writer


MISREAD = {"bool": "always reads as True", "binary": "reads as text, and cannot read if it is no UTF-8"}
"""Types of partition keys that Kartothek 5.3.0 reads wrongly, and what it does with them."""


def warn_of_misread_keys(dataset: Any) -> None:
    """Warn of each partition key that Kartothek 5.3.0 reads as other values than pilum wrote."""
    for table in dataset.tables:
        for one in dataset.schema(table):
            kind = str(one.type)
            if one.name in dataset.partition_keys and kind in MISREAD:
                warnings.warn(
                    f"dataset {dataset.uuid!r}: partition key {one.name!r} is {kind}, which Kartothek 5.3.0 {MISREAD[kind]}; "
                    "pilum reads what was written",
                    stacklevel=4,
                )


class Changing(Opened):
    """The part of a `Dataset` that changes it."""

    __slots__ = ()

    @property
    def _writer(self) -> _pilum.KartothekWriter:
        return writer_of(self._where, self.uuid)

    @checked()
    def newest(self) -> Self:
        """Return the dataset at its newest commit."""
        return type(self)(open_engine(self._where, self.uuid, self._options), self._where, self._options)

    @checked(LayoutArguments, metadata=members, table=text, compression=COMPRESSION)
    def update(
        self,
        data: Any = None,
        *,
        delete_scope: Iterable[Mapping[str, Any]] | None = None,
        metadata: Mapping[str, Any] | None = None,
        table: str = TABLE,
        **layout: Unpack[LayoutArguments],
    ) -> Self:
        """Add rows and remove whole partitions in one commit, and return the newest state. Indices are maintained.

        Two writers that add rows both win. If another writer removes a partition that this call removes too, one of them fails.

        Args:
            data: Rows in any form that `pilum.write_dataset` takes, a dict of them by table, or None.
            delete_scope: Dicts of columns and values. A partition that has all values of one dict is removed with all of its
                rows, as the dataset was when the call began. Columns are partition keys or have an index.
            metadata: User metadata to set; other members stay.
            table: The table of `data`.
            **layout: As in `write`.

        Raises:
            ConflictError: Another writer removed the same partitions.
            InvalidInputError: The rows do not fit the dataset, or `delete_scope` names a column that has no index and is no
                partition key.
        """
        writer = update(
            self._where,
            self.uuid,
            frames_of(data, table),
            delete_scope=delete_scope,
            metadata=metadata,
            must_exist=True,
            layout=layout,
        )
        newest = self.newest()
        del writer  # it kept the committed document until it was open
        return newest

    @checked(columns=name_or_names)
    def build_indices(self, columns: str | Sequence[str]) -> Self:
        """Build indices of columns from the data, or build them again, and return the newest state.

        Raises:
            InvalidInputError: A column is a partition key, is nested, or has no value.
        """
        writer = self._writer
        writer.build_indices(names_of(columns))
        return self.newest()

    @checked()
    def versions(self) -> list[Version]:
        """Return the states that can be opened, oldest first."""
        return [Version(number, _time_of(micros), operation) for number, micros, operation in self._writer.versions()]

    @checked(version=positive)
    def checkout(self, version: int) -> Self:
        """Return the dataset at an earlier version.

        Raises:
            NotFoundError: The version is not kept.
        """
        document = self._writer.document_of(version)
        return type(self)(open_engine(self._where, self.uuid, self._options, document), self._where, self._options)

    @checked(time=moment)
    def asof(self, time: dt.datetime) -> Self:
        """Return the dataset as it was at a time; a time without zone is in local time.

        Raises:
            NotFoundError: All versions are newer.
        """
        return self.checkout(self._writer.version_at(_micros_of(time)))

    @property
    def version(self) -> int | None:
        """The number of the commit that wrote this state; None if Kartothek wrote it."""
        book = json.loads(self.engine.metadata()).get(BOOKKEEPING)
        return book.get("version") if isinstance(book, dict) else None

    @checked(version=positive)
    def restore(self, version: int | None = None) -> Self:
        """Make an earlier version, or the one that is open here, the newest, and return it.

        Raises:
            NotFoundError: The version is not kept, or garbage collection removed one of its files.
        """
        number = self.version if version is None else version
        if number is None:
            raise InvalidInputError("Kartothek wrote the state that is open: pass the version, as versions() lists it")
        self._writer.restore(number)
        return self.newest()

    @checked()
    def garbage_collect(
        self, *, dry_run: bool = False, keep_versions: int = 1, older_than: dt.timedelta | None = None
    ) -> GarbageCollection:
        """Remove files that nothing refers to: those of removed partitions, of failed writes, and of earlier versions.

        Files that are newer than a write in progress stay.

        Args:
            dry_run: Only return what would be removed.
            keep_versions: Keep so many of the newest versions, with their files.
            older_than: Also keep versions that were the newest within this time.
        """
        newer_than = None if older_than is None else _micros_of(dt.datetime.now(dt.UTC) - older_than)
        keys, num_bytes, versions, kept = self._writer.collect_garbage(
            keep_versions=keep_versions, newer_than=newer_than, dry_run=dry_run
        )
        return GarbageCollection(tuple(keys), num_bytes, tuple(versions), tuple(kept), dry_run)

    @checked()
    def delete(self) -> list[str]:
        """Remove the dataset: both forms of its document, all files and all versions. Return their keys."""
        return self._writer.delete()

    @checked(metadata=members)
    def copy_to(
        self,
        store_uri: str | os.PathLike[str] | None = None,
        dataset_uuid: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> Self:
        """Copy the newest state to another name or store, byte by byte, and return the copy.

        Args:
            store_uri: The store; None stands for the store of this dataset.
            dataset_uuid: The name of the copy; None stands for the name of this dataset.
            metadata: User metadata to set in the copy.
            storage_options: Credentials and settings of the store.

        Raises:
            AlreadyExistsError: The target store has a dataset of this name.
        """
        where = self._where if store_uri is None else place_of(store_uri, storage_options)
        uuid = self.uuid if dataset_uuid is None else dataset_uuid
        self._writer.copy_to(writer_of(where, uuid), json_members(metadata))
        return type(self)(open_engine(where, uuid, self._options), where, self._options)


def _time_of(micros: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)


def _micros_of(time: dt.datetime) -> int:
    passed = time.astimezone(dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return passed // dt.timedelta(microseconds=1)
