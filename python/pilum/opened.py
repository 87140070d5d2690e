"""The opened version of a table that every part of `Dataset` works with, and how a part returns another version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilum.sources import RowSource

if TYPE_CHECKING:
    from pilum import _pilum
    from pilum.dataset import CompactionResult, Dataset, Merged, Written
    from pilum.location import Location


class Opened(RowSource):
    """One opened version and its address. `Dataset` says which classes its calls return."""

    __slots__ = ("_opened", "_where")

    def __init__(self, version: _pilum.Dataset, where: Location) -> None:
        self._opened = version
        self._where = where

    @property
    def _version(self) -> _pilum.Dataset:
        """The opened version; opened again if its credentials were renewed since."""
        renewed = self._where.renewed()
        if renewed is not None:
            self._opened = self._opened.reopened(renewed.options())
            self._where = renewed
        return self._opened

    @property
    def _source(self) -> _pilum.Dataset:
        return self._version

    def _at(self, version: _pilum.Dataset) -> Dataset:
        """Return another version of the same table."""
        raise NotImplementedError

    def _written(self, outcome: _pilum.WriteResult) -> Written:
        """Return the version that a write or a statement made."""
        raise NotImplementedError

    def _merged(self, outcome: _pilum.MergeResult) -> Merged:
        """Return the version that a merge made."""
        raise NotImplementedError

    def _compacted(self, outcome: _pilum.CompactionResult) -> CompactionResult:
        """Return the version that a compaction made."""
        raise NotImplementedError
