"""Statements over the rows of a table: delete, update, merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import ExpectingArguments, ExpectingValueArguments, checked, key, shown
from pilum.conditions import condition, expected, expression
from pilum.dict_rows import with_equal_keys
from pilum.exceptions import InvalidInputError
from pilum.exchange import rows_of
from pilum.opened import Opened
from pilum.pandas_frames import indexed
from pilum.progress import Progress, reporting

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pilum.dataset import Merged, Written
    from pilum.expr import Expr

Choice = str | tuple[str, Any]
"""A word; or a word with a condition, in one text behind `if` or as a second value."""


def _assignments(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not value or not all(isinstance(column, str) for column in value):
        raise InvalidInputError(f"{name}: pass a dict of columns and expressions, not {shown(value)}")


def _words(name: str, value: Any) -> None:
    is_pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
    if not isinstance(value, str) and not is_pair:
        raise InvalidInputError(f"{name}: pass a word, or a tuple of a word and a condition, not {shown(value)}")


class Statements(Opened):
    """The part of a `Dataset` that changes rows. Statements run on the newest version, whichever version is open."""

    __slots__ = ()

    @checked(ExpectingArguments)
    def delete(self, predicate: Any, **options: Unpack[ExpectingArguments]) -> Written:
        """Delete the rows for which a condition is true. Rows for which it is false or null stay.

        Args:
            predicate: SQL text, `pilum.col(..)`, a `pyarrow.compute.Expression`, a list of tuples, or `bytes` of Substrait.
            commit_id: As in `write_dataset`.
            properties: As in `write_dataset`.
            durability: As in `write_dataset`.
            retries: How often the statement runs again if another commit changed the same rows; 10 by default.
            expect: As in `write_dataset`.

        Returns:
            The version without the rows; `.rows` is the number of deleted rows. The newest version if no row matched.

        Raises:
            InvalidInputError: There is no such column, or the condition does not fit the columns.
            ConflictError: Other writers changed the same rows again and again, or what was expected does not hold.

        Example:
            `ds = ds.delete("id = 1", expect=ds.version)`
        """
        text = condition(predicate, lambda: self.schema)
        if text is None:
            raise InvalidInputError("delete needs a condition; to delete all rows write delete('true')")
        return self._written(_pilum.delete_rows(self._version, text, **expecting(options)))

    @checked(ExpectingValueArguments, assignments=_assignments)
    def update(
        self,
        assignments: Mapping[str, Any],
        where: Any = None,
        **options: Unpack[ExpectingValueArguments],
    ) -> Written:
        """Give columns new values in the rows for which a condition is true.

        Args:
            assignments: By column, SQL text or a `pilum.col(..)` expression over the old values. Other Python values are
                literals; a literal text is written `pilum.lit("text")` or `"'text'"`. `"a.b"` is the member `b` of the struct
                `a`, whose other members stay; a struct that is null stays null.
                A value is kept in the type of its column (docs/types.md), or the update is refused with its row; whoever wants
                it rounded or parsed writes `CAST`.
            where: The condition, as in `delete`. None updates every row.
            commit_id: As in `write_dataset`.
            properties: As in `write_dataset`.
            durability: As in `write_dataset`.
            retries: As in `delete`.
            expect: As in `write_dataset`.
            compat: `"lossless"` keeps values that Lance v1 cannot hold, and makes the table `"lossless"`; None does so if the
                table is (`write_compat`). Otherwise they are refused.

        Returns:
            The new version; `.rows` is the number of updated rows. They come last in row order.

        Raises:
            InvalidInputError: There is no such column, or a value does not fit it.
            ConflictError: Other writers changed the same rows again and again, or what was expected does not hold.

        Example:
            `ds = ds.update({"x": "UPPER(x)"}, where="id > 1")`
        """
        texts = [(column, expression(value)) for column, value in assignments.items()]
        return self._written(
            _pilum.update_rows(self._version, texts, condition(where, lambda: self.schema), **expecting(options))
        )

    @checked(
        ExpectingValueArguments,
        on=key,
        when_matched=_words,
        when_not_matched=_words,
        when_not_matched_by_source=_words,
    )
    def merge_insert(
        self,
        on: str | Sequence[str],
        source: Any,
        *,
        when_matched: Choice = "update",
        when_not_matched: Choice = "insert",
        when_not_matched_by_source: Choice = "keep",
        index: bool | None = None,
        memory_limit: int | None = None,
        cast: Literal["exact", "lossy"] = "exact",
        missing: Literal["null", "error"] | None = None,
        extra: Literal["error", "ignore"] = "error",
        progress: bool | Progress | None = None,
        **options: Unpack[ExpectingValueArguments],
    ) -> Merged:
        """Merge rows by key: rows of the source and of the table match if they have equal values in the columns `on`.

        A key that contains a null matches nothing, as in SQL; NaN equals NaN, and -0.0 equals 0.0. If another commit inserts
        rows with keys of this merge, the merge runs again, so that no two merges insert the same key.

        Args:
            on: The columns of the key.
            source: Rows, as in `write_dataset`; they are pulled once. Columns that the source lacks keep their values in
                updated rows and are null in inserted rows.
            when_matched: `"update"`, `"update if source.at > target.at"`, `"keep"` the row as it is, `"fail"`, or `"delete"`.
                `source.x` is the column of the source, `target.x` that of the table; `x` alone is the one that there is, and is
                refused if both have it.
            when_not_matched: `"insert"` or `"ignore"` rows of the source whose key is not in the table.
            when_not_matched_by_source: `"keep"`, `"delete"`, or `"delete if region = 'eu'"` for rows of the table whose key is
                not in the source; `target.region` is the same column, as there is no row of the source. Any condition may also
                be the second value of a tuple: `("delete", pilum.col("region") == "eu")`.
            index: As in `write_dataset`, for a source of pandas.
            memory_limit: Bytes that may be held at once. The rest of the source waits in a temporary file (`TMPDIR`).
            cast: As in `write_dataset`.
            missing: `"error"` asks for all columns of the table. A member that a struct of the source lacks is null in that
                struct; with `"error"` it is refused. Where some dicts of a source lack a key that others have, the merge is
                refused; `"null"` makes the values of these rows null.
            extra: As in `write_dataset`.
            progress: As in `write_dataset`, in rows of the source.
            commit_id: As in `write_dataset`.
            properties: As in `write_dataset`.
            durability: As in `write_dataset`.
            retries: As in `delete`.
            expect: As in `write_dataset`.
            compat: As in `update`.

        Returns:
            The new version; `.inserted`, `.updated` and `.deleted` count rows. Updated and inserted rows come last.

        Raises:
            InvalidInputError: Columns do not fit; several rows of the source match one row that is to change (the key is
                named); or a row matches and `when_matched` is `"fail"`.
            ConflictError: Other writers changed the same keys again and again, or what was expected does not hold.
            LimitError: Too many rows of the source have one key for the memory limit.

        Example:
            `ds = ds.merge_insert("id", rows, when_matched="update if source.x <> target.x")`
        """
        if missing != "null":
            source = with_equal_keys(source)
        with (
            rows_of(indexed(source, index), None, missing) as rows,
            reporting(progress, f"merging into {self._where.shown}") as report,
        ):
            outcome = _pilum.merge_rows(
                self._version,
                [on] if isinstance(on, str) else list(on),
                rows,
                matched=_choice(when_matched),
                not_matched=_choice(when_not_matched),
                not_matched_by_source=_choice(when_not_matched_by_source),
                memory_limit=memory_limit,
                cast=cast,
                missing=missing or "null",
                extra=extra,
                progress=report,
                **expecting(options),
            )
        return self._merged(outcome)


def expecting(options: ExpectingArguments) -> ExpectingArguments:
    """Return options as the engine takes them."""
    if "expect" in options:
        return {**options, "expect": expected(options["expect"])}
    return options


def _choice(choice: Choice) -> tuple[str, Expr | str | None]:
    """Split a choice into its word and its condition."""
    if not isinstance(choice, str):
        word, given = choice
        return word, condition(given)
    word, found, text = choice.partition(" if ")
    return word, text if found else None
