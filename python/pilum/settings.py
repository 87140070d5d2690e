"""Config and metadata of a table; the difference between two versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pilum import _pilum
from pilum.arguments import StatementArguments, checked, edits, keys, text, version
from pilum.exceptions import InvalidInputError
from pilum.exchange import as_positions
from pilum.opened import Opened

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from pilum.dataset import Written


class Settings(Opened):
    """The part of a `Dataset` about config and metadata, and about the versions of rows."""

    __slots__ = ()

    @property
    def config(self) -> dict[str, str]:
        """The config of the table in this version."""
        return _pilum.table_maps(self._version)[0]

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the table in this version; that of the schema is `schema.metadata`."""
        return _pilum.table_maps(self._version)[1]

    @checked(StatementArguments, values=edits, delete=keys)
    def update_config(
        self,
        values: Mapping[str, str | None] | None = None,
        *,
        delete: Sequence[str] = (),
        replace: bool = False,
        **options: Unpack[StatementArguments],
    ) -> Written:
        """Set and delete keys of the table's config.

        `lance.auto_cleanup.interval` = n makes each n-th version clean up old versions after its commit: those older than
        `lance.auto_cleanup.older_than` (such as `14days`), except `lance.auto_cleanup.retain_versions` of the newest.

        Args:
            values: Keys to set; None deletes one.
            delete: Keys to delete.
            replace: Clear the config first.
            commit_id: As in `write_dataset`.
            properties: As in `write_dataset`.
            durability: As in `write_dataset`.
            retries: As in `delete`.

        Raises:
            InvalidInputError: One of the keys above has a value that cannot be read.
            ConflictError: Another commit set the same key at the same time.

        Example:
            `ds = ds.update_config({"lance.auto_cleanup.interval": "20"})`
        """
        return self._edit("config", None, values, delete, replace, options)

    @checked(StatementArguments, values=edits, delete=keys)
    def update_metadata(
        self,
        values: Mapping[str, str | None] | None = None,
        *,
        delete: Sequence[str] = (),
        replace: bool = False,
        **options: Unpack[StatementArguments],
    ) -> Written:
        """Set and delete keys of the table's metadata; arguments as in `update_config`.

        Example:
            `ds = ds.update_metadata({"owner": "sales"})`
        """
        return self._edit("table", None, values, delete, replace, options)

    @checked(StatementArguments, values=edits, delete=keys)
    def update_schema_metadata(
        self,
        values: Mapping[str, str | None] | None = None,
        *,
        delete: Sequence[str] = (),
        replace: bool = False,
        **options: Unpack[StatementArguments],
    ) -> Written:
        """Set and delete keys of the schema's metadata; arguments as in `update_config`.

        Example:
            `ds = ds.update_schema_metadata({"source": "crm"})`
        """
        return self._edit("schema", None, values, delete, replace, options)

    @checked(StatementArguments, column=text, values=edits, delete=keys)
    def update_field_metadata(
        self,
        column: str,
        values: Mapping[str, str | None] | None = None,
        *,
        delete: Sequence[str] = (),
        replace: bool = False,
        **options: Unpack[StatementArguments],
    ) -> Written:
        """Set and delete keys of a column's metadata (`"a.b"` inside a struct or list); arguments as in `update_config`.

        Example:
            `ds = ds.update_field_metadata("x", {"unit": "word"})`
        """
        return self._edit("field", column, values, delete, replace, options)

    @checked(other_version=version)
    def diff(self, other_version: int | str) -> _pilum.VersionDiff:
        """Return the difference between this version and another one, always from the older to the newer.

        With stable row ids, rows are compared by their ids, and the counts are exact. Without them, rows are compared by their
        addresses: a row that was updated, or moved by a compaction, counts as removed and added; `.updated` is None and
        `.exact` is False.

        Args:
            other_version: Its number or tag.

        Returns:
            `.added`, `.removed`, `.updated` rows; `.added_columns`, `.removed_columns`, `.altered_columns`.

        Raises:
            NotFoundError: There is no such version or tag.

        Example:
            `print(ds.diff(1).added)`
        """
        return _pilum.diff(self._version, other_version)

    @checked()
    def row_versions(self, row_ids: Any) -> pa.Table:
        """Return which versions created, and last updated, some rows.

        Args:
            row_ids: Values of `_rowid`, as any sequence of integers.

        Returns:
            Columns `_rowid`, `_row_created_at_version`, `_row_last_updated_at_version` (uint64), in the order asked for.

        Raises:
            InvalidInputError: There is no row of such an id, or the table has no stable row ids.

        Example:
            `born = ds.row_versions([0]).column("_row_created_at_version")`
        """
        import pyarrow as pa

        return pa.table(_pilum.row_versions(self._version, as_positions(row_ids)))

    def _edit(
        self,
        which: str,
        path: str | None,
        values: Mapping[str, str | None] | None,
        delete: Sequence[str],
        replace: bool,
        options: StatementArguments,
    ) -> Written:
        changes = dict(values or {})
        for key in delete:
            if changes.get(key) is not None:
                raise InvalidInputError(f"the key {key!r} is both set and deleted: do one of them")
            changes[key] = None
        outcome = _pilum.update_config(
            self._version, which, list(changes.items()), path=path, replace=replace, **options
        )
        return self._written(outcome)
