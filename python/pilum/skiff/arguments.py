"""Checks of arguments: what has no place in the engine is refused in words."""

from __future__ import annotations

from pilum.exceptions import InvalidInputError

MOST = (1 << 63) - 1
"""The largest number that the engine takes."""


def whole_number(name: str, value: object, *, least: int = 0) -> int:
    """Return the argument.

    Raises:
        InvalidInputError: It is no integer from `least` to 2^63-1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise InvalidInputError(f"{name}={value!r}: an integer from {least} to 2^63-1 is expected")
    return value


def true_or_false(name: str, value: object) -> bool:
    """Return the argument.

    Raises:
        InvalidInputError: It is neither True nor False.
    """
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name}={value!r}: True or False is expected")
    return value
