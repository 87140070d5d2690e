"""Commits of writes with `replace_where`: new rows replace the rows for which a condition is true, in one version.

The new rows are staged first, without looking at the old ones. The commit finds the rows to remove in the newest version, and
publishes their removal and the new rows together. Where another writer meanwhile added rows for which the condition is true,
or changed rows that are to be removed, the commit looks for the rows again in the newest version, and uses the same staged
files. So if two such writes run at once, the later commit replaces the rows of the earlier one. Rows that do not match stay,
also rows that other writers add meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pilum import _pilum
from pilum.dataset import Dataset, Written, dataset
from pilum.exceptions import ConflictError
from pilum.location import Location
from pilum.spark import staging
from pilum.spark import statements as st

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pilum.expr import Expr
    from pilum.spark.staging import WritePlan

COMMITS = 5
"""Attempts to commit while other versions add only rows that do not match, before the rows to remove are looked for again."""


def commit(plan: WritePlan, pieces: Sequence[bytes], spark: SparkSession | None = None) -> Written | Dataset:
    """Commit staged fragments in place of the rows that `plan` replaces. If it replaces none, do as `staging.commit`.

    Args:
        plan: What `staging.prepare` returned.
        pieces: What the tasks returned.
        spark: The session whose tasks look for the rows to remove if the table has more than 1 GiB. Without a session, or for
            a smaller table, this process looks for them.

    Raises:
        AlreadyExistsError: Another writer made the table after the write was prepared: write again.
        InvalidInputError: The columns of the table changed since the rows were written.
        ConflictError: Other writers changed the same rows in every attempt, or the precondition (`expect`) does not hold.
        CommitUnknownError: The store did not say whether it took the commit: commit the same pieces again with the same id.
    """
    if plan.done is not None or plan.before is None or plan.spec.replaced is None:
        return staging.commit(plan, pieces)
    condition = plan.spec.replaced.condition
    return st.again(lambda: _attempt(plan, pieces, condition, spark), None)


def _attempt(plan: WritePlan, pieces: Sequence[bytes], condition: Expr | str, spark: SparkSession | None) -> Written:
    where = Location.of(plan.spec.uri, plan.spec.storage_options)
    before = st.done_before(where, plan.commit_id)
    if before is not None:
        staging.discard(where, pieces)
        return before
    base = dataset(where.uri, storage_options=where.storage_options)
    removed = st.matching(base, where, condition, spark if st.is_large(base, None) else None)
    known = base.version
    options = st.commit_options({**plan.options, "commit_id": plan.commit_id})
    for left in range(COMMITS - 1, -1, -1):
        try:
            outcome, _ = _pilum.commit_changes(
                st.opened(base.version, where.uri, where.storage_options),
                pieces=list(pieces),
                removed=removed,
                kept=[],
                no_new_rows_after=known,
                predicate=str(condition),
                **options,
            )
        except ConflictError as conflict:
            newest = dataset(where.uri, storage_options=where.storage_options)
            if not (conflict.retryable and left and _only_added_others(base, newest, condition)):
                raise
            known = newest.version
        else:
            if outcome.was_committed_before:
                staging.discard(where, pieces)
            return Written(outcome, where)
    raise AssertionError("unreachable")


def _only_added_others(base: Dataset, newest: Dataset, condition: Expr | str) -> bool:
    """Return whether versions after `base` added fragments, and the condition is true for none of their rows."""
    there = {it.id for it in base.fragments}
    added = [it.id for it in newest.fragments if it.id not in there]
    return bool(added) and not newest.scanner([], condition, fragments=added).count_rows()
