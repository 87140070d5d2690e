"""Reads of any source of rows, a table or files: planned scans, the forms in which rows are returned, counts and takes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pilum.arguments import checked, count, names
from pilum.conditions import named
from pilum.exchange import as_positions
from pilum.lazy import refuse_foreign

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from pilum import _pilum

P = ParamSpec("P")
S = TypeVar("S", bound="RowScan")
T = TypeVar("T")


class RowScan:
    """A planned read. It can run any number of times, and returns its rows in any form.

    Iterating over it yields record batches. It exports `__arrow_c_stream__`, so Polars, DuckDB and pyarrow read it as it is.
    """

    __slots__ = ()

    @property
    def _plan(self) -> _pilum.Scanner[Any]:
        """The plan in the engine."""
        raise NotImplementedError

    @property
    def _shown(self) -> str:
        """The address of the source, for messages."""
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow C stream."""
        return self._plan.__arrow_c_stream__(requested_schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns that the scan yields."""
        import pyarrow as pa

        return pa.schema(self._plan.schema)

    @checked()
    def count_rows(self) -> int:
        """Return how many rows the scan yields. The engine reads no more than it needs to count them.

        Example:
            `ds.scanner(filter="id > 1", limit=2).count_rows()`
        """
        return self._plan.count_rows()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    @checked()
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches. Closing the iterator ends the scan.

        Example:
            `num_rows = sum(batch.num_rows for batch in ds.scanner().to_batches())`
        """
        import pyarrow as pa

        for batch in self._plan:
            yield pa.record_batch(batch)

    @checked()
    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a `pyarrow.RecordBatchReader`, which reads when a batch is asked for.

        Example:
            `reader = ds.scanner(["id"]).to_reader()`
        """
        import pyarrow as pa

        # An Arrow C stream would turn errors into pyarrow's: a Python iterator keeps their classes.
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    @checked()
    def to_table(self) -> pa.Table:
        """Return the rows as a `pyarrow.Table`.

        Example:
            `table = ds.scanner(["id"], limit=2).to_table()`
        """
        import pyarrow as pa

        return pa.Table.from_batches(self.to_batches(), schema=self.schema)

    @checked()
    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame.

        Example:
            `frame = ds.scanner(["id"]).to_pandas()`
        """
        frame: pd.DataFrame = self.to_table().to_pandas()
        return frame

    @checked()
    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a Polars frame.

        Raises:
            UnsupportedError: Polars cannot hold a column; the message has its name and type. Nothing is read.

        Example:
            `frame = ds.scanner(["id"]).to_polars()`
        """
        import polars as pl

        refuse_foreign(self.schema, self._shown, "columns=[..]")
        frame = pl.from_arrow(self.to_table())
        return frame.to_frame() if isinstance(frame, pl.Series) else frame


class FileScan(RowScan):
    """A planned read of Parquet files."""

    __slots__ = ("_planned", "_source_shown")

    def __init__(self, planned: _pilum.Scanner[_pilum.ParquetScanMetrics], shown: str) -> None:
        self._planned = planned
        self._source_shown = shown

    @property
    def _plan(self) -> _pilum.Scanner[_pilum.ParquetScanMetrics]:
        return self._planned

    @property
    def _shown(self) -> str:
        return self._source_shown

    @property
    def metrics(self) -> _pilum.ParquetScanMetrics | None:
        """What the last run did: files, row groups and pages left out by statistics, rows, requests, bytes and seconds.

        None before the first run.
        """
        return self._planned.metrics

    @checked()
    def explain(self) -> str:
        """Return the plan as text: what is read, the filter as the engine reads it, the columns that are read."""
        return self._planned.explain()


class PlannedRows:
    """The rows of a scan for a writer: errors keep their classes, which they would lose in a C stream.

    Args:
        scan: The scan, which begins here.
        num_rows: The number of rows of the scan; None if it is not known before the scan ends.
    """

    __slots__ = ("_batches", "_planned", "num_rows", "schema")

    def __init__(self, scan: RowScan, num_rows: int | None) -> None:
        self._planned = scan._plan  # noqa: SLF001 - `RowScan` is of this module
        self._batches = iter(self._planned)
        self.schema = self._planned.schema
        self.num_rows = num_rows

    def read_next_batch(self) -> _pilum.Batch:
        """Return the next batch; `StopIteration` is raised at the end."""
        return next(self._batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow C stream."""
        return self._planned.__arrow_c_stream__(requested_schema)


def scanned(scanner: Callable[P, S], result: Callable[[S], T], example: str) -> Callable[P, T]:
    """Return a method of a source that plans a scan and returns its rows in one form.

    Args:
        scanner: The method that plans. The new method has its arguments.
        result: The method of the scan that returns the rows. The new method has its name and the first line of its docstring.
        example: A call of the new method, for its docstring.
    """
    name = result.__name__

    @functools.wraps(scanner)
    def call(source: Any, *arguments: Any, **options: Any) -> T:
        return result(source.scanner(*arguments, **options))

    call.__name__ = name
    call.__qualname__ = f"{scanner.__qualname__.rpartition('.')[0]}.{name}"
    first_line = (inspect.getdoc(result) or "").partition("\n")[0]
    call.__doc__ = f"{first_line}\n\nThe arguments are those of `scanner`.\n\nExample:\n    `{example}`\n"
    returned = inspect.signature(result).return_annotation
    signature = inspect.signature(scanner).replace(return_annotation=returned)
    call.__signature__ = signature  # type: ignore[attr-defined]
    method: Any = checked()(call)
    typed: Callable[P, T] = method
    return typed


class RowSource:
    """A source of rows, such as a table or Parquet files, in which each row has a position, counted from 0."""

    __slots__ = ()

    scanner: Callable[..., RowScan]

    @property
    def schema(self) -> pa.Schema:
        """The columns: names, types, nullability and metadata."""
        import pyarrow as pa

        return pa.schema(self._source.schema)

    @property
    def _source(self) -> _pilum.Dataset | _pilum.ParquetDataset:
        """The source as the engine opened it."""
        raise NotImplementedError

    @checked(n=count)
    def head(self, n: int = 5) -> pa.Table:
        """Return the first `n` rows.

        Example:
            `table = ds.head(3)`
        """
        return self.scanner(limit=n).to_table()

    @checked()
    def count_rows(self, filter: Any = None) -> int:  # noqa: A002 - the word that users know
        """Return the number of rows, or of those for which a filter is true.

        Args:
            filter: As in `scanner`. None counts all rows, from metadata alone.

        Example:
            `ds.count_rows("id > 1")`
        """
        return self._source.count_rows(named("filter", filter, lambda: self.schema))

    @checked(columns=names)
    def take(self, indices: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows by their position, in the order of `indices`, repeats kept.

        Args:
            indices: Positions from 0, as any sequence of integers.
            columns: Names to read, in this order. None reads all columns.

        Raises:
            InvalidInputError: A position is beyond the last row, or there is no such column; the message names it.

        Example:
            `table = ds.take([2, 0, 0], ["id"])`
        """
        import pyarrow as pa

        return pa.table(self._source.take(as_positions(indices), None if columns is None else list(columns)))

    def __len__(self) -> int:
        return self.count_rows()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all rows as an Arrow C stream, so that other libraries read the source as it is."""
        return self.scanner().__arrow_c_stream__(requested_schema)
