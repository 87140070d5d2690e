"""The engine, a module in Rust. It is private: users import `pilum`.

Every function releases the GIL while it waits, and Ctrl-C ends it. After a fork, datasets of the parent work in the child,
which opens the tables again when it first uses them. A running scan can only be read by the process that started it.

Errors name the path, and the version, column or row that matters, and never a secret. A panic of the engine is an
`InternalError`.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, NoReturn, Self, TypeVar, final

__all__ = [
    "AlreadyExistsError",
    "Batch",
    "Batches",
    "CleanupResult",
    "CommitUnknownError",
    "CompactionResult",
    "ConflictError",
    "CorruptError",
    "Dataset",
    "Expr",
    "Fragment",
    "InternalError",
    "InvalidInputError",
    "KartothekDataset",
    "KartothekWriter",
    "LimitError",
    "MergeResult",
    "NotFoundError",
    "ParquetDataset",
    "ParquetScanMetrics",
    "PilumError",
    "ReferenceCombiner",
    "ReferenceSet",
    "ScanMetrics",
    "Scanner",
    "Schema",
    "SkiffBatches",
    "SkiffEncoder",
    "SkiffFormat",
    "StoreError",
    "UnsupportedError",
    "VerifyReport",
    "Version",
    "VersionDiff",
    "WriteResult",
    "__version__",
    "add_columns",
    "add_columns_from",
    "alter_columns",
    "case",
    "check_fits",
    "cleanup",
    "column",
    "combine_fragments",
    "commit_changes",
    "commit_columns",
    "commit_fragments",
    "commit_rewrite",
    "committed",
    "compact",
    "delete_rows",
    "describe",
    "describe_file",
    "diff",
    "discard_fragments",
    "divide",
    "doctor",
    "drop_columns",
    "exact",
    "expr_from_message",
    "first_excluded",
    "first_valid",
    "fit_batch",
    "ieee",
    "kartothek_open",
    "merge_rows",
    "open",
    "parquet_inspect",
    "parquet_open",
    "parquet_write",
    "piece_size",
    "plan_compaction",
    "restore",
    "rewrite_fragments",
    "row_set",
    "row_versions",
    "skiff_promote",
    "statistics",
    "substrait",
    "table_maps",
    "update_config",
    "update_rows",
    "value",
    "verify",
    "verify_file",
    "with_row_ids",
    "write_columns",
    "write_dataset",
    "write_fragments",
    "yson_kernel",
]

__version__: str

# -- Errors: one class for each reaction of a caller --------------------------------------------------------------

class PilumError(Exception):
    """Base of all errors of pilum.

    Attributes:
        kind: A word for the class that does not change between releases, such as `"not_found"`.
    """

    kind: ClassVar[str]

class InternalError(PilumError):
    """A fault of pilum itself: report the message and the traceback. The table and the arguments are not to blame."""

class CorruptError(PilumError):
    """A file of the table is damaged: restore the file that the message names."""

class NotFoundError(PilumError, FileNotFoundError):
    """There is no such table, version, tag or file. `errno` is `errno.ENOENT`."""

class AlreadyExistsError(PilumError, FileExistsError):
    """The table, version or tag to create exists already. `errno` is `errno.EEXIST`."""

class UnsupportedError(PilumError, NotImplementedError):
    """The table needs, or the call asks for, something that this release of pilum cannot do."""

class InvalidInputError(PilumError, ValueError):
    """The rows or the arguments do not fit: the message names the argument or the column, and the row if there is one."""

class ConflictError(PilumError):
    """Another writer committed first: the table is as that writer left it.

    Attributes:
        retryable: True if running the same work again, on the newest version, may succeed.
        version: The version that was committed first. Absent if every attempt to commit lost a race.
        ours: The operation of this call, such as `"Update"`.
        theirs: The operation that was committed first.
        rows: Addresses or ids of the rows that both changed, if the conflict is about rows.
    """

    retryable: bool
    version: int
    ours: str
    theirs: str

class CommitUnknownError(PilumError):
    """The store did not say whether it took the commit.

    Attributes:
        token: The caller's `commit_id`: a call with the same one finds out whether it was committed, and commits once. None if
            the caller gave none: then look for `transaction` in the history.
        transaction: The id of the transaction.
        version: The number that the version would have.
    """

    token: str | None
    transaction: str
    version: int

class StoreError(PilumError, OSError):
    """The store failed: no space, no permission, no answer. `errno` is that of the system, if there is one."""

class LimitError(PilumError, MemoryError):
    """The work needs more than a limit allows: raise the limit or split the work."""

# -- Values ---------------------------------------------------------------------------------------------------------------

@final
class Schema:
    """Columns: names, types, metadata. `pyarrow.schema(it)` converts it."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def __len__(self) -> int:
        """Return the number of columns."""

    def __eq__(self, value: object, /) -> bool: ...
    def __arrow_c_schema__(self) -> object:
        """Export the schema as a capsule `arrow_schema`."""

@final
class Batch:
    """Rows in memory. `pyarrow.record_batch(it)`, `pyarrow.table(it)` and `polars.DataFrame(it)` read it without a copy."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    @property
    def schema(self) -> Schema:
        """The columns."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def __arrow_c_schema__(self) -> object:
        """Export the schema as a capsule `arrow_schema`."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Export the rows as a struct array, without a copy: capsules `arrow_schema` and `arrow_array`.

        Args:
            requested_schema: A capsule `arrow_schema`. A column has the requested type if that holds the same values in another
                layout (large or view strings and binaries, large lists, decoded dictionaries), else its own type.

        Raises:
            InvalidInputError: The requested schema has other columns.
        """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as a stream of one batch, a capsule `arrow_array_stream`."""

@final
class Version:
    """One version in the history of a table."""

    @property
    def version(self) -> int:
        """The number, from 1."""

    @property
    def timestamp(self) -> dt.datetime:
        """When it was committed, in UTC, by the clock of the writer."""

    @property
    def operation(self) -> str | None:
        """What was done, or None if the transaction is gone.

        `"Create"`, `"Append"`, `"Overwrite"`, `"Delete"`, `"Update"`, `"Merge"`, `"Backfill"` (columns added or converted),
        `"Project"` (columns dropped or renamed), `"Rewrite"` (a compaction), `"Restore"`,
        `"UpdateConfig"`, `"CreateIndex"`, `"ReserveFragments"` or `"DataReplacement"`.
        """

    @property
    def properties(self) -> dict[str, str]:
        """The `properties` that the writer passed."""

    @property
    def num_rows(self) -> int | None:
        """Rows of this version; None if its writer did not record them."""

    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Fragment:
    """A part of the rows of a table, in data files of its own."""

    @property
    def id(self) -> int:
        """The upper 32 bits of the addresses of its rows; never used twice in a table."""

    @property
    def num_rows(self) -> int:
        """Rows without the deleted ones."""

    @property
    def physical_rows(self) -> int:
        """Rows in the data files, with the deleted ones."""

    @property
    def num_deleted(self) -> int:
        """Deleted rows."""

    @property
    def files(self) -> list[str]:
        """The data files, as paths below the folder of the table."""

    @property
    def bytes(self) -> int | None:
        """Size of the data files in bytes; None if their writer did not record it."""

    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class WriteResult:
    """What a write did."""

    @property
    def dataset(self) -> Dataset:
        """The version that it made."""

    @property
    def version(self) -> int:
        """The number of that version."""

    @property
    def rows(self) -> int:
        """Rows written by this call."""

    @property
    def bytes(self) -> int:
        """Bytes of data files written by this call."""

    @property
    def attempts(self) -> int:
        """Attempts to commit; 0 if the same `commit_id` was committed before."""

    @property
    def was_committed_before(self) -> bool:
        """True if an earlier call with the same `commit_id` committed, and this call changed nothing."""

@final
class ScanMetrics:
    """Counts of one run of a scan, so far if it still runs."""

    @property
    def fragments_pruned(self) -> int:
        """Fragments that were not read, because the statistics of their pages exclude every row."""

    @property
    def pages_total(self) -> int:
        """Pages of the columns of the filter, in the fragments that were opened."""

    @property
    def pages_pruned(self) -> int:
        """Pages of these that were not read, because their statistics exclude every row."""

    @property
    def rows_scanned(self) -> int:
        """Rows for which the filter was evaluated, or that were read if there is none."""

    @property
    def rows_returned(self) -> int:
        """Rows of the result."""

    @property
    def requests(self) -> int:
        """Requests to the store during the run, by all that reads through the same dataset."""

    @property
    def bytes_read(self) -> int:
        """Bytes that these requests read."""

    @property
    def peak_bytes(self) -> int:
        """The most Arrow memory at once, in bytes, of rows that were read and not yet released, with mapped files."""

    @property
    def seconds(self) -> float:
        """Seconds from the start to the last batch."""

    def __eq__(self, value: object, /) -> bool: ...

# -- Tables ---------------------------------------------------------------------------------------------------------------

_M = TypeVar("_M", ScanMetrics, ParquetScanMetrics)
"""The class of the counts of a scan: `ScanMetrics` for tables, `ParquetScanMetrics` for Parquet and Kartothek."""

@final
class Batches:
    """A running scan: an iterator of batches. Deleting it ends the scan."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch:
        """Return the next batch.

        Raises:
            InvalidInputError: Two threads ask for a batch at once, or another process started the scan.
        """

