"""A table at one version: open it, read it, go back and forth in its history, write the next one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pilum import _pilum
from pilum.columns import Columns
from pilum.conditions import condition
from pilum.exceptions import InvalidInputError
from pilum.exchange import as_positions
from pilum.location import Location, StorageOptions
from pilum.results import MergeCounts, RowCount
from pilum.scanner import Scanner, ScanOptions
from pilum.settings import Settings
from pilum.statements import ExpectingArguments, Statements, expecting
from pilum.tags import Tags
from pilum.writing import Mode, write_rows

if TYPE_CHECKING:
    import os

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from typing_extensions import Unpack

    from pilum.progress import Progress


class ScanArguments(TypedDict, total=False):
    """What every read takes; see `Dataset.scanner`."""

    limit: int | None
    offset: int | None
    batch_rows: int | None
    batch_bytes: int | None
    with_row_id: bool
    with_row_address: bool
    fragments: Sequence[int] | None
    ordered: bool
    memory_limit: int | None


class WriteArguments(TypedDict, total=False):
    """What every write takes; see `write_dataset`."""

    schema: pa.Schema | None
    compat: Literal["lossless", "lance"]
    max_rows_per_file: int
    max_rows_per_page: int | None
    max_bytes_per_file: int | None
    durability: Literal["full", "none"]
    properties: Mapping[str, str] | None
    commit_id: str | None
    expect: Any
    progress: bool | Progress | None


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
        uri: A path, or a `file://`, `memory://`, `s3://`, `gs://`, `az://` or `http(s)://` URL.
        version: A version's number, a tag's name, or None for the newest.
        asof: Open the newest version that is not younger than this. A time without a zone is local time.
        storage_options: Credentials and settings of the store; never shown in a message. A function that returns them is
            asked again before what it returned expires (`expires_at_millis`), or before each use.
        verify_checksums: Check what was written with checksums against them, on every read.

    Raises:
        NotFoundError: There is no table, or no such version or tag.
        UnsupportedError: The table needs something that this reader lacks; the message names it.
        CorruptError: A file of the table is damaged; the message names place and reason.
        InvalidInputError: Both `version` and `asof` were given.
    """
    where = Location.of(uri, storage_options)
    if version is not None and asof is not None:
        raise InvalidInputError(f"{where.shown}: version= and asof= both choose a version: pass one of them")
    asof_micros = None if asof is None else _micros(asof)
    opened = _pilum.open(
        where.uri,
        version=version,
        asof_micros=asof_micros,
        storage_options=where.options(),
        verify_checksums=verify_checksums,
    )
    return Dataset(opened, where)


def write_dataset(
    data: Any,
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "create",
    schema: pa.Schema | None = None,
    compat: Literal["lossless", "lance"] = "lossless",
    max_rows_per_file: int = 1_048_576,
    max_rows_per_page: int | None = None,
    max_bytes_per_file: int | None = None,
    stable_row_ids: bool = False,
    durability: Literal["full", "none"] = "full",
    properties: Mapping[str, str] | None = None,
    commit_id: str | None = None,
    expect: Any = None,
    storage_options: StorageOptions | None = None,
    progress: bool | Progress | None = None,
) -> Written:
    """Write rows as a new version of a table and return it, opened.

    Args:
        data: Anything with `__arrow_c_stream__` or `__arrow_c_array__` (tables, frames, readers and batches of pyarrow,
            polars, duckdb, pandas), or an iterator of record batches with `schema=`. It is pulled one batch at a time.
        uri: A path, or a `file://`, `memory://`, `s3://`, `gs://` or `az://` URL.
        mode: `"create"` refuses an existing table, `"append"` adds rows, `"overwrite"` replaces rows and schema; older
            versions stay readable. Where there is no table, each of them makes it.
        schema: The schema to write; batches of another one are cast, without loss or not at all.
        compat: `"lossless"` keeps everything, beyond what Lance v1 can hold by our extension. `"lance"` writes what every
            reader of Lance v1 can read and refuses, before a byte is written, what it cannot hold.
        max_rows_per_file: Rows after which a new data file begins.
        max_rows_per_page: Rows in a page, the unit of reading and of statistics.
        max_bytes_per_file: Bytes after which a new data file begins.
        stable_row_ids: For a new table: rows keep their id when they are rewritten.
        durability: `"full"` returns when the version would survive a power failure, `"none"` leaves that to the system.
        properties: Kept in the transaction, shown by `Dataset.versions`.
        commit_id: A token of the caller's. The same token commits once: ask again after an unclear answer.
        expect: A version that must still be the newest, or a condition that may be true for no row, at the instant of the
            commit: against two writers that each rely on the other's absence.
        storage_options: Credentials and settings of the store; never shown in a message. A function that returns them is
            asked again before what it returned expires (`expires_at_millis`), or before each use.
        progress: True for a bar (needs tqdm), or a callable `(done_rows, total_rows | None)`.

    Raises:
        AlreadyExistsError: `mode="create"` and there is a table.
        InvalidInputError: The rows do not fit: the message names the column, and the row where there is one.
        UnsupportedError: A type cannot be stored, or the table may be written by a newer library only.
        ConflictError: Another writer committed what this write cannot follow.
        StoreError: The store failed: no space, no permission, no answer. The table is as it was.
    """
    where = Location.of(uri, storage_options)
    outcome = write_rows(
        data,
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
        progress=progress,
    )
    return Written(outcome, where)


