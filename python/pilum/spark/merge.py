"""Merges of a DataFrame into a table by key: Spark joins and computes, tasks write, the driver commits one version.

```text
  table: keys and addresses ──┐
                              ├─ join by Spark ──> tasks: new rows to files, removed and kept rows as row sets ──> one commit
  source DataFrame ───────────┘
```

The commit checks the rows that were removed and those that matched and stay against every version since the one that was read.
Rows that others added since are compared by key before the commit, so two merges never insert one key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pilum import _pilum
from pilum.arguments import AdaptArguments, ExpectingValueArguments, FileArguments, checked, key
from pilum.dataset import Dataset, Merged, dataset
from pilum.exceptions import ConflictError, InvalidInputError
from pilum.location import Location, StorageOptions
from pilum.spark import staging
from pilum.spark import statements as st
from pilum.spark import tasks as core
from pilum.spark.read import of_plan
from pilum.spark.types import from_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from typing_extensions import Unpack

Choice = Any
"""A word, a word and `if` with a condition in Spark's SQL, or a tuple of a word and a condition (text or `Column`)."""

MATCHED = ("update", "keep", "fail", "delete")
NOT_MATCHED = ("insert", "ignore")
BY_SOURCE = ("keep", "delete")

RESULT_SCHEMA = (
    "removed binary, kept binary, inserted bigint, updated bigint, deleted bigint, pieces array<binary>, error string"
)

COMMITS = 5
"""How often a finished merge is checked against rows that others added, before it is executed again."""

UPDATE, INSERT, DELETE, KEEP, FAIL = 1, 2, 3, 4, 5
_ACTION, _TIMES, _GONE = "_pilum_action", "_pilum_times", "_pilum_gone"


class MergeArguments(ExpectingValueArguments, AdaptArguments, total=False):
    """Options of a merge; see `Dataset.merge_insert`."""


class RowsAddedError(ConflictError):
    """Another writer added rows with keys of this merge after it read the table."""

    retryable = True


@dataclass(frozen=True)
class _Outcome:
    """The counts of a merge, as `Merged` reads them."""

    dataset: Any
    version: int
    inserted: int
    updated: int
    deleted: int
    bytes: int
    attempts: int
    was_committed_before: bool


@checked(MergeArguments, on=key)
def merge(
    df: DataFrame,
    uri: str,
    on: str | Sequence[str],
    *,
    when_matched: Choice = "update",
    when_not_matched: Choice = "insert",
    when_not_matched_by_source: Choice = "keep",
    storage_options: StorageOptions | None = None,
    **options: Unpack[MergeArguments],
) -> Merged:
    """Merge the rows of a DataFrame into a table by key, as one version.

    Rows match if they have equal values in the columns `on`. A key that contains a null matches nothing. Each key is at most
    once in the source. The source is computed once, and again for every repetition after a conflict: it must yield the same
    rows each time.

    Args:
        df: The source. Columns that it lacks keep their values in updated rows and are null in inserted ones.
        uri: The table, reachable from the driver and the workers.
        on: The columns of the key.
        when_matched: `"update"`, `"update if source.at > target.at"`, `"keep"` the row as it is, `"fail"`, or `"delete"`, which
            takes a condition too. Conditions are Spark's SQL over `source` and `target`, or a `Column`: `("update", column)`.
        when_not_matched: `"insert"`, `"insert if source.amount > 0"` or `"ignore"` rows of the source whose key is not in the
            table.
        when_not_matched_by_source: `"keep"`, `"delete"`, or `"delete if region = 'eu'"` for rows of the table whose key is not
            in the source; the condition is over the columns of the table.
        storage_options: Credentials and settings of the store, sent to the workers.
        cast: As in `pilum.write_dataset`.
        missing: As in `Dataset.merge_insert`.
        extra: As in `pilum.write_dataset`.
        commit_id: An id chosen by the caller, looked up before a task runs: the same id commits once.
        properties: As in `pilum.write_dataset`.
        durability: As in `pilum.write_dataset`.
        retries: How often the merge is executed again if another commit changed the same rows; 10 by default.
        expect: As in `pilum.write_dataset`.
        compat: As in `Dataset.update`.

    Returns:
        The new version; `.inserted`, `.updated` and `.deleted` count rows.

    Raises:
        NotFoundError: There is no table.
        InvalidInputError: Columns do not fit, a key is twice in the source, or a row matches and `when_matched` is `"fail"`.
        ConflictError: Other writers changed the same keys again and again, or what was expected does not hold.
    """
    keys = [on] if isinstance(on, str) else list(on)
    rules = _Rules(
        _choice("when_matched", when_matched, MATCHED),
        _choice("when_not_matched", when_not_matched, NOT_MATCHED),
        _choice("when_not_matched_by_source", when_not_matched_by_source, BY_SOURCE),
    )
    return st.again(lambda: _Merge(df, uri, keys, rules, storage_options, options).run(), options.get("retries"))


