"""YSON kernels over Arrow arrays, and keys of `$other_columns` as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import checked
from pilum.exceptions import InvalidInputError
from pilum.skiff.arguments import one_of, text, true_or_false, whole_number

if TYPE_CHECKING:
    import pyarrow as pa

Style = Literal["binary", "text"]
"""The form of the nodes that are written."""

MAX_DEPTH = 255
"""Levels of lists and maps inside each other at which the YTsaurus client stops too."""

MOST_DEPTH = 1_000
"""Levels that `max_depth` may allow at most: nodes are read by recursion."""

MAX_BYTES = 1 << 30
"""Most bytes of one node."""


@checked()
def yson_to_json(
    nodes: Any, *, exact: bool = False, max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES
) -> pa.Array:
    """Return the JSON view of every YSON node: an array of strings.

    A map becomes an object, a list an array, an entity null. What JSON does not have is tagged: NaN and infinities as
    `{"$type": "double", "$value": "nan"}`, strings that are not UTF-8 as `{"$type": "base64", ..}`, attributes as
    `{"$attributes": {..}, "$value": ..}`. Keys that begin with `$` get another `$`.

    Args:
        nodes: An array or chunked array of binaries, nulls allowed.
        exact: Whether to tag every uint64 too, so that `json_to_yson` gives exactly the same nodes.
        max_depth: Levels inside each other that are read; 1,000 at most.
        max_bytes: Most bytes of one node.

    Raises:
        InvalidInputError: A value is not one YSON node; `row` says which.
        LimitError: A node has more levels or bytes than the limits.
    """
    kernel = "to_json_exact" if true_or_false("exact", exact) else "to_json"
    return _apply(kernel, nodes, max_depth=max_depth, max_bytes=max_bytes)


@checked()
def json_to_yson(
    texts: Any, *, style: Style = "binary", max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES
) -> pa.Array:
    """Return the YSON node of every JSON text: an array of binaries.

    Integers become int64 where they fit, else uint64; beyond 64 bits they become doubles. An object with the key `$value`,
    `$type` or `$attributes` is a tagged value, as `yson_to_json` writes it; another key beside them is an error.

    Args:
        texts: An array or chunked array of strings, nulls allowed.
        style: The form of the nodes.
        max_depth: Levels inside each other that a node may have; 1,000 at most.
        max_bytes: Most bytes of one text.

    Raises:
        InvalidInputError: A value is no JSON; `row` says which.
        LimitError: A value has more levels or bytes than the limits.
    """
    return _apply("from_json", texts, style=style, max_depth=max_depth, max_bytes=max_bytes)


@checked()
def yson_get(nodes: Any, path: str, *, max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES) -> pa.Array:
    r"""Return the value at a path in every node, as binary YSON; null where there is none, and for an entity.

    Args:
        nodes: An array or chunked array of binaries, nulls allowed.
        path: `/key/key`; a number picks an item of a list (`/0`, `/-1`), `/@name` an attribute, `\` takes the next character as
            it is. The empty path is the node itself.
        max_depth: Levels inside each other that are read; 1,000 at most.
        max_bytes: Most bytes of one node.

    Raises:
        InvalidInputError: The path is malformed, or a value is not one YSON node.
        LimitError: A node has more levels or bytes than the limits.
    """
    return _apply("get", nodes, path=text("path", path), max_depth=max_depth, max_bytes=max_bytes)


@checked()
def canonical_yson(
    nodes: Any, *, style: Style = "binary", max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES
) -> pa.Array:
    """Return every node in its canonical form: nodes of the same meaning are the same bytes.

    Keys are in byte order, of equal keys the last remains, and every value has one form.

    Raises:
        InvalidInputError: A value is not one YSON node; `row` says which.
        LimitError: A node has more levels or bytes than the limits.
    """
    return _apply("canonical", nodes, style=style, max_depth=max_depth, max_bytes=max_bytes)


@checked(columns=None)
def promote_other_columns(batch: Any, columns: Any, *, conflicts: Literal["error", "keep"] = "error") -> pa.RecordBatch:
    """Take keys out of the maps of `$other_columns` and make typed columns of them, which stand before `$other_columns`.

    A missing key and an entity are null. Integers take every number in their range, `double` and `float` every number that is
    exact in them, `string` what is UTF-8, `binary` every string, and `binary` with the extension name `ytsaurus.yson` every
    value. All other keys stay in their maps, byte by byte. `encode` puts the columns into the maps again.

    Args:
        batch: A record batch, as `decode` gives it.
        columns: A schema, or a mapping from keys to types.
        conflicts: What a value of another type is: `"error"`, or `"keep"`: null in the column, and the value stays in its map.

    Raises:
        InvalidInputError: A value has another type; `error_class` is `TypeConflict`, `row` is that of the batch.
        UnsupportedError: There is no `$other_columns`, a name is taken, or a type is not one of these.
    """
    import pyarrow as pa

    one_of("conflicts", conflicts, "error", "keep")
    if not isinstance(batch, pa.RecordBatch):
        raise InvalidInputError(f"promote_other_columns takes a record batch, not {type(batch).__name__}")
    if not isinstance(columns, pa.Schema):
        try:
            columns = pa.schema(list(dict(columns).items()))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"columns: a pyarrow.Schema, or a mapping from keys to Arrow types, is expected: {error}"
            ) from None
    if batch.num_rows:
        return pa.record_batch(_pilum.skiff_promote(batch, columns, conflicts == "keep"))
    # An Arrow stream without rows may contain no batch: promote one row of nulls to get the columns, and cut the row off.
    nullable = pa.schema([field.with_nullable(True) for field in batch.schema])
    one = pa.record_batch([pa.nulls(1, field.type) for field in nullable], schema=nullable)
    made = pa.record_batch(_pilum.skiff_promote(one, columns, conflicts == "keep")).slice(0, 0)
    fields = [batch.schema.field(it.name) if it.name in batch.schema.names else it for it in made.schema]
    return pa.record_batch(made.columns, schema=pa.schema(fields, metadata=made.schema.metadata))


def _apply(
    kernel: str,
    values: Any,
    *,
    path: str = "",
    style: Style = "binary",
    max_depth: int = MAX_DEPTH,
    max_bytes: int = MAX_BYTES,
) -> pa.Array:
    import pyarrow as pa

    one_of("style", style, "binary", "text")
    depth, size = whole_number("max_depth", max_depth), whole_number("max_bytes", max_bytes)
    if depth > MOST_DEPTH:
        raise InvalidInputError(f"max_depth={max_depth!r}: it is {MOST_DEPTH:,} at most")
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    elif isinstance(values, (pa.Table, pa.RecordBatch, str, bytes)):
        raise InvalidInputError(
            f"an array of YSON nodes or JSON texts is expected, not a {type(values).__name__}; pass one of its columns"
        )
    elif not isinstance(values, pa.Array):
        try:
            values = pa.array(values)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise InvalidInputError(f"an array of YSON nodes or JSON texts is expected: {error}") from None
    if pa.types.is_null(values.type):
        values = values.cast(pa.binary())
    # A stream of no rows may have no batch: the kernel gets one null, whose result is left out.
    batch = pa.record_batch([values if len(values) else pa.nulls(1, values.type)], names=["value"])
    options: dict[str, str | int | bool] = {
        "path": path,
        "is_binary": style == "binary",
        "max_depth": depth,
        "max_bytes": size,
    }
    return pa.record_batch(_pilum.yson_kernel(kernel, batch, options)).column(0).slice(0, len(values))