class Dataset(Statements, Columns, Settings):
    """One version of a table. It never changes: a write returns the version that it made.

    Two are equal when they are the same version of the same table. It can be pickled: what is sent is its address.
    """

    __slots__ = ()

    def _at(self, version: _pilum.Dataset) -> Dataset:
        return Dataset(version, self._where)

    def _written(self, outcome: _pilum.WriteResult) -> Written:
        return Written(outcome, self._where)

    def _merged(self, outcome: _pilum.MergeResult) -> Merged:
        return Merged(outcome, self._where)

    # -- What it is --------------------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        """Where the table is, as it was opened."""
        return self._opened.uri

    @property
    def version(self) -> int:
        """The number of this version."""
        return self._opened.version

    @property
    def verify_checksums(self) -> bool:
        """Whether reads of this version compare bytes with their checksums."""
        return self._opened.verify_checksums

    @property
    def compat(self) -> str:
        """`"lance"` when every reader of Lance v1 can read this version, `"lossless"` when it takes our extension."""
        return self._version.compat

    @property
    def data_format(self) -> str:
        """The version of the file format, `"0.1"`."""
        return self._version.data_format

    @property
    def fragments(self) -> list[_pilum.Fragment]:
        """The parts that the rows lie in, in row order."""
        return self._version.fragments()

    def __repr__(self) -> str:
        return f"<pilum.{type(self).__name__} {self.uri} version {self.version}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return (self.uri, self.version) == (other.uri, other.version)

    def __hash__(self) -> int:
        return hash((self.uri, self.version))

    def __len__(self) -> int:
        return self.count_rows()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._where.uri, self.version, self._where.storage_options, self.verify_checksums)

    # -- Its history -------------------------------------------------------------------------------------------------

    @property
    def tags(self) -> Tags:
        """Names for versions."""
        return Tags(lambda: self._version)

    def latest_version(self) -> int:
        """Return the newest version's number, asking the store."""
        return self._version.latest_version()

    def versions(self) -> list[_pilum.Version]:
        """Return all versions that there are, oldest first."""
        return self._version.versions()

    def checkout(self, version: int | str) -> Dataset:
        """Open another version, by number or tag."""
        return self._at(self._version.checkout(version))

    def restore(self, **options: Unpack[ExpectingArguments]) -> Written:
        """Make this version's rows and schema the newest, as a new version; nothing in between is lost.

        Args:
            **options: `commit_id`, `properties`, `durability` and `expect`, as in `write_dataset`; `retries`, attempts to
                commit after the first (1,000).
        """
        return self._written(self._version.restore(**expecting(options)))

    # -- Reading -----------------------------------------------------------------------------------------------------

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        filter: Any = None,  # noqa: A002 - the word that users know
        **options: Unpack[ScanArguments],
    ) -> Scanner:
        """Plan a read.

        Args:
            columns: Names to read (`"a.b"` for a field inside a struct), in this order; None reads all.
            filter: SQL text, `pilum.col(..)`, a list of (column, operator, value) tuples, a `pyarrow.compute.Expression`
                (which keeps the rows that pyarrow keeps), or `bytes` of a Substrait `ExtendedExpression`. Rows are returned
                where it is true.
            **options: `limit` and `offset` in rows of the result; `batch_rows` and `batch_bytes`, the most that a batch
                holds; `with_row_id` and `with_row_address` add columns `_rowid` and `_rowaddr`; `fragments`, ids of those
                to read; `ordered=False` lets batches come as they are ready; `memory_limit` in bytes.

        Raises:
            InvalidInputError: There is no such column, or the condition does not fit the schema; the message names it.
        """
        return Scanner(
            self._version, self._where, ScanOptions.of(columns, filter, schema=lambda: self.schema, **options)
        )

    def to_table(self, columns: Any = None, filter: Any = None, **options: Unpack[ScanArguments]) -> pa.Table:  # noqa: A002
        """Read into memory; see `scanner` for the arguments."""
        return self.scanner(columns, filter, **options).to_table()

    def to_batches(
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        **options: Unpack[ScanArguments],
    ) -> Iterator[pa.RecordBatch]:
        """Read batch by batch; see `scanner` for the arguments."""
        return self.scanner(columns, filter, **options).to_batches()

    def to_reader(
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        **options: Unpack[ScanArguments],
    ) -> pa.RecordBatchReader:
        """Read as a pyarrow reader; see `scanner` for the arguments."""
        return self.scanner(columns, filter, **options).to_reader()

    def to_pandas(self, columns: Any = None, filter: Any = None, **options: Unpack[ScanArguments]) -> pd.DataFrame:  # noqa: A002
        """Read into a pandas frame; see `scanner` for the arguments."""
        frame: pd.DataFrame = self.to_table(columns, filter, **options).to_pandas()
        return frame

    def to_polars(self, columns: Any = None, filter: Any = None, **options: Unpack[ScanArguments]) -> pl.DataFrame:  # noqa: A002
        """Read into a polars frame; see `scanner` for the arguments."""
        import polars as pl

        frame = pl.from_arrow(self.to_table(columns, filter, **options))
        if isinstance(frame, pl.Series):
            return frame.to_frame()
        return frame

    def head(self, n: int = 5) -> pa.Table:
        """Return the first `n` rows."""
        return self.to_table(limit=n)

    def count_rows(self, filter: Any = None) -> int:  # noqa: A002
        """Return how many rows there are, or for how many the condition is true."""
        return self._version.count_rows(condition(filter, lambda: self.schema))

    def take(self, indices: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows by their position, in the order asked for, repeats kept.

        Args:
            indices: Positions from 0, as any sequence of integers.
            columns: Names to read, in this order; None reads all.

        Raises:
            InvalidInputError: A position is outside of the table; the message names it.
        """
        import pyarrow as pa

        return pa.table(self._version.take(as_positions(indices), None if columns is None else list(columns)))

    def take_rows(self, row_ids: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows by their id, the value of `_rowid`, in the order asked for, repeats kept.

        Args:
            row_ids: Row ids, as any sequence of integers; of a table without stable row ids these are addresses.
            columns: Names to read, in this order; None reads all.

        Raises:
            InvalidInputError: There is no row of such an id; the message names it.
        """
        import pyarrow as pa

        return pa.table(self._version.take_rows(as_positions(row_ids), None if columns is None else list(columns)))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all rows as an Arrow C stream."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    # -- Writing -----------------------------------------------------------------------------------------------------

    def append(self, data: Any, **options: Unpack[WriteArguments]) -> Written:
        """Add rows; see `write_dataset` for the arguments."""
        return self._write(data, "append", options)

    def overwrite(self, data: Any, **options: Unpack[WriteArguments]) -> Written:
        """Replace all rows, and the schema; see `write_dataset` for the arguments."""
        return self._write(data, "overwrite", options)

    def _write(self, data: Any, mode: Mode, options: WriteArguments) -> Written:
        where = self._where.renewed() or self._where
        return self._written(write_rows(data, where, mode=mode, verify_checksums=self.verify_checksums, **options))


class Written(RowCount, Dataset):
    """The version that a write or a statement made, with counts of what it did."""

    __slots__ = ("_outcome",)

    def __init__(self, outcome: _pilum.WriteResult, where: Location) -> None:
        super().__init__(outcome.dataset, where)
        self._outcome = outcome

    @property
    def dataset(self) -> Dataset:
        """The version alone."""
        return self._at(self._version)


class Merged(MergeCounts, Dataset):
    """The version that a merge made, with counts of what it did."""

    __slots__ = ("_outcome",)

    def __init__(self, outcome: _pilum.MergeResult, where: Location) -> None:
        super().__init__(outcome.dataset, where)
        self._outcome = outcome

    @property
    def dataset(self) -> Dataset:
        """The version alone."""
        return self._at(self._version)


def _reopened(uri: str, version: int, storage_options: StorageOptions | None, verify_checksums: bool = True) -> Dataset:
    return dataset(uri, version=version, storage_options=storage_options, verify_checksums=verify_checksums)


def _micros(moment: dt.datetime) -> int:
    """Return microseconds since 1970 in UTC, exactly: a float of seconds would round them."""
    since = moment.astimezone(dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
