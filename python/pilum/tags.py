"""Names for versions of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pilum.arguments import checked, text

if TYPE_CHECKING:
    from pilum import _pilum


class Tags:
    """Names for versions of one table. A version with a tag is kept by `cleanup`."""

    __slots__ = ("_opened",)

    def __init__(self, opened: Callable[[], _pilum.Dataset]) -> None:
        self._opened = opened

    @property
    def _version(self) -> _pilum.Dataset:
        """The version that the dataset has open now."""
        return self._opened()

    def __repr__(self) -> str:
        return f"<pilum.Tags of {self._version.uri}>"

    @checked()
    def list(self) -> dict[str, int]:
        """Return all tags with the numbers of their versions.

        Example:
            `ds.tags.list()`
        """
        return self._version.tags_list()

    @checked(name=text)
    def create(self, name: str, version: int | str | None = None) -> None:
        """Name a version.

        Args:
            name: Letters, digits, `.`, `-` and `_`, not digits alone: a number means a version.
            version: The number of the version, or another tag of it. None names the version that is open.

        Raises:
            AlreadyExistsError: There is a tag of this name.
            NotFoundError: There is no such version or tag.
            InvalidInputError: The name is not allowed.

        Example:
            `ds.tags.create("release-1", version=1)`
        """
        self._version.tags_create(name, self._version.version if version is None else version)

    @checked(name=text)
    def delete(self, name: str) -> None:
        """Remove a tag. The version stays.

        Args:
            name: The tag.

        Raises:
            NotFoundError: There is no such tag.

        Example:
            `ds.tags.delete("tag")`
        """
        self._version.tags_delete(name)
