"""Rows into the next version of a table: what `write_dataset`, `Dataset.append` and `Dataset.overwrite` share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.conditions import expected
from pilum.exchange import rows_of
from pilum.progress import Progress, reporting

if TYPE_CHECKING:
    import pyarrow as pa

    from pilum.location import Location

Mode = Literal["create", "append", "overwrite"]


def write_rows(
    data: Any,
    where: Location,
    *,
    mode: Mode,
    schema: pa.Schema | None = None,
    properties: Mapping[str, str] | None = None,
    expect: Any = None,
    progress: bool | Progress | None = None,
    verify_checksums: bool = True,
    must_exist: bool = False,
    **options: Any,
) -> _pilum.WriteResult:
    """Write rows and commit them; the arguments are those of `pilum.write_dataset`.

    `verify_checksums` is that of the returned version; with `must_exist` no table is made where there is none.
    """
    with rows_of(data, schema, options.get("missing")) as rows, reporting(progress, f"writing {where.shown}") as report:
        return _pilum.write_dataset(
            rows,
            where.uri,
            mode=mode,
            properties=None if properties is None else dict(properties),
            expect=expected(expect),
            storage_options=where.options(),
            progress=report,
            verify_checksums=verify_checksums,
            must_exist=must_exist,
            schema=schema,
            **options,
        )
