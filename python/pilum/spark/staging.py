"""Writes of a table as tasks of Spark: the driver prepares, workers write data files, the driver commits once.

    plan = prepare(arrow_schema, uri, "append", commit_id="day 7", extra="ignore")   # driver, before any task
    if plan.done is not None: return plan.done                                       # this commit id was committed before
    staged = write_task(batches, plan.spec)                                          # worker: pieces (bytes) and rows
    commit(plan, [piece for it in results for piece in it.pieces])                   # driver, once; or `replacing.commit`

`plan.spec` can be pickled and is small. A piece describes data files that are durable and part of no version. Every attempt of
a task writes files of its own names, so attempts may run at the same time; pieces of one attempt of each task are committed.
Nothing is visible before the commit. Data files that are not committed take space until `discard` or `cleanup` removes them;
`discard` leaves every file alone that a version names, so it is safe after a commit whose answer was lost.

No function here needs a session of Spark. `mapInArrow` and the Data Source use the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from pilum import _pilum, fragments
from pilum.arguments import DEFAULTS, AdaptArguments, FileArguments
from pilum.conditions import condition
from pilum.dataset import Dataset, Written, dataset, write_dataset
from pilum.exceptions import AlreadyExistsError, CommitUnknownError, InvalidInputError, NotFoundError, PilumError
from pilum.location import Location, StorageOptions

if TYPE_CHECKING:
    from pilum.expr import Expr

Mode = Literal["create", "append", "overwrite"]

_OPERATIONS: dict[Mode, type[fragments.Append | fragments.Overwrite | fragments.Create]] = {
    "append": fragments.Append,
    "overwrite": fragments.Overwrite,
    "create": fragments.Create,
}


class WriteOptions(FileArguments, total=False):
    """Options of a distributed write; see `pilum.write_dataset`."""

    schema: pa.Schema | None
    properties: Mapping[str, str] | None
    stable_row_ids: bool
    expect: Any


@dataclass(frozen=True, slots=True)
class Replaced:
    """The rows of the table that a write replaces: those for which a condition is true. Each new row must match it too."""

    condition: Expr | str
    schema: pa.Schema
    """The columns of the table, or of the table that the write makes."""

    def check(self, batch: pa.RecordBatch, first_row: int, files: FileArguments, where: str) -> None:
        """Refuse new rows for which the condition is not true.

        Raises:
            InvalidInputError: The condition is false or null for a new row; the message has the number of the first such row.
        """
        adapt: AdaptArguments = {key: files[key] for key in AdaptArguments.__annotations__ if key in files}  # type: ignore[literal-required,assignment]
        try:
            row = _pilum.first_excluded(batch, self.schema, self.condition, first_row=first_row, **adapt)
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: {error}") from None
        if row is not None:
            raise InvalidInputError(
                f"{where}: row {row} of a partition does not match replace_where, {self.condition}: leave out the "
                "new rows for which this condition is not true"
            )


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """What a task needs to write its rows: it can be pickled."""

    uri: str
    mode: Mode
    schema: pa.Schema | None
    """The columns to write; None for those of the table."""
    files: FileArguments
    storage_options: StorageOptions | None = field(default=None, repr=False)
    replaced: Replaced | None = None
    """The rows that the new rows replace; None if the new rows are appended, or replace all rows."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A write that was checked against the table, and the options of its commit."""

    spec: WriteSpec
    columns: pa.Schema
    """The columns of the rows."""
    before: Dataset | None
    """The newest version when the write was prepared; None if there is no table."""
    commit_id: str | None
    options: WriteOptions
    done: Written | None = None
    """The version that an earlier call with the same commit id made: then there is nothing to do."""


class Staged(NamedTuple):
    """What a task wrote."""

    pieces: list[bytes]
    rows: int


