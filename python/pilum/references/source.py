"""Mappings as JSON documents."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any


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
