"""YSON kernels over Arrow arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DEPTH = 255
"""Levels of lists and maps inside each other at which the YTsaurus client stops too."""


def yson_to_json(nodes: Any, *, exact: bool = False, max_depth: int = MAX_DEPTH) -> pa.Array:
    """Return the JSON view of every YSON node: an array of strings.

    A map becomes an object, a list an array, an entity null. What JSON does not have is tagged: NaN and infinities as
    `{"$type": "double", "$value": "nan"}`, strings that are not UTF-8 as `{"$type": "base64", ..}`, attributes as
    `{"$attributes": {..}, "$value": ..}`. Keys that begin with `$` get another `$`.

    Args:
        nodes: An array or chunked array of binaries, nulls allowed.
        exact: Whether to tag every uint64 too, so that `json_to_yson` gives exactly the same nodes.
        max_depth: Levels inside each other that are read.

    Raises:
        InvalidInputError: A value is not one YSON node; `row` says which.
    """
    return _apply("to_json_exact" if exact else "to_json", nodes, max_depth=max_depth)


def json_to_yson(texts: Any, *, style: Literal["binary", "text"] = "binary") -> pa.Array:
    """Return the YSON node of every JSON text: an array of binaries.

    Integers become int64 where they fit, else uint64; beyond 64 bits they become doubles.

    Raises:
        InvalidInputError: A value is no JSON; `row` says which.
    """
    return _apply("from_json", texts, is_binary=style == "binary")


def yson_get(nodes: Any, path: str, *, max_depth: int = MAX_DEPTH) -> pa.Array:
    r"""Return the value at a path in every node, as binary YSON; null where there is none, and for an entity.

    Args:
        nodes: An array or chunked array of binaries, nulls allowed.
        path: `/key/key`; a number picks an item of a list (`/0`, `/-1`), `/@name` an attribute, `\` takes the next character as
            it is. The empty path is the node itself.
        max_depth: Levels inside each other that are read.

    Raises:
        InvalidInputError: The path is malformed, or a value is not one YSON node.
    """
    return _apply("get", nodes, path=path, max_depth=max_depth)


def canonical_yson(nodes: Any, *, style: Literal["binary", "text"] = "binary", max_depth: int = MAX_DEPTH) -> pa.Array:
    """Return every node in its canonical form: nodes of the same meaning are the same bytes.

    Keys are in byte order, of equal keys the last remains, and every value has one form.

    Raises:
        InvalidInputError: A value is not one YSON node; `row` says which.
    """
    return _apply("canonical", nodes, is_binary=style == "binary", max_depth=max_depth)


def _apply(kernel: str, values: Any, *, path: str = "", is_binary: bool = True, max_depth: int = MAX_DEPTH) -> pa.Array:
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    elif not isinstance(values, pa.Array):
        values = pa.array(values)
    batch = pa.record_batch([values], names=["value"])
    return pa.record_batch(_pilum.yson_kernel(kernel, batch, path, is_binary, max_depth)).column(0)
