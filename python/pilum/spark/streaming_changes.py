"""What each version of a table adds, for streams that read it: units in a fixed order, so that an offset can count them.

A version that only adds fragments adds their rows. A compaction and a change of columns add none. Everything else removes or
replaces rows, and the stream says what is to become of it: fail, skip the version, or read the rows that it removed and added.
"""

from __future__ import annotations

import datetime as dt
from typing import Literal, NamedTuple

from pilum import _pilum
from pilum.exceptions import InvalidInputError, NotFoundError, UnsupportedError
from pilum.location import Location, StorageOptions

OnChange = Literal["fail", "skip", "changes"]

SAME_ROWS = {"Rewrite", "Backfill", "Project", "UpdateConfig", "CreateIndex", "ReserveFragments"}
"""Operations after which a table has the same rows; `Backfill` and `Project` add, convert and drop columns."""

MAX_OPENED = 64
"""Versions that a reader keeps open."""


class Unit(NamedTuple):
    """Rows of one fragment."""

    kind: Literal["insert", "delete"]
    fragment: int
    version: int
    """The version in which the rows are."""
    without: int | None
    """The version whose rows of this fragment are left out; None for all rows of the fragment."""
    bytes: int


class History:
    """The versions of a table, opened when they are asked for."""

    def __init__(self, uri: str, storage_options: StorageOptions | None, on_change: OnChange) -> None:
        self._where = Location.of(uri, storage_options)
        self._on_change = on_change
        self._opened: dict[int, _pilum.Dataset] = {}
        self._units: dict[int, list[Unit]] = {}

    @property
    def shown(self) -> str:
        """The address for messages."""
        return self._where.shown

    def latest(self) -> int:
        """Return the number of the newest version."""
        for opened in self._opened.values():
            return opened.latest_version()
        newest = _pilum.open(self._where.uri, storage_options=self._where.options())
        self._keep(newest)
        return newest.version

    def oldest(self) -> int:
        """Return the number of the oldest version that is left."""
        newest = _pilum.open(self._where.uri, storage_options=self._where.options())
        return min(it.version for it in newest.versions())

    def version(self, version: int) -> _pilum.Dataset:
        """Open a version.

        Raises:
            NotFoundError: It was cleaned up; the message says how to go on.
        """
        found = self._opened.get(version)
        if found is not None:
            return found
        try:
            opened = _pilum.open(self._where.uri, version=version, storage_options=self._where.options())
        except NotFoundError as error:
            raise self._gone(version) from error
        self._keep(opened)
        return opened

    def committed_at(self, version: int) -> int:
        """Return when a version was committed, in microseconds since 1970."""
        since = self.version(version).summary().timestamp - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(microseconds=1)

    def _keep(self, opened: _pilum.Dataset) -> None:
        while len(self._opened) >= MAX_OPENED:
            del self._opened[next(iter(self._opened))]
        self._opened[opened.version] = opened

    def _gone(self, version: int) -> NotFoundError:
        oldest = self.oldest()
        return NotFoundError(
            f"{self.shown}: the stream needs version {version}, and cleanup has removed it: the oldest version "
            f"is {oldest}. The "
            f"rows that versions {version} to {oldest} added can no longer be told apart. To go on, start with "
            f"a new checkpoint: "
            f"without startingVersion it reads the whole table once, with startingVersion={oldest + 1} only what comes after "
            f"version {oldest}. To prevent it, let cleanup keep versions (older_than=, keep_versions=) for "
            f"longer than a stream "
            f"stands still"
        )

    def snapshot(self, version: int) -> list[Unit]:
        """Return the units of all rows of a version."""
        return [_whole("insert", it, version) for it in self.version(version).fragments()]

    def added(self, version: int) -> list[Unit]:
        """Return the units of what a version adds to the version before it.

        Raises:
            InvalidInputError: The version removes or replaces rows, and the stream is to fail then.
            NotFoundError: This version or the one before it was cleaned up.
        """
        if version not in self._units:
            while len(self._units) >= MAX_OPENED:
                del self._units[next(iter(self._units))]
            self._units[version] = self._compare(version)
        return self._units[version]

    def _compare(self, version: int) -> list[Unit]:
        after = {it.id: it for it in self.version(version).fragments()}
        before = {it.id: it for it in self.version(version - 1).fragments()} if version > 1 else {}
        new = [it for number, it in after.items() if number not in before]
        gone = [it for number, it in before.items() if number not in after]
        both = [(before[number], it) for number, it in after.items() if number in before]
        rows = [it for old, it in both if (old.num_deleted, old.physical_rows) != (it.num_deleted, it.physical_rows)]
        files = [it for old, it in both if old.files != it.files]
        inserts = [_whole("insert", it, version) for it in new]
        if not gone and not rows and not files:
            return inserts
        operation = self.version(version).summary().operation
        if operation in SAME_ROWS:
            return []
        if self._on_change == "skip":
            return []
        if self._on_change == "fail":
            raise InvalidInputError(
                f"{self.shown}: version {version} ({operation or 'of an unknown operation'}) removes or replaces rows that the "
                f"stream may have read. To go on, pass onChange='skip', which leaves this version out, or onChange='changes', "
                f"which reads the rows that it removed and added, with _change_type; or start behind it with a "
                f"new checkpoint and "
                f"startingVersion={version + 1}"
            )
        if operation == "DataReplacement":
            raise UnsupportedError(
                f"{self.shown}: version {version} replaces values in place, and which ones is not recorded: "
                f"start behind it with "
                f"a new checkpoint and startingVersion={version + 1}, or pass onChange='skip'"
            )
        deletes = [_whole("delete", it, version - 1) for it in gone]
        for it in rows:
            deletes.append(Unit("delete", it.id, version - 1, version, it.bytes or it.physical_rows))
            if operation == "Restore" or operation is None:
                inserts.append(Unit("insert", it.id, version, version - 1, it.bytes or it.physical_rows))
        return [*deletes, *inserts]


def _whole(kind: Literal["insert", "delete"], fragment: _pilum.Fragment, version: int) -> Unit:
    return Unit(kind, fragment.id, version, None, max(1, fragment.bytes or fragment.physical_rows))
