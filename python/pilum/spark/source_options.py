"""Options of `format("pilum")`: which there are, and how their texts are read.

Spark hands options over as texts, with names in lower case. Case and underscores do not matter: `maxRowsPerFile`,
`max_rows_per_file` and `maxrowsperfile` are one option. Options that begin with `storage.` are those of the store.
"""

from __future__ import annotations

import datetime as dt
import difflib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pilum.arguments import shown
from pilum.exceptions import InvalidInputError
from pilum.location import Location

STORAGE = "storage."

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""Columns that `onChange=changes` adds."""

Parser = Callable[[str, str], Any]

_SIZE = re.compile(r"([0-9]+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


class Given(NamedTuple):
    """The options of one read or write."""

    uri: str
    storage_options: dict[str, str] | None
    values: dict[str, Any]
    """By the names of the lists below."""


def _refuse(name: str, wanted: str, value: str) -> InvalidInputError:
    return InvalidInputError(f"option {name!r}: pass {wanted}, not {shown(value)}")


def _text(name: str, value: str) -> str:
    if not value:
        raise _refuse(name, "text that is not empty", value)
    return value


def _flag(name: str, value: str) -> bool:
    lower = value.strip().lower()
    if lower not in {"true", "false"}:
        raise _refuse(name, "'true' or 'false'", value)
    return lower == "true"


def _count(lowest: int) -> Parser:
    def read(name: str, value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            number = lowest - 1
        if number < lowest:
            raise _refuse(name, f"an integer from {lowest} on", value)
        return number

    return read


def _size(name: str, value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    if found is None or int(found[1]) == 0:
        raise _refuse(name, "a number of bytes, such as '64m'", value)
    return int(found[1]) << _UNITS[found[2].lower()]


def _names(name: str, value: str) -> list[str]:
    try:
        names = json.loads(value) if value.lstrip().startswith("[") else [it.strip() for it in value.split(",")]
    except ValueError:
        names = []
    if not names or not all(isinstance(it, str) and it for it in names):
        raise _refuse(name, "names with commas between them, or a JSON list of texts", value)
    return names


def _version(name: str, value: str) -> int | str:
    text = _text(name, value)
    return int(text) if text.isdecimal() else text


def _moment(name: str, value: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(value.strip())
    except ValueError:
        raise _refuse(name, "a moment such as '2026-01-31 12:00:00+01:00'", value) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def _pairs(name: str, value: str) -> dict[str, str]:
    try:
        pairs = json.loads(value)
    except ValueError:
        pairs = None
    if not isinstance(pairs, dict) or not all(isinstance(it, str) for it in pairs.values()):
        raise _refuse(name, "a JSON object of texts", value)
    return pairs


def _word(*known: str) -> Parser:
    def read(name: str, value: str) -> str:
        if value.lower() not in known:
            raise _refuse(name, " or ".join(map(repr, known)), value)
        return value.lower()

    return read


def _push_filters(name: str, value: str) -> bool:
    lower = value.strip().lower()
    if lower not in {"false", "once"}:
        raise InvalidInputError(
            f"option {name!r}: pass 'once' for a DataFrame that one query uses once, or 'false', not "
            f"{shown(value)}. Spark keeps the "
            f"filters of one query for every other query of the same DataFrame, which then lacks rows. "
            f"option('filter', ..) has no "
            f"such limit"
        )
    return lower == "once"


_SCAN: Mapping[str, Parser] = {
    "columns": _names,
    "filter": _text,
    "vectors": _word("list", "array", "binary"),
    "batchRows": _count(1),
    "verifyChecksums": _flag,
}
_FILES: Mapping[str, Parser] = {
    "cast": _word("exact", "lossy"),
    "missing": _word("null", "error"),
    "extra": _word("error", "ignore"),
    "compat": _word("lossless", "lance"),
    "maxRowsPerFile": _count(1),
    "maxRowsPerPage": _count(1),
    "maxBytesPerFile": _size,
    "durability": _word("full", "none"),
    "stableRowIds": _flag,
    "properties": _pairs,
    "mergeSchema": _flag,
}

READ: Mapping[str, Parser] = {
    **_SCAN,
    "version": _version,
    "asof": _moment,
    "limit": _count(0),
    "tasks": _count(1),
    "taskBytes": _size,
    "pushFilters": _push_filters,
}
STREAM_READ: Mapping[str, Parser] = {
    **_SCAN,
    "startingVersion": _version,
    "startingTimestamp": _moment,
    "maxFilesPerTrigger": _count(1),
    "maxBytesPerTrigger": _size,
    "onChange": _word("fail", "skip", "changes"),
}
WRITE: Mapping[str, Parser] = {
    **_FILES,
    "commitId": _text,
    "ifExists": _word("append", "error", "ignore"),
    "replaceWhere": _text,
}
STREAM_WRITE: Mapping[str, Parser] = {**_FILES, "appId": _text, "checkpointLocation": _text}

WRITE_ARGUMENTS: Mapping[str, str] = {
    "cast": "cast",
    "missing": "missing",
    "extra": "extra",
    "compat": "compat",
    "maxRowsPerFile": "max_rows_per_file",
    "maxRowsPerPage": "max_rows_per_page",
    "maxBytesPerFile": "max_bytes_per_file",
    "durability": "durability",
    "stableRowIds": "stable_row_ids",
    "properties": "properties",
}
"""Options that are arguments of `pilum.write_dataset`."""


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def parse(options: Mapping[str, str], known: Mapping[str, Parser], use: str) -> Given:
    """Read the options of one use.

    Args:
        options: As Spark hands them over.
        known: The options that the use has.
        use: The use, for messages: `"read"`, `"write"`, ...

    Raises:
        InvalidInputError: There is no such option (the message has the nearest one), or its text cannot be read, or there is
            no address.
    """
    names = {_plain(name): name for name in [*known, "path"]}
    uri: str | None = None
    storage: dict[str, str] = {}
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key.lower().startswith(STORAGE):
            storage[key[len(STORAGE) :]] = value
            continue
        plain = _plain(key)
        if plain == "paths":
            raise InvalidInputError(f"a {use} of format('pilum') takes one table: load each and union them")
        if plain not in names:
            raise _unknown(key, names, use)
        if plain == "path":
            uri = address(_text(key, value))
        else:
            name = names[plain]
            if name in values:
                raise InvalidInputError(f"option {name!r} is given twice")
            values[name] = known[name](name, value)
    if not uri:
        raise InvalidInputError(
            f"a {use} of format('pilum') needs the address of a table: load(uri), save(uri), start(uri)"
        )
    return Given(uri, storage or None, values)


def _unknown(key: str, names: Mapping[str, str], use: str) -> InvalidInputError:
    # An option of batches and streams is told as one of batches, so it comes last.
    others = {
        _plain(name): (name, other)
        for other, options in (
            ("streaming write", STREAM_WRITE),
            ("write", WRITE),
            ("streaming read", STREAM_READ),
            ("batch read", READ),
        )
        for name in options
    }
    if _plain(key) in others:
        name, other = others[_plain(key)]
        return InvalidInputError(f"option {name!r} is one of a {other}: a {use} does not have it")
    near = difflib.get_close_matches(_plain(key), list(names), 1, cutoff=0.6)
    takes = ", ".join([*sorted(names.values()), f"{STORAGE}<name>"])
    hint = f"did you mean {names[near[0]]!r}?" if near else f"it takes {takes}"
    return InvalidInputError(f"a {use} of format('pilum') has no option {key!r}: {hint}")


def address(uri: str) -> str:
    """Return the address of a table, absolute: tasks have another working directory.

    Spark writes the address of a local folder as `file:/folder`.
    """
    if uri.startswith("file:/") and not uri.startswith("file://"):
        uri = uri.removeprefix("file:")
    return Location.of(uri).uri
