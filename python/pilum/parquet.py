"""Parquet files: read where they are, imported into a table, written, and described.

    import pilum

    files = pilum.parquet.dataset("flights/")                       # files, folders, hive partitions
    files.to_table(columns=["carrier"], filter="dep_delay > 60")    # row groups and pages are left out by their statistics
    files.take([3, 1_000_000])                                      # only the pages of these rows are decompressed
    pilum.parquet.import_("flights/", "flights.pilum")              # one commit
    pilum.parquet.export(pilum.dataset("flights.pilum"), "out.parquet")
    pilum.parquet.inspect("out.parquet")                            # schema, row groups, pages, statistics, checksums

A file is untrusted: its lengths are checked before memory is asked for, and the CRC-32 of a page is verified where it has one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import FileArguments, ReadArguments, checked, names, pairs, word
from pilum.dataset import Written
from pilum.exceptions import InvalidInputError
from pilum.exchange import rows_of
from pilum.location import Location, StorageOptions
from pilum.progress import Progress, reporting
from pilum.scanner import ScanOptions
from pilum.sources import FileScan, PlannedRows, RowScan, RowSource, scanned
from pilum.writing import Mode, write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

Uris = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One address or several: files, or folders with all files in them."""

Compression = Literal["zstd", "snappy", "lz4", "gzip", "brotli", "none"]
"""Compression of pages."""

__all__ = [
    "Compression",
    "Dataset",
    "Exported",
    "File",
    "Scanner",
    "dataset",
    "export",
    "import_",
    "inspect",
]


class ImportArguments(FileArguments, total=False):
    """Options of an import that are those of `pilum.write_dataset`."""

    stable_row_ids: bool
    properties: Mapping[str, str] | None
    commit_id: str | None
    expect: Any


