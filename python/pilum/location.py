"""The address of a table, with the options of its store."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pilum.arguments import pairs
from pilum.exceptions import InvalidInputError

StorageOptions = Mapping[str, str] | Callable[[], Mapping[str, str]]
"""Settings and credentials of a store, or a function that returns them: see `Renewing`."""

EXPIRES = "expires_at_millis"
"""The option that says when the others expire, in milliseconds since 1970."""

EARLY_SECONDS = 60.0
"""Options are renewed this long before they expire."""

_URL = re.compile("[A-Za-z][A-Za-z0-9+.-]+:")
_HOST = re.compile(r"([^:]*|.*\])(:[0-9]+)?")


class Renewing:
    """Options that are renewed before they expire.

    The options that the function returns may contain `expires_at_millis`; without it, the function is called before each use.
    It is called on the thread that uses the table, never on a thread of the engine, and by one thread at a time.
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
        # Only the function is pickled: another process calls it for credentials of its own.
        return Renewing, (self._ask,)

    def __call__(self) -> dict[str, str]:
        """Return options that do not expire soon."""
        if self._pid != os.getpid():
            # A fork copies a locked lock, but not the thread that would release it.
            self._lock, self._pid = threading.Lock(), os.getpid()
        with self._lock:
            if time.time() + EARLY_SECONDS >= self._expires_at:
                given: Any = self._ask()
                if not isinstance(given, Mapping):
                    # What was returned may be a secret: it is not shown.
                    kind = type(given).__name__
                    raise InvalidInputError(f"storage_options: the function returned a {kind}, not a dict of texts")
                pairs("storage_options", given)
                options = dict(given)
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
    """The address of a table and the options of its store, which may contain secrets and are never shown."""

    uri: str
    storage_options: StorageOptions | None = field(default=None, repr=False)
    _given: Mapping[str, str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, uri: str | os.PathLike[str], storage_options: StorageOptions | None = None) -> Location:
        """Return the location. A path is made absolute, because another process may have another working directory."""
        if not isinstance(uri, (str, os.PathLike)):
            raise InvalidInputError(f"uri: pass a path or a URL, not a {type(uri).__name__}")
        text = os.fspath(uri)
        if not isinstance(text, str) or not text:
            raise InvalidInputError(f"uri: pass a path or a URL, not {text!r}")
        if not _URL.match(text):
            # Unlike `Path.resolve`, this leaves symbolic links as they are.
            text = os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111
        if not callable(storage_options):
            return cls(text, storage_options, storage_options)
        renewing = storage_options if isinstance(storage_options, Renewing) else Renewing(storage_options)
        return cls(text, renewing, renewing())

    def __repr__(self) -> str:
        return f"Location({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address for messages, without the parts that may be secret: user, query and fragment."""
        scheme, is_url, rest = self.uri.partition("://")
        if not is_url:
            return self.uri
        authority, slash, folder = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
        host = authority.rpartition("@")[2]
        if not _HOST.fullmatch(host):
            # The part after the colon may be a password that contains a slash.
            return f"{scheme}://[redacted]"
        return f"{scheme}://{host}{slash}{folder}"

    def options(self) -> dict[str, str] | None:
        """Return the options as the engine takes them."""
        return None if self._given is None else dict(self._given)

    def renewed(self) -> Location | None:
        """Return the location with renewed options, or None if they are the same."""
        if not isinstance(self.storage_options, Renewing):
            return None
        options = self.storage_options()
        return None if options == self._given else Location(self.uri, self.storage_options, options)
