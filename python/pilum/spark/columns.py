"""Columns that Spark computes and that are added to a table without rewriting the others.

Each task writes the values of whole fragments, in the order of their rows, to one new file per fragment; the driver commits all
files as one version. Rows that others add or change meanwhile are a conflict: only their fragments are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pilum import _pilum
from pilum.arguments import AdaptArguments, ValueArguments, checked, names, shown
from pilum.dataset import Dataset, Written, dataset
from pilum.exceptions import ConflictError, InvalidInputError
from pilum.location import Location, StorageOptions
from pilum.scanner import ScanOptions, ScanTask
from pilum.spark import staging
from pilum.spark import statements as st
from pilum.spark import tasks as core
from pilum.spark.read import of_plan
from pilum.spark.types import from_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from typing_extensions import Unpack

    Compute = Mapping[str, str | Column] | Callable[[DataFrame], DataFrame]

RESULT_SCHEMA = "fragment bigint, piece binary, error string"

MAX_PARTITIONS = 200
"""Partitions of a shuffle that brings the rows of each fragment together."""

_ADDRESS = "_rowaddr"


class AddArguments(ValueArguments, AdaptArguments, total=False):
    """Options of `add_columns`; see `Dataset.add_columns`."""

    expect: Any


def _computing(name: str, value: Any) -> None:
    if not callable(value) and (not isinstance(value, Mapping) or not value):
        raise InvalidInputError(
            f"{name}: pass a dict of names and expressions of Spark, or a function from DataFrame to DataFrame, not "
            f"{shown(value)}"
        )


@checked(AddArguments, columns=_computing, read=names)
def add_columns(
    spark: SparkSession,
    uri: str,
    columns: Compute,
    *,
    read: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    storage_options: StorageOptions | None = None,
    **options: Unpack[AddArguments],
) -> Written:
    """Add columns that Spark computes from the others. No other column is rewritten.

    Args:
        spark: The session, classic or Connect.
        uri: The table.
        columns: Names with expressions of Spark (SQL text or `Column`); or a function that gets a DataFrame of the columns
            `read` and of `_rowaddr`, and returns a DataFrame with `_rowaddr` and the new columns, each row once, in any order:
            it may join, shuffle, and run `mapInArrow` or `mapInPandas`.
        read: The columns that the computation reads; by default all.
        schema: The new columns in the types of Arrow, such as `pa.list_(pa.float32(), 384)` for embeddings; by default those
            that Spark's types become.
        storage_options: Credentials and settings of the store, sent to the workers.
        cast: As in `pilum.write_dataset`.
        missing: As in `pilum.write_dataset`.
        extra: As in `pilum.write_dataset`.
        commit_id: An id chosen by the caller, looked up before a task runs: the same id commits once.
        properties: As in `pilum.write_dataset`.
        durability: As in `pilum.write_dataset`.
        retries: How often columns of new fragments are computed after a conflict; 10 by default.
        expect: As in `pilum.write_dataset`.
        compat: As in `Dataset.update`.

    Raises:
        InvalidInputError: A name is taken, a value does not fit its column, or the rows that the computation returned are not
            those of the table.
        ConflictError: Other writers changed the table again and again.
    """
    work = _Addition(spark, Location.of(uri, storage_options), columns, read, schema, options)
    return st.again(work.run, options.get("retries"))


class _Addition:
    """The statement over all its executions: files of fragments that did not change are used again."""

    def __init__(
        self,
        spark: SparkSession,
        where: Location,
        columns: Any,
        read: Sequence[str] | None,
        schema: pa.Schema | None,
        options: Mapping[str, Any],
    ) -> None:
        self.spark, self.where, self.columns, self.read, self.options = spark, where, columns, read, options
        self.schema = schema
        self.base: Dataset | None = None
        self.pieces: dict[int, tuple[int, bytes]] = {}
        """By fragment: the version that its file was made for, and the piece."""

    def run(self) -> Written:
        before = st.done_before(self.where, self.options.get("commit_id"))
        if before is not None:
            return before
        base = dataset(self.where.uri, storage_options=self.where.storage_options)
        self.forget_changed(base)
        missing = [it.id for it in base.fragments if it.id not in self.pieces]
        try:
            schema = self.compute(base, missing)
            outcome = _pilum.commit_columns(
                st.opened(base.version, self.where.uri, self.where.storage_options),
                [(version, [fragment], piece) for fragment, (version, piece) in sorted(self.pieces.items())],
                schema=schema,
                **st.commit_options(self.options),
            )
        except BaseException as error:
            if not (isinstance(error, ConflictError) and error.retryable):
                staging.discard_after(self.where, [piece for _, piece in self.pieces.values()], error)
            raise
        if outcome.was_committed_before:
            staging.discard(self.where, [piece for _, piece in self.pieces.values()])
        return Written(outcome, self.where)

    def forget_changed(self, base: Dataset) -> None:
        """Forget the files of fragments that changed since they were written."""
        last, self.base = self.base, base
        if last is None:
            return
        old = {it.id: it for it in last.fragments}
        same = {
            it.id
            for it in base.fragments
            if it.id in old and (old[it.id].files, old[it.id].num_deleted) == (it.files, it.num_deleted)
        }
        if last.schema != base.schema:
            same = set()
        gone = [self.pieces.pop(fragment)[1] for fragment in list(self.pieces) if fragment not in same]
        staging.discard(self.where, gone)

    def compute(self, base: Dataset, missing: Sequence[int]) -> pa.Schema:
        """Write the files of some fragments, and return the new columns."""
        planned = core.plan(
            self.where.uri,
            self.read,
            version=base.version,
            fragments=missing,
            with_row_address=True,
            storage_options=self.where.storage_options,
        )
        new = self.applied(of_plan(self.spark, planned))
        added = [name for name in new.columns if name != _ADDRESS]
        columns = from_spark_schema(new.select(*(new[_quoted(name)] for name in added)).schema)
        staging.check_names(columns, self.where.shown)
        schema = columns if self.schema is None else self.schema
        staging.check_fits(columns, schema, self.where.shown, self.options)  # type: ignore[arg-type]
        taken = [name for name in schema.names if name in base.schema.names]
        if taken:
            raise InvalidInputError(
                f"{self.where.shown}: there is a column {taken[0]!r}: choose another name, or update it"
            )
        if missing:
            self.write(base, new, added, schema, missing)
        return schema

    def applied(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        if callable(self.columns):
            new: DataFrame = self.columns(rows)
        else:
            made = [f.expr(it) if isinstance(it, str) else it for it in self.columns.values()]
            new = rows.select(_ADDRESS, *(it.alias(name) for name, it in zip(self.columns, made, strict=True)))
        if new.columns.count(_ADDRESS) != 1 or len(new.columns) < 2:
            raise InvalidInputError(
                f"{self.where.shown}: the computation returns the column '_rowaddr' that it got, and the new columns; it "
                f"returned {new.columns}"
            )
        return new

    def write(
        self, base: Dataset, new: DataFrame, added: Sequence[str], schema: pa.Schema, missing: Sequence[int]
    ) -> None:
        from pyspark.sql import functions as f

        fragment = f.shiftright(f.col(_ADDRESS), 32)
        partitions = max(1, min(len(missing), MAX_PARTITIONS))
        rows = new.select(_ADDRESS, *(_quoted(name) for name in added)).repartition(partitions, fragment)
        task = _write_of(self.where, base.version, schema, dict(self.options))
        results = rows.sortWithinPartitions(_ADDRESS).mapInArrow(task, RESULT_SCHEMA).collect()
        refused = [it.error for it in results if it.error is not None]
        for it in results:
            if it.piece is not None:
                self.pieces[it.fragment] = (base.version, bytes(it.piece))
        left = [it for it in missing if it not in self.pieces]
        if refused or left:
            reason = refused[0] if refused else f"the computation returned no row of fragment {left[0]}"
            raise InvalidInputError(f"{self.where.shown}: {reason}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _write_of(where: Location, version: int, schema: pa.Schema, options: Mapping[str, Any]) -> Any:
    """Return the task that writes the columns of the fragments in its partition, whose rows are ordered by address."""
    uri, storage_options = where.uri, where.storage_options
    files = {key: options[key] for key in (*AdaptArguments.__annotations__, "durability") if key in options}

    def pilum_add_columns(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stream = _ByFragment(batches)
        while (fragment := stream.next_fragment()) is not None:
            task = ScanTask(uri, version, (fragment,), ScanOptions(columns=(_ADDRESS,)), storage_options)
            piece, error = None, None
            try:
                expected_rows = _Expected(task, fragment)
                rows = (expected_rows.checked(batch) for batch in stream.rows())
                reader = pa.RecordBatchReader.from_batches(stream.schema, _ended(rows, expected_rows))
                piece = _pilum.write_columns(task.opened(), reader, [fragment], schema=schema, **files)
            except InvalidInputError as refused:
                error = str(refused)
            yield pa.record_batch(
                {
                    "fragment": pa.array([fragment], pa.int64()),
                    "piece": pa.array([piece], pa.binary()),
                    "error": pa.array([error], pa.string()),
                }
            )
            if error is not None:
                return

    return pilum_add_columns


def _ended(rows: Iterator[pa.RecordBatch], expected_rows: _Expected) -> Iterator[pa.RecordBatch]:
    yield from rows
    expected_rows.finish()


class _ByFragment:
    """A stream of batches ordered by address, cut where a fragment ends."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches = (batch for batch in batches if batch.num_rows)
        self.left: pa.RecordBatch | None = None
        self.fragment: int | None = None
        self.schema: pa.Schema | None = None

    def next_fragment(self) -> int | None:
        """Return the fragment of the next row, or None at the end."""
        if self.left is None:
            self.left = next(self.batches, None)
        if self.left is None:
            return None
        self.schema = pa.schema([it for it in self.left.schema if it.name != _ADDRESS])
        self.fragment = self.left.column(_ADDRESS)[0].as_py() >> 32
        return self.fragment

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of this fragment."""
        while self.left is not None:
            fragments = pc.shift_right(self.left.column(_ADDRESS), 32)
            others = pc.index(pc.not_equal(fragments, self.fragment), value=True).as_py()
            if others >= 0:
                own, self.left = self.left.slice(0, others), self.left.slice(others)
                if own.num_rows:
                    yield own
                return
            own, self.left = self.left, next(self.batches, None)
            yield own


class _Expected:
    """The addresses of the rows of a fragment, which the computed rows must have, each once."""

    def __init__(self, task: ScanTask, fragment: int) -> None:
        there = [batch.column(0).cast(pa.int64()) for batch in task.to_batches()]
        self.addresses = pa.concat_arrays(there) if there else pa.array([], pa.int64())
        self.fragment = fragment
        self.seen = 0

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the new columns of a batch.

        Raises:
            InvalidInputError: Its rows are not the next rows of the fragment.
        """
        given = batch.column(_ADDRESS)
        if not given.equals(self.addresses.slice(self.seen, len(given))):
            raise InvalidInputError(
                f"the computation returned other rows of fragment {self.fragment} than the table has: each '_rowaddr' that it "
                "got belongs to one row of its result"
            )
        self.seen += len(given)
        return batch.drop_columns([_ADDRESS])

    def finish(self) -> None:
        """Refuse a result that ends too early.

        Raises:
            InvalidInputError: Rows are missing.
        """
        if self.seen < len(self.addresses):
            raise InvalidInputError(
                f"the computation returned {self.seen} of {len(self.addresses)} rows of fragment {self.fragment}"
            )
