"""What calls that make a version return beside the version: counts of rows, bytes, fragments and attempts.

The classes here are combined with `Dataset` in `dataset.py`, so that this module imports no other of the package but the
engine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilum import _pilum


class WriteCounts:
    """Counts of a write or a statement."""

    __slots__ = ()

    _outcome: _pilum.WriteResult | _pilum.MergeResult | _pilum.CompactionResult

    @property
    def bytes(self) -> int:
        """Size of the data files that the call wrote, in bytes."""
        return self._outcome.bytes

    @property
    def attempts(self) -> int:
        """Attempts to commit. More than one if other writers committed first, 0 if nothing was to be committed.

        It is also 0 if an earlier call with the same `commit_id` committed.
        """
        return self._outcome.attempts

    @property
    def was_committed_before(self) -> bool:
        """True if an earlier call with the same `commit_id` committed, and this call changed nothing."""
        return self._outcome.was_committed_before


class RowCount(WriteCounts):
    """Counts of a write or a statement that does one thing to rows."""

    __slots__ = ()

    _outcome: _pilum.WriteResult

    @property
    def rows(self) -> int:
        """Rows that the call wrote, deleted or updated."""
        return self._outcome.rows


class MergeCounts(WriteCounts):
    """Counts of a merge."""

    __slots__ = ()

    _outcome: _pilum.MergeResult

    @property
    def inserted(self) -> int:
        """Rows inserted."""
        return self._outcome.inserted

    @property
    def updated(self) -> int:
        """Rows that got new values."""
        return self._outcome.updated

    @property
    def deleted(self) -> int:
        """Rows deleted."""
        return self._outcome.deleted

    @property
    def rows(self) -> int:
        """Rows inserted, updated and deleted."""
        return self._outcome.inserted + self._outcome.updated + self._outcome.deleted


class CompactionCounts(WriteCounts):
    """Counts of a compaction."""

    __slots__ = ()

    _outcome: _pilum.CompactionResult

    @property
    def rows(self) -> int:
        """Rows rewritten."""
        return self._outcome.rows

    @property
    def fragments_removed(self) -> int:
        """Fragments that were rewritten."""
        return self._outcome.fragments_removed

    @property
    def fragments_added(self) -> int:
        """Fragments that took their place."""
        return self._outcome.fragments_added
