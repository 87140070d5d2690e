"""Checks of a set: values without a meaning, overlapping ranges, ranges beyond their file, targets that do not answer."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pilum.arguments import checked, flag
from pilum.exceptions import PilumError
from pilum.references.errors import translated
from pilum.references.options import opened

if TYPE_CHECKING:
    from pilum.references.opened import References


Ranges = dict[str | None, list[tuple[int, int, str]]]
Problems = list[tuple[str, str]]


@checked(references=opened, reachable=flag)
def validate(references: References, *, reachable: bool = False) -> Problems:
    """Return pairs of a key and what is wrong with it."""
    problems: Problems = []
    ranges: Ranges = {}
    whole: dict[str | None, str] = {}
    keys = list(references)
    for key, value in zip(keys, references.locate_many(keys), strict=True):
        if isinstance(value, (str, bytes)):
            try:
                references.read(key)
            except PilumError as error:
                problems.append((key, str(error)))
        elif value is not None and len(value) == 3:
            url, offset, size = value
            if offset < 0 or size < 0:
                problems.append((key, f"offset {offset} and length {size} must not be negative"))
            else:
                ranges.setdefault(url, []).append((offset, offset + size, key))
        elif value is not None:
            whole.setdefault(value[0], key)
    problems += _overlaps(ranges)
    if reachable:
        problems += _beyond(references, ranges, whole)
    return problems


def _overlaps(ranges: Ranges) -> Problems:
    problems: Problems = []
    for url, parts in ranges.items():
        parts.sort()
        for (start, end, first), (begin, stop, second) in itertools.pairwise(parts):
            if begin < end and (start, end) != (begin, stop):
                problems.append((second, f"bytes {begin}..{stop} of {url} overlap those of {first!r}"))
    return problems


def _beyond(references: References, ranges: Ranges, whole: dict[str | None, str]) -> Problems:
    problems: Problems = []
    for url, (key, end) in _furthest(ranges, whole).items():
        try:
            size = references.engine.file_size(key, url)
        except PilumError as error:
            problems.append((key, str(translated(error))))
            continue
        if end > size:
            beyond = [part for part in ranges[url] if part[1] > size]
            problems += [(name, f"bytes {a}..{b} lie beyond the {size} bytes of {url}") for a, b, name in beyond]
    return problems


def _furthest(ranges: Ranges, whole: dict[str | None, str]) -> dict[str | None, tuple[str, int]]:
    """Return for every URL one of its keys and the last byte that is asked for."""
    furthest = {url: (key, 0) for url, key in whole.items()}
    for url, parts in ranges.items():
        furthest[url] = (parts[0][2], max(end for _, end, _ in parts))
    return furthest
