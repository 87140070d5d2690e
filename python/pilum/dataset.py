"""A table at one version: open it, write it, walk through its history. The parts of `Dataset` are in modules of their own."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import ExpectingValueArguments, WriteArguments, checked
from pilum.columns import Columns
from pilum.exceptions import InvalidInputError, NotFoundError, PilumError, StoreError
from pilum.location import Location, StorageOptions
from pilum.maintenance import Maintenance
from pilum.pandas_frames import indexed
from pilum.reading import Reading
from pilum.results import CompactionCounts, MergeCounts, RowCount
from pilum.settings import Settings
from pilum.statements import Statements, expecting
from pilum.tags import Tags
from pilum.writing import Mode, write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from pilum.progress import Progress

MAX_COLUMNS_SHOWN = 20
"""Columns that `repr` lists."""


@checked()
def dataset(
    uri: str | os.PathLike[str],
    *,
    version: int | str | None = None,
    asof: dt.datetime | None = None,
    storage_options: StorageOptions | None = None,
    verify_checksums: bool = True,
) -> Dataset:
    """Open a table.

    Args:
        uri: A path (`~` is the home folder), or a `file://`, `memory://`, `s3://`, `gs://`, `az://` or `http(s)://` URL.
        version: The number of a version, or the name of a tag. None opens the newest version.
        asof: Open the newest version that is not younger than this moment. A time without a zone is local time.
        storage_options: Credentials and settings of the store, which no message shows. A function that returns them is called
            again before they expire (`expires_at_millis`, milliseconds since 1970), or before each use if they do not say so.
        verify_checksums: Compare what is read with its checksums. It holds for everything reached through this handle.

    Raises:
        NotFoundError: There is no table at this address, or no such version or tag.
        UnsupportedError: The table needs something that this reader lacks; the message names it.
        CorruptError: A file of the table is damaged; the message names the file, the place and the reason.
        InvalidInputError: An argument has a value that it cannot have, or both `version` and `asof` are given.

    Example:
        `ds = pilum.dataset(uri, version=1)`
    """
    where = Location.of(uri, storage_options)
    if version is not None and asof is not None:
        raise InvalidInputError(f"{where.shown}: version= and asof= both choose a version: pass one of them")
    try:
        opened = _pilum.open(
            where.uri,
            version=version,
            asof_micros=None if asof is None else _micros(asof),
            storage_options=where.options(),
            verify_checksums=verify_checksums,
        )
    except StoreError:
        if Path(where.uri.removeprefix("file://")).is_file():
            raise NotFoundError(
                f"{where.shown} is a file, and a table is a folder: pilum.parquet.dataset opens Parquet files, and "
                "pilum.references.open reference sets"
            ) from None
        raise
    return Dataset(opened, where)


@checked()
def write_dataset(
    data: Any,
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "create",
    schema: pa.Schema | None = None,
    index: bool | None = None,
    compat: Literal["lossless", "lance"] | None = None,
    max_rows_per_file: int = 1_048_576,
    max_rows_per_page: int | None = None,
    max_bytes_per_file: int | None = None,
    stable_row_ids: bool = False,
    durability: Literal["full", "none"] = "full",
    properties: Mapping[str, str] | None = None,
    commit_id: str | None = None,
    expect: Any = None,
    cast: Literal["exact", "lossy"] = "exact",
    missing: Literal["null", "error"] = "null",
    extra: Literal["error", "ignore"] = "error",
    storage_options: StorageOptions | None = None,
    progress: bool | Progress | None = None,
) -> Written:
    """Write rows as a new version of a table and return that version.

    Args:
        data: Anything with `__arrow_c_stream__` or `__arrow_c_array__` (tables, frames, readers and batches of pyarrow,
            Polars, DuckDB, pandas), a Polars LazyFrame, a dataset or scanner of pyarrow or pylance, an iterator of record
            batches or of dicts, a list of tables or batches, or a list of dicts. It is pulled one batch at a time; of dicts
            10,000, and without `schema` the first of them decide about columns and types.
        uri: A path (`~` is the home folder), or a `file://`, `memory://`, `s3://`, `gs://` or `az://` URL.
        mode: `"create"` refuses an existing table, `"append"` adds rows, `"overwrite"` replaces rows and schema; older
            versions stay readable. Where there is no table, each of them makes it.
        index: For a pandas frame: True writes the index as columns of its names, False leaves it out. None leaves it out too,
            and logs a warning if it has a name.
        schema: The columns to write, by default those of the data. Rows that are appended get these columns first, and then
            those of the table.
        compat: `"lossless"` keeps every value, with our extension of the format where Lance v1 cannot hold it. `"lance"` writes
            what every reader of Lance v1 can read, and refuses everything else before anything is visible. A table keeps the
            compat that it was made with; None is that of the table (`Dataset.write_compat`), and `"lossless"` for a new one.
            Writing to a `"lance"` table with `"lossless"` makes it `"lossless"`: pylance can no longer read it once it
            holds such a value. An overwrite gives the table the compat that is passed.
        max_rows_per_file: Rows after which a new data file begins.
        max_rows_per_page: Rows of a page, the unit of reading and of statistics. None chooses by the width of a row.
        max_bytes_per_file: Bytes after which a new data file begins. None for 90 GiB.
        stable_row_ids: For a new table: rows keep their ids when they are rewritten.
        durability: `"full"` returns when the version would survive a power failure, `"none"` leaves that to the system.
        properties: Texts by name that are kept in the transaction; `Dataset.versions` shows them.
        commit_id: An id chosen by the caller. The same id commits once, so a call may be repeated after an unclear answer.
        expect: A version that must still be the newest, or a condition that must be true for no row, when the write commits.
        cast: Columns and members of structs are matched by name. With `"exact"` each value is kept as it is in the type that
            is written, or the write is refused; `docs/types.md` has the rule for each pair of types. `"lossy"` allows what a
            SQL `CAST` does: rounding, cutting to the unit, parsing and formatting. A value out of range is still refused.
        missing: Columns, and members of structs, that the data lacks become null where they may (`"null"`), or are refused
            (`"error"`).
        extra: Columns, and members of structs, that the data has and `schema` or the table has not are refused (`"error"`), or
            left out (`"ignore"`).
        storage_options: Credentials and settings of the store; as in `dataset`.
        progress: True for a bar (needs tqdm), or a callable `(done_rows, total_rows | None)`.

    Returns:
        The new version, with `rows`, `bytes`, `attempts` and `was_committed_before`.

    Raises:
        AlreadyExistsError: `mode="create"` and there is a table.
        InvalidInputError: The rows do not fit: the message names the column, and the row where there is one.
        UnsupportedError: A type cannot be stored, or the table may be written by a newer release only.
        ConflictError: Another writer committed a version that conflicts with this write.
        CommitUnknownError: The store did not say whether it took the commit: repeat the call with the same `commit_id`.
        StoreError: The store failed: no space, no permission, no answer. The table is as it was.

    Example:
        `ds = pilum.write_dataset(rows, "new.pilum", commit_id="load 17")`
    """
    where = Location.of(uri, storage_options)
    outcome = write_rows(
        indexed(data, index),
        where,
        mode=mode,
        schema=schema,
        compat=compat,
        max_rows_per_file=max_rows_per_file,
        max_rows_per_page=max_rows_per_page,
        max_bytes_per_file=max_bytes_per_file,
        stable_row_ids=stable_row_ids,
        durability=durability,
        properties=properties,
        commit_id=commit_id,
        expect=expect,
        cast=cast,
        missing=missing,
        extra=extra,
        progress=progress,
    )
    return Written(outcome, where)


class Dataset(Reading, Statements, Columns, Settings, Maintenance):
    """One version of a table. It never changes: a write returns the version that it made.

    Two datasets are equal if they are the same version of the same table. A pickled dataset is its address and version.
    """

    __slots__ = ()

    def _at(self, version: _pilum.Dataset) -> Dataset:
        return Dataset(version, self._where)

    def _written(self, outcome: _pilum.WriteResult) -> Written:
        return Written(outcome, self._where)

    def _merged(self, outcome: _pilum.MergeResult) -> Merged:
        return Merged(outcome, self._where)

    def _compacted(self, outcome: _pilum.CompactionResult) -> CompactionResult:
        return CompactionResult(outcome, self._where)

    # -- What it is --------------------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        """The address of the table, without what it may have held of secrets."""
        return self._opened.uri

    @property
    def version(self) -> int:
        """The number of this version; versions count from 1."""
        return self._opened.version

    @property
    def verify_checksums(self) -> bool:
        """Whether reads of this version compare bytes with their checksums."""
        return self._opened.verify_checksums

    @property
    def compat(self) -> str:
        """`"lance"` if every reader of Lance v1 can read this version, `"lossless"` if it needs our extension."""
        return self._version.compat

    @property
    def write_compat(self) -> str:
        """The `compat` of writes that pass none: what the table was made with.

        `"lance"` for tables of other writers: what Lance v1 cannot hold is refused, so that others can read every version.
        `"lossless"` for tables that were made so: a version needs our extension if it holds such a value.
        """
        return self._version.write_compat

    @property
    def data_format(self) -> str:
        """The version of the file format, `"0.1"`."""
        return self._version.data_format

    @property
    def fragments(self) -> list[_pilum.Fragment]:
        """The fragments, in row order: each is a part of the rows in data files of its own."""
        return self._version.fragments()

    def _size(self) -> tuple[pa.Schema | None, str]:
        """Return the columns and the number of rows, for people; less of them if the table cannot be read any more."""
        import pyarrow as pa

        try:
            return pa.schema(self._opened.schema), f"{self._opened.count_rows():,} rows"
        except PilumError:
            return None, "unknown rows"

    def __repr__(self) -> str:
        schema, rows = self._size()
        if schema is None:
            return f"<pilum.{type(self).__name__} {self._where.shown} version {self.version}>"
        columns = ", ".join(f"{field.name}: {field.type}" for field in list(schema)[:MAX_COLUMNS_SHOWN])
        rest = len(schema) - MAX_COLUMNS_SHOWN
        more = f", and {rest} more" if rest > 0 else ""
        head = f"<pilum.{type(self).__name__} {self.uri} version {self.version}"
        return f"{head}: {rows}, {len(schema)} columns ({columns}{more})>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the address, the version, rows and columns."""
        import html

        schema, rows = self._size()
        fields = [] if schema is None else list(schema)
        lines = [(field.name, str(field.type)) for field in fields[:MAX_COLUMNS_SHOWN]]
        if len(fields) > MAX_COLUMNS_SHOWN:
            lines.append((f"and {len(fields) - MAX_COLUMNS_SHOWN} more", ""))
        body = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(kind)}</td></tr>" for name, kind in lines)
        return (
            f"<div><b>{html.escape(self._where.shown)}</b>, version {self.version}: {rows}, {len(fields)} columns"
            f"<table><thead><tr><th>column</th><th>type</th></tr></thead><tbody>{body}</tbody></table></div>"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return (self.uri, self.version) == (other.uri, other.version)

    def __hash__(self) -> int:
        return hash((self.uri, self.version))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._where.uri, self.version, self._where.storage_options, self.verify_checksums)

    # -- Its history -------------------------------------------------------------------------------------------------

    @property
    def tags(self) -> Tags:
        """The tags of the table: names for versions."""
        return Tags(lambda: self._version)

    @checked()
    def latest_version(self) -> int:
        """Return the number of the newest version, asking the store.

        Example:
            `is_newest = ds.version == ds.latest_version()`
        """
        return self._version.latest_version()

    @checked()
    def versions(self) -> list[_pilum.Version]:
        """Return all versions that exist, oldest first.

        Example:
            `print([(it.version, it.operation, it.num_rows) for it in ds.versions()])`
        """
        return self._version.versions()

    @checked()
    def checkout(self, version: int | str) -> Dataset:
        """Open another version of this table.

        Args:
            version: Its number, or the name of a tag.

        Raises:
            NotFoundError: There is no such version or tag.

        Example:
            `before = ds.checkout(1)`
        """
        return self._at(self._version.checkout(version))

    @checked(ExpectingValueArguments)
    def restore(self, version: int | str | None = None, **options: Unpack[ExpectingValueArguments]) -> Written:
        """Make rows and schema of a version the newest ones, as a new version. The versions in between stay readable.

        Args:
            version: The number of a version, or the name of a tag. None restores the version that is open.
            commit_id: As in `write_dataset`.
            properties: As in `write_dataset`.
            durability: As in `write_dataset`.
            retries: Attempts to commit after the first one, when other writers commit first; 1,000 by default.
            expect: As in `write_dataset`.
            compat: As in `update`. The table keeps its compat, whatever it was in that version.

        Raises:
            NotFoundError: There is no such version or tag.
            ConflictError: Another writer committed a version that conflicts with this restore.

        Example:
            `ds = ds.restore(1)`
        """
        restored = self._version if version is None else self._version.checkout(version)
        return self._written(_pilum.restore(restored, **expecting(options)))

    # -- Writing -----------------------------------------------------------------------------------------------------

    @checked(WriteArguments)
    def append(self, data: Any, **options: Unpack[WriteArguments]) -> Written:
        """Add rows; the arguments are those of `write_dataset`.

        Raises:
            NotFoundError: The table is gone.

        Example:
            `ds = ds.append(rows, commit_id="load 18")`
        """
        return self._write(data, "append", options)

    @checked(WriteArguments)
    def overwrite(self, data: Any, **options: Unpack[WriteArguments]) -> Written:
        """Replace all rows, and the schema; the arguments are those of `write_dataset`.

        Raises:
            NotFoundError: The table is gone.

        Example:
            `ds = ds.overwrite(rows)`
        """
        return self._write(data, "overwrite", options)

    def _write(self, data: Any, mode: Mode, options: WriteArguments) -> Written:
        where = self._where.renewed() or self._where
        rows = indexed(data, options.pop("index", None))
        outcome = write_rows(rows, where, mode=mode, verify_checksums=self.verify_checksums, must_exist=True, **options)
        return self._written(outcome)