@final
class Scanner(Generic[_M]):
    """A planned read of a table, of Parquet files or of a Kartothek dataset. It can run any number of times."""

    @property
    def schema(self) -> Schema:
        """The columns of the result."""

    @property
    def metrics(self) -> _M | None:
        """Counts of the last run of this scanner; None before the first run."""

    def explain(self) -> str:
        """Return the plan as text."""

    def count_rows(self) -> int:
        """Return the number of rows of the result, reading only the columns of the filter."""

    def __iter__(self) -> Batches:
        """Run the scan."""

    def __arrow_c_schema__(self) -> object:
        """Export the schema as a capsule `arrow_schema`."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Run the scan, as a capsule `arrow_array_stream` that reads when a batch is asked for.

        The consumer sees errors as codes of Arrow: EINVAL for invalid input, ENOSYS for what is not supported, ENOMEM for a
        limit, EIO for everything else. Iterate over the scanner to get the classes of this module.

        Args:
            requested_schema: As in `Batch.__arrow_c_array__`.

        Raises:
            InvalidInputError: The requested schema has other columns.
        """

@final
class Dataset:
    """One version of a table. It never changes; two are equal when they are the same version at the same address."""

    @property
    def uri(self) -> str:
        """The address of the table, without what it may have held of secrets."""

    @property
    def version(self) -> int:
        """The number of this version."""

    @property
    def verify_checksums(self) -> bool:
        """Whether reads compare bytes with their checksums."""

    @property
    def compat(self) -> Literal["lossless", "lance"]:
        """`"lance"` if every reader of Lance v1 can read this version, `"lossless"` if it needs our extension."""

    @property
    def write_compat(self) -> Literal["lossless", "lance"]:
        """The `compat` of writes that pass none."""

    @property
    def data_format(self) -> str:
        """The version of the file format, `"0.1"`."""

    @property
    def schema(self) -> Schema:
        """The columns."""

    def __arrow_c_schema__(self) -> object:
        """Export the schema as a capsule `arrow_schema`."""

    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def latest_version(self) -> int:
        """Return the newest version's number, asking the store.

        Raises:
            NotFoundError: The table is gone.
        """

    def versions(self) -> list[Version]:
        """Return all versions that exist, oldest first."""

    def summary(self) -> Version:
        """Return the line of this version in the history."""

    def reopened(self, storage_options: dict[str, str] | None) -> Dataset:
        """Open the same version with other options, after credentials were renewed."""

    def checkout(self, version: int | str) -> Dataset:
        """Open another version.

        Args:
            version: Its number, or the name of a tag.

        Raises:
            NotFoundError: There is no such version or tag.
        """

    def tags_list(self) -> dict[str, int]:
        """Return all tags with the numbers of their versions."""

    def tags_create(self, name: str, version: int | str | None = None) -> None:
        """Name a version, by default this one.

        Raises:
            AlreadyExistsError: There is a tag of this name.
            NotFoundError: There is no such version.
            InvalidInputError: The name is not allowed.
        """

    def tags_delete(self, name: str) -> None:
        """Remove a tag; the version stays.

        Raises:
            NotFoundError: There is no such tag.
        """

    def fragments(self) -> list[Fragment]:
        """Return the fragments in row order."""

    def count_rows(self, filter: Expr | str | None = None) -> int:
        """Return the number of rows, or of those for which a filter is true.

        Args:
            filter: SQL text.

        Raises:
            InvalidInputError: The filter cannot be parsed or does not fit the columns.
        """

    def take(self, indices: Sequence[int], columns: Sequence[str] | Mapping[str, Expr | str] | None = None) -> Batch:
        """Return rows by position, in the order of `indices`, repeats kept.

        Args:
            indices: Positions from 0.
            columns: As in `scan`.

        Raises:
            InvalidInputError: A position is outside of the table, or there is no such column.
        """

    def take_rows(
        self, row_ids: Sequence[int], columns: Sequence[str] | Mapping[str, Expr | str] | None = None
    ) -> Batch:
        """Return rows by row id (by address, in tables without stable row ids), in the order of `row_ids`, repeats kept.

        Args:
            row_ids: Values of the column `_rowid`.
            columns: As in `scan`.

        Raises:
            InvalidInputError: No row has such an id, or there is no such column.
        """

    def scan(
        self,
        columns: Sequence[str] | Sequence[tuple[str, Expr | str]] | Mapping[str, Expr | str] | None = None,
        filter: Expr | str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        fragments: Sequence[int] | None = None,
        ordered: bool = True,
        memory_limit: int | None = None,
    ) -> Scanner[ScanMetrics]:
        """Plan a read. Arguments are checked here; nothing is read before the scanner runs.

        Args:
            columns: Names in this order (`"a.b"` is member `b` of `a`), or names with expressions; None for all.
            filter: SQL text. The result has the rows for which it is true.
            limit: Rows of the result at most.
            offset: Rows of the result that are left out at its start.
            batch_rows: Rows of a batch at most.
            batch_bytes: Bytes of a batch, about; 8 MiB by default.
            with_row_id: Add the column `_rowid` (uint64).
            with_row_address: Add the column `_rowaddr` (uint64): fragment id times 2^32, plus the row's place in it.
            fragments: Ids of the fragments to read; None for all.
            ordered: False returns batches as they are ready.
            memory_limit: Bytes that the scan may hold at once.

        Raises:
            InvalidInputError: There is no such column or fragment, or the filter cannot be parsed or does not fit.
            LimitError: `memory_limit` is too little for any scan.
        """

# -- Functions ------------------------------------------------------------------------------------------------------------

def open(
    uri: str,
    *,
    version: int | str | None = None,
    asof_micros: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    verify_checksums: bool = True,
) -> Dataset:
    """Open a table.

    Args:
        uri: An absolute path or a URL.
        version: A number, the name of a tag, or None for the newest.
        asof_micros: Open the newest version that is not younger than this: microseconds since 1970 in UTC.
        storage_options: Credentials and settings of the store; never shown.
        verify_checksums: Compare what is read with its checksums.

    Raises:
        NotFoundError: There is no such table, version or tag.
        UnsupportedError: The table needs something that this reader lacks.
        CorruptError: The manifest is damaged.
        InvalidInputError: Both `version` and `asof_micros` are given.
    """