@dataclass(frozen=True)
class _Rules:
    matched: tuple[str, Any]
    not_matched: tuple[str, Any]
    by_source: tuple[str, Any]

    def join(self) -> str:
        """Return the join that yields the rows that the rules are about, the source on its left."""
        inserts, deletes = self.not_matched[0] == "insert", self.by_source[0] == "delete"
        return {(True, True): "full", (True, False): "left", (False, True): "right", (False, False): "inner"}[
            inserts, deletes
        ]


def _choice(name: str, choice: Choice, words: Sequence[str]) -> tuple[str, Any]:
    if isinstance(choice, str):
        word, found, text = choice.partition(" if ")
        given = text if found else None
    elif isinstance(choice, tuple) and len(choice) == 2:
        word, given = choice
    else:
        word, given = choice, None
    if word not in words or (given is not None and word in {"keep", "fail", "ignore"}):
        raise InvalidInputError(f"{name}: pass {', '.join(map(repr, words))}, not {choice!r}; conditions follow ' if '")
    return word, given


class _Merge:
    """One execution of a merge, on the newest version."""

    def __init__(
        self,
        df: DataFrame,
        uri: str,
        keys: Sequence[str],
        rules: _Rules,
        storage_options: StorageOptions | None,
        options: Mapping[str, Any],
    ) -> None:
        self.df, self.keys, self.rules, self.options = df, keys, rules, options
        self.where = Location.of(uri, storage_options)

    def run(self) -> Merged:
        before = st.done_before(self.where, self.options.get("commit_id"))
        if before is not None:
            there = st.opened(before.version, self.where.uri, self.where.storage_options)
            return Merged(_Outcome(there, before.version, 0, 0, 0, 0, 0, True), self.where)  # type: ignore[arg-type]
        self.base = dataset(self.where.uri, storage_options=self.where.storage_options)
        self.check()
        stable = bool(self.base.describe()["has_stable_row_ids"])
        rows = self.joined(stable)
        files = {k: v for k, v in self.options.items() if k in FileArguments.__annotations__}
        files.update({k: v for k, v in self.options.items() if k in AdaptArguments.__annotations__ and k != "missing"})
        spec = staging.WriteSpec(self.where.uri, "append", None, files, self.where.storage_options)  # type: ignore[arg-type]
        results = rows.mapInArrow(_merge_of(spec, self.keys, stable), RESULT_SCHEMA).collect()
        pieces = [bytes(piece) for it in results for piece in it.pieces]
        refused = [it.error for it in results if it.error is not None]
        if refused:
            staging.discard(self.where, pieces)
            raise InvalidInputError(f"{self.where.shown}: {refused[0]}")
        return self.commit(results, pieces)

    # -- What the driver checks before a task runs ---------------------------------------------------------------------

    def check(self) -> None:
        columns = from_spark_schema(self.df.schema)
        shown = self.where.shown
        staging.check_names(columns, shown)
        table = self.base.schema
        for name in self.keys:
            for side, schema in (("the source", columns), ("the table", table)):
                if name not in schema.names:
                    raise InvalidInputError(f"{shown}: key column {name!r} is not in {side}: it has {schema.names}")
            if pa.types.is_nested(table.field(name).type):
                raise InvalidInputError(
                    f"{shown}: key column {name!r} is {table.field(name).type}: a key is a plain value"
                )
        if len(set(self.keys)) < len(self.keys):
            raise InvalidInputError(f"{shown}: the key names a column twice: {self.keys}")
        staging.check_fits(columns, table, shown, self.options)  # type: ignore[arg-type]
        if (self.rules.matched[0], self.rules.not_matched[0], self.rules.by_source[0]) == ("keep", "ignore", "keep"):
            raise InvalidInputError(f"{shown}: the merge would change nothing whatever the rows")

    # -- The join --------------------------------------------------------------------------------------------------------

    def kept_columns(self) -> list[str]:
        """Return the columns of the table, beside the keys, that the merge needs of matched rows."""
        word, given = self.rules.matched
        names = self.base.schema.names
        needed = set(names) - set(self.df.columns) if word == "update" else set()
        for condition in (given, self.rules.by_source[1]):
            if isinstance(condition, str):
                # Names in a condition: every column whose name is a word of it.
                words = set(re.findall(r"[A-Za-z_]\w*", condition)) | set(re.findall(r"`([^`]+)`", condition))
                needed |= {name for name in names if name in words}
            elif condition is not None:
                needed |= set(names)
        return [name for name in names if name in needed and name not in self.keys]

    def target(self, columns: Sequence[str], stable: bool) -> DataFrame:
        from pyspark.sql import functions as f

        planned = core.plan(
            self.where.uri,
            columns,
            version=self.base.version,
            with_row_address=True,
            with_row_id=stable,
            storage_options=self.where.storage_options,
        )
        rows = of_plan(self.df.sparkSession, planned)
        gone = _condition(self.rules.by_source[1])
        return rows.select(
            f.struct(*(f.col(_quoted(name)) for name in columns)).alias("target"),
            "_rowaddr",
            *(["_rowid"] if stable else []),
            f.coalesce(gone, f.lit(False)).alias(_GONE),
        )

    def joined(self, stable: bool) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        by_key = Window.partitionBy(*(f.col(_quoted(name)) for name in self.keys))
        source = self.df.select("*", f.count(f.lit(1)).over(by_key).alias(_TIMES)).select(
            f.struct(*(f.col(_quoted(name)) for name in self.df.columns)).alias("source"), _TIMES
        )
        columns = [*self.keys, *self.kept_columns()]
        target = self.target(columns, stable)
        condition = None
        for name in self.keys:
            equal = f.col(f"source.{_quoted(name)}") == f.col(f"target.{_quoted(name)}")
            condition = equal if condition is None else condition & equal
        rows = source.join(target, condition, self.rules.join())
        rows = rows.withColumn(_ACTION, self.action()).where(f.col(_ACTION).isNotNull())
        values = []
        for name in self.base.schema.names:
            if name in self.df.columns:
                values.append(f.col(f"source.{_quoted(name)}").alias(name))
            elif name in columns:
                values.append(f.col(f"target.{_quoted(name)}").alias(name))
        extra = [name for name in self.df.columns if name not in self.base.schema.names]
        values += [f.col(f"source.{_quoted(name)}").alias(name) for name in extra]
        rows = rows.select(_ACTION, _TIMES, "_rowaddr", *(["_rowid"] if stable else []), *values)
        # Rows that keep their ids come first in a file, and rows with new ids behind them.
        return rows.sortWithinPartitions(f.col("_rowaddr").isNull()) if stable else rows

    def action(self) -> Column:
        """Return what becomes of a row of the join; null for nothing."""
        from pyspark.sql import functions as f

        word, given = self.rules.matched
        found = f.lit({"update": UPDATE, "delete": DELETE, "keep": KEEP, "fail": FAIL}[word])
        if given is not None:
            found = f.when(_condition(given), found).otherwise(f.lit(KEEP))
        is_source, is_target = f.col("source").isNotNull(), f.col("_rowaddr").isNotNull()
        new = f.when(_condition(self.rules.not_matched[1]), f.lit(INSERT))
        gone = f.when(f.col(_GONE), f.lit(DELETE))
        return (
            f.when(is_source & is_target, found).when(is_source, new).otherwise(gone)
            if self.rules.by_source[0] == "delete"
            else f.when(is_source & is_target, found).when(is_source, new)
        )

    # -- The commit ------------------------------------------------------------------------------------------------------

    def commit(self, results: Sequence[Any], pieces: Sequence[bytes]) -> Merged:
        removed = [bytes(it.removed) for it in results if it.removed is not None]
        kept = [bytes(it.kept) for it in results if it.kept is not None]
        counts = [sum(getattr(it, name) for it in results) for name in ("inserted", "updated", "deleted")]
        relies = self.rules.not_matched[0] == "insert" or self.rules.by_source[0] == "delete"
        known = self.base.version if relies else None
        try:
            for left in range(COMMITS - 1, -1, -1):
                known = self.checked_until(known)
                try:
                    outcome, _ = _pilum.commit_changes(
                        st.opened(self.base.version, self.where.uri, self.where.storage_options),
                        pieces=list(pieces),
                        removed=removed,
                        kept=kept,
                        no_new_rows_after=known,
                        is_merge=True,
                        **st.commit_options(self.options),
                    )
                    break
                except ConflictError as conflict:
                    if not (conflict.retryable and left and self.others_only_added()):
                        raise
        except BaseException as error:
            staging.discard_after(self.where, pieces, error)
            raise
        if outcome.was_committed_before:
            staging.discard(self.where, pieces)
            counts = [0, 0, 0]
        done = _Outcome(
            outcome.dataset,
            outcome.version,
            inserted=counts[0],
            updated=counts[1],
            deleted=counts[2],
            bytes=outcome.bytes,
            attempts=outcome.attempts,
            was_committed_before=outcome.was_committed_before,
        )
        return Merged(done, self.where)  # type: ignore[arg-type]

    def others_only_added(self) -> bool:
        """Return whether all that happened since are added rows, so that a look at their keys may settle the conflict."""
        return self.rules.by_source[0] == "keep" and bool(self.added(self.newest()))

    def newest(self) -> Dataset:
        return dataset(self.where.uri, storage_options=self.where.storage_options)

    def added(self, newest: Dataset) -> list[int]:
        there = {it.id for it in self.base.fragments}
        return [it.id for it in newest.fragments if it.id not in there]

    def checked_until(self, known: int | None) -> int | None:
        """Return the last version without new rows that matter; compare the keys of the rows that were added.

        Raises:
            RowsAddedError: A key of the source was added.
        """
        if known is None or self.rules.by_source[0] != "keep":
            return known
        newest = self.newest()
        added = self.added(newest)
        if not added:
            return known
        planned = core.plan(
            self.where.uri,
            self.keys,
            version=newest.version,
            fragments=added,
            storage_options=self.where.storage_options,
        )
        spark = self.df.sparkSession
        keys = [_quoted(name) for name in self.keys]
        source = self.df.select(*keys)
        new = of_plan(spark, planned)
        on = None
        for name in keys:
            equal = source[name] == new[name]
            on = equal if on is None else on & equal
        if new.join(source, on, "left_semi").limit(1).collect():
            raise RowsAddedError(
                f"{self.where.shown}: version {newest.version} has rows with keys of this merge that were added after version "
                f"{self.base.version}: merge again"
            )
        return newest.version


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _condition(given: Any) -> Column:
    from pyspark.sql import functions as f

    if given is None:
        return f.lit(True)
    return f.expr(given) if isinstance(given, str) else given


