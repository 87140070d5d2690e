"""Columns of a table: added, dropped, altered."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from pilum import _pilum
from pilum.conditions import expression
from pilum.exceptions import ConflictError, InvalidInputError
from pilum.exchange import rows_of
from pilum.opened import Opened

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from pilum.dataset import Dataset, Written
    from pilum.statements import StatementArguments

_RETRIES = 10
_LONGEST_PAUSE_SECONDS = 0.5


class ColumnChange(TypedDict, total=False):
    """What becomes of a column; what is left out stays as it is."""

    name: str
    type: pa.DataType
    nullable: bool


class Columns(Opened):
    """The part of a `Dataset` that changes its columns. Statements run on the newest version, whichever is open."""

    __slots__ = ()

    def add_columns(
        self,
        columns: Mapping[str, Any] | Callable[[pa.RecordBatch], Any] | Any,
        *,
        read_columns: Sequence[str] | None = None,
        batch_rows: int | None = None,
        **options: Unpack[StatementArguments],
    ) -> Written:
        """Add columns behind the others. Files that are there stay as they are; each fragment gets one more.

        Args:
            columns: Expressions over the other columns, by name (`{"b": "a * 2"}`, `{"b": pilum.col("a") * 2}`). Or a
                function that is called with batches of the rows, in order, and returns the new columns of each as a batch
                of as many rows; it must give the same values when it is called again. Or the values: anything that
                `write_dataset` takes, with one row for each row of this version, in the order of a scan.
            read_columns: The columns that the function gets; None for all.
            batch_rows: Rows that it gets at most at once.
            **options: As in `delete`. Values that are given belong to the rows of this version: when rows were added or
                changed since, they are refused and not tried again.

        Returns:
            The new version, `.rows` the number of rows that got values.

        Raises:
            InvalidInputError: A name is taken; an expression does not fit, or fails for a row; there are more or fewer values
                than rows, both counts are named.
            ConflictError: Others changed rows again and again; with values, once.
        """
        if isinstance(columns, Mapping):
            texts = [(name, expression(value)) for name, value in columns.items()]
            return self._written(_pilum.add_columns(self._version, texts, **options))
        if callable(columns):
            return self._add_computed(columns, read_columns, batch_rows, options)
        with rows_of(columns) as rows:
            return self._written(_pilum.add_columns_from(self._version, rows, **options))

    def drop_columns(self, columns: Sequence[str], **options: Unpack[StatementArguments]) -> Written:
        """Drop columns. No row is rewritten; their bytes go when no version needs the files any more.

        Args:
            columns: Names; `"a.b"` for a field inside a struct. A struct goes with its last field.
            **options: As in `delete`.

        Raises:
            InvalidInputError: There is no such column, or none would be left.
        """
        if isinstance(columns, str):
            raise InvalidInputError(f"drop_columns takes a list of names: [{columns!r}]")
        return self._written(_pilum.drop_columns(self._version, list(columns), **options))

    def alter_columns(self, changes: Mapping[str, ColumnChange], **options: Unpack[StatementArguments]) -> Written:
        """Rename columns, convert them, change whether they may be null.

        Args:
            changes: By name (`"a.b"` inside a struct or list): `{"name": .., "type": .., "nullable": ..}`, any of them. A new
                name changes the schema alone. A new type writes the values of that column again: each must survive, but
                floats may be rounded to shorter ones. `nullable=False` looks for nulls first.
            **options: As in `delete`.

        Raises:
            InvalidInputError: There is no such column; the name is taken; a value does not fit the type (column, row and value
                are named); a row is null (it is named). Nothing was changed.
        """
        listed = [_change(path, change) for path, change in changes.items()]
        return self._written(_pilum.alter_columns(self._version, listed, **options))

    def _add_computed(
        self,
        compute: Callable[[pa.RecordBatch], Any],
        read_columns: Sequence[str] | None,
        batch_rows: int | None,
        options: StatementArguments,
    ) -> Written:
        retries = options.get("retries")
        retries = _RETRIES if retries is None else retries
        for turn in range(retries + 1):
            newest = self._newest()
            try:
                return newest.add_columns(_computed(newest, compute, read_columns, batch_rows), **options)
            except ConflictError as error:
                if not error.retryable or turn == retries:
                    raise
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE_SECONDS, 0.01 * 2**turn)))  # noqa: S311 - a pause
        raise AssertionError("the last turn returns or raises")

    def _newest(self) -> Dataset:
        return self._at(self._version.checkout(self._version.latest_version()))


def _computed(
    version: Dataset,
    compute: Callable[[pa.RecordBatch], Any],
    read_columns: Sequence[str] | None,
    batch_rows: int | None,
) -> Iterator[pa.RecordBatch]:
    """Yield what `compute` makes of the batches of a version; of an empty one, to know the columns, in a table of no rows."""
    import pyarrow as pa

    reader = version.to_reader(read_columns, batch_rows=batch_rows)
    is_empty = True
    for batch in reader:
        is_empty = False
        yield _one(compute(batch), batch.num_rows)
    if is_empty:
        nothing = pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in reader.schema], schema=reader.schema
        )
        yield _one(compute(nothing), 0)


def _one(made: Any, num_rows: int) -> pa.RecordBatch:
    import pyarrow as pa

    if isinstance(made, pa.Table):
        batches = made.combine_chunks().to_batches()
        made = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=made.schema)
    if not hasattr(made, "__arrow_c_array__"):
        raise InvalidInputError(
            f"the function returned a {type(made).__name__}: return a record batch of the new columns"
        )
    batch = pa.record_batch(made)
    if batch.num_rows != num_rows:
        raise InvalidInputError(
            f"the function returned {batch.num_rows} rows for a batch of {num_rows}: return one for each"
        )
    return batch


def _change(path: str, change: Mapping[str, Any]) -> tuple[str, str | None, Any, bool | None]:
    unknown = sorted(set(change) - {"name", "type", "nullable"})
    if unknown:
        raise InvalidInputError(f"column {path!r}: {unknown[0]!r} is none of 'name', 'type' and 'nullable'")
    data_type = change.get("type")
    if data_type is not None:
        import pyarrow as pa

        try:
            data_type = pa.schema([pa.field("type", data_type)])
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"column {path!r}: {data_type!r} is no type of pyarrow") from error
    return path, change.get("name"), data_type, change.get("nullable")