def write_dataset(
    rows: Any,
    uri: str,
    *,
    mode: str = "create",
    compat: str | None = None,
    max_rows_per_file: int | None = None,
    max_rows_per_page: int | None = None,
    max_bytes_per_file: int | None = None,
    stable_row_ids: bool = False,
    durability: str = "full",
    properties: Mapping[str, str] | None = None,
    commit_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int, int | None], object] | None = None,
    layout: str | None = None,
    expect: int | Expr | str | None = None,
    verify_checksums: bool = True,
    must_exist: bool = False,
    schema: object | None = None,
    cast: str = "exact",
    missing: str = "null",
    extra: str = "error",
) -> WriteResult:
    """Write rows as the next version of a table.

    The rows are pulled on the calling thread, one batch ahead of what is written. An exception that ends the write early (of
    the rows, of `progress`, Ctrl-C) is raised as it is, and the files written so far are removed.

    Args:
        rows: An object with `__arrow_c_stream__` or `__arrow_c_array__`. A reader with `read_next_batch` is pulled by that
            method, so that exceptions keep their classes.
        uri: An absolute path or a URL.
        mode: `"create"`, `"append"` or `"overwrite"`.
        compat: `"lossless"` or `"lance"`; None for that of the table, and `"lossless"` for a new one.
        max_rows_per_file: Rows after which a new file begins; None for 1,048,576.
        max_rows_per_page: Rows of a page; None chooses by the width of a row.
        max_bytes_per_file: Bytes after which a new file begins.
        stable_row_ids: For a new table: rows keep their id when they are rewritten.
        durability: `"full"` or `"none"`.
        properties: Kept in the transaction.
        commit_id: The same id commits once.
        storage_options: Credentials and settings of the store; never shown.
        progress: Called with the rows written so far and the number of all rows, if it is known; at most 20 times a second,
            and once at the end.
        layout: `"pylance"` writes pages of 1,024 rows without gaps and without checksums, as pylance does; None as pilum does.
        expect: The version that must still be the newest, or SQL text that must be true for no row.
        verify_checksums: Whether reads of the returned version compare bytes with their checksums.
        must_exist: Refuse to make a table where there is none.
        schema: An object with `__arrow_c_schema__`: the columns to write, by default those of the rows.
        cast: `"exact"` or `"lossy"`.
        missing: `"null"` or `"error"`.
        extra: `"error"` or `"ignore"`.

    Raises:
        AlreadyExistsError: `mode="create"` and there is a table.
        NotFoundError: `must_exist` and there is no table.
        InvalidInputError: The rows do not fit, or an option has a value that it cannot have.
        UnsupportedError: A type cannot be stored.
        ConflictError: Another writer committed a version that conflicts with this write.
        CommitUnknownError: The store did not say whether it took the commit.
        StoreError: The store failed.
    """

def write_fragments(
    rows: Any,
    uri: str,
    *,
    mode: str = "append",
    compat: str | None = None,
    max_rows_per_file: int | None = None,
    max_rows_per_page: int | None = None,
    max_bytes_per_file: int | None = None,
    durability: str = "full",
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int, int | None], object] | None = None,
    layout: str | None = None,
    schema: object | None = None,
    cast: str = "exact",
    missing: str = "null",
    extra: str = "error",
) -> list[bytes]:
    """Write data files without a commit, and return the staged fragments that `commit_fragments` takes.

    Args:
        rows: As in `write_dataset`.
        uri: The table that the files are for.
        mode: What will be committed. Rows to append get the fields of the table, if there is one.
        compat: As in `write_dataset`.
        max_rows_per_file: As in `write_dataset`.
        max_rows_per_page: As in `write_dataset`.
        max_bytes_per_file: As in `write_dataset`.
        durability: As in `write_dataset`.
        storage_options: As in `write_dataset`.
        progress: As in `write_dataset`.
        layout: As in `write_dataset`.
        schema: As in `write_dataset`.
        cast: As in `write_dataset`.
        missing: As in `write_dataset`.
        extra: As in `write_dataset`.

    Raises:
        InvalidInputError: The rows do not fit the table.
        StoreError: The store failed.
    """

def committed(
    uri: str,
    commit_id: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    verify_checksums: bool = True,
) -> WriteResult | None:
    """Return the version that a commit id made; None if it was not committed, or there is no table.

    Args:
        uri: An absolute path or a URL.
        commit_id: The id.
        storage_options: Credentials and settings of the store; never shown.
        verify_checksums: Whether reads of the returned version compare bytes with their checksums.
    """

def discard_fragments(uri: str, pieces: Sequence[bytes], *, storage_options: Mapping[str, str] | None = None) -> int:
    """Remove the data files of pieces that will not be committed; return how many. Files that a version names stay.

    Args:
        uri: The table that they were written for.
        pieces: What `write_fragments` returned.
        storage_options: Credentials and settings of the store; never shown.

    Raises:
        StoreError: The versions since the pieces were written could not be read: nothing was removed.
    """

def piece_size(piece: bytes) -> tuple[int, int, bool]:
    """Return the rows of a piece, the bytes of its files, and whether `combine_fragments` takes it.

    Args:
        piece: What `write_fragments` returned.
    """

def combine_fragments(
    uri: str,
    pieces: Sequence[bytes],
    *,
    max_rows_per_file: int | None = None,
    max_rows_per_page: int | None = None,
    max_bytes_per_file: int | None = None,
    durability: str = "full",
    storage_options: Mapping[str, str] | None = None,
) -> bytes:
    """Write the rows of several pieces again, in their order, to as large files as the options allow. The old files stay.

    Args:
        uri: The table that they were written for.
        pieces: Pieces of one schema, without dictionaries and row ids.
        max_rows_per_file: As in `write_dataset`.
        max_rows_per_page: As in `write_dataset`.
        max_bytes_per_file: As in `write_dataset`.
        durability: `"full"` or `"none"`.
        storage_options: Credentials and settings of the store; never shown.

    Raises:
        InvalidInputError: The pieces cannot be combined.
    """

def row_set(addresses: object) -> bytes:
    """Return a set of rows as bytes, for `commit_changes`.

    Args:
        addresses: An Arrow batch of one column (int64 or uint64) of row addresses.

    Raises:
        InvalidInputError: An address is there twice.
    """

def with_row_ids(piece: bytes, row_ids: object) -> bytes:
    """Return a piece whose first rows have these ids; rows behind them get new ids in the commit.

    Args:
        piece: What `write_fragments` returned.
        row_ids: An Arrow batch of one column (int64 or uint64).

    Raises:
        InvalidInputError: There are more ids than rows.
    """

def commit_changes(
    dataset: Dataset,
    *,
    pieces: Sequence[bytes],
    removed: Sequence[bytes],
    kept: Sequence[bytes],
    no_new_rows_after: int | None = None,
    predicate: str | None = None,
    is_merge: bool = False,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    expect: int | Expr | str | None = None,
    compat: str | None = None,
) -> tuple[WriteResult, int]:
    """Remove and add rows in one version, as an update; return it and the number of removed rows.

    Args:
        dataset: The version that all tasks read.
        pieces: The new rows.
        removed: Sets of the rows to remove; no row is in two sets.
        kept: Sets of rows that must still be there.
        no_new_rows_after: Rows that a version behind this one added are a conflict; None allows them.
        predicate: The condition of a delete, kept in the transaction; None for an update or merge.
        is_merge: Whether the history calls it a merge.
        commit_id: The same id commits once.
        properties: Kept in the transaction.
        durability: `"full"` or `"none"`.
        expect: As in `write_dataset`.
        compat: As in `write_dataset`.

    Raises:
        InvalidInputError: A row is removed twice, or the pieces have other columns than the version that was read.
        ConflictError: Another commit changed the same rows, or added some where none may be added.
        CommitUnknownError: The store did not say whether it took the commit.
    """

def plan_compaction(
    dataset: Dataset,
    *,
    target_rows: int | None = None,
    target_bytes: int | None = None,
    max_deleted_fraction: float = 0.1,
) -> list[list[int]]:
    """Return the groups of fragments, by id, that a compaction of this version rewrites.

    Args:
        dataset: The version.
        target_rows: As in `compact`.
        target_bytes: As in `compact`.
        max_deleted_fraction: As in `compact`.
    """

def rewrite_fragments(
    dataset: Dataset,
    fragments: Sequence[int],
    *,
    target_rows: int | None = None,
    target_bytes: int | None = None,
    durability: str = "full",
) -> bytes:
    """Write the rows of a group of fragments to new files, and return the piece for `commit_rewrite`.

    Args:
        dataset: The version.
        fragments: One group that `plan_compaction` returned.
        target_rows: As in `compact`.
        target_bytes: As in `compact`.
        durability: `"full"` or `"none"`.
    """

def commit_rewrite(
    dataset: Dataset,
    groups: Sequence[tuple[Sequence[int], bytes]],
    *,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    expect: int | Expr | str | None = None,
) -> CompactionResult:
    """Replace groups of fragments by what `rewrite_fragments` wrote, in one version.

    Args:
        dataset: The version that the groups are of.
        groups: The ids of the fragments of each group, and its piece.
        commit_id: The same id commits once.
        properties: Kept in the transaction.
        durability: `"full"` or `"none"`.
        expect: As in `write_dataset`.

    Raises:
        InvalidInputError: A piece has other rows than its fragments.
        ConflictError: Another commit changed one of the fragments.
        CommitUnknownError: The store did not say whether it took the commit.
    """