def _merge_of(spec: staging.WriteSpec, keys: Sequence[str], stable: bool) -> Callable[..., Iterator[pa.RecordBatch]]:
    def pilum_merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _Task(spec, keys, stable).run(batches)

    return pilum_merge


class _Task:
    """One task of a merge: it writes the new rows of its partition, and collects addresses."""

    def __init__(self, spec: staging.WriteSpec, keys: Sequence[str], stable: bool) -> None:
        self.spec, self.keys, self.stable = spec, keys, stable
        self.removed: list[pa.Array] = []
        self.kept: list[pa.Array] = []
        self.row_ids: list[pa.Array] = []
        self.counts = dict.fromkeys((UPDATE, INSERT, DELETE, KEEP, FAIL), 0)

    def run(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        error = None
        pieces: list[bytes] = []
        try:
            pieces = staging.write_task(self.new_rows(batches), self.spec).pieces
            if pieces and self.row_ids:
                pieces = [_pilum.with_row_ids(pieces[0], st.numbers(self.row_ids)), *pieces[1:]]
            removed, kept = self.encoded(self.removed), self.encoded(self.kept)
        except InvalidInputError as refused:
            error, removed, kept = str(refused), None, None
        counted = [pa.array([self.counts[it]], pa.int64()) for it in (INSERT, UPDATE, DELETE)]
        columns = [pa.array([removed], pa.binary()), pa.array([kept], pa.binary()), *counted]
        columns += [pa.array([pieces], pa.list_(pa.binary())), pa.array([error], pa.string())]
        names = ["removed", "kept", "inserted", "updated", "deleted", "pieces", "error"]
        return pa.RecordBatch.from_arrays(columns, names=names)

    @staticmethod
    def encoded(rows: Sequence[pa.Array]) -> bytes | None:
        return _pilum.row_set(st.numbers(rows)) if rows else None

    def new_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows to write, and note what becomes of the others."""
        for batch in batches:
            action = batch.column(_ACTION)
            self.refuse(
                batch, pc.greater(batch.column(_TIMES), 1), "is several times in the source: keep one row for each key"
            )
            self.refuse(batch, pc.equal(action, FAIL), "is in the table, and when_matched is 'fail'")
            for number, times in zip(*_counted(action), strict=True):
                self.counts[number] += times
            address = batch.column("_rowaddr")
            for rows, actions in ((self.removed, [UPDATE, DELETE]), (self.kept, [KEEP])):
                chosen = address.filter(pc.is_in(action, pa.array(actions, action.type)))
                if len(chosen):
                    rows.append(chosen)
            written = batch.filter(pc.is_in(action, pa.array([UPDATE, INSERT], action.type)))
            if not written.num_rows:
                continue
            if self.stable:
                ids = written.column("_rowid").drop_null()
                if len(ids):
                    self.row_ids.append(ids)
            own = {_ACTION, _TIMES, "_rowaddr", "_rowid"}
            yield written.select([name for name in written.schema.names if name not in own])

    def refuse(self, batch: pa.RecordBatch, mask: pa.Array, reason: str) -> None:
        for name in self.keys:
            mask = pc.and_kleene(mask, pc.is_valid(batch.column(name)))
        rows = batch.filter(mask).select(list(self.keys))
        if rows.num_rows:
            raise InvalidInputError(f"the key {rows.slice(0, 1).to_pylist()[0]} {reason}")


def _counted(action: pa.Array) -> tuple[list[int], list[int]]:
    counts = pc.value_counts(action)
    return counts.field("values").to_pylist(), counts.field("counts").to_pylist()
