"""Combine sets into one: concatenated along a dimension, or merged key by key."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import checked, members, text, word
from pilum.exceptions import InvalidInputError
from pilum.references.errors import translates
from pilum.references.opened import References, open_set
from pilum.references.options import open_options, several, strings

if TYPE_CHECKING:
    import numpy as np

Source = References | str | os.PathLike[str] | Mapping[str, Any]
Coordinate = Callable[[References, int], Any] | str | re.Pattern[str] | Iterable[Any]
"""One value per set, or all values: `"attr:name"` is an attribute of the root, a pattern is searched in the first URL."""


@checked(
    sets=several,
    concat_dim=text,
    new_dim=text,
    coords=members,
    on_conflict=word("error", "first", "last"),
    allow=strings,
)
@translates
def combine(
    sets: Iterable[Source],
    *,
    concat_dim: str | None = None,
    new_dim: str | None = None,
    coords: Mapping[str, Coordinate] | None = None,
    on_conflict: Literal["error", "first", "last"] = "error",
    allow: Iterable[str] = (),
) -> References:
    """Combine sets into one, in their order. Chunks are not read: the keys of chunks get other numbers.

    The sets are opened one after the other, so that only the result and one of them are in memory.

    Args:
        sets: Opened sets, addresses, or documents as mappings.
        concat_dim: The dimension along which arrays that have it grow; other arrays are those of the first set.
        new_dim: A new first dimension of all arrays that are no coordinates, with one element per set.
        coords: Values of coordinates, by name: one value per set from a function of the set and its place, from an attribute of
            the root (`"attr:time"`), or from a pattern that is searched in the first URL; or all values. They are held inline.
        on_conflict: Without a dimension the sets are merged. A key that two sets have with different values is an error, or has
            the value of the first or of the last set.
        allow: As in `open`, for the result.

    Raises:
        InvalidInputError: Arrays do not fit together; the message names the array and the set.
    """
    if concat_dim is not None and new_dim is not None:
        raise InvalidInputError("combine: pass concat_dim or new_dim, not both")
    dimension = concat_dim if concat_dim is not None else new_dim
    options = open_options(allow=allow)
    if dimension is None:
        return _merged(sets, on_conflict, options)
    given = dict(coords or {})
    combiner = _pilum.ReferenceCombiner(dimension, new_dim is not None, list(given), None, options)
    values: dict[str, list[Any]] = {name: [] for name, how in given.items() if _is_per_set(how)}
    attributes: dict[str, dict[str, Any]] = {}
    location = None
    for at, source in enumerate(sets):
        opened = source if isinstance(source, References) else open_set(source)
        location = location or opened.location
        for name, collected in values.items():
            collected.append(_value(given[name], opened, at))
        for name in given:
            if name not in attributes and f"{name}/.zattrs" in opened:
                attributes[name] = json.loads(opened[f"{name}/.zattrs"])
        combiner.add(opened.engine)
    made = References(combiner.finish(), location, options)
    changes: dict[str, Any] = {}
    for name, how in given.items():
        changes |= _coordinate(name, values.get(name, how), dimension, attributes.get(name, {}))
    return made.changed(changes) if changes else made


def _merged(sets: Iterable[Source], on_conflict: str, options: dict[str, Any]) -> References:
    result: References | None = None
    for source in sets:
        opened = source if isinstance(source, References) else open_set(source)
        if result is None:
            result = References(opened.load().engine, opened.location, options)
        else:
            result = References(result.engine.merged(opened.engine, on_conflict), result.location, options)
    if result is None:
        raise InvalidInputError("combine: there is no set")
    return result


def _is_per_set(how: Coordinate) -> bool:
    return callable(how) or isinstance(how, (str, re.Pattern))


def _value(how: Any, opened: References, at: int) -> Any:
    if callable(how):
        return how(opened, at)
    if isinstance(how, str) and how.startswith("attr:"):
        attributes = json.loads(opened.get(".zattrs") or b"{}")
        name = how.removeprefix("attr:")
        if name not in attributes:
            raise InvalidInputError(f"set {at}: the root has no attribute {name!r}")
        return attributes[name]
    url = opened.engine.first_url() or ""
    found = re.search(how, url)
    if found is None:
        raise InvalidInputError(f"set {at}: {how!r} does not match {url!r}")
    text = found.group(1) if found.re.groups else found.group(0)
    return int(text) if text.isdigit() else text


def _coordinate(name: str, values: Any, dimension: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a coordinate whose values are held inline, as one chunk."""
    import numpy as np

    parts = [np.asarray(value) for value in values]
    array: np.ndarray[Any, Any] = np.concatenate([np.atleast_1d(part) for part in parts])
    if array.dtype.kind == "U":
        array = np.char.encode(array, "utf-8")
    if array.dtype.kind in "mM":
        array = array.astype(array.dtype.newbyteorder("<"))
    elif array.dtype.kind not in "biufcS":
        raise InvalidInputError(
            f"coordinate {name!r}: values of type {array.dtype} cannot be held; pass numbers or times"
        )
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
    metadata = {
        "zarr_format": 2,
        "shape": list(array.shape),
        "chunks": [max(length, 1) for length in array.shape],
        "dtype": array.dtype.str,
        "compressor": None,
        "filters": None,
        "fill_value": None,
        "order": "C",
    }
    attributes = {**attributes, "_ARRAY_DIMENSIONS": [dimension]}
    raw = array.tobytes()
    return {
        f"{name}/.zarray": json.dumps(metadata),
        f"{name}/.zattrs": json.dumps(attributes),
        f"{name}/0": _wrapped(raw),
    }


def _wrapped(raw: bytes) -> bytes:
    if not raw.startswith(b"base64:"):
        return raw
    return b"base64:" + base64.b64encode(raw)