def write_columns(
    dataset: Dataset,
    rows: Any,
    fragments: Sequence[int],
    *,
    schema: object,
    durability: str = "full",
    cast: str = "exact",
    missing: str = "null",
    extra: str = "error",
) -> bytes:
    """Write the values of new columns for the rows of some fragments, and return the piece for `commit_columns`.

    Args:
        dataset: The version.
        rows: The values, one row for each row of the fragments, in their order.
        fragments: The ids of the fragments.
        schema: An object with `__arrow_c_schema__`: the new columns.
        durability: `"full"` or `"none"`.
        cast: As in `write_dataset`.
        missing: As in `write_dataset`.
        extra: As in `write_dataset`.

    Raises:
        InvalidInputError: A name is taken, a value does not fit, or the number of rows is another one.
    """

def commit_columns(
    dataset: Dataset,
    pieces: Sequence[tuple[int, Sequence[int], bytes]],
    *,
    schema: object,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    expect: int | Expr | str | None = None,
    compat: str | None = None,
) -> WriteResult:
    """Add columns whose files `write_columns` wrote, in one version.

    Args:
        dataset: The version whose fragments get the columns.
        pieces: For each piece the version that it was written for, and the ids of its fragments.
        schema: The new columns.
        commit_id: The same id commits once.
        properties: Kept in the transaction.
        durability: `"full"` or `"none"`.
        expect: As in `write_dataset`.
        compat: As in `write_dataset`.

    Raises:
        InvalidInputError: A fragment has no file.
        ConflictError: Rows were added or changed since.
        CommitUnknownError: The store did not say whether it took the commit.
    """

def fit_batch(batch: object, schema: object, *, first_row: int = 0, missing: str = "null") -> Batch:
    """Return the rows of a batch in the columns of another schema, matched by name; no value is lost.

    Args:
        batch: An object with `__arrow_c_array__`.
        schema: An object with `__arrow_c_schema__`.
        first_row: The number of the first row, for messages.
        missing: As in `pilum.write_dataset`.

    Raises:
        InvalidInputError: A column or a value does not fit.
    """

def first_excluded(
    batch: object,
    schema: object,
    condition: Expr | str,
    *,
    cast: str = "exact",
    missing: str = "null",
    extra: str = "error",
    first_row: int = 0,
) -> int | None:
    """Return the number of the first row for which a condition is false or null; None if it is true for all rows.

    The condition is evaluated on the rows as a table with the columns of `schema` stores them.

    Args:
        batch: An object with `__arrow_c_array__`.
        schema: An object with `__arrow_c_schema__`: the columns of the table.
        condition: A condition over the columns of `schema`.
        cast: As in `write_dataset`.
        missing: As in `write_dataset`.
        extra: As in `write_dataset`.
        first_row: The number of the first row of `batch`. The result counts from this number.

    Raises:
        InvalidInputError: A column or a value does not fit, or the condition does not fit the columns.
    """

def check_fits(
    schema: object, target: object, *, cast: str = "exact", missing: str = "null", extra: str = "error"
) -> None:
    """Check that columns of one schema can become those of another one, before any row is read.

    Args:
        schema: An object with `__arrow_c_schema__`: the columns of the rows.
        target: An object with `__arrow_c_schema__`: the columns that they become.
        cast: As in `write_dataset`.
        missing: As in `write_dataset`.
        extra: As in `write_dataset`.

    Raises:
        InvalidInputError: They cannot; the message lists every difference.
    """

def commit_fragments(
    uri: str,
    staged: Sequence[bytes],
    *,
    mode: str = "append",
    read_version: int | None = None,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    stable_row_ids: bool = False,
    durability: str = "full",
    storage_options: Mapping[str, str] | None = None,
    expect: int | Expr | str | None = None,
    verify_checksums: bool = True,
    compat: str | None = None,
) -> WriteResult:
    """Make staged fragments part of a table: all in one version, or none.

    If the commit fails, the data files stay, so that the call can be repeated.

    A table has one dictionary per column: fragments whose dictionary is not the start of the joined one are rewritten, and
    their old files are removed after the commit.

    Args:
        uri: The table.
        staged: What `write_fragments` returned, in row order.
        mode: `"create"`, `"append"` or `"overwrite"`.
        read_version: The version that was the newest when the fragments were written; None for the newest now.
        commit_id: The same id commits once.
        properties: Kept in the transaction.
        stable_row_ids: For a new table: rows keep their id when they are rewritten.
        durability: `"full"` or `"none"`.
        storage_options: Credentials and settings of the store; never shown.
        expect: The version that must still be the newest, or SQL text that must be true for no row.
        verify_checksums: Whether reads of the returned version compare bytes with their checksums.
        compat: As in `write_dataset`.

    Raises:
        AlreadyExistsError: `mode="create"` and there is a table.
        InvalidInputError: There are no staged fragments, their schemas differ from each other or from that of the table, a
            column has more values in all dictionaries together than its keys can count, or they contradict an ordered
            dictionary.
        CorruptError: A staged fragment is not what `write_fragments` returned.
        ConflictError: Another writer committed a version that conflicts with this commit.
        CommitUnknownError: The store did not say whether it took the commit.
    """

@final
class CompactionResult:
    """The version that a compaction made, with counts."""

    @property
    def dataset(self) -> Dataset:
        """The version that the compaction made; the newest version if there was nothing to do."""
    @property
    def version(self) -> int:
        """The number of that version."""
    @property
    def fragments_removed(self) -> int:
        """Fragments that were rewritten."""
    @property
    def fragments_added(self) -> int:
        """Fragments that took their place."""
    @property
    def rows(self) -> int:
        """Rows rewritten."""
    @property
    def bytes(self) -> int:
        """Bytes of the new data files."""
    @property
    def attempts(self) -> int:
        """Attempts to commit; 0 if there was nothing to do, or the same `commit_id` was committed before."""
    @property
    def was_committed_before(self) -> bool:
        """True if an earlier call with the same `commit_id` committed, and this call changed nothing."""

@final
class CleanupResult:
    """What a cleanup removed, or would remove with `dry_run`."""

    @property
    def versions(self) -> list[int]:
        """Numbers of the removed versions, ascending."""
    @property
    def files(self) -> list[str]:
        """Paths of the removed files below the folder of the table, with manifests."""
    @property
    def bytes(self) -> int:
        """Size of these files in bytes."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class VerifyReport:
    """The result of a verification. It is true if nothing is wrong."""

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
    @property
    def version(self) -> int:
        """The version that was verified; 0 for a data file without its table."""
    @property
    def problems(self) -> list[tuple[str, str]]:
        """The problems, as pairs of a path and a reason."""
    @property
    def uncovered(self) -> list[str]:
        """Files without checksums, because another library wrote them."""
    @property
    def orphans(self) -> list[str]:
        """Files that no version names."""
    @property
    def files(self) -> int:
        """Data files read."""
    @property
    def rows(self) -> int:
        """Live rows."""
    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values.

        `ok`; `version`; `num_files` and `num_rows` that were read; `problems`, each with `path`, `check` and `reason`;
        `uncovered`, each with `path` and `reason`; `orphans`, paths. `check` is one of `manifest`, `transaction`, `flags`,
        `ids`, `counts`, `pages`, `values`, `statistics`, `deletions`, `row_ids`, `tags`.
        """
    def to_json(self) -> str:
        """Return `to_dict` as a JSON text."""
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class MergeResult:
    """The version that a merge made, with counts."""

    @property
    def dataset(self) -> Dataset:
        """The version that the merge made; the newest version if there was nothing to do."""
    @property
    def version(self) -> int:
        """The number of that version."""
    @property
    def inserted(self) -> int:
        """Rows inserted."""
    @property
    def updated(self) -> int:
        """Rows that got new values."""
    @property
    def deleted(self) -> int:
        """Rows deleted."""
    @property
    def bytes(self) -> int:
        """Bytes of the new data files."""
    @property
    def attempts(self) -> int:
        """Attempts to commit; 0 if there was nothing to do, or the same `commit_id` was committed before."""
    @property
    def was_committed_before(self) -> bool:
        """True if an earlier call with the same `commit_id` committed, and this call changed nothing."""

def merge_rows(
    dataset: Dataset,
    on: Sequence[str],
    rows: object,
    *,
    matched: tuple[str, Expr | str | None],
    not_matched: tuple[str, Expr | str | None],
    not_matched_by_source: tuple[str, Expr | str | None],
    memory_limit: int | None = None,
    progress: Callable[[int, int | None], object] | None = None,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
    expect: int | Expr | str | None = None,
    compat: str | None = None,
    cast: str = "exact",
    missing: str = "null",
    extra: str = "error",
) -> MergeResult:
    """Merge rows into the newest version by the columns of a key; see `pilum.Dataset.merge_insert`.

    `matched`, `not_matched` and `not_matched_by_source` are a word, and the condition as SQL text if the word takes one.
    """

