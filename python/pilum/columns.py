"""Columns of a table: added, dropped, altered."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pilum import _pilum
from pilum.arguments import AdaptArguments, StatementArguments, ValueArguments, checked, names, shown
from pilum.conditions import expression
from pilum.exceptions import ConflictError, InvalidInputError
from pilum.exchange import rows_of
from pilum.expr import lit
from pilum.opened import Opened
from pilum.pandas_frames import indexed

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from pilum.dataset import Dataset, Written

_RETRIES = 10
_LONGEST_PAUSE_SECONDS = 0.5


class ColumnChange(TypedDict, total=False):
    """What becomes of a column. What is left out stays as it is."""

    name: str
    type: pa.DataType
    nullable: bool


class _Given(AdaptArguments):
    """How given values become columns."""

    schema: pa.Schema | None


class Columns(Opened):
    """The part of a `Dataset` that changes its columns. Statements run on the newest version, whichever version is open."""

    __slots__ = ()

    @checked(ValueArguments, columns=None)
    def add_columns(
        self,
        columns: Mapping[str, Any] | Callable[[pa.RecordBatch], Any] | Any,
        *,
        read_columns: Sequence[str] | None = None,
        batch_rows: int | None = None,
        schema: pa.Schema | None = None,
        index: bool | None = None,
        cast: Literal["exact", "lossy"] = "exact",
        missing: Literal["null", "error"] = "null",
        extra: Literal["error", "ignore"] = "error",
        **options: Unpack[ValueArguments],
    ) -> Written:
        """Add columns after the others. Existing files stay as they are; each fragment gets one more file.

        Args:
            columns: A dict of names and expressions over the other columns (`{"b": "a * 2"}`, `{"b": pilum.col("a") * 2}`). The
                expression has the type of the column: `{"b": "CAST(0 AS FLOAT)"}`; a float of Python makes a double, and a
                constant a column that may be null. Or a function: it is called with batches of the rows, in order, and returns
                the new columns of each as a batch with the same number of rows; called again, it must return the same values.
                Or the values: anything that `write_dataset` takes, with one row for each row of this version, in row order.
            read_columns: The columns that the function gets. None for all.
            batch_rows: Rows of a batch that the function gets, at most.
            schema: The new columns, for values and functions; by default those of the values.
            index: As in `write_dataset`, for values of pandas.
            cast: As in `write_dataset`.
            missing: As in `write_dataset`, for columns of `schema`.
            extra: As in `write_dataset`, for columns beside those of `schema`.
            commit_id: As in `write_dataset`.
            properties: As in `write_dataset`.
            durability: As in `write_dataset`.
            retries: As in `delete`.
            compat: As in `update`.

        Returns:
            The new version; `.rows` is the number of rows that got values.

        Raises:
            InvalidInputError: A name is taken; an expression does not fit, or fails for a row; there are more or fewer values
                than rows (the message has both counts).
            ConflictError: Other writers changed rows again and again. Given values belong to the rows of this version: they are
                refused after the first change.

        Example:
            `ds = ds.add_columns({"twice": "id * 2"})`
        """
        given: _Given = {"schema": schema, "cast": cast, "missing": missing, "extra": extra}
        if index and (isinstance(columns, Mapping) or callable(columns)):
            raise InvalidInputError("index: expressions and functions have no index; only frames of pandas have one")
        if isinstance(columns, Mapping):
            if schema is not None:
                raise InvalidInputError(
                    "schema: an expression has its type: write it as CAST(.. AS ..), without schema="
                )
            names("columns", list(columns))
            texts = [(name, _column_expression(value)) for name, value in columns.items()]
            return self._written(_pilum.add_columns(self._version, texts, **options))
        if callable(columns):
            return self._add_computed(columns, read_columns, batch_rows, given, options)
        with rows_of(indexed(columns, index), schema, missing) as rows:
            return self._written(_pilum.add_columns_from(self._version, rows, **given, **options))

    @checked(StatementArguments, columns=names)
    def drop_columns(self, columns: Sequence[str], **options: Unpack[StatementArguments]) -> Written:
        """Drop columns. No row is rewritten; `cleanup` removes the files that no version uses any more.

        Args:
            columns: Names; `"a.b"` is a member of a struct. A struct is dropped with its last member.
            commit_id: As in `write_dataset`.
            properties: As in `write_dataset`.
            durability: As in `write_dataset`.
            retries: As in `delete`.

        Raises:
            InvalidInputError: There is no such column, or none would be left.

        Example:
            `ds = ds.drop_columns(["x"])`
        """
        return self._written(_pilum.drop_columns(self._version, list(columns), **options))

    @checked(ValueArguments)
    def alter_columns(self, changes: Mapping[str, ColumnChange], **options: Unpack[ValueArguments]) -> Written:
        """Rename columns, convert their types, change whether they may be null.

        Args:
            changes: By name (`"a.b"` inside a struct or list), any of `{"name": .., "type": .., "nullable": ..}`. A new name
                changes the schema alone. A new type rewrites the values of that column: each is kept (docs/types.md), or the
                change is refused; to round or parse, update the column with `CAST`, or add one. `"nullable": False` is refused
                if there is a null.
            commit_id: As in `write_dataset`.
            properties: As in `write_dataset`.
            durability: As in `write_dataset`.
            retries: As in `delete`.
            compat: As in `update`.

        Raises:
            InvalidInputError: There is no such column; the name is taken; a value does not fit the type (the message has
                column, row and value); a row is null. Nothing was changed.

        Example:
            `ds = ds.alter_columns({"x": {"name": "word", "type": pa.large_string()}})`
        """
        if not isinstance(changes, Mapping):
            raise InvalidInputError(f"changes: pass a dict of columns and their changes, not {shown(changes)}")
        listed = [_change(path, change) for path, change in changes.items()]
        return self._written(_pilum.alter_columns(self._version, listed, **options))

    def _add_computed(
        self,
        compute: Callable[[pa.RecordBatch], Any],
        read_columns: Sequence[str] | None,
        batch_rows: int | None,
        given: _Given,
        options: ValueArguments,
    ) -> Written:
        retries = options.get("retries")
        retries = _RETRIES if retries is None else retries
        for attempt in range(retries + 1):
            newest = self._newest()
            try:
                return newest.add_columns(_computed(newest, compute, read_columns, batch_rows), **given, **options)
            except ConflictError as error:
                if not error.retryable or attempt == retries:
                    raise
            share = int.from_bytes(os.urandom(4), "big") / 2**32
            time.sleep(share * min(_LONGEST_PAUSE_SECONDS, 0.01 * 2**attempt))
        raise AssertionError("the last attempt returns or raises")

    def _newest(self) -> Dataset:
        return self._at(self._version.checkout(self._version.latest_version()))


def _column_expression(value: Any) -> Any:
    """Return the value of a new column as an expression: a float of Python makes a column of doubles."""
    return lit(value).cast("DOUBLE") if isinstance(value, float) else expression(value)


def _computed(
    version: Dataset,
    compute: Callable[[pa.RecordBatch], Any],
    read_columns: Sequence[str] | None,
    batch_rows: int | None,
) -> Iterator[pa.RecordBatch]:
    """Yield what `compute` returns for each batch of a version. A table without rows gives one empty batch, for its columns."""
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
    if not isinstance(path, str):
        raise InvalidInputError(f"changes: every column is a text, not {shown(path)}")
    if not isinstance(change, Mapping):
        raise InvalidInputError(f"column {path!r}: pass a dict with 'name', 'type' or 'nullable', not {shown(change)}")
    for unknown in change.keys() - {"name", "type", "nullable"}:
        raise InvalidInputError(f"column {path!r}: {unknown!r} is none of 'name', 'type' and 'nullable'")
    if not isinstance(change.get("name", ""), (str, NoneType)):
        raise InvalidInputError(f"column {path!r}: name is a text, not {shown(change['name'])}")
    if not isinstance(change.get("nullable", True), (bool, NoneType)):
        raise InvalidInputError(f"column {path!r}: nullable is True or False, not {shown(change['nullable'])}")
    data_type = change.get("type")
    if data_type is not None:
        import pyarrow as pa

        try:
            data_type = pa.schema([pa.field("type", data_type)])
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"column {path!r}: {data_type!r} is no type of pyarrow") from error
    return path, change.get("name"), data_type, change.get("nullable")