def prepare(
    columns: pa.Schema,
    uri: str,
    mode: Mode = "append",
    *,
    commit_id: str | None = None,
    storage_options: StorageOptions | None = None,
    options: WriteOptions | None = None,
    replace_where: Any = None,
) -> WritePlan:
    """Check a write on the driver, before a task runs.

    Args:
        columns: The columns of the rows, as `from_spark_schema` tells them.
        uri: The table.
        mode: `"append"` makes the table if there is none; `"overwrite"` replaces rows and schema; `"create"` refuses an
            existing table.
        commit_id: An id chosen by the caller. If it was committed before, the plan has `done`.
        storage_options: Credentials and settings of the store; the tasks get them.
        options: As in `pilum.write_dataset`.
        replace_where: With `mode="overwrite"`, a condition in any of its forms: only rows for which it is true are replaced,
            the columns of the table stay, and the new rows must match too. Commit with `pilum.spark.replacing.commit`.

    Raises:
        AlreadyExistsError: `mode="create"` and there is a table.
        InvalidInputError: Two columns have one name, or the columns do not fit those of the table.
    """
    where = Location.of(uri, storage_options)
    if replace_where is not None and mode != "overwrite":
        raise InvalidInputError(f"{where.shown}: replace_where needs the mode 'overwrite', not {mode!r}")
    given: WriteOptions = {} if options is None else options
    check_names(columns, where.shown)
    done = None if commit_id is None else committed_before(where, commit_id)
    before = None if done is not None else _existing(where)
    if mode == "create" and before is not None:
        raise AlreadyExistsError(
            f"{where.shown}: there is a table, at version {before.version}: append to it or overwrite it"
        )
    schema = given.get("schema")
    if schema is not None:
        check_fits(columns, schema, where.shown, given)
    if replace_where is not None:
        # Without a table there is nothing to replace. `create` refuses a table that another writer makes meanwhile, whose
        # rows this write would have to replace.
        mode = "create" if before is None else "append"
    if mode == "append" and before is not None:
        # The workers bring the rows to the columns of the table; what cannot go together is refused before they start.
        check_fits(columns if schema is None else schema, before.schema, where.shown, given)
    elif schema is None:
        schema = columns
    files: FileArguments = {key: given[key] for key in FileArguments.__annotations__ if key in given}  # type: ignore[literal-required,assignment]
    files.update({key: given[key] for key in AdaptArguments.__annotations__ if key in given})  # type: ignore[typeddict-item,literal-required]
    replaced = None
    if replace_where is not None and done is None:
        new = columns if schema is None else schema
        replaced = _replaced(replace_where, new if before is None else before.schema, where.shown)
    spec = WriteSpec(where.uri, mode, schema, files, where.storage_options, replaced)
    return WritePlan(spec, columns, before, commit_id, given, done)


def write_task(batches: Iterable[pa.RecordBatch], spec: WriteSpec) -> Staged:
    """Write the rows of one task to data files and return the pieces that describe them. Without a row, no file is written.

    Raises:
        InvalidInputError: A value has no lossless way into its column: the message names the column and the row.
    """
    rows = 0
    shown = Location.of(spec.uri).shown

    def with_rows() -> Any:
        nonlocal rows
        for batch in batches:
            if spec.replaced is not None:
                spec.replaced.check(batch, rows, spec.files, shown)
            rows += batch.num_rows
            if batch.num_rows:
                yield batch

    stream = with_rows()
    first = next(stream, None)
    if first is None:
        return Staged([], 0)
    pieces = fragments.write(
        chain([first], stream),
        spec.uri,
        mode=spec.mode,
        schema=spec.schema,
        storage_options=spec.storage_options,
        **spec.files,
    )
    return Staged(pieces, rows)


def commit(plan: WritePlan, pieces: Sequence[bytes]) -> Written | Dataset:
    """Make pieces the next version of the table; without any, an empty table for a new schema, or nothing for an append.

    Raises:
        AlreadyExistsError: The mode is `"create"` and there is a table.
        InvalidInputError: The columns of the table changed since the rows were written.
        ConflictError: Another writer committed a version that conflicts with this write.
        CommitUnknownError: The store did not say whether it took the commit: commit the same pieces again with the same id.
    """
    if plan.done is not None:
        return plan.done
    spec, options = plan.spec, plan.options
    if not pieces:
        return _commit_nothing(plan)
    written = fragments.commit(
        spec.uri,
        _OPERATIONS[spec.mode](pieces),
        read_version=None if plan.before is None else plan.before.version,
        commit_id=plan.commit_id,
        properties=options.get("properties"),
        stable_row_ids=options.get("stable_row_ids", False),
        durability=options.get("durability", "full"),
        expect=options.get("expect"),
        compat=options.get("compat"),
        storage_options=spec.storage_options,
    )
    if written.was_committed_before:
        discard(Location.of(spec.uri, spec.storage_options), pieces)
    return written


