"""Distributed writes: many processes write data files, and one process commits them.

    staged = pilum.fragments.write(batches, uri, mode="append")       # in each process, any number of times
    pilum.commit(uri, pilum.Append(all_staged), read_version=3)       # once

A staged fragment is a few bytes that describe data files which are durable and not yet part of any version. Files that are
never committed take space until `cleanup` removes them.

Dictionary columns: each process may have a dictionary of its own. `commit` joins them, the dictionary of the table first, and
rewrites the staged fragments whose keys mean other values in the joined dictionary. A staged fragment is committed once: to
repeat an unclear commit, use the same `commit_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import FileArguments, checked, shown
from pilum.conditions import expected
from pilum.dataset import Written
from pilum.exceptions import InvalidInputError
from pilum.exchange import rows_of
from pilum.location import Location, StorageOptions
from pilum.pandas_frames import indexed

if TYPE_CHECKING:
    import os

    import pyarrow as pa
    from typing_extensions import Unpack


@dataclass(frozen=True, slots=True)
class _Pieces:
    pieces: tuple[bytes, ...] = field(repr=False)

    @checked()
    def __init__(self, pieces: Iterable[bytes]) -> None:
        given: Any = tuple(pieces) if isinstance(pieces, Iterable) else [None]
        if not all(isinstance(it, (bytes, bytearray)) for it in given):
            raise InvalidInputError("pieces: pass a list of the bytes that pilum.fragments.write returned")
        object.__setattr__(self, "pieces", tuple(map(bytes, given)))


class Append(_Pieces):
    """Add the rows of staged fragments, `pieces`, after the rows of the table."""

    mode = "append"


class Overwrite(_Pieces):
    """Replace all rows, and the schema, by those of staged fragments, `pieces`. Older versions keep their rows."""

    mode = "overwrite"


class Create(_Pieces):
    """Make a new table of staged fragments, `pieces`; refuse if the table exists."""

    mode = "create"


def _operation(name: str, value: Any) -> None:
    if not isinstance(value, (Append, Overwrite, Create)):
        raise InvalidInputError(
            f"{name}: pass pilum.Append, pilum.Overwrite or pilum.Create of staged fragments, not {shown(value)}"
        )


@checked(FileArguments)
def write(
    batches: Any,
    uri: str | os.PathLike[str],
    *,
    mode: Literal["create", "append", "overwrite"] = "append",
    schema: pa.Schema | None = None,
    index: bool | None = None,
    storage_options: StorageOptions | None = None,
    **options: Unpack[FileArguments],
) -> list[bytes]:
    """Write data files without a commit and return the staged fragments that describe them.

    Args:
        batches: Rows, as in `pilum.write_dataset`.
        uri: The table that the rows are for. It exists already unless `mode` is `"create"`.
        mode: What will be committed. Appended rows get the fields of the table; the others bring their own.
        schema: As in `pilum.write_dataset`.
        index: As in `pilum.write_dataset`.
        storage_options: Credentials and settings of the store.
        cast: As in `pilum.write_dataset`.
        missing: As in `pilum.write_dataset`.
        extra: As in `pilum.write_dataset`.
        compat: As in `pilum.write_dataset`.
        max_rows_per_file: As in `pilum.write_dataset`.
        max_rows_per_page: As in `pilum.write_dataset`.
        max_bytes_per_file: As in `pilum.write_dataset`.
        durability: With `"full"` the files survive a power failure once this returns.

    Raises:
        InvalidInputError: The rows do not fit the table: the message names the column.
        StoreError: The store failed.

    Example:
        `pieces = pilum.fragments.write(rows, uri)`
    """
    where = Location.of(uri, storage_options)
    with rows_of(indexed(batches, index), schema, options.get("missing")) as rows:
        return _pilum.write_fragments(
            rows,
            where.uri,
            mode=mode,
            schema=schema,
            storage_options=where.options(),
            **options,
        )


@checked(operation=_operation)
def commit(
    uri: str | os.PathLike[str],
    operation: Append | Overwrite | Create,
    *,
    read_version: int | None = None,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    stable_row_ids: bool = False,
    durability: Literal["full", "none"] = "full",
    expect: Any = None,
    compat: Literal["lossless", "lance"] | None = None,
    storage_options: StorageOptions | None = None,
) -> Written:
    """Make staged fragments part of a table: all of them in one new version, or none.

    Args:
        uri: The table.
        operation: `pilum.Append(staged)`, `pilum.Overwrite(staged)` or `pilum.Create(staged)`.
        read_version: The version that was the newest when the fragments were written. Commits after this version are checked
            for conflicts with this commit.
        commit_id: An id chosen by the caller. The same id commits once, however often this is called.
        properties: Texts by name that are kept in the transaction; `Dataset.versions` shows them.
        stable_row_ids: For a new table: rows keep their ids when they are rewritten.
        durability: With `"full"` the version survives a power failure once this returns.
        expect: As in `pilum.write_dataset`.
        compat: As in `pilum.write_dataset`. Fragments with values that Lance v1 cannot hold are refused by a table that is kept
            readable for other readers, however they were written, unless this is `"lossless"`.
        storage_options: Credentials and settings of the store.

    Raises:
        InvalidInputError: There are no staged fragments, or they are not of this table. Or a dictionary column has more
            values in all fragments together than its keys can count, or fragments contradict the order of an ordered
            dictionary.
        AlreadyExistsError: The operation is `Create` and there is a table.
        ConflictError: Another writer committed a version that conflicts with this commit.
        CommitUnknownError: The store did not say whether it took the commit: call again with the same `commit_id`.

    Example:
        `ds = pilum.commit(uri, pilum.Append(pieces), commit_id="job 5")`
    """
    where = Location.of(uri, storage_options)
    if not operation.pieces:
        raise InvalidInputError(
            f"{where.shown}: there are no staged fragments (pieces) to commit: write at least one batch"
        )
    outcome = _pilum.commit_fragments(
        where.uri,
        list(operation.pieces),
        mode=operation.mode,
        read_version=read_version,
        commit_id=commit_id,
        properties=None if properties is None else dict(properties),
        stable_row_ids=stable_row_ids,
        durability=durability,
        expect=expected(expect),
        compat=compat,
        storage_options=where.options(),
    )
    return Written(outcome, where)
