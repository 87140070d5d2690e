"""Upkeep of a table: compact, cleanup, verify, describe."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from pilum import _pilum
from pilum.arguments import ExpectingArguments, checked
from pilum.opened import Opened
from pilum.progress import Progress, reporting
from pilum.statements import expecting

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pilum.dataset import CompactionResult


class Maintenance(Opened):
    """The part of a `Dataset` that keeps files tidy and proves them sound."""

    __slots__ = ()

    @checked(ExpectingArguments)
    def compact(
        self,
        *,
        target_rows: int = 1_048_576,
        target_bytes: int | None = None,
        max_deleted_fraction: float = 0.1,
        memory_limit: int | None = None,
        **options: Unpack[ExpectingArguments],
    ) -> CompactionResult:
        """Rewrite small fragments, and those with many deleted rows, into large ones. No value changes; old versions stay.

        Rewritten fragments come after those that stay, so the order of rows may change.

        Args:
            target_rows: Rows of a large fragment. Smaller neighbours are joined.
            target_bytes: Bytes of a large fragment, where the number of rows is not the right measure.
            max_deleted_fraction: A fragment with a larger share of deleted rows is rewritten, from 0 to 1.
            memory_limit: Bytes that may be held at once: half of them for reading, the rest for pages that are being filled,
                each of a sixteenth or of one row.
            commit_id: As in `write_dataset`.
            properties: As in `write_dataset`.
            durability: As in `write_dataset`.
            retries: As in `delete`.
            expect: As in `write_dataset`.

        Returns:
            The new version, with `rows`, `bytes`, `fragments_removed`, `fragments_added`, `attempts` and
            `was_committed_before`. The newest version if there was nothing to do.

        Raises:
            ConflictError: Other writers changed the same fragments again and again.
        """
        outcome = _pilum.compact(
            self._version,
            target_rows=target_rows,
            target_bytes=target_bytes,
            max_deleted_fraction=max_deleted_fraction,
            memory_limit=memory_limit,
            **expecting(options),
        )
        return self._compacted(outcome)

    @checked()
    def cleanup(
        self,
        *,
        older_than: dt.timedelta = dt.timedelta(days=14),
        keep_versions: int | None = None,
        unverified_older_than: dt.timedelta = dt.timedelta(days=7),
        dry_run: bool = False,
    ) -> _pilum.CleanupResult:
        """Remove old versions and the files that only they use. The newest version and tagged versions always stay.

        Args:
            older_than: Versions older than this are removed, except those that a writer at work may still build on.
            keep_versions: This many of the newest versions stay, however old they are.
            unverified_older_than: Files that no version names are removed when they are older than this. It must be longer than
                any write takes, because a writer at work has such files.
            dry_run: Return what would be removed, and change nothing.

        Returns:
            The numbers of the versions, the paths of the files and their size in bytes.
        """
        return _pilum.cleanup(
            self._version,
            older_than_seconds=older_than.total_seconds(),
            keep_versions=keep_versions,
            unverified_older_than_seconds=unverified_older_than.total_seconds(),
            dry_run=dry_run,
        )

    @checked()
    def verify(self, *, progress: bool | Progress | None = None) -> _pilum.VerifyReport:
        """Read every file of this version and check it: checksums, counts, offsets, UTF-8, row ids, statistics, and more.

        Args:
            progress: True for a bar (needs tqdm), or a callable `(done_rows, total_rows)`.

        Returns:
            A report that is true if nothing is wrong: `.ok`, `.problems` as (path, reason), `.uncovered` files that have no
            checksums because another library wrote them, `.orphans` that no version names. `.to_dict()` has all of it.
        """
        with reporting(progress, f"verifying {self._version.uri}") as report:
            return _pilum.verify(self._version, progress=report)

    def describe(self) -> dict[str, Any]:
        """Return what this version consists of: columns, flags, fragments, files and what checksums cover.

        Only the manifest is read. Sizes are in bytes; they are None where a writer did not record them. The keys are those of
        `pilum inspect --json` below `table`.
        """
        described: dict[str, Any] = json.loads(_pilum.describe(self._version))
        return described
