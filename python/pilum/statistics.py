"""Statistics of columns: what the files of a table know of them, and what a read of the rows adds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pilum.exceptions import UnsupportedError
from pilum.json_values import json_values

if TYPE_CHECKING:
    import pyarrow as pa

MAX_TYPES = 127
"""Types of minima and maxima that one union can have."""


def leaves(schema: pa.Schema) -> list[tuple[str, ...]]:
    """Return the paths of the leaves of a schema: members of structs are leaves, lists, maps and empty structs too."""
    import pyarrow as pa

    found: list[tuple[str, ...]] = []

    def walk(above: tuple[str, ...], field: pa.Field) -> None:
        path = (*above, field.name)
        if pa.types.is_struct(field.type) and field.type.num_fields:
            for place in range(field.type.num_fields):
                walk(path, field.type.field(place))
        else:
            found.append(path)

    for field in schema:
        walk((), field)
    return found


class Counted:
    """Nulls, minimum and maximum of one column, counted batch by batch."""

    __slots__ = ("_has_order", "min_max", "null_count")

    def __init__(self) -> None:
        self.null_count = 0
        self.min_max: Any = None
        """An array of both in the type of the column; None before there is a value, or without an order."""
        self._has_order = True

    def add(self, column: pa.Array) -> None:
        """Count the values of a batch."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        self.null_count += column.null_count
        if not self._has_order or column.null_count == len(column):
            return
        column = _ordered(column)
        parts = [column] if self.min_max is None else [self.min_max, column]
        try:
            found = pc.min_max(pa.chunked_array(parts))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            self._has_order = False
            return
        self.min_max = pa.array([found["min"], found["max"]], column.type)


def _ordered(column: pa.Array) -> pa.Array:
    """Return values in a type that pyarrow compares."""
    import pyarrow as pa

    kind = column.type
    if kind == pa.string_view():
        return column.cast(pa.large_string())
    if kind == pa.binary_view():
        return column.cast(pa.large_binary())
    return column.cast(pa.float32()) if pa.types.is_float16(kind) else column


def count(batches: Iterable[pa.RecordBatch], num_columns: int) -> list[Counted]:
    """Count the columns of some batches."""
    counted = [Counted() for _ in range(num_columns)]
    for batch in batches:
        for it, column in zip(counted, batch.columns, strict=True):
            it.add(column)
    return counted


def as_table(facts: pa.Table, min_max: Sequence[pa.Array], *, typed: bool) -> pa.Table:
    """Return the columns `column`, `type`, `null_count`, `min`, `max`, `exact` and `bytes`.

    Args:
        facts: Those columns but `min` and `max`.
        min_max: For each row an array of both in their type.
        typed: Minima and maxima are a union of their types, and not texts.
    """
    import pyarrow as pa

    sides = [_union([it.slice(side, 1) for it in min_max]) if typed else _texts(min_max, side) for side in (0, 1)]
    columns = {name: facts.column(name) for name in ("column", "type", "null_count")}
    return pa.table(
        {**columns, "min": sides[0], "max": sides[1], "exact": facts.column("exact"), "bytes": facts.column("bytes")}
    )


def _texts(min_max: Sequence[pa.Array], side: int) -> pa.Array:
    import pyarrow as pa

    values = [json_values(it.slice(side, 1))[0] for it in min_max]
    return pa.array(
        [it if it is None or isinstance(it, str) else json.dumps(it, ensure_ascii=False) for it in values], pa.string()
    )


def _union(values: Sequence[pa.Array]) -> pa.Array:
    """Return arrays of one value each as one dense union, with a member for each type."""
    import pyarrow as pa

    members: dict[pa.DataType, list[pa.Array]] = {}
    places = []
    for value in values:
        of_type = members.setdefault(value.type, [])
        places.append((list(members).index(value.type), len(of_type)))
        of_type.append(value)
    if len(members) > MAX_TYPES:
        raise UnsupportedError(f"typed: the columns have {len(members)} types, a union at most {MAX_TYPES}; take texts")
    return pa.UnionArray.from_dense(
        pa.array([member for member, _ in places], pa.int8()),
        pa.array([place for _, place in places], pa.int32()),
        [pa.concat_arrays(arrays) for arrays in members.values()] or [pa.nulls(0)],
        [str(kind) for kind in members] or ["null"],
    )