def discard(where: Location, pieces: Sequence[bytes]) -> int:
    """Remove the data files of pieces that will not be committed, and return how many. Files that a version names stay.

    A file that cannot be removed is left to `cleanup`.
    """
    try:
        return _pilum.discard_fragments(where.uri, list(pieces), storage_options=where.options()) if pieces else 0
    except PilumError:
        return 0


def discard_after(where: Location, pieces: Sequence[bytes], error: BaseException) -> None:
    """Remove the data files of pieces after an error of their commit, unless it is unknown whether they were committed."""
    if isinstance(error, PilumError) and not isinstance(error, CommitUnknownError):
        discard(where, pieces)


def is_outdated(plan: WritePlan, error: BaseException) -> bool:
    """Return whether a commit failed because the table was made, or got other columns, after the write was prepared.

    The caller then writes the rows again.
    """
    if isinstance(error, AlreadyExistsError):
        return plan.spec.replaced is not None
    return isinstance(error, InvalidInputError) and _columns_changed(plan)


def _columns_changed(plan: WritePlan) -> bool:
    now = _existing(Location.of(plan.spec.uri, plan.spec.storage_options))
    if now is None or plan.spec.mode != "append":
        return False
    return plan.before is None or now.schema != plan.before.schema


def _commit_nothing(plan: WritePlan) -> Written | Dataset:
    spec, options = plan.spec, plan.options
    if spec.mode == "append" and plan.before is not None:
        return plan.before
    schema = plan.columns if spec.schema is None else spec.schema
    given = {key: value for key, value in options.items() if key != "schema" and value != DEFAULTS.get(key)}
    return write_dataset(
        schema.empty_table(),
        spec.uri,
        mode=spec.mode,
        commit_id=plan.commit_id,
        storage_options=spec.storage_options,
        **given,  # type: ignore[arg-type]
    )


def _replaced(replace_where: Any, schema: pa.Schema, where: str) -> Replaced:
    found = condition(replace_where, lambda: schema)
    if found is None or (isinstance(found, str) and not found.strip()):
        raise InvalidInputError(f"{where}: replace_where needs a condition; leave out the argument to replace all rows")
    replaced = Replaced(found, schema)
    # A condition that does not fit the columns is refused before a task runs.
    columns = [column.combine_chunks() for column in schema.empty_table().columns]
    replaced.check(pa.RecordBatch.from_arrays(columns, schema=schema), 0, {}, f"{where}: replace_where")
    return replaced


def check_names(columns: pa.Schema, where: str) -> None:
    """Refuse columns of one name, at the top or as members of one struct: a table cannot tell them apart.

    Raises:
        InvalidInputError: There are some; the message has their full names.
    """
    twice = [f"`{path}`" for path in _repeated(list(columns), "")]
    if twice:
        raise InvalidInputError(f"{where}: several columns are called {', '.join(twice)}: give each a name of its own")


def _repeated(fields: Sequence[pa.Field], above: str) -> Iterable[str]:
    for name, times in Counter(it.name for it in fields).items():
        if times > 1:
            yield above + name
    for it in fields:
        yield from _repeated([it.type.field(at) for at in range(it.type.num_fields)], f"{above}{it.name}.")


def committed_before(where: Location, commit_id: str) -> Written | None:
    """Return the version that a commit id made, if it was committed."""
    found = _pilum.committed(where.uri, commit_id, storage_options=where.options())
    return None if found is None else Written(found, where)


def _existing(where: Location) -> Dataset | None:
    try:
        return dataset(where.uri, storage_options=where.storage_options)
    except NotFoundError:
        return None


def check_fits(new: pa.Schema, there: pa.Schema, uri: str, options: WriteOptions) -> None:
    """Refuse columns that cannot become those of a table by the options `cast`, `missing` and `extra`.

    Raises:
        InvalidInputError: The message lists every difference.
    """
    adapt: AdaptArguments = {key: options[key] for key in AdaptArguments.__annotations__ if key in options}  # type: ignore[literal-required,assignment]
    try:
        _pilum.check_fits(new, there, **adapt)
    except InvalidInputError as error:
        raise InvalidInputError(f"{uri}: {error}") from None