def restore(
    dataset: Dataset,
    *,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
    expect: int | Expr | str | None = None,
    compat: str | None = None,
) -> WriteResult:
    """Make the rows and the schema of a version the newest, as a new version.

    Args:
        dataset: The version to restore.
        commit_id: The same id commits once.
        properties: Kept in the transaction.
        durability: `"full"` or `"none"`.
        retries: Attempts to commit after the first one; None for 1,000.
        expect: The version that must still be the newest, or SQL text that must be true for no row.
        compat: `"lossless"` allows a version that needs the extension; None leaves it to the table.

    Raises:
        ConflictError: Another writer committed a version that conflicts with this restore.
        CommitUnknownError: The store did not say whether it took the commit.
    """

def delete_rows(
    dataset: Dataset,
    predicate: Expr | str,
    *,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
    expect: int | Expr | str | None = None,
) -> WriteResult:
    """Delete the rows of the newest version for which SQL text is true; see `pilum.Dataset.delete`."""

def update_rows(
    dataset: Dataset,
    assignments: Sequence[tuple[str, Expr | str]],
    filter: Expr | str | None = None,
    *,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
    expect: int | Expr | str | None = None,
    compat: str | None = None,
) -> WriteResult:
    """Give columns new values, as SQL text over the old ones; see `pilum.Dataset.update`."""

def compact(
    dataset: Dataset,
    *,
    target_rows: int | None = None,
    target_bytes: int | None = None,
    max_deleted_fraction: float = 0.1,
    memory_limit: int | None = None,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
    expect: int | Expr | str | None = None,
) -> CompactionResult:
    """Rewrite small and much-deleted fragments; see `pilum.Dataset.compact`."""

def cleanup(
    dataset: Dataset,
    *,
    older_than_seconds: float,
    keep_versions: int | None = None,
    unverified_older_than_seconds: float,
    dry_run: bool = False,
) -> CleanupResult:
    """Remove old versions and what no version names; see `pilum.Dataset.cleanup`."""

def verify(dataset: Dataset, *, progress: Callable[[int, int | None], object] | None = None) -> VerifyReport:
    """Read and check every file of the version; see `pilum.Dataset.verify`."""

def verify_file(uri: str, *, storage_options: dict[str, str] | None = None) -> VerifyReport:
    """Read and check one data file without its table; see `pilum.verify_file`."""

def doctor(uri: str, *, rounds: int, storage_options: dict[str, str] | None = None) -> str:
    """Examine whether a store keeps the rules that tables rely on, as JSON; see `pilum.doctor`."""

@final
class Expr:
    """A condition or value over the columns of a table: `pilum.col("qty") > 3`.

    Operators and methods build the tree that the engine evaluates: comparisons,
    `& | ~`, `+ - * / // %`, `-x`, `abs(x)`, `x[..]`.
    A comparison is an expression and has no truth value: `and`, `or`, `not` and `if` raise `TypeError`. Other operands become
    literals as by `pilum.lit`. Expressions can be pickled.
    """

    def __new__(cls, sql: str) -> Expr:
        """Read SQL text.

        Raises:
            InvalidInputError: The text is no expression; the message names line and column.
        """

    @property
    def sql(self) -> str:
        """The expression as SQL text, which `Expr(..)` reads back."""

    def __bool__(self) -> NoReturn: ...
    def __iter__(self) -> NoReturn: ...
    def __contains__(self, item: object, /) -> NoReturn: ...
    def __reduce__(self) -> tuple[object, tuple[bytes]]: ...
    def __eq__(self, other: object, /) -> Expr: ...  # type: ignore[override]
    def __ne__(self, other: object, /) -> Expr: ...  # type: ignore[override]
    def __lt__(self, other: object, /) -> Expr: ...
    def __le__(self, other: object, /) -> Expr: ...
    def __gt__(self, other: object, /) -> Expr: ...
    def __ge__(self, other: object, /) -> Expr: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    __array_ufunc__: ClassVar[None]
    def __add__(self, value: object, /) -> Expr: ...
    def __radd__(self, value: object, /) -> Expr: ...
    def __sub__(self, value: object, /) -> Expr: ...
    def __rsub__(self, value: object, /) -> Expr: ...
    def __mul__(self, value: object, /) -> Expr: ...
    def __rmul__(self, value: object, /) -> Expr: ...
    def __truediv__(self, value: object, /) -> Expr: ...
    def __rtruediv__(self, value: object, /) -> Expr: ...
    def __floordiv__(self, value: object, /) -> Expr: ...
    def __rfloordiv__(self, value: object, /) -> Expr: ...
    def __mod__(self, value: object, /) -> Expr: ...
    def __rmod__(self, value: object, /) -> Expr: ...
    def __and__(self, value: object, /) -> Expr: ...
    def __rand__(self, value: object, /) -> Expr: ...
    def __or__(self, value: object, /) -> Expr: ...
    def __ror__(self, value: object, /) -> Expr: ...
    def __neg__(self) -> Expr: ...
    def __pos__(self) -> Expr: ...
    def __abs__(self) -> Expr: ...
    def __invert__(self) -> Expr: ...
    def __getitem__(self, key: object, /) -> Expr:
        """Return a member of a struct (`x["a"]`), the value of a key of a map, or an item of a list.

        Positions in lists count from 0, as in Python, and from the end if they are negative: `l[0]` here is `l[1]` in SQL.
        An item outside of the list is null.
        """

    def isin(self, values: object) -> Expr:
        """Return the condition that the value is one of `values`.

        Args:
            values: A list or another iterable of values; or an array of pyarrow, numpy, pandas or Polars.
                Floats of a list are decimal numbers as in SQL text; floats of an array have their exact value.
        """

    def is_null(self) -> Expr:
        """Return the condition that there is no value."""

    def is_not_null(self) -> Expr:
        """Return the condition that there is a value."""

    def is_nan(self) -> Expr:
        """Return the condition that the number is NaN."""

    def is_finite(self) -> Expr:
        """Return the condition that the number is neither NaN nor infinite."""

    def is_inf(self) -> Expr:
        """Return the condition that the number is infinite."""

    def is_true(self) -> Expr:
        """Return the condition that this condition is true: false where it is null."""

    def is_false(self) -> Expr:
        """Return the condition that this condition is false: false where it is null."""

    def is_distinct_from(self, other: object) -> Expr:
        """Return the condition that the values differ, with null as a value."""

    def between(self, low: object, high: object) -> Expr:
        """Return the condition that the value lies in `low..=high`."""

    def like(self, pattern: object, escape: str | None = None) -> Expr:
        """Return the condition that the text matches `pattern` (`%` any run, `_` any one character)."""

    def ilike(self, pattern: object, escape: str | None = None) -> Expr:
        """Return `like` without regard to case."""

    def similar_to(self, pattern: object) -> Expr:
        """Return the condition that a regular expression matches the whole text."""

    def regexp_matches(self, pattern: object) -> Expr:
        """Return the condition that a regular expression matches a part of the text."""

    def starts_with(self, prefix: object) -> Expr:
        """Return the condition that the text starts with `prefix`."""

    def ends_with(self, suffix: object) -> Expr:
        """Return the condition that the text ends with `suffix`."""

    def contains(self, part: object) -> Expr:
        """Return the condition that the text contains `part`."""

    def lower(self) -> Expr:
        """Return the text in lower case."""

    def upper(self) -> Expr:
        """Return the text in upper case."""

    def length(self) -> Expr:
        """Return the number of characters of a text, of bytes of a binary value, or of items of a list."""

    def trim(self, characters: object | None = None) -> Expr:
        """Return the text without spaces, or without the given characters, at both ends."""

    def ltrim(self, characters: object | None = None) -> Expr:
        """Return `trim` at the start alone."""

    def rtrim(self, characters: object | None = None) -> Expr:
        """Return `trim` at the end alone."""

    def replace(self, old: object, new: object) -> Expr:
        """Return the text with every `old` replaced by `new`."""

    def substring(self, start: object, length: object | None = None) -> Expr:
        """Return a part of the text; positions count from 1, or from the end if they are negative, as in SQL."""

    def position(self, part: object) -> Expr:
        """Return the position of `part` in the text, from 1; 0 if it is not there."""

    def concat(self, *others: object) -> Expr:
        """Return all texts, one after the other; nulls are left out."""

    def abs(self) -> Expr:
        """Return the absolute value."""

    def round(self, digits: object | None = None) -> Expr:
        """Return the number rounded to a whole number or to some digits; halves away from zero."""

    def trunc(self, digits: object | None = None) -> Expr:
        """Return the number without decimals, or with some digits at most."""

    def floor(self) -> Expr:
        """Return the greatest whole number that is not greater."""

    def ceil(self) -> Expr:
        """Return the least whole number that is not less."""

    def year(self) -> Expr:
        """Return the year of a date or timestamp."""

    def month(self) -> Expr:
        """Return the month, 1 to 12."""

    def day(self) -> Expr:
        """Return the day of the month, from 1."""

    def hour(self) -> Expr:
        """Return the hour, 0 to 23."""

    def minute(self) -> Expr:
        """Return the minute, 0 to 59."""

    def second(self) -> Expr:
        """Return the whole second, 0 to 59."""

    def date_trunc(self, unit: str) -> Expr:
        """Return the beginning of the `"day"`, `"month"` ... in which the date or timestamp lies."""

    def date_part(self, part: str) -> Expr:
        """Return a part of a date or timestamp: `"quarter"`, `"week"`, `"doy"`, `"epoch"` ..."""

    def list_contains(self, value: object) -> Expr:
        """Return the condition that a list holds a value."""

    def cast(self, type: object) -> Expr:
        """Convert to a type of pyarrow, or of a name in SQL; a value that does not fit is an error."""

    def try_cast(self, type: object) -> Expr:
        """Convert to a type of pyarrow, or of a name in SQL; a value that does not fit becomes null."""