class Written(RowCount, Dataset):
    """The version that a write or a statement made, with counts of what it did."""

    __slots__ = ("_outcome",)

    def __init__(self, outcome: _pilum.WriteResult, where: Location) -> None:
        super().__init__(outcome.dataset, where)
        self._outcome = outcome

    @property
    def dataset(self) -> Dataset:
        """The version alone.

        Example:
            `ds = pilum.dataset(uri, version=1)`
        """
        return self._at(self._version)


class Merged(MergeCounts, Dataset):
    """The version that a merge made, with counts of what it did."""

    __slots__ = ("_outcome",)

    def __init__(self, outcome: _pilum.MergeResult, where: Location) -> None:
        super().__init__(outcome.dataset, where)
        self._outcome = outcome

    @property
    def dataset(self) -> Dataset:
        """The version alone.

        Example:
            `ds = pilum.dataset(uri, version=1)`
        """
        return self._at(self._version)


class CompactionResult(CompactionCounts, Dataset):
    """The version that a compaction made, with counts of what it did. The newest version if there was nothing to do."""

    __slots__ = ("_outcome",)

    def __init__(self, outcome: _pilum.CompactionResult, where: Location) -> None:
        super().__init__(outcome.dataset, where)
        self._outcome = outcome

    @property
    def dataset(self) -> Dataset:
        """The version alone.

        Example:
            `ds = pilum.dataset(uri, version=1)`
        """
        return self._at(self._version)


def _reopened(uri: str, version: int, storage_options: StorageOptions | None, verify_checksums: bool = True) -> Dataset:
    return dataset(uri, version=version, storage_options=storage_options, verify_checksums=verify_checksums)


def _micros(moment: dt.datetime) -> int:
    """Return microseconds since 1970 in UTC, without the rounding of a float of seconds."""
    try:
        since = moment.astimezone(dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    except (OverflowError, ValueError):
        raise InvalidInputError(f"asof: {moment!r} is no moment in UTC") from None
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
