"""A version of a table as a `pyarrow.dataset.Dataset`: DuckDB, Polars and pyarrow push columns, filters and limits into it.

The methods of `pyarrow.dataset.Dataset` are written in Python here, and read with the engine. Functions of Arrow's C++ library
that read a dataset without calling a method of it would see the C++ object below, and that has no rows: it is the union of one
file that does not exist. They raise an error that names this class and never return a wrong result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from pilum.arguments import count, shown, unknown_argument
from pilum.conditions import named
from pilum.exceptions import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pilum.dataset import Dataset
    from pilum.scanner import Scanner

_UNUSED = frozenset(
    {
        "batch_readahead",
        "cache_metadata",
        "fragment_readahead",
        "fragment_scan_options",
        "memory_pool",
        "use_threads",
    }
)
"""Options of pyarrow's scans that tune its own reader. They are accepted and have no effect."""

BATCH_BYTES = 512 << 10
"""Bytes of a batch, about, that pyarrow's scanner is given: it reads up to some 130 batches ahead of its consumer."""

_NO_FILE = "/a TableDataset of pilum has no files for this function: pass its .to_table() or .scanner().to_reader()"


class TableDataset(pads.UnionDataset):  # type: ignore[misc] # pyarrow has no annotations
    """A version of a table for consumers of `pyarrow.dataset.Dataset`, made by `pilum.Dataset.to_pyarrow`.

    Filters have pyarrow's meaning. A filter or a column expression that the engine does not have is evaluated by pyarrow after
    reading. A scanner that `scanner` returns can be run once.
    """

    _fragments: tuple[int, ...] | None

    def __init__(self, table: Dataset, filter: Any = None, fragments: Sequence[int] | None = None) -> None:  # noqa: A002
        schema = table.schema
        files = LocalFileSystem()
        layout = pads.IpcFileFormat()
        nothing = pads.FileSystemDataset([layout.make_fragment(_NO_FILE, files)], schema, layout, files)
        super().__init__(schema, [nothing])
        self._table = table
        self._filter = filter
        self._fragments = None if fragments is None else tuple(fragments)
        self._last: Scanner | None = None

    def __repr__(self) -> str:
        return f"<pilum dataset for pyarrow: {self._table!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return TableDataset, (self._table, self._filter, self._fragments)

    # -- What it is --------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._table.schema

    @property
    def physical_schema(self) -> pa.Schema:
        """The columns of the table, as of a fragment of pyarrow."""
        return self._table.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """The condition that all rows satisfy: true, because a table has no partitions."""
        return pc.scalar(True)

    @property
    def children(self) -> list[Any]:
        """The datasets that this one consists of: none."""
        return []

    @property
    def metrics(self) -> Any:
        """What the last read of this object did: see `pilum.Scanner.metrics`. None before the first read."""
        return None if self._last is None else self._last.metrics

    def get_fragments(self, filter: Any = None) -> Iterator[TableDataset]:  # noqa: A002
        """Yield each fragment of the table as a dataset of its own.

        Args:
            filter: A condition for the rows of each.
        """
        for fragment in self._table.fragments:
            if self._fragments is None or fragment.id in self._fragments:
                yield TableDataset(self._table, self._both(filter), (fragment.id,))

    # -- Reading -----------------------------------------------------------------------------------------------------

    def scanner(
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002 - the word of pyarrow
        batch_size: int | None = None,
        **tuning: Any,
    ) -> pads.Scanner:
        """Return a scanner of pyarrow over the rows, which are read when it runs.

        Args:
            columns: Names, or a dict of names and expressions. None reads all columns.
            filter: A `pyarrow.compute.Expression`, or any other condition that `Dataset.scanner` takes.
            batch_size: Rows of a batch at most.
            **tuning: Options that tune pyarrow's own reader (`use_threads`, `batch_readahead`, ..) have no effect.
        """
        scan, rest = self._planned(columns, filter, batch_size, tuning, "scanner", batch_bytes=BATCH_BYTES)
        return _rest(scan, rest)

    def to_table(
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        batch_size: int | None = None,
        **tuning: Any,
    ) -> pa.Table:
        """Return the rows as a table; the arguments are those of `scanner`."""
        scan, rest = self._planned(columns, filter, batch_size, tuning, "to_table")
        return _rest(scan, rest).to_table() if rest else scan.to_table()

    def to_batches(
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        batch_size: int | None = None,
        **tuning: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Return an iterator of record batches; the arguments are those of `scanner`."""
        scan, rest = self._planned(columns, filter, batch_size, tuning, "to_batches")
        if not rest:
            return scan.to_batches()
        batches: Iterator[pa.RecordBatch] = _rest(scan, rest).to_batches()
        return batches

    def head(
        self,
        num_rows: int,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        batch_size: int | None = None,
        **tuning: Any,
    ) -> pa.Table:
        """Return the first rows; reading ends when they are found."""
        count("num_rows", num_rows)
        scan, rest = self._planned(columns, filter, batch_size, tuning, "head", limit=num_rows)
        return _rest(scan, rest).head(num_rows) if rest else scan.to_table()

    def take(
        self,
        indices: Any,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        batch_size: int | None = None,
        **tuning: Any,
    ) -> pa.Table:
        """Return rows by their position among the rows that satisfy the filter, in the order of `indices`."""
        whole = self._fragments is None and self._both(filter) is None
        if whole and (columns is None or not isinstance(columns, Mapping)):
            _known(tuning, "take")
            return self._table.take(indices, columns)
        rows = self.to_table(columns, filter, batch_size, **tuning)
        with self._refusing():
            return rows.take(indices)

    def count_rows(
        self,
        filter: Any = None,  # noqa: A002
        batch_size: int | None = None,
        **tuning: Any,
    ) -> int:
        """Return the number of rows that satisfy the filter."""
        scan, rest = self._planned([], filter, batch_size, tuning, "count_rows")
        num_rows: int = _rest(scan, rest).count_rows() if rest else scan.count_rows()
        return num_rows

    def filter(self, expression: pc.Expression) -> TableDataset:
        """Return the dataset of the rows that satisfy a condition as well.

        Raises:
            InvalidInputError: It is no condition.
        """
        if not isinstance(expression, pc.Expression):
            named("filter", expression, lambda: self.schema)
        return TableDataset(self._table, self._both(expression), self._fragments)

    def _both(self, more: Any) -> Any:
        """Return this dataset's condition and another one as one condition."""
        if self._filter is None or more is None:
            return more if self._filter is None else self._filter
        if not isinstance(more, pc.Expression) or not isinstance(self._filter, pc.Expression):
            raise InvalidInputError("filter: a dataset with a filter takes only a pyarrow expression as another one")
        return self._filter & more

    def _planned(
        self,
        columns: Any,
        filter: Any,  # noqa: A002
        batch_size: int | None,
        tuning: Mapping[str, Any],
        called: str,
        **own: Any,
    ) -> tuple[Scanner, dict[str, Any]]:
        """Plan a scan in the engine, and return with it what remains for pyarrow: expressions of columns and a filter."""
        _known(tuning, called)
        condition = self._both(filter)
        own.update(batch_rows=batch_size, fragments=self._fragments)
        named = None if isinstance(columns, Mapping) else columns
        rest: dict[str, Any] = {} if named is columns else {"columns": columns}
        try:
            scan = self._table.scanner(named, condition, **own)
        except (InvalidInputError, UnsupportedError):
            if not isinstance(condition, pc.Expression):
                raise
            self._table.scanner(named, **own)  # Raises the error if it is about the columns.
            # pyarrow evaluates the condition, or says what is wrong with it.
            rest = {"filter": condition} if columns is None else {"filter": condition, "columns": columns}
        if rest:
            own["limit"] = None
            scan = self._table.scanner(None, None if "filter" in rest else condition, **own)
        self._last = scan
        return scan, rest

    # -- What pyarrow does with the rows in memory ------------------------------------------------------------------------

    def sort_by(self, sorting: Any, **options: Any) -> pads.InMemoryDataset:
        """Return the rows sorted, in memory; the arguments are those of `pyarrow.Table.sort_by`."""
        with self._refusing():
            return self._in_memory().sort_by(sorting, **options)

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> pads.InMemoryDataset:
        """Return a join, in memory; the arguments are those of `pyarrow.dataset.Dataset.join`."""
        with self._refusing():
            return self._in_memory().join(_held(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> pads.InMemoryDataset:
        """Return an as-of join, in memory; the arguments are those of `pyarrow.dataset.Dataset.join_asof`."""
        with self._refusing():
            return self._in_memory().join_asof(_held(right_dataset), *arguments, **options)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Raise what pyarrow refuses as an `InvalidInputError` with the address of the table."""
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowIndexError, TypeError) as error:
            raise InvalidInputError(f"{self._table.uri}: {error}") from error

    def _in_memory(self) -> pads.InMemoryDataset:
        return pads.InMemoryDataset(self.to_table())

    def replace_schema(self, schema: pa.Schema) -> TableDataset:
        """Return this dataset if its columns are those of `schema`; a table has one schema.

        Raises:
            UnsupportedError: The schema is another one.
            InvalidInputError: It is no schema of pyarrow.
        """
        if not isinstance(schema, pa.Schema):
            raise InvalidInputError(f"schema: pass a pyarrow.Schema, not {shown(schema)}")
        if not self.schema.equals(schema):
            raise UnsupportedError(
                f"{self._table.uri}: the dataset cannot be read with another schema: read it, and cast the result"
            )
        return TableDataset(self._table, self._filter, self._fragments)


def _rest(scan: Scanner, rest: Mapping[str, Any]) -> pads.Scanner:
    """Return a scanner of pyarrow that does the rest. Its threads would read ahead without a bound in bytes."""
    return pads.Scanner.from_batches(scan.to_reader(), use_threads=False, **rest)


def _known(tuning: Mapping[str, Any], called: str) -> None:
    for name in tuning:
        if name not in _UNUSED:
            raise unknown_argument(
                f"TableDataset.{called}", name, ["columns", "filter", "batch_size", *sorted(_UNUSED)]
            )


def _held(dataset: Any) -> Any:
    return dataset._in_memory() if isinstance(dataset, TableDataset) else dataset  # noqa: SLF001 - the same class