def column(names: list[str]) -> Expr:
    """Return the column of a path; a dot in a single name leads into a struct unless a column has the whole name."""

def value(value: object) -> Expr:
    """Return a value as a literal, and an expression as it is; see `pilum.lit`."""

def exact(value: float) -> Expr:
    """Return a float with its exact value; by `value` it is the decimal number that it is written as."""

def first_valid(values: list[object]) -> Expr:
    """Return the first value that is not null."""

def case(branches: list[tuple[object, object]], otherwise: object | None = None) -> Expr:
    """Return the value of the first condition that is true; see `pilum.case_when`."""

def ieee(comparison: Expr) -> Expr:
    """Return a comparison in which NaN equals nothing and has no order."""

def divide(dividend: Expr, divisor: Expr) -> Expr:
    """Return the quotient of Arrow's kernels, which is whole if both are integers."""

def substrait(message: bytes) -> Expr:
    """Return an expression in Substrait.

    Args:
        message: The bytes of an `ExtendedExpression` with one expression.

    Raises:
        UnsupportedError: It calls a function that pilum does not have; the message names it.
        InvalidInputError: The bytes are not such a message.
    """

def expr_from_message(message: bytes) -> Expr:
    """Return an expression from the bytes in its pickle; see `pilum.expr.from_message`."""

def describe(dataset: Dataset) -> str:
    """Return what the version consists of, as JSON; see `pilum.Dataset.describe`."""

def statistics(dataset: Dataset) -> tuple[Batch, Batch]:
    """Return statistics of columns; see `pilum.Dataset.statistics`.

    Returns:
        A batch with a row for each leaf: `column`, `type`, `null_count`, `exact`, `bytes`. A batch with a column for each leaf:
        its first row is the minimum, its second row the maximum.
    """

def describe_file(uri: str, *, storage_options: dict[str, str] | None = None) -> str:
    """Return the layout of one data file, as JSON; see `pilum.describe_file`."""

# -- Columns ------------------------------------------------------------------------------------------------------------------

def add_columns(
    dataset: Dataset,
    columns: Sequence[tuple[str, Expr | str]],
    *,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
    compat: str | None = None,
) -> WriteResult:
    """Add columns computed by SQL text from those of the newest version; see `pilum.Dataset.add_columns`."""

def add_columns_from(
    dataset: Dataset,
    rows: Any,
    *,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
    compat: str | None = None,
    schema: object | None = None,
    cast: str = "exact",
    missing: str = "null",
    extra: str = "error",
) -> WriteResult:
    """Add columns whose values are given, one row for each row of this version; see `pilum.Dataset.add_columns`.

    Args:
        dataset: The version that the rows belong to.
        rows: As in `write_dataset`.
        commit_id: The same id commits once.
        properties: Kept in the transaction.
        durability: `"full"` or `"none"`.
        retries: Has no effect: the values belong to the rows of one version and are not written for another.
        compat: As in `write_dataset`.
        schema: As in `write_dataset`: the new columns.
        cast: As in `write_dataset`.
        missing: As in `write_dataset`.
        extra: As in `write_dataset`.

    Raises:
        InvalidInputError: The number of rows is not that of the version, or a name is taken.
        ConflictError: Rows were changed after this version.
    """

def drop_columns(
    dataset: Dataset,
    columns: Sequence[str],
    *,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
) -> WriteResult:
    """Drop columns of the newest version; see `pilum.Dataset.drop_columns`."""

def alter_columns(
    dataset: Dataset,
    changes: Sequence[tuple[str, str | None, Any, bool | None]],
    *,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
    compat: str | None = None,
) -> WriteResult:
    """Change columns of the newest version; see `pilum.Dataset.alter_columns`.

    Args:
        dataset: A version of the table.
        changes: Paths, each with a new name, an object with `__arrow_c_schema__` whose only field has the new type, and
            whether it may be null. None leaves what it stands for as it is.
        commit_id: The same id commits once.
        properties: Kept in the transaction.
        durability: `"full"` or `"none"`.
        retries: How often the statement runs again after a conflict; None for 10.
        compat: As in `write_dataset`.
    """

# -- Config, metadata, differences between versions --------------------------------------------------------------------------

def update_config(
    dataset: Dataset,
    map: str,
    edits: Sequence[tuple[str, str | None]],
    *,
    path: str | None = None,
    replace: bool = False,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    durability: str = "full",
    retries: int | None = None,
) -> WriteResult:
    """Set keys of a map of the table, or delete them where the value is None.

    Args:
        dataset: A version of the table.
        map: `"config"`, `"table"` or `"schema"` metadata, or that of the `"field"` at `path`.
        edits: Keys and values.
        path: The field's path.
        replace: Clear the map first.
        commit_id: The same id commits once.
        properties: Kept in the transaction.
        durability: `"full"` or `"none"`.
        retries: How often the statement runs again after a conflict; None for 10.
    """

def table_maps(dataset: Dataset) -> tuple[dict[str, str], dict[str, str]]:
    """Return the config of this version and the metadata of the table."""