@dataclass(frozen=True, slots=True)
class File:
    """One file: its address, and the rows and bytes that it has."""

    path: str
    num_rows: int
    num_bytes: int
    num_row_groups: int | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote: the folder, and the files with their paths below it."""

    root: str
    files: tuple[File, ...]

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.num_rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.num_bytes for file in self.files)


def _locations(uris: Uris, storage_options: StorageOptions | None) -> tuple[list[str], dict[str, str] | None]:
    given = [uris] if isinstance(uris, (str, os.PathLike)) else list(uris)
    if not given:
        raise InvalidInputError("uri_or_uris: there is none; pass at least one file or folder")
    # A slash at the end says that an address is a folder; making the path absolute would remove it.
    places = [Location.of(uri, storage_options) for uri in given]
    return [place.uri for place in places], places[0].options()


@checked()
def dataset(
    uri_or_uris: Uris,
    *,
    hive: bool = True,
    key_types: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
) -> Dataset:
    """Open Parquet files as one table, where they are. Every footer is read, and no row.

    Args:
        uri_or_uris: Files and folders. A folder stands for all files in it at any depth, sorted by path; names that begin with
            `_` or `.` are not data. The rows are in the order of the addresses.
        hive: Folders named `key=value` are columns, after those of the files. A key is int64 or date32 if all its values are
            written so, else string; `__HIVE_DEFAULT_PARTITION__` is null.
        key_types: Types of keys, by name, as pyarrow types.
        storage_options: Credentials and settings of the store, as in `pilum.dataset`.

    Raises:
        NotFoundError: There is nothing at an address.
        CorruptError: A file is no Parquet file, or damaged; the message names it.
        UnsupportedError: A file is encrypted, or uses something that this reader lacks.
        InvalidInputError: Files of different keys, or a key that is a column too.
    """
    addresses, options = _locations(uri_or_uris, storage_options)
    types = None
    if key_types is not None:
        import pyarrow as pa

        types = pa.schema(dict(key_types)).__arrow_c_schema__()
    return Dataset(_pilum.parquet_open(addresses, hive=hive, key_types=types, storage_options=options), addresses)


class Scanner(FileScan):
    """A planned read of Parquet files, made by `Dataset.scanner`. It can run any number of times."""

    __slots__ = ()


class Dataset(RowSource):
    """Parquet files that are read as one table. The files must not change while the dataset is in use.

    `count_rows` without a filter is answered by the footers. `take` decompresses only pages that have one of the rows; where a
    local file has no offset index, the first call walks over its page headers once.
    """

    __slots__ = ("_opened", "_uris")

    def __init__(self, opened: _pilum.ParquetDataset, uris: Sequence[str]) -> None:
        self._opened = opened
        self._uris = tuple(uris)

    def __repr__(self) -> str:
        return f"<pilum.parquet.Dataset of {len(self.files)} files, {self._opened.num_rows:,} rows>"

    @property
    def _source(self) -> _pilum.ParquetDataset:
        return self._opened

    @property
    def files(self) -> list[File]:
        """The files in the order of their rows."""
        return [File(path, rows, size) for path, rows, size in self._opened.files()]

    @checked(ReadArguments)
    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        filter: Any = None,  # noqa: A002 - the word that users know
        **options: Unpack[ReadArguments],
    ) -> Scanner:
        """Plan a read. Nothing is read before the scanner runs.

        Args:
            columns: Names of columns in the order of the result (`"a.b"` is member `b` of the struct `a`), or a dict of names
                and expressions. None reads all columns.
            filter: As in `pilum.Dataset.scanner`. Files, row groups and pages that cannot have a row for which it is true are
                not read.
            limit: Rows of the result at most. None returns all.
            offset: Rows of the result that are left out at its start.
            batch_rows: Rows of a batch at most.
            batch_bytes: Bytes of a batch, about; 8 MiB by default.
            memory_limit: Bytes that the scan may hold at once.

        Raises:
            InvalidInputError: There is no such column, or the filter does not fit the columns.
        """
        planned = ScanOptions.of(columns, filter, schema=lambda: self.schema, **options)
        return Scanner(self._opened.scan(**planned.of_any_source()), Location(self._uris[0]).shown)

    to_table = scanned(scanner, Scanner.to_table, 'table = files.to_table(filter="dep_delay > 60")')
    to_batches = scanned(scanner, Scanner.to_batches, "sizes = [batch.num_rows for batch in files.to_batches()]")
    to_reader = scanned(scanner, Scanner.to_reader, 'reader = files.to_reader(["carrier"])')
    to_pandas = scanned(scanner, Scanner.to_pandas, "frame = files.to_pandas(limit=10)")
    to_polars = scanned(scanner, Scanner.to_polars, "frame = files.to_polars(limit=10)")


@checked(ImportArguments)
def import_(
    uri_or_uris: Uris,
    table_uri: str | os.PathLike[str],
    *,
    columns: Sequence[str] | Mapping[str, Any] | None = None,
    filter: Any = None,  # noqa: A002
    mode: Mode = "create",
    hive: bool = True,
    key_types: Mapping[str, Any] | None = None,
    memory_limit: int | None = None,
    storage_options: StorageOptions | None = None,
    table_storage_options: StorageOptions | None = None,
    progress: bool | Progress | None = None,
    **options: Unpack[ImportArguments],
) -> Written:
    """Copy the rows of Parquet files into a table, as one version of it.

    Row groups are decoded by several threads while other batches are written. Memory is bounded by a few batches.

    Args:
        uri_or_uris: Files and folders, as in `dataset`.
        table_uri: The table, as in `pilum.write_dataset`.
        columns: Names, or a dict of names and expressions, as in `Dataset.scanner`. None copies all columns.
        filter: Copy only rows for which this is true.
        mode: As in `pilum.write_dataset`: `"create"`, `"append"` or `"overwrite"`.
        hive: As in `dataset`.
        key_types: As in `dataset`.
        memory_limit: Bytes of decoded batches that may wait to be written.
        storage_options: Credentials and settings of the store of the files.
        table_storage_options: Those of the store of the table; by default those of the files.
        progress: True for a bar (needs tqdm), or a callable `(done_rows, total_rows | None)`.
        **options: As in `pilum.write_dataset`: `commit_id`, `properties`, `expect`, `compat`, `durability`, `cast`, `missing`,
            `extra`, `stable_row_ids`, `max_rows_per_file`, `max_rows_per_page`, `max_bytes_per_file`.

    Returns:
        The new version, with `rows`, `bytes`, `attempts` and `was_committed_before`.

    Raises:
        CorruptError: A file is damaged. The table is as it was.
        AlreadyExistsError: `mode="create"` and there is a table.
        InvalidInputError: The columns do not fit the table; the message names them.
    """
    files = dataset(uri_or_uris, hive=hive, key_types=key_types, storage_options=storage_options)
    scanner = files.scanner(columns, filter, memory_limit=memory_limit)
    where = Location.of(table_uri, storage_options if table_storage_options is None else table_storage_options)
    rows = PlannedRows(scanner, None if filter is not None else len(files))
    return Written(write_rows(rows, where, mode=mode, progress=progress, **options), where)


@checked(
    bloom_filters=names,
    partition_by=names,
    metadata=pairs,
    compression=word("zstd", "snappy", "lz4", "gzip", "brotli", "none"),
)
def export(
    ds: Any,
    uri: str | os.PathLike[str],
    *,
    schema: pa.Schema | None = None,
    row_group_rows: int = 1_048_576,
    row_group_bytes: int = 128 << 20,
    page_bytes: int = 8 << 10,
    page_rows: int = 20_000,
    compression: Compression = "zstd",
    compression_level: int | None = None,
    dictionary: bool = True,
    page_index: bool = True,
    page_checksums: bool = True,
    data_page_v2: bool = False,
    bloom_filters: Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
    max_rows_per_file: int | None = None,
    partition_by: Sequence[str] | None = None,
    durability: Literal["full", "none"] = "full",
    storage_options: StorageOptions | None = None,
    progress: bool | Progress | None = None,
) -> Exported:
    """Write rows to one Parquet file, or to the files of a new folder.

    A file appears when it is complete. If an export to a folder fails, the files that it wrote are removed.

    Args:
        ds: A `pilum.Dataset`, a scanner, or anything that `pilum.write_dataset` takes.
        uri: A file if it ends in `.parquet`, `.parq` or `.pq` and the rows are not divided, else a folder without files.
        schema: The schema to write; as in `pilum.write_dataset`.
        row_group_rows: Rows of a row group.
        row_group_bytes: A row group is ended when it has about so many encoded bytes.
        page_bytes: Bytes of a page before compression. Small pages make single rows cheap.
        page_rows: Rows of a page.
        compression: Compression of pages.
        compression_level: Its level, for zstd, gzip and brotli.
        dictionary: Replace values that repeat by numbers of a dictionary.
        page_index: Write bounds and places of pages, so that readers skip pages.
        page_checksums: Write a CRC-32 into each page header.
        data_page_v2: Write data pages of version 2.
        bloom_filters: Columns with a Bloom filter, by path.
        metadata: Further key-value metadata of the footer.
        max_rows_per_file: Begin a new file after so many rows.
        partition_by: Columns whose values become folders `key=value`: integers, strings, dates, booleans.
        durability: `"full"` returns when the files would survive a power failure.
        storage_options: Credentials and settings of the store.
        progress: True for a bar (needs tqdm), or a callable `(done_rows, total_rows | None)`.

    Returns:
        The files with their rows, row groups and bytes.

    Raises:
        AlreadyExistsError: The file is there, or the folder has files.
        InvalidInputError: A type or a value cannot be written; the message names the column.
    """
    where = Location.of(uri, storage_options)
    rows = ds.scanner() if hasattr(ds, "scanner") and hasattr(ds, "version") else ds
    if isinstance(rows, RowScan) and schema is None:
        rows = PlannedRows(rows, ds.count_rows() if progress and hasattr(ds, "version") else None)
    with rows_of(rows, schema) as stream, reporting(progress, f"writing {where.shown}") as report:
        root, files = _pilum.parquet_write(
            stream,
            where.uri,
            row_group_rows=row_group_rows,
            row_group_bytes=row_group_bytes,
            page_bytes=page_bytes,
            page_rows=page_rows,
            compression=compression,
            compression_level=compression_level,
            dictionary=dictionary,
            page_index=page_index,
            page_checksums=page_checksums,
            data_page_v2=data_page_v2,
            bloom_filters=None if bloom_filters is None else list(bloom_filters),
            metadata=None if metadata is None else dict(metadata),
            max_rows_per_file=max_rows_per_file,
            partition_by=None if partition_by is None else list(partition_by),
            durability=durability,
            storage_options=where.options(),
            progress=report,
        )
    return Exported(root, tuple(File(path, num_rows, size, groups) for path, num_rows, groups, size in files))


@checked()
def inspect(
    uri: str | os.PathLike[str], *, pages: bool = True, storage_options: StorageOptions | None = None
) -> dict[str, Any]:
    """Describe one Parquet file: everything that is in it but the values.

    Args:
        uri: The file.
        pages: Read every page header and verify every checksum. Without it only the footer and the page index are read.
        storage_options: Credentials and settings of the store.

    Returns:
        A dict: `schema` (a tree with the definition and repetition level of each node), `arrow_schema`, `columns` (the leaves
        with their maximum levels), `key_value_metadata`, `created_by`, `num_rows`, and `row_groups`. A row group has `columns`,
        one dict for each chunk: encodings, compression, sizes, offsets, statistics, Bloom filter, column and offset index,
        level histograms, and `pages` with their kinds, encodings, sizes, values and checksums: `"right"`, `"wrong"`, `"none"`.

    Raises:
        CorruptError: The file is no Parquet file, or its footer, index or a page header is damaged.
    """
    where = Location.of(uri, storage_options)
    found: list[dict[str, Any]] = json.loads(
        _pilum.parquet_inspect(where.uri, pages=pages, storage_options=where.options())
    )
    if len(found) != 1:
        raise InvalidInputError(f"{where.shown}: it is a folder of {len(found)} files; inspect one of them")
    return found[0]
