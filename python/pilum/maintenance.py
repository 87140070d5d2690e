"""Upkeep of a table: compact, cleanup, verify, describe, statistics."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from pilum import _pilum, statistics
from pilum.arguments import ExpectingArguments, checked, flag
from pilum.opened import Opened
from pilum.progress import Progress, reporting
from pilum.statements import expecting

if TYPE_CHECKING:
    import pyarrow as pa
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

        Example:
            `ds = ds.compact(target_rows=100_000)`
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

        Example:
            `plan = ds.cleanup(older_than=dt.timedelta(days=30), dry_run=True)`
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

        Example:
            `assert ds.verify(), ds.verify().problems`
        """
        with reporting(progress, f"verifying {self._version.uri}") as report:
            return _pilum.verify(self._version, progress=report)

    @checked()
    def describe(self) -> dict[str, Any]:
        """Return what this version consists of: columns, flags, fragments, files and what checksums cover.

        Only the manifest is read. Sizes are in bytes; they are None where a writer did not record them. The keys are those of
        `pilum inspect --json` below `table`.

        Example:
            `num_files = ds.describe()["num_files"]`
        """
        described: dict[str, Any] = json.loads(_pilum.describe(self._version))
        return described

    @checked(exact=flag, typed=flag)
    def statistics(self, *, exact: bool = False, typed: bool = False) -> pa.Table:
        """Return what the data files know of each column: nulls, minimum, maximum, bytes on disk.

        There is a row for each leaf of the schema; a member of a struct is one, named by its path `"a.b"`, a list or a map is
        one as a whole. Page statistics and page tables are read. Of texts and bytes also a row with the maximum is looked for,
        because page statistics cut them to 64 bytes.

        Args:
            exact: Read the rows of the columns whose statistics are not exact, and count them. Without it only bounds are known
                where rows are deleted, where pylance wrote a file, of texts that were cut, and of floats with NaN (the maximum
                is then `inf`); nothing is known of types without page statistics, such as lists and dictionaries.
            typed: Make `min` and `max` dense unions, whose values have the type of their column. pyarrow reads them
                (`to_pylist`); Polars and pandas do not.

        Returns:
            `column` (string); `type` (string); `null_count` (int64), at most so many values are null; `min` and `max` (string),
            no value is less or greater, NaN aside; `exact` (bool), `null_count` is the number of nulls, and `min` and `max` are
            values of the column; `bytes` (int64) of its pages in the data files of this version. What is unknown is null. Texts
            of values are those of `pilum head --json`.

        Raises:
            CorruptError: A data file is damaged; the message names it.

        Example:
            `{row["column"]: row["null_count"] for row in ds.statistics().to_pylist()}`
        """
        import pyarrow as pa

        facts, known = (pa.table(batch) for batch in _pilum.statistics(self._version))
        min_max = [column.combine_chunks() for column in known.columns]
        inexact = [place for place, it in enumerate(facts.column("exact").to_pylist()) if not it]
        if exact and inexact:
            paths = statistics.leaves(self.schema)
            scan = self._version.scan(columns={str(place): _pilum.column(list(paths[place])) for place in inexact})
            counted = statistics.count((pa.record_batch(batch) for batch in scan), len(inexact))
            nulls = facts.column("null_count").to_pylist()
            for place, it in zip(inexact, counted, strict=True):
                nulls[place] = it.null_count
                min_max[place] = pa.nulls(2) if it.min_max is None else it.min_max
            facts = facts.set_column(2, "null_count", pa.array(nulls, pa.int64()))
            facts = facts.set_column(3, "exact", pa.array([True] * len(facts)))
        return statistics.as_table(facts, min_max, typed=typed)