@final
class VersionDiff:
    """The difference between two versions, from the older to the newer."""

    @property
    def from_version(self) -> int:
        """The older version."""
    @property
    def to_version(self) -> int:
        """The newer version."""
    @property
    def added(self) -> int:
        """Rows that only the newer has."""
    @property
    def removed(self) -> int:
        """Rows that only the older has."""
    @property
    def updated(self) -> int | None:
        """Rows of both that were given new values; None in tables without stable row ids."""
    @property
    def exact(self) -> bool:
        """True with stable row ids. Without them, rows that were updated or moved count as removed and added."""
    @property
    def added_columns(self) -> list[str]:
        """Columns that only the newer has, by path."""
    @property
    def removed_columns(self) -> list[str]:
        """Columns that only the older has, by path."""
    @property
    def altered_columns(self) -> list[str]:
        """Columns of both with another name, type or nullability, by their new path."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

def diff(dataset: Dataset, other: int | str) -> VersionDiff:
    """Return the difference between this version and another one; see `pilum.Dataset.diff`."""

def row_versions(dataset: Dataset, row_ids: Sequence[int]) -> Batch:
    """Return the versions that created and last updated rows; see `pilum.Dataset.row_versions`."""

@final
class SkiffFormat:
    """The schemas of the tables of a Skiff stream; `pilum.skiff.Format` for users."""

    @staticmethod
    def from_json(text: str, strings: str) -> SkiffFormat:
        """Read the attributes of an operation's format from JSON; `strings` is `"binary"` or `"text"`.

        Raises:
            InvalidInputError: A schema breaks a rule; `error_class` is `SchemaError`.
        """

    @staticmethod
    def from_yson(node: bytes, strings: str) -> SkiffFormat:
        """Read the same from YSON."""

    @staticmethod
    def from_arrow(schemas: Sequence[object]) -> SkiffFormat:
        """Return the format of tables with these Arrow schemas.

        Raises:
            UnsupportedError: Skiff cannot carry a column.
        """

    @staticmethod
    def from_table_schema(columns: bytes) -> SkiffFormat:
        """Return the format of one YTsaurus table, whose columns are JSON or YSON."""

    def with_schema(self, table: int, schema: object) -> SkiffFormat:
        """Return the format with other Arrow types for the columns that `schema` names.

        Raises:
            UnsupportedError: A wire type is not decoded to the type of its column.
        """

    def with_schemas(self, schemas: Sequence[object], numbers: Sequence[int]) -> SkiffFormat:
        """Return the format whose table `n` is decoded to `schemas[numbers[n]]`.

        Raises:
            UnsupportedError: A wire type is not decoded to the type of its column.
        """

    def same_schemas(self) -> list[int]:
        """Return for every table the number of the first table that shares its Arrow schema."""

    def schema(self, table: int) -> Schema:
        """Return the Arrow schema of a table."""

    def to_json(self) -> str:
        """Return the JSON form."""

    def to_yson(self, is_binary: bool) -> bytes:
        """Return the YSON form."""

    def explain(self) -> str:
        """Return a line per column."""

    def annotate(self, stream: bytes, num_more: int, max_rows: int) -> str:
        """Return the first rows of a stream, which goes on for `num_more` bytes behind `stream`, as an annotated hex dump."""

    def __len__(self) -> int:
        """Return the number of tables."""

    def __eq__(self, other: object, /) -> bool: ...

@final
class ReferenceCombiner:
    """Concatenates reference sets one after the other."""

    def __new__(
        cls, dimension: str, is_new: bool, skipped: list[str], location: str | None, options: dict[str, Any]
    ) -> ReferenceCombiner: ...
    def add(self, set: ReferenceSet) -> None:
        """Add a set behind those before it. Raises `InvalidInputError` when its arrays do not fit."""
    def finish(self) -> ReferenceSet:
        """Return the combined set."""

@final
class ReferenceSet:
    """A reference set, with the rules for what it may lead to. `pilum.references` wraps it."""

    @staticmethod
    def open(uri: str, options: dict[str, Any]) -> ReferenceSet:
        """Open the set at an address."""
    @staticmethod
    def from_document(document: bytes, location: str | None, options: dict[str, Any]) -> ReferenceSet:
        """Read a JSON document. Relative URLs start from the folder of `location`, or from the working directory."""
    @staticmethod
    def from_table(rows: Any, location: str | None, options: dict[str, Any]) -> ReferenceSet:
        """Return the set whose rows are exported: `key`, `path`, `offset`, `size`, `raw`."""
    @property
    def is_lazy(self) -> bool:
        """Whether the set is a folder of Parquet files."""
    @property
    def nbytes(self) -> int:
        """The bytes of memory that the set takes; 0 for a lazy one."""
    @property
    def record_size(self) -> int | None:
        """References per Parquet file of a lazy set."""
    def locate(self, keys: list[str]) -> list[Any]:
        """Return the stored values: bytes, `(url,)`, `(url, offset, size)`, JSON text without a meaning, None for no key."""
    def fetch(self, wanted: list[tuple[str, int | None, int | None]]) -> list[Any]:
        """Return the bytes of slices of values; exceptions, which are not raised; None for no key."""
    def file_size(self, key: str, url: str | None) -> int:
        """Return the size of the file that a URL names, in bytes."""
    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with a prefix, sorted."""
    def ordered_keys(self) -> list[str]:
        """Return all keys in the order of the document."""
    def children(self, folder: str) -> list[tuple[str, bool, int | None]]:
        """Return what lies below a folder: path, whether it is a key, stored size in bytes."""
    def urls(self) -> list[str]:
        """Return the distinct URLs."""
    def first_url(self) -> str | None:
        """Return the URL that came first."""
    def to_table(self, prefix: str) -> Batch:
        """Return the rows of the keys that begin with a prefix."""
    def to_json(self, version: int, generates: bool) -> bytes:
        """Return the JSON document of version 0 or 1.

        Args:
            version: 0 or 1.
            generates: Whether each array whose chunks lie at equal distances becomes one `gen` entry, in version 1 only.

        Raises:
            InvalidInputError: `generates` is true for version 0.
        """
    def write_json(self, uri: str, storage: dict[str, str] | None, document: bytes) -> None:
        """Write a document to an address."""
    def write_parquet(self, uri: str, record_size: int, storage: dict[str, str] | None) -> None:
        """Write a folder of Parquet files."""
    def changed(self, changes: list[tuple[str, Any]]) -> ReferenceSet:
        """Return a set with other values; None removes a key."""
    def rewritten(self, prefixes: list[tuple[str, str]]) -> tuple[ReferenceSet, int]:
        """Return a set whose URLs begin otherwise, and the number of distinct URLs that changed."""
    def subset(self, prefixes: list[str]) -> ReferenceSet:
        """Return the keys that begin with one of some prefixes."""
    def diff(self, other: ReferenceSet) -> tuple[list[str], list[str], list[str]]:
        """Return the keys that are added in the other set, removed from it, and changed."""
    def merged(self, other: ReferenceSet, on_conflict: str) -> ReferenceSet:
        """Return a set with the keys of both."""
    def __len__(self) -> int: ...

@final
class SkiffBatches:
    """A running decoder: an iterator of pairs of a table number and a batch."""

    def __new__(cls, source: object, format: SkiffFormat, options: Mapping[str, int | bool]) -> Self:
        """Decode bytes, or what a callable `source(size) -> bytes` gives.

        Args:
            source: Bytes, or a callable that returns at most `size` bytes, none at the end.
            format: The schemas.
            options: batch_rows, batch_bytes, keeps_order, cuts_at_key_switch, has_end_of_stream, validates_yson,
                special_as_null, rejects_duplicates, keeps_sparse_order, max_row_bytes.
        """

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[int, Batch]:
        """Return the next batch with the number of its table.

        Raises:
            CorruptError: The stream is malformed; all rows before the fault were returned.
            LimitError: A row is too large.
        """

    @property
    def num_special_decimals(self) -> int:
        """NaN and infinities of decimals that were given as nulls so far."""

@final
class SkiffEncoder:
    """An encoder of one stream."""

    def __new__(cls, format: SkiffFormat, tags: str, has_end_of_stream: bool, validates_yson: bool) -> Self:
        """Begin a stream; `tags` is `"output"` (every row tagged 0) or `"input"` (tagged by its table)."""

    def encode(self, table: int, rows: object, write: Callable[[bytes], int | None]) -> None:
        """Write all rows of an object that exports them.

        Raises:
            InvalidInputError: The schema refuses a value; the rows before it are written.
        """

    def finish(self, write: Callable[[bytes], int | None]) -> None:
        """Write what belongs to the end of the stream."""

    @property
    def num_rows(self) -> int:
        """Rows that were written."""

def yson_kernel(kernel: str, column: object, options: Mapping[str, str | int | bool]) -> Batch:
    """Apply a YSON kernel to the only column of a batch; `pilum.skiff` has a function for each.

    Args:
        kernel: `to_json`, `to_json_exact`, `from_json`, `get` or `canonical`.
        column: An object that exports one record batch of one column.
        options: path, is_binary, max_depth, max_bytes.

    Raises:
        InvalidInputError: A value is not one node; `row` says which.
        LimitError: A value has more bytes or levels than the limits, or the results are 2 GiB or more.
    """

def skiff_promote(batch: object, schema: object, keeps: bool) -> Batch:
    """Return a batch with keys of `$other_columns` as columns; `keeps` leaves values of another type in their map.

    Raises:
        InvalidInputError: A value has another type; `row` and `column` say where.
        UnsupportedError: There is no `$other_columns`, a name is taken, or a type is not one of those that keys become.
    """

# -- Kartothek ------------------------------------------------------------------------------------------------------------

