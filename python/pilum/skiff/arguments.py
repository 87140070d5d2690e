"""Checks of arguments: what has no place in the engine is refused in words."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from pilum.exceptions import InvalidInputError

MOST = (1 << 63) - 1
"""The largest number that the engine takes."""


def whole_number(name: str, value: object, *, least: int = 0) -> int:
    """Return the argument as an `int`; integers of NumPy are numbers too.

    Raises:
        InvalidInputError: It is no integer from `least` to 2^63-1.
    """
    number = integer(value)
    if number is None or not least <= number <= MOST:
        raise InvalidInputError(f"{name}={value!r}: an integer from {least} to 2^63-1 is expected")
    return number


def integer(value: object) -> int | None:
    """Return an integer of Python or NumPy as an `int`; None for anything else, truth values too."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array of NumPy, or its truth values
        return None


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: `1 table`, `2 tables`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def text(name: str, value: object) -> str:
    """Return the argument.

    Raises:
        InvalidInputError: It is no `str`.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{name}={value!r}: a str is expected, not {type(value).__name__}")
    return value


def one_of(name: str, value: object, *known: str) -> None:
    """Refuse a word that is not known.

    Raises:
        InvalidInputError: The message has the known words.
    """
    if not isinstance(value, str) or value not in known:
        words = " or ".join(f'"{word}"' for word in known)
        raise InvalidInputError(f"{name}={value!r}: {words} is expected")


def true_or_false(name: str, value: object) -> bool:
    """Return the argument.

    Raises:
        InvalidInputError: It is neither True nor False.
    """
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name}={value!r}: True or False is expected")
    return value
