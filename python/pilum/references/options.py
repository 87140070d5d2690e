"""The arguments with which sets are opened, and mappings that stand for documents, as the engine takes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

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
