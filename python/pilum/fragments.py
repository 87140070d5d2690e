"""The pieces of a distributed write: many processes write data files, one commits them.

    pieces = pilum.fragments.write(batches, uri, mode="append")       # anywhere, as often as wanted
    pilum.commit(uri, pilum.Append(all_pieces), read_version=3)       # once

A piece is a few bytes that describe data files which are durable and which nobody can see yet. What is never committed
costs space until `cleanup`, nothing else.

Dictionary columns: each process may have its own dictionary. `commit` joins them, those of the table first, and writes the
pieces again whose keys mean other values there; pieces that all begin with one dictionary stay as they are. A piece is
committed once: ask again with the same `commit_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.conditions import expected
from pilum.dataset import Written
from pilum.exceptions import InvalidInputError
from pilum.exchange import rows_of
from pilum.location import Location, StorageOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class _Pieces:
    pieces: tuple[bytes, ...] = field(repr=False)

    def __init__(self, pieces: Iterable[bytes]) -> None:
        object.__setattr__(self, "pieces", tuple(bytes(piece) for piece in pieces))


class Append(_Pieces):
    """Add the rows of these pieces after those that are there."""

    mode = "append"


class Overwrite(_Pieces):
    """Replace all rows, and the schema, by these pieces. Older versions keep theirs."""

    mode = "overwrite"


class Create(_Pieces):
    """Make the table of these pieces; refuse if there is one."""

    mode = "create"


def write(
    batches: Any,
    uri: str,
    *,
    mode: Literal["create", "append", "overwrite"] = "append",
    schema: pa.Schema | None = None,
    compat: Literal["lossless", "lance"] = "lossless",
    max_rows_per_file: int = 1_048_576,
    max_rows_per_page: int | None = None,
    max_bytes_per_file: int | None = None,
    durability: Literal["full", "none"] = "full",
    storage_options: StorageOptions | None = None,
) -> list[bytes]:
    """Write data files without a commit and return their descriptions.

    Args:
        batches: Whatever `pilum.write_dataset` takes.
        uri: The table that the pieces are for; it exists already unless `mode` is `"create"`.
        mode: What will be committed: rows to append take the fields of the table, others bring their own.
        schema: The schema to write, by default that of `batches`.
        compat: As in `pilum.write_dataset`.
        max_rows_per_file: As in `pilum.write_dataset`.
        max_rows_per_page: As in `pilum.write_dataset`.
        max_bytes_per_file: As in `pilum.write_dataset`.
        durability: `"full"`: the files survive a power failure once this returns.
        storage_options: Credentials and settings of the store.
    """
    where = Location.of(uri, storage_options)
    with rows_of(batches, schema) as rows:
        return _pilum.write_fragments(
            rows,
            where.uri,
            mode=mode,
            compat=compat,
            max_rows_per_file=max_rows_per_file,
            max_rows_per_page=max_rows_per_page,
            max_bytes_per_file=max_bytes_per_file,
            durability=durability,
            storage_options=where.options(),
        )


def commit(
    uri: str,
    operation: Append | Overwrite | Create,
    *,
    read_version: int | None = None,
    commit_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    stable_row_ids: bool = False,
    durability: Literal["full", "none"] = "full",
    expect: Any = None,
    storage_options: StorageOptions | None = None,
) -> Written:
    """Make pieces part of a table: all of them in one new version, or none.

    Args:
        uri: The table.
        operation: `pilum.Append(pieces)`, `pilum.Overwrite(pieces)` or `pilum.Create(pieces)`.
        read_version: The version that the pieces were made from; what was committed since is checked for conflicts.
        commit_id: A token of the caller's. The same token commits once, however often it is asked to.
        properties: Kept in the transaction, shown by `Dataset.versions`.
        stable_row_ids: For a new table: rows keep their id when they are rewritten.
        durability: `"full"`: the version survives a power failure once this returns.
        expect: As in `write_dataset`.
        storage_options: Credentials and settings of the store.

    Raises:
        InvalidInputError: There are no pieces, or they are not of this table. Or a dictionary column has more values in all
            pieces together than its keys count, or pieces contradict the order of an ordered one.
        ConflictError: Another writer committed something that these pieces cannot follow.
        CommitUnknownError: The store did not say whether it took the commit; ask again with the same `commit_id`.
    """
    where = Location.of(uri, storage_options)
    if not operation.pieces:
        raise InvalidInputError(f"{where.shown}: there are no pieces to commit: write at least one batch")
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
        storage_options=where.options(),
    )
    return Written(outcome, where)
