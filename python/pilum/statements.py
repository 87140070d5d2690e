"""Statements over the rows of a table, and its upkeep."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pilum import _pilum
from pilum.conditions import condition, expected, expression
from pilum.exceptions import InvalidInputError
from pilum.exchange import rows_of
from pilum.opened import Opened
from pilum.progress import Progress, reporting

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pilum.dataset import Merged, Written


Choice = str | tuple[str, Any]
"""A word, with its condition behind `if` or beside it."""


class StatementArguments(TypedDict, total=False):
    """What every statement takes."""

    commit_id: str | None
    properties: Mapping[str, str] | None
    durability: Literal["full", "none"]
    retries: int | None


class ExpectingArguments(StatementArguments, total=False):
    """What statements take that can be made to depend on what is there."""

    expect: Any


class Statements(Opened):
    """The part of a `Dataset` that changes rows and files. Statements run on the newest version, whichever is open."""

    __slots__ = ()

    def delete(self, predicate: Any, **options: Unpack[ExpectingArguments]) -> Written:
        """Delete the rows for which a condition is true; where it is false or null they stay.

        Args:
            predicate: SQL text, `pilum.col(..)`, a `pyarrow.compute.Expression`, a list of tuples, or
                `bytes` of Substrait.
            **options: `commit_id`, `properties` and `durability` as in `write_dataset`; `retries`, how often the statement
                is executed again when another commit changed the same rows (10); `expect`, the version that must still be
                the newest, or a condition that may be true for no row, at the instant of the commit.

        Returns:
            The version without the rows, `.rows` the number deleted. When no row matched, the newest version as it is.

        Raises:
            InvalidInputError: There is no such column, or the condition does not fit the schema.
            ConflictError: Others changed the same rows again and again.
        """
        text = condition(predicate, lambda: self.schema)
        if text is None:
            raise InvalidInputError("delete needs a condition; to delete all rows write delete('true')")
        return self._written(_pilum.delete_rows(self._version, text, **expecting(options)))

    def update(
        self,
        assignments: Mapping[str, Any],
        where: Any = None,
        **options: Unpack[ExpectingArguments],
    ) -> Written:
        """Give columns new values in the rows for which a condition is true.

        Args:
            assignments: SQL text or `pilum.col(..)` expressions over the old values, by column; other Python values are
                taken as they are, so a text is written `pilum.lit("text")` or `"'text'"`. `"a.b"` is a field of the struct
                `a`, whose other fields stay; where `a` is null they are null, and it stays null if the new value is.
            where: The condition, as in `delete`; None updates every row.
            **options: As in `delete`.

        Returns:
            The new version, `.rows` the number updated. Rewritten rows come last.

        Raises:
            InvalidInputError: There is no such column, or a value does not fit it.
            ConflictError: Others changed the same rows again and again.
        """
        texts = [(column, expression(value)) for column, value in assignments.items()]
        return self._written(
            _pilum.update_rows(self._version, texts, condition(where, lambda: self.schema), **expecting(options))
        )

    def merge_insert(
        self,
        on: str | Sequence[str],
        source: Any,
        *,
        when_matched: Choice = "update",
        when_not_matched: Choice = "insert",
        when_not_matched_by_source: Choice = "keep",
        memory_limit: int | None = None,
        progress: bool | Progress | None = None,
        **options: Unpack[ExpectingArguments],
    ) -> Merged:
        """Merge rows by key: rows with equal values in the columns `on` match.

        A key that holds a null matches nothing, as in SQL; NaN equals NaN and -0.0 equals 0.0. Of merges at the same time none
        inserts a key that another one inserted: a merge is executed again when rows with its keys came meanwhile.

        Args:
            on: The key, one column or several.
            source: Rows as in `write_dataset`, pulled once. Columns that it lacks keep their values in updated rows and are
                null in inserted ones.
            when_matched: `"update"`, `"update if source.at > target.at"`, `"keep"` the row as it is, `"fail"`, or `"delete"`.
            when_not_matched: `"insert"` or `"ignore"` rows of the source whose key is not in the table.
            when_not_matched_by_source: `"keep"`, `"delete"`, or `"delete if region = 'eu'"` for rows of the table whose key is
                not in the source. Any condition may also be given beside its word: `("delete", pilum.col("region") == "eu")`.
            memory_limit: Bytes that may be held at once; more of the source waits in a temporary file (`TMPDIR`).
            progress: As in `write_dataset`, in rows of the source.
            **options: As in `delete`.

        Returns:
            The new version; `.inserted`, `.updated`, `.deleted` count rows. Updated and inserted rows come last.

        Raises:
            InvalidInputError: Columns do not fit, several rows of the source match one row that is to change (the key is
                named), or a row matches where that is a failure.
            ConflictError: Others changed the same keys again and again, or what was expected does not hold.
            LimitError: Too many rows of the source have one key for the memory limit.
        """
        with rows_of(source, None) as rows, reporting(progress, f"merging into {self._where.uri}") as report:
            outcome = _pilum.merge_rows(
                self._version,
                [on] if isinstance(on, str) else list(on),
                rows,
                matched=_choice(when_matched),
                not_matched=_choice(when_not_matched),
                not_matched_by_source=_choice(when_not_matched_by_source),
                memory_limit=memory_limit,
                progress=report,
                **expecting(options),
            )
        return self._merged(outcome)

    def compact(
        self,
        *,
        target_rows: int = 1_048_576,
        target_bytes: int | None = None,
        max_deleted_fraction: float = 0.1,
        memory_limit: int | None = None,
        **options: Unpack[ExpectingArguments],
    ) -> _pilum.CompactionResult:
        """Rewrite small fragments, and those with many deleted rows, into large ones. No row changes; old versions stay.

        Rewritten fragments come behind those that stay, so the order of rows may change.

        Args:
            target_rows: Rows of a good fragment; smaller neighbours are joined.
            target_bytes: Bytes of a good fragment, where rows alone do not tell.
            max_deleted_fraction: A fragment with a larger share of deleted rows is rewritten.
            memory_limit: Bytes that may be held at once: half of them for reading, the rest for pages that are being filled,
                of a sixteenth or of one row.
            **options: As in `delete`.
        """
        return _pilum.compact(
            self._version,
            target_rows=target_rows,
            target_bytes=target_bytes,
            max_deleted_fraction=max_deleted_fraction,
            memory_limit=memory_limit,
            **expecting(options),
        )

    def cleanup(
        self,
        *,
        older_than: dt.timedelta = dt.timedelta(days=14),
        keep_versions: int | None = None,
        unverified_older_than: dt.timedelta = dt.timedelta(days=7),
        dry_run: bool = False,
    ) -> _pilum.CleanupResult:
        """Remove old versions and their files. The newest version, tagged ones and newer ones than this stay.

        Args:
            older_than: Versions older than this go, but for those that came after one with which a writer at work began.
            keep_versions: So many of the newest versions stay, however old they are.
            unverified_older_than: Files that no version names go when they are older than this, which must be longer than
                any write takes: a writer at work has such files.
            dry_run: Tell what would go, and change nothing.
        """
        return _pilum.cleanup(
            self._version,
            older_than_seconds=older_than.total_seconds(),
            keep_versions=keep_versions,
            unverified_older_than_seconds=unverified_older_than.total_seconds(),
            dry_run=dry_run,
        )

    def verify(self, *, progress: bool | Progress | None = None) -> _pilum.VerifyReport:
        """Read and check every file of this version: checksums, counts, offsets, UTF-8, row ids, statistics, and more.

        Args:
            progress: True for a bar (needs tqdm), or a callable `(done_rows, total_rows)`.

        Returns:
            A report, true if nothing is wrong: `.ok`, `.problems` as (path, reason), `.uncovered` files that no checksum covers
            because another library wrote them, `.orphans` that no version names; `.to_dict()` and `.to_json()` for the rest.
        """
        with reporting(progress, f"verifying {self._version.uri}") as report:
            return _pilum.verify(self._version, progress=report)

    def describe(self) -> dict[str, Any]:
        """Return what this version consists of: its columns, flags, fragments, files and what checksums cover.

        Nothing is read: the manifest says it all. Sizes are in bytes; None where a writer did not say. The keys are those of
        `pilum inspect --json` below `table`.
        """
        described: dict[str, Any] = json.loads(_pilum.describe(self._version))
        return described


def expecting(options: ExpectingArguments) -> ExpectingArguments:
    """Return options as the engine takes them."""
    if "expect" in options:
        return {**options, "expect": expected(options["expect"])}
    return options


def _choice(choice: Choice) -> tuple[str, str | None]:
    """Split a word and the condition behind it."""
    if not isinstance(choice, str):
        word, given = choice
        return word, condition(given)
    word, found, text = choice.partition(" if ")
    return word, text if found else None
