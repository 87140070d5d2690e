"""Where a table is."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pilum.exceptions import InvalidInputError

StorageOptions = Mapping[str, str] | Callable[[], Mapping[str, str]]
"""Settings and credentials of a store, or what returns them: see `Renewing`."""

EXPIRES = "expires_at_millis"
"""The option that says when the others expire, in milliseconds since 1970."""

EARLY_SECONDS = 60.0
"""How long before they expire options are asked for again."""

_URL = re.compile("[A-Za-z][A-Za-z0-9+.-]+:")
_HOST = re.compile(r"([^:]*|.*\])(:[0-9]+)?")


class Renewing:
    """Options that are asked for again before they expire.

    What the function returns may hold `expires_at_millis`; without it, it is asked before each use. It is called on the
    thread that uses the table, never on a thread of the engine, and by one thread at a time.
    """

    __slots__ = ("_ask", "_expires_at", "_lock", "_options", "_pid")

    def __init__(self, ask: Callable[[], Mapping[str, str]]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._options: dict[str, str] = {}
        self._expires_at = 0.0
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return "<options that are renewed>"

    def __reduce__(self) -> tuple[Any, ...]:
        # What was answered here stays here: another process asks for itself.
        return Renewing, (self._ask,)

    def __call__(self) -> dict[str, str]:
        """Return options that are good for a while."""
        if self._pid != os.getpid():
            # A fork copies the lock as it stands, and perhaps nobody who would open it.
            self._lock, self._pid = threading.Lock(), os.getpid()
        with self._lock:
            if time.time() + EARLY_SECONDS >= self._expires_at:
                options = dict(self._ask())
                self._expires_at = _seconds(options.pop(EXPIRES, None))
                self._options = options
            return self._options


def _seconds(millis: str | None) -> float:
    if millis is None:
        return 0.0
    try:
        return int(millis) / 1000
    except ValueError:
        raise InvalidInputError(f"storage option {EXPIRES!r}: write milliseconds since 1970") from None


@dataclass(frozen=True, slots=True, repr=False)
class Location:
    """Where a table is and what it takes to reach it. The options may hold secrets and are never shown."""

    uri: str
    storage_options: StorageOptions | None = field(default=None, repr=False)
    _given: Mapping[str, str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, uri: str | os.PathLike[str], storage_options: StorageOptions | None = None) -> Location:
        """Return the location with a path made absolute: another process may have another working directory."""
        text = os.fspath(uri)
        if not _URL.match(text):
            text = os.path.abspath(text)  # noqa: PTH100 - the same for a path that does not exist yet
        if not callable(storage_options):
            return cls(text, storage_options, storage_options)
        renewing = storage_options if isinstance(storage_options, Renewing) else Renewing(storage_options)
        return cls(text, renewing, renewing())

    def __repr__(self) -> str:
        return f"Location({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address for messages, without what it may hold of secrets: user, query and fragment."""
        scheme, is_url, rest = self.uri.partition("://")
        if not is_url:
            return self.uri
        authority, slash, folder = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
        host = authority.rpartition("@")[2]
        if not _HOST.fullmatch(host):
            # What follows the colon may be a password with a slash in it.
            return f"{scheme}://[redacted]"
        return f"{scheme}://{host}{slash}{folder}"

    def options(self) -> dict[str, str] | None:
        """Return the store's settings as the engine takes them."""
        return None if self._given is None else dict(self._given)

    def renewed(self) -> Location | None:
        """Return the location with newer options, if there are any."""
        if not isinstance(self.storage_options, Renewing):
            return None
        options = self.storage_options()
        return None if options == self._given else Location(self.uri, self.storage_options, options)
