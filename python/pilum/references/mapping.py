"""The values of a file system's set, as fsspec stores them; changes lie over the set of the engine until it is listed."""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from pilum.references.errors import translating

if TYPE_CHECKING:
    from pilum import _pilum


NULL = object()
"""A null in a document: no value, but not a missing key either."""


class ReferenceMapping(MutableMapping[str, Any]):
    """Keys with inline bytes, `[url]`, or `[url, offset, size]`."""

    def __init__(self, engine: _pilum.ReferenceSet) -> None:
        self._engine = engine
        self._changes: dict[str, Any] = {}

    @property
    def engine(self) -> _pilum.ReferenceSet:
        """The set with all changes."""
        if self._changes:
            changes, self._changes = list(self._changes.items()), {}
            with translating():
                self._engine = self._engine.changed(changes)
        return self._engine

    def __getitem__(self, key: str) -> Any:
        found = self.many([key])[0]
        if found is None:
            raise KeyError(key)
        return found

    def many(self, keys: list[str]) -> list[Any]:
        """Return the values of some keys, None for those that are missing."""
        with translating():
            found = self._engine.locate(keys)
        return [self._changed(key, value) for key, value in zip(keys, found, strict=True)]

    def _changed(self, key: str, value: Any) -> Any:
        if self._changes and key in self._changes:
            value = self._changes[key]
        if isinstance(value, tuple):
            return list(value)
        if not isinstance(value, str):
            return value
        parsed = json.loads(value)
        return NULL if parsed is None else parsed

    def __setitem__(self, key: str, value: Any) -> None:
        if isinstance(value, str):
            value = value.encode()
        self._changes[key] = tuple(value) if isinstance(value, list) else value

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._changes[key] = None

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (
            self._changes[key] is not None if key in self._changes else self._engine.locate([key])[0] is not None
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.engine.ordered_keys())

    def __len__(self) -> int:
        return len(self.engine)
