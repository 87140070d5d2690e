"""Frames of pandas as tables: with or without their index, nothing dropped or changed in silence."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pilum.exceptions import InvalidInputError
from pilum.python_values import check_kinds

if TYPE_CHECKING:
    import pyarrow as pa


def is_a(data: Any, module: str, name: str) -> bool:
    """Return whether `data` is of a class of an optional package; the package is not loaded for that."""
    loaded = sys.modules.get(module)
    kind = None if loaded is None else getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(data, kind)


def indexed(data: Any, index: bool | None) -> Any:
    """Return a pandas frame as a table with or without its index; `index=None` and other data are left to `pilum.inputs`.

    Raises:
        InvalidInputError: `index=True`, and the data has no index, or the index has no name, or the name of a column.
    """
    if index is None:
        return data
    if not is_a(data, "pandas", "DataFrame"):
        if index:
            raise InvalidInputError(f"index: a {type(data).__name__} has no index; only frames of pandas have one")
        return data
    if not index:
        return without_index(data, silent=True)
    names = list(data.index.names)
    if None in names:
        raise InvalidInputError(
            "index: the index of the frame has no name, so its column would have none: name it with "
            "frame.rename_axis('name'), or leave it out with index=False"
        )
    for name in names:
        if name in data.columns:
            raise InvalidInputError(
                f"index: the frame has an index and a column of the name {name!r}: rename one of them"
            )
    return without_index(data.reset_index(), silent=True)


def without_index(frame: Any, *, silent: bool = False) -> pa.Table:
    """Return the columns of a pandas frame as a table; an index that has a name is mentioned in the log.

    Raises:
        InvalidInputError: Two columns have one name, or a column has values that no Arrow type holds; the message names it.
    """
    import logging

    import pyarrow as pa

    names = [name for name in frame.index.names if name is not None]
    if names and not silent:
        logging.getLogger("pilum.inputs").warning(
            "the index %s of the pandas frame is not written: pass index=True to keep it as columns, or index=False",
            ", ".join(map(repr, names)),
        )
    _refuse_duplicates(frame)
    dense = {}
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if is_a(column.dtype, "pandas", "SparseDtype"):
            dense[name] = column.sparse.to_dense()
        if column.dtype != object or _is_plain(column):
            continue
        if check_kinds(str(name), column):
            raise InvalidInputError(
                f"column {name!r}: values of an object column have nanoseconds, which would be lost: convert the column with "
                "pandas.to_datetime or pandas.to_timedelta"
            )
    if dense:
        frame = frame.copy(deep=False)
        for name, column in dense.items():
            frame[name] = column
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"the frame of pandas cannot be taken: {error}; convert the column first") from error


def _refuse_duplicates(frame: Any) -> None:
    """Refuse columns of one name; names that are no texts become texts, so 1 and "1" are one name."""
    seen: dict[str, int] = {}
    for name in frame.columns:
        seen[str(name)] = seen.get(str(name), 0) + 1
    twice = [name for name, times in seen.items() if times > 1]
    if twice:
        raise InvalidInputError(
            f"the frame of pandas has several columns of the name {', '.join(map(repr, twice))}: rename or drop all but one"
        )


def _is_plain(column: Any) -> bool:
    """Return whether pandas knows that all values are of one kind that pyarrow keeps."""
    from pandas.api.types import infer_dtype

    return infer_dtype(column, skipna=True) in {"string", "bytes", "integer", "floating", "boolean", "decimal", "empty"}