@final
class KartothekWriter:
    """A Kartothek dataset, which need not exist yet, and what changes it."""

    def __new__(cls, uri: str, uuid: str, *, storage_options: dict[str, str] | None = None) -> KartothekWriter: ...
    @staticmethod
    def new_marker() -> str:
        """Return a name for a write, under which garbage collection spares its files."""

    def layout(self) -> tuple[list[str], list[str], list[tuple[str, Schema]]] | None:
        """Return partition keys, indexed columns and the schema of each table; None if there is no dataset."""

    def stage(
        self,
        tables: list[tuple[str, Any]],
        *,
        marker: str,
        label: str | None = None,
        partition_on: list[str],
        indices: list[str],
        sort_by: list[str],
        num_buckets: int | None = None,
        bucket_by: list[str],
        compression: str,
        row_group_rows: int | None = None,
        frame_rows: int,
        schema_only: bool = False,
    ) -> list[str]:
        """Write the files of some rows, and return a description of each partition."""

    def check(self, staged: list[str]) -> None:
        """Check that written partitions fit the dataset."""

    def discard(self, staged: list[str]) -> None:
        """Remove the files of partitions that are not committed."""

    def in_scope(self, delete_scope: list[Any]) -> list[str]:
        """Return the labels of the partitions in a scope of batches with one row."""

    def update(
        self,
        staged: list[str],
        *,
        removed: list[str],
        metadata: list[tuple[str, str]],
        partition_on: list[str] | None = None,
        indices: list[str] | None = None,
        existing: str,
        form: str | None = None,
        implicit: bool = False,
    ) -> tuple[int, int]:
        """Add and remove partitions in one commit, and return the number of the version and of the attempts."""

    def build_indices(self, columns: list[str]) -> tuple[int, int]:
        """Build indices of columns, and return the number of the version and of the attempts."""

    def versions(self) -> list[tuple[int, int, str]]:
        """Return number, microseconds since 1970 and operation of each version, oldest first."""

    def version_at(self, micros: int) -> int:
        """Return the number of the newest version that is not after a time, in microseconds since 1970."""

    def document_of(self, version: int) -> bytes:
        """Return the document of a version as JSON."""

    def restore(self, version: int) -> tuple[int, int]:
        """Make a version the newest, and return the number of the new version and of the attempts."""

    def collect_garbage(
        self, *, keep_versions: int, newer_than: int | None = None, dry_run: bool
    ) -> tuple[list[str], int, list[int], list[str]]:
        """Remove what nothing refers to, and return keys, bytes, versions, and keys that a write in progress keeps."""

    def delete(self) -> list[str]:
        """Remove the dataset, and return the keys."""

    def copy_to(self, target: KartothekWriter, metadata: list[tuple[str, str]]) -> None:
        """Copy the newest state to a dataset that does not exist."""

@final
class KartothekDataset:
    """A Kartothek dataset at the state of one metadata document."""

    @property
    def uuid(self) -> str:
        """The name of the dataset."""

    @property
    def form(self) -> str:
        """The form of the document: `"json"` or `"msgpack"`."""

    @property
    def document(self) -> bytes:
        """The document as it is stored."""

    @property
    def is_explicit(self) -> bool:
        """Whether the document lists the partitions."""

    @property
    def tables(self) -> list[str]:
        """The tables."""

    @property
    def partition_keys(self) -> list[str]:
        """The partition columns, in order."""

    @property
    def labels(self) -> list[str]:
        """The labels of all partitions, in the order in which they are read."""

    def metadata(self) -> str:
        """Return the user metadata as JSON text."""

    def files(self, label: str) -> list[tuple[str, str]] | None:
        """Return table and key of each file of a partition; None if there is no such partition."""

    def indices(self) -> list[tuple[str, str | None]]:
        """Return the columns with an index, and the key of each file; None for one in the document."""

    def index(self, column: str) -> Batch:
        """Return the values of an index, and in `partition` the labels of each."""

    def keys(self) -> tuple[Batch, str | None]:
        """Return the labels and partition keys of all partitions, and the first label with a slash in a value."""

    def schema(self, table: str) -> Schema:
        """Return the columns of a table."""

    def predicate(self, table: str, predicates: list[list[tuple[str, str, Any]]]) -> Expr:
        """Return a predicate of tuples as an expression with Kartothek's meaning."""

    def dispatch(self, table: str, filter: Expr | str | None, exact: bool = True) -> list[str]:
        """Return the labels of the partitions that may have a row that passes."""

    def count_rows(self, table: str, filter: Expr | str | None = None, labels: list[str] | None = None) -> int:
        """Return the number of rows that pass."""

    def scan(
        self,
        table: str,
        columns: Sequence[str] | Mapping[str, Expr | str] | None = None,
        filter: Expr | str | None = None,
        labels: list[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
        memory_limit: int | None = None,
    ) -> Scanner[ParquetScanMetrics]:
        """Plan a read; the arguments are those of `pilum.kartothek.Dataset.scanner`."""

    def document_of(self, labels: list[str]) -> bytes:
        """Return a JSON document with some of the partitions, for a task."""

def kartothek_open(
    uri: str,
    uuid: str,
    *,
    slashes: str = "join",
    timestamp_unit: str = "ns",
    document: bytes | None = None,
    form: str = "json",
    storage_options: Mapping[str, str] | None = None,
) -> KartothekDataset:
    """Open a dataset; with a document, at the state that it describes."""

# -- Parquet --------------------------------------------------------------------------------------------------------------

@final
class ParquetScanMetrics:
    """Counts of one run of a scan of Parquet files, so far if it still runs."""

    @property
    def files_total(self) -> int:
        """Files that the scan came to."""

    @property
    def files_pruned(self) -> int:
        """Files of which no row was read, because keys or statistics exclude every row."""

    @property
    def row_groups_total(self) -> int:
        """Row groups of these files."""

    @property
    def row_groups_pruned(self) -> int:
        """Row groups that were not read, because their statistics exclude every row."""

    @property
    def pages_total(self) -> int:
        """Pages of the columns of the filter with statistics, in row groups that were not pruned."""

    @property
    def pages_pruned(self) -> int:
        """Pages of these that were not read, because their statistics exclude every row."""

    @property
    def rows_scanned(self) -> int:
        """Rows that statistics did not exclude."""

    @property
    def rows_returned(self) -> int:
        """Rows of the result."""

    @property
    def requests(self) -> int:
        """Requests to the stores during the run, by all that reads through the same dataset."""

    @property
    def bytes_read(self) -> int:
        """Bytes that these requests read."""

    @property
    def peak_bytes(self) -> int:
        """The most bytes at once of batches that were decoded and not yet released, with pages of remote files."""

    @property
    def seconds(self) -> float:
        """Seconds from the start to the last batch."""

    def __eq__(self, value: object, /) -> bool: ...

@final
class ParquetDataset:
    """Parquet files that are read as one table."""

    @property
    def schema(self) -> Schema:
        """The columns: those of the files, then the hive keys."""

    @property
    def num_rows(self) -> int:
        """Rows of all files."""

    def files(self) -> list[tuple[str, int, int]]:
        """Return path, rows and bytes of each file."""

    def count_rows(self, filter: Expr | str | None = None) -> int:
        """Return the number of rows, or of those for which a condition is true."""

    def take(self, indices: list[Any], columns: Sequence[str] | None = None) -> Batch:
        """Return rows by their positions, in the order of `indices`, repeats kept."""

    def scan(
        self,
        columns: Sequence[str] | Mapping[str, Expr | str] | None = None,
        filter: Expr | str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
        memory_limit: int | None = None,
    ) -> Scanner[ParquetScanMetrics]:
        """Plan a read; the arguments are those of `pilum.parquet.Dataset.scanner`."""

    def __arrow_c_schema__(self) -> object:
        """Export the schema as a capsule `arrow_schema`."""

def parquet_open(
    uris: list[str],
    *,
    hive: bool = True,
    key_types: object | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> ParquetDataset:
    """Open Parquet files and folders as one table; `key_types` is a capsule `arrow_schema`."""

def parquet_inspect(uri: str, *, pages: bool = True, storage_options: Mapping[str, str] | None = None) -> str:
    """Describe each file at an address, as a JSON list."""

def parquet_write(
    rows: object,
    uri: str,
    *,
    row_group_rows: int | None = None,
    row_group_bytes: int | None = None,
    page_bytes: int | None = None,
    page_rows: int | None = None,
    compression: str | None = None,
    compression_level: int | None = None,
    dictionary: bool = True,
    page_index: bool = True,
    page_checksums: bool = True,
    data_page_v2: bool = False,
    bloom_filters: Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
    max_rows_per_file: int | None = None,
    partition_by: Sequence[str] | None = None,
    durability: str = "full",
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int, int | None], Any] | None = None,
) -> tuple[str, list[tuple[str, int, int, int]]]:
    """Write rows to one file or to a folder. Returns the root, and path, rows, row groups and bytes of each file."""
