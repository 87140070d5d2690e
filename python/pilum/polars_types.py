"""Which columns Polars cannot hold, known before Polars sees them: it ends in a panic for some types."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pilum.exceptions import UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa


def refuse_foreign(schema: pa.Schema, where: str, instead: str) -> None:
    """Refuse columns that Polars cannot hold.

    Args:
        schema: The columns that Polars would get.
        where: The address of the table, for the message.
        instead: The call that reads other columns, for the message.

    Raises:
        UnsupportedError: There are such columns; the message has their names, their types and the reason.
    """
    found = {field.name: reason for field in schema if (reason := _reason(field.type)) is not None}
    if found:
        columns = "; ".join(f"{name!r} is {schema.field(name).type}: {reason}" for name, reason in found.items())
        raise UnsupportedError(
            f"{where}: Polars cannot hold {len(found)} of the columns: {columns}. Read the other columns with {instead}, "
            "convert these with CAST in ds.scanner({'name': 'CAST(name AS ..)'}), or read them with pyarrow: ds.to_table()"
        )


def _reason(kind: pa.DataType) -> str | None:
    """Return why Polars cannot hold a type; None if it can."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _reason(kind.storage_type)
    if pa.types.is_decimal256(kind):
        return "its decimals have 128 bits"
    if pa.types.is_decimal(kind) and kind.scale < 0:
        return "its decimals have no negative scale"
    if pa.types.is_interval(kind):
        return "it has no interval of months, days and nanoseconds"
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return "it has no list views"
    if pa.types.is_timestamp(kind) and kind.tz is not None and not _is_known(kind.tz):
        return f"it does not know the zone {kind.tz!r}, only names such as 'Asia/Kolkata'"
    if pa.types.is_dictionary(kind):
        return _reason(kind.value_type)
    if pa.types.is_map(kind):
        return _reason(kind.key_type) or _reason(kind.item_type)
    if pa.types.is_nested(kind):
        inner = (_reason(kind.field(place).type) for place in range(kind.num_fields))
        return next(filter(None, inner), None)
    return None


@functools.lru_cache(maxsize=256)
def _is_known(zone: str) -> bool:
    import polars as pl

    try:
        pl.Series([0]).cast(pl.Datetime("us", zone))
    except pl.exceptions.PolarsError:
        return False
    return True
