"""Reading one version of a table: scans, takes, counts, and the frames of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pilum.arguments import ScanArguments, checked, names
from pilum.exchange import as_positions
from pilum.lazy import lazy_frame
from pilum.opened import Opened
from pilum.scanner import Scanner, ScanOptions
from pilum.sources import scanned

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from typing_extensions import Unpack

    from pilum.pyarrow_dataset import TableDataset


class Reading(Opened):
    """The part of a `Dataset` that reads rows."""

    __slots__ = ()

    @checked(ScanArguments)
    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        filter: Any = None,  # noqa: A002 - the word that users know
        **options: Unpack[ScanArguments],
    ) -> Scanner:
        """Plan a read. Nothing is read before the scanner runs.

        Args:
            columns: Names of columns in the order of the result (`"a.b"` is member `b` of the struct `a`), or a dict of names
                and expressions. None reads all columns.
            filter: SQL text, `pilum.col(..)`, a list of (column, operator, value) tuples, a `pyarrow.compute.Expression`
                (with pyarrow's meaning), or the `bytes` of a Substrait `ExtendedExpression`. The result has the rows for which
                it is true; rows for which it is false or null are left out.
            limit: Rows of the result at most. None returns all.
            offset: Rows of the result that are left out at its start.
            batch_rows: Rows of a batch at most.
            batch_bytes: Bytes of a batch, about; 8 MiB by default.
            with_row_id: Add the column `_rowid` (uint64).
            with_row_address: Add the column `_rowaddr` (uint64): the fragment's id times 2^32, plus the row's place in it.
            fragments: Ids of the fragments to read. None reads all.
            ordered: False returns batches as they are ready; True in the order of rows.
            memory_limit: Bytes that the scan may hold at once.

        Raises:
            InvalidInputError: There is no such column or fragment, or the filter does not fit the columns.
            LimitError: `memory_limit` is too little for any scan.

        Example:
            `scanner = ds.scanner(["id"], "x IS NOT NULL", limit=10)`
        """
        planned = ScanOptions.of(columns, filter, schema=lambda: self.schema, **options)
        return Scanner(self._version, self._where, planned)

    to_table = scanned(scanner, Scanner.to_table, 'table = ds.to_table({"id": "id", "big": "id > 1"})')
    to_batches = scanned(
        scanner, Scanner.to_batches, "sizes = [batch.num_rows for batch in ds.to_batches(batch_rows=1000)]"
    )
    to_reader = scanned(scanner, Scanner.to_reader, 'reader = ds.to_reader(["id"])')
    to_pandas = scanned(scanner, Scanner.to_pandas, 'frame = ds.to_pandas(filter="id > 1")')
    to_polars = scanned(scanner, Scanner.to_polars, 'frame = ds.to_polars(filter="id > 1")')

    @checked()
    def to_pyarrow(self) -> TableDataset:
        """Return this version as a `pyarrow.dataset.Dataset`, for libraries that push columns and filters into one.

        DuckDB reads it by the name of the variable (`duckdb.sql("SELECT .. FROM rows WHERE ..")`), Polars by
        `polars.scan_pyarrow_dataset`, and pyarrow by all methods of its datasets. Filters have pyarrow's meaning.

        Example:
            `events = ds.to_pyarrow(); events.to_table(columns=["id"])`
        """
        from pilum.pyarrow_dataset import TableDataset

        return TableDataset(self._at(self._version))

    @checked(columns=names)
    def lazy(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """Return this version as a Polars LazyFrame. Nothing is read before the query is collected.

        Polars pushes the columns that a query uses, the number of rows, and the part of its predicates that the engine knows
        into the scan, which leaves out pages and rows by them. Then Polars evaluates the predicates itself, so the result is
        that of Polars.

        Args:
            columns: Names of the columns that the frame has. None for all: columns that Polars cannot hold, such as decimal256,
                are left out by naming the others.

        Raises:
            UnsupportedError: Polars cannot hold a column; the message has its name and type.
            InvalidInputError: There is no such column.

        Example:
            `frame = ds.lazy(columns=["id"]).collect()`
        """
        return lazy_frame(self._at(self._version), columns)

    @checked(columns=names)
    def take_rows(self, row_ids: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows by their id, in the order of `row_ids`, repeats kept.

        Args:
            row_ids: Values of the column `_rowid`, as any sequence of integers. In a table without stable row ids they are
                addresses: values of `_rowaddr`.
            columns: Names to read, in this order. None reads all columns.

        Raises:
            InvalidInputError: No row has such an id, or there is no such column; the message names it.

        Example:
            `ids = ds.to_table(with_row_id=True).column("_rowid"); table = ds.take_rows(ids)`
        """
        import pyarrow as pa

        return pa.table(self._version.take_rows(as_positions(row_ids), None if columns is None else list(columns)))
