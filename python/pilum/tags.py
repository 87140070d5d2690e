"""Names for versions of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilum import _pilum


class Tags:
    """Names for versions of one table. A version with a tag is kept by `cleanup`."""

    __slots__ = ("_opened",)

    def __init__(self, opened: Callable[[], _pilum.Dataset]) -> None:
        self._opened = opened

    @property
    def _version(self) -> _pilum.Dataset:
        """The version that its dataset has open now."""
        return self._opened()

    def __repr__(self) -> str:
        return f"<pilum.Tags of {self._version.uri}>"

    def list(self) -> dict[str, int]:
        """Return every tag with the version it names."""
        return self._version.tags_list()

    def create(self, name: str, version: int | str | None = None) -> None:
        """Name a version, by default the one that is open."""
        self._version.tags_create(name, self._version.version if version is None else version)

    def delete(self, name: str) -> None:
        """Remove a name. The version stays."""
        self._version.tags_delete(name)
