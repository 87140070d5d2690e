"""The exceptions of reference sets, which are also those that programs written for fsspec catch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pilum.exceptions import CorruptError, InvalidInputError, NotFoundError, PilumError

_BUILTIN: dict[str, type[Exception]] = {
    "TypeError": TypeError,
    "IndexError": IndexError,
    "KeyError": KeyError,
    "AttributeError": AttributeError,
    "ValueError": ValueError,
}


class MissingKeyError(NotFoundError, KeyError):
    """The set has no such key. zarr takes a missing chunk for one of fill values."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ReferenceNotReachable(PilumError, RuntimeError):  # noqa: N818 - the name in fsspec
    """The key exists, but the bytes that it refers to could not be read. This is never a missing key.

    `reference` is the key, `target` the URL without secrets.
    """

    kind = "store"

    def __init__(self, reference: str, target: str, message: str | None = None) -> None:
        # Not through `super()`: fsspec's class, which may be a base too, takes other arguments.
        RuntimeError.__init__(self, message or f'Reference "{reference}" failed to fetch target {target}')
        self.reference = reference
        self.target = target

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reference, self.target, str(self))


class TargetRefusedError(ReferenceNotReachable, InvalidInputError):
    """The rules for targets refuse the URL: pass `allow=` if the set should lead there."""

    kind = "invalid_input"


_MADE: dict[tuple[type[PilumError], str], type[PilumError]] = {}


def _also(base: type[PilumError], name: str) -> type[PilumError]:
    """Return the class of pilum that is also the builtin one."""
    builtin = _BUILTIN[name]
    if issubclass(base, builtin):
        return base
    if (base, name) not in _MADE:
        namespace = {"__module__": "pilum.references", "__doc__": base.__doc__}
        _MADE[base, name] = type(base.__name__, (base, builtin), namespace)
    return _MADE[base, name]


def translated(error: BaseException) -> BaseException:
    """Return the exception that Python programs expect for an error of the engine."""
    if not isinstance(error, PilumError):
        return error
    if hasattr(error, "target"):
        return _unreachable(error)
    peer = getattr(error, "peer", None)
    if peer in _BUILTIN and isinstance(error, (InvalidInputError, CorruptError)):
        made = _also(type(error), peer)(*error.args)
        for name in ("key", "member", "peer"):
            if hasattr(error, name):
                setattr(made, name, getattr(error, name))
        return made
    return error


def _unreachable(error: Any) -> ReferenceNotReachable:
    kind = TargetRefusedError if error.cause == "refused" else ReferenceNotReachable
    made = kind(error.reference, error.target, str(error))
    if error.cause == "FileNotFoundError":
        made.__cause__ = FileNotFoundError(str(error))
    elif error.cause in _BUILTIN:
        made.__cause__ = _BUILTIN[error.cause](str(error))
    elif error.cause == "OSError":
        made.__cause__ = OSError(str(error))
    return made


@contextmanager
def translating() -> Iterator[None]:
    """Raise errors of the engine as the classes that Python programs expect."""
    try:
        yield
    except PilumError as error:
        made = translated(error)
        if made is error:
            raise
        raise made from made.__cause__


F = TypeVar("F", bound=Callable[..., Any])


def translates(function: F) -> F:
    """Decorate a function so that it raises the classes that Python programs expect."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with translating():
            return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]
