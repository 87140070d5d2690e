"""Where a table is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_URL = re.compile("[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a table is and what it takes to reach it. The options may hold secrets and are never shown."""

    uri: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Location:
        """Return the location with a path made absolute: another process may have another working directory."""
        text = os.fspath(uri)
        if not _URL.match(text):
            text = os.path.abspath(text)  # noqa: PTH100 - the same for a path that does not exist yet
        return cls(text, storage_options)

    def options(self) -> dict[str, str] | None:
        """Return the store's settings as the engine takes them."""
        return None if self.storage_options is None else dict(self.storage_options)
