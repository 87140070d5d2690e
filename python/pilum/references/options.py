"""The arguments of reference sets: rules for their values, and options and documents as the engine takes them."""

from __future__ import annotations

import base64
import json
import math
import numbers
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pilum import _pilum
from pilum.arguments import address, count, members, shown
from pilum.exceptions import InvalidInputError

Mode = Literal["union", "simple", "full"]
"""The language of URLs: all that fsspec accepts in one of its modes; `simple_templates=True`; `simple_templates=False`."""

Rewrites = Mapping[str, str] | Iterable[tuple[str, str]]
"""Beginnings of URLs with what replaces them."""


def open_options(
    *,
    mode: Mode = "union",
    template_overrides: Mapping[str, str] | None = None,
    max_references: int | None = None,
    cache_size: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    target_options: Mapping[str, str] | None = None,
    target: str | None = None,
    allow: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the options for the engine."""
    if isinstance(allow, str):
        raise InvalidInputError(f"allow={allow!r}: pass a list of rules")
    return {
        "mode": mode,
        "template_overrides": list(dict(template_overrides or {}).items()),
        "max_references": max_references,
        "cache_size": cache_size,
        "storage_options": None if storage_options is None else {k: str(v) for k, v in storage_options.items()},
        "target_options": None if target_options is None else {k: str(v) for k, v in target_options.items()},
        "target": target,
        "allow": list(allow),
    }


def document_bytes(document: Mapping[str, Any]) -> bytes:
    """Return the JSON text of a mapping, whose values may be bytes too."""
    return json.dumps(_plain(document), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return stored_text(bytes(value))
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()  # numbers of numpy
    return value


def stored_text(value: bytes) -> str:
    """Return the text that stands for bytes in a document: as it is, or in base64."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()


# -- Rules of arguments, as in pilum.arguments ------------------------------------------------------------------------------


def _refuse(name: str, wanted: str, value: Any) -> None:
    raise InvalidInputError(f"{name}: pass {wanted}, not {shown(value)}")


def string(name: str, value: Any) -> None:
    """Accept text, which may be empty."""
    if not isinstance(value, str):
        _refuse(name, "text", value)


def strings(name: str, value: Any) -> None:
    """Accept an iterable of texts. Items of an iterator are not checked here, because that would consume them."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        _refuse(name, "a list of texts", value)
    if not isinstance(value, Iterator):
        for item in value:
            if not isinstance(item, str):
                raise InvalidInputError(f"{name}: every item is a text, not {shown(item)}")


def several(name: str, value: Any) -> None:
    """Accept an iterable that is no text."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        _refuse(name, "a list", value)


def document(name: str, value: Any) -> None:
    """Accept an address, or a document as a mapping."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, (str, Mapping)) or value == "":
        _refuse(name, "a path, a URL or a mapping", value)


def document_or_set(name: str, value: Any) -> None:
    """Accept an address, a document as a mapping, or an opened set."""
    if not isinstance(getattr(value, "engine", None), _pilum.ReferenceSet):
        document(name, value)


def opened(name: str, value: Any) -> None:
    """Accept an opened set."""
    if not isinstance(getattr(value, "engine", None), _pilum.ReferenceSet):
        _refuse(name, "an opened set", value)


def table(name: str, value: Any) -> None:
    """Accept a table that is opened."""
    if not all(hasattr(value, part) for part in ("uri", "version", "fragments", "schema")):
        _refuse(name, "a pilum.Dataset", value)


def version(name: str, value: Any) -> None:
    """Accept a version of the JSON document."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in (0, 1):
        _refuse(name, "0 or 1", value)


def rewrites(name: str, value: Any) -> None:
    """Accept a mapping from text to text, or pairs of texts."""
    pairs = value.items() if isinstance(value, Mapping) else value
    if isinstance(pairs, (str, bytes)) or not hasattr(pairs, "__iter__"):
        _refuse(name, "a dict of texts", value)
    if isinstance(pairs, Iterator):
        return
    for pair in pairs:
        is_pair = isinstance(pair, Sequence) and not isinstance(pair, (str, bytes)) and len(pair) == 2
        if not is_pair or not all(isinstance(part, str) for part in pair):
            raise InvalidInputError(f"{name}: every item is a pair of texts, not {shown(pair)}")


def changes(name: str, value: Any) -> None:
    """Accept a mapping from keys to values that a set can hold."""
    members(name, value)
    for key, its in value.items():
        is_target = isinstance(its, (tuple, list)) and len(its) in {1, 3}
        if not (its is None or isinstance(its, (str, bytes, bytearray)) or is_target):
            raise InvalidInputError(
                f"{name}: the value of {key!r} is bytes, text, (url,), (url, offset, size) or None, not {shown(its)}"
            )


def slices(name: str, value: Any) -> None:
    """Accept a list of (key, start, end)."""
    several(name, value)
    for item in value:
        bounds = item[1:] if isinstance(item, (tuple, list)) and len(item) == 3 else [value]
        if not isinstance(item[0] if bounds != [value] else None, str) or not all(map(is_bound, bounds)):
            raise InvalidInputError(f"{name}: every item is (key, start, end), not {shown(item)}")


def is_bound(value: Any) -> bool:
    """Return whether a value bounds a slice."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)


def bound(name: str, value: Any) -> None:
    """Accept a bound of a slice."""
    if not is_bound(value):
        _refuse(name, "an integer or None", value)


def readable_set(name: str, value: Any) -> None:
    """Accept what names or holds a reference set: an address, a document, an open file, a set, fsspec's lazy mapping."""
    holds = isinstance(value, Mapping) or hasattr(value, "read") or hasattr(value, "record_size")
    if not (holds or isinstance(getattr(value, "engine", None), _pilum.ReferenceSet)):
        address(name, value)


def is_file_system(value: Any) -> bool:
    """Return whether a value is a file system of fsspec."""
    return hasattr(value, "protocol") and hasattr(value, "async_impl") and not isinstance(value, type)


def file_systems(name: str, value: Any) -> None:
    """Accept a file system of fsspec, or a mapping of protocols to file systems or their options."""
    wanted = "a file system of fsspec, or a dict of protocols and file systems"
    if is_file_system(value):
        return
    if not isinstance(value, Mapping):
        _refuse(name, wanted, value)
    for protocol, its in value.items():
        if not (protocol is None or isinstance(protocol, str)):
            _refuse(name, wanted, value)
        if not is_file_system(its):
            members(f"{name}[{protocol!r}]", its)


def gap(name: str, value: Any) -> None:
    """Accept a number of bytes between two ranges, and -1 for ranges that are read one by one."""
    if not isinstance(value, int) or value != -1:
        count(name, value)


def seconds(name: str, value: Any) -> None:
    """Accept a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
        _refuse(name, "a number of seconds", value)
