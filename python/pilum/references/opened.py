"""An opened reference set: a mapping of keys to bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import checked, flag, members, positive, word
from pilum.exceptions import InvalidInputError
from pilum.references.errors import MissingKeyError, ReferenceNotReachable, translated, translates, translating
from pilum.references.options import (
    Mode,
    Rewrites,
    bound,
    changes,
    document,
    document_bytes,
    open_options,
    opened,
    rewrites,
    slices,
    string,
    strings,
    version,
)
from pilum.references.validate import validate

if TYPE_CHECKING:
    import pyarrow as pa

Value = bytes | tuple[str | None] | tuple[str | None, int, int] | str
"""A stored value: inline bytes, `(url,)`, `(url, offset, size)`, or the JSON text of a value without a meaning."""

RECORD_SIZE = 100_000
"""References per Parquet file."""


class References:
    """A mapping of keys to bytes, as `open` returns it. It is never changed: every operation returns another set."""

    __slots__ = ("engine", "location", "opening")

    def __init__(self, engine: _pilum.ReferenceSet, location: str | None, opening: dict[str, Any]) -> None:
        self.engine = engine
        self.location = location
        """The address of the set, from which relative URLs start; None for a set that was made."""
        self.opening = opening
        """The options of the engine."""

    @classmethod
    def of_rows(cls, rows: Any, location: str | None, opening: dict[str, Any]) -> References:
        """Return the set of some rows with the options of another set."""
        return cls(_pilum.ReferenceSet.from_table(rows, location, opening), location, opening)

    def _like(self, engine: _pilum.ReferenceSet) -> References:
        return References(engine, self.location, self.opening)

    def __len__(self) -> int:
        """Return the number of keys; for a folder of Parquet files that of metadata and grid cells."""
        return len(self.engine)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.engine.locate([_plain(key)])[0] is not None

    @translates
    def __iter__(self) -> Iterator[str]:
        return iter(self.engine.ordered_keys())

    @checked(prefix=string)
    @translates
    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with `prefix`, sorted. Of a lazy set only the arrays are read that can match."""
        return self.engine.keys(prefix)

    @checked(folder=string)
    @translates
    def names(self, folder: str = "") -> list[str]:
        """Return the names of the keys and folders in a folder, without the folder's own name, each once."""
        children = self.engine.children(_plain(folder))
        return list(dict.fromkeys(path.rpartition("/")[2] for path, _, _ in children))

    def __getitem__(self, key: str) -> bytes:
        """Return the bytes of a key.

        Raises:
            MissingKeyError: There is no such key; also a `KeyError` and a `FileNotFoundError`.
            ReferenceNotReachable: The target could not be read.
            TargetRefusedError: The set may not lead there; also an `InvalidInputError`.
            InvalidInputError: The value means nothing; `key` and `member` say which part.
        """
        return self.read(key)

    @checked(key=string, start=bound, end=bound)
    def read(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return `value[start:end]` of a key, as Python slices; no byte beyond the value is given. Raises as `r[key]`."""
        result = self.read_many([(key, start, end)])[0]
        if isinstance(result, BaseException):
            raise result
        return result

    @checked(key=string)
    def get(self, key: str, default: bytes | None = None) -> bytes | None:
        """Return the bytes of a key, or `default` if there is none. Raises as `r[key]` otherwise."""
        try:
            return self[key]
        except MissingKeyError:
            return default

    @checked(keys=strings, on_error=word("raise", "omit", "return"))
    def get_many(
        self, keys: Iterable[str], *, on_error: Literal["raise", "omit", "return"] = "raise"
    ) -> dict[str, bytes | BaseException]:
        """Return the bytes of many keys. Neighbouring ranges of one file are read together, files in parallel.

        Args:
            keys: The keys.
            on_error: What a key does that cannot be read: it raises, is left out, or stands in the result with its exception.
        """
        wanted = list(dict.fromkeys(keys))
        results: dict[str, bytes | BaseException] = {}
        for key, result in zip(wanted, self.read_many([(key, None, None) for key in wanted]), strict=True):
            if isinstance(result, BaseException):
                if on_error == "raise":
                    raise result
                if on_error == "omit":
                    continue
            results[key] = result
        return results

    @checked(wanted=slices)
    def read_many(self, wanted: list[tuple[str, int | None, int | None]]) -> list[bytes | BaseException]:
        """Return `value[start:end]` for each `(key, start, end)`, or the exception that reading it ended in.

        A key may occur more than once. Neighbouring ranges of one file are read together, files in parallel.
        """
        asked = [(_plain(key), start, end) for key, start, end in wanted]
        with translating():
            fetched = self.engine.fetch(asked)
        results: list[bytes | BaseException] = []
        for (key, start, end), result in zip(wanted, fetched, strict=True):
            if result is None:
                results.append(MissingKeyError(f"{key!r}: the set has no such key"))
            elif isinstance(result, BaseException):
                results.append(self._second(key, start, end, translated(result)))
            else:
                results.append(result)
        return results

    def _second(self, key: str, start: int | None, end: int | None, failed: BaseException) -> bytes | BaseException:
        """Look into fsspec's memory, if the program uses it: sets are often tried with files there."""
        is_memory = isinstance(failed, ReferenceNotReachable) and failed.target.startswith("memory://")
        if not is_memory or not isinstance(failed.__cause__, FileNotFoundError) or "fsspec" not in sys.modules:
            return failed
        value = self.locate(key)
        if not isinstance(value, tuple):
            return failed
        try:
            whole: bytes = sys.modules["fsspec"].filesystem("memory").cat_file(value[0] or self.opening["target"])
        except FileNotFoundError:
            return failed
        if len(value) == 3:
            whole = whole[value[1] : value[1] + value[2]]
        return whole[start:end]

    @checked(key=string)
    @translates
    def locate(self, key: str) -> Value | None:
        """Return the stored value of a key without reading its target; None for a missing key."""
        found: Value | None = self.engine.locate([_plain(key)])[0]
        return found

    @checked(keys=strings)
    @translates
    def locate_many(self, keys: Iterable[str]) -> list[Value | None]:
        """Return the stored values of many keys."""
        return self.engine.locate([_plain(key) for key in keys])

    @checked(key=string)
    def info(self, key: str) -> dict[str, Any]:
        """Return `name`, `type`, `size` in bytes, and for a target `path`, `offset` and `length`. A whole file is asked for.

        Raises:
            MissingKeyError: There is neither a key nor a folder of this name.
        """
        plain = _plain(key)
        value = self.locate(key)
        if value is None:
            with translating():
                if plain == "" or self.engine.children(plain):
                    return {"name": plain, "type": "directory", "size": 0}
            raise MissingKeyError(f"{key!r}: the set has no such key")
        info: dict[str, Any] = {"name": plain, "type": "file"}
        if isinstance(value, tuple):
            info["path"] = value[0]
            if len(value) == 3:
                info |= {"offset": value[1], "length": value[2], "size": value[2]}
            else:
                with translating():
                    info["size"] = self.engine.file_size(plain, value[0])
        else:
            info["size"] = len(self.read(key))
        return info

    @property
    def urls(self) -> list[str]:
        """The distinct URLs."""
        with translating():
            return self.engine.urls()

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the set takes; 0 for a folder of Parquet files."""
        return self.engine.nbytes

    @checked(version=version, storage_options=members)
    @translates
    def to_json(
        self,
        uri: str | os.PathLike[str] | None = None,
        version: Literal[0, 1] = 1,
        *,
        gen: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> str:
        """Return the set as a JSON document, and write it to `uri` if one is given.

        Args:
            uri: The address of the document.
            version: Version 0 has only keys. Version 1 also has templates for beginnings that many URLs share.
            gen: Whether arrays whose chunks lie in their files at equal distances become one line of `gen` each, in version 1.
                fsspec from 2026.6 on and GDAL skip such chunks without an error: use it for pilum and older fsspec only.
            storage_options: Options of the store.
        """
        if not isinstance(gen, bool):
            raise InvalidInputError(f"gen={gen!r}: True or False is expected")
        document = self.engine.to_json(version, gen)
        if uri is not None:
            self.engine.write_json(os.fspath(uri), _options(storage_options), document)
        return document.decode()

    @checked(record_size=positive, storage_options=members)
    @translates
    def to_parquet(
        self,
        uri: str | os.PathLike[str],
        record_size: int = RECORD_SIZE,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Write the set as a folder of Parquet files, which fsspec, GDAL and others read. Name it `*.parq` or `*.parquet`.

        Args:
            uri: The folder. A set that lies there is replaced; other files are refused.
            record_size: References per file.
            storage_options: Options of the store.

        Raises:
            UnsupportedError: A key that the layout cannot hold, such as one of zarr version 3.
        """
        self.engine.write_parquet(os.fspath(uri), record_size, _options(storage_options))

    @checked(prefix=string)
    @translates
    def to_arrow(self, prefix: str = "") -> pa.Table:
        """Return one row per key: `key`, `path`, `offset`, `size` (null for a whole file), `raw` (the stored inline bytes)."""
        import pyarrow as pa

        return pa.table(self.engine.to_table(prefix))

    @checked(prefixes=rewrites)
    @translates
    def rewrite(self, prefixes: Rewrites) -> References:
        """Return a set whose URLs begin otherwise: `{"old": "new"}`. The longest beginning that fits a URL counts."""
        pairs = list(prefixes.items()) if isinstance(prefixes, Mapping) else list(prefixes)
        return self._like(self.engine.rewritten(pairs)[0])

    @checked(prefixes=strings)
    @translates
    def subset(self, *prefixes: str) -> References:
        """Return the keys that begin with one of the prefixes."""
        return self._like(self.engine.subset(list(prefixes)))

    @checked(other=opened)
    @translates
    def diff(self, other: References) -> dict[str, list[str]]:
        """Return the keys that are `added` in the other set, `removed` from it, and `changed`."""
        added, removed, changed = self.engine.diff(other.engine)
        return {"added": added, "removed": removed, "changed": changed}

    @checked(changes=changes)
    @translates
    def changed(self, changes: Mapping[str, Value | str | None]) -> References:
        """Return a set with other values: bytes or text to hold inline, `(url,)`, `(url, offset, size)`, None to remove."""
        return self._like(self.engine.changed([(key, _stored(value)) for key, value in changes.items()]))

    @checked()
    @translates
    def load(self) -> References:
        """Return the set in memory: a folder of Parquet files is read as a whole."""
        return self._like(self.engine.changed([])) if self.engine.is_lazy else self

    @checked(reachable=flag)
    def validate(self, *, reachable: bool = False) -> list[tuple[str, str]]:
        """Return pairs of a key and what is wrong with it: values without a meaning, overlaps, ranges beyond their file.

        Args:
            reachable: Whether targets are asked for their sizes.
        """
        return validate(self, reachable=reachable)

    def __repr__(self) -> str:
        kind = "Parquet files" if self.engine.is_lazy else "memory"
        return f"<pilum.references.References of {len(self)} keys in {kind}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.engine.is_lazy and self.location is not None:
            return _reopened, (self.location, self.opening)
        return _unpickled, (self.engine.to_json(0, False), self.location, self.opening)


def _options(given: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if given is None else dict(given)


def _plain(key: str) -> str:
    return key.removeprefix("reference://").rstrip("/")


def _stored(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return tuple(value) if isinstance(value, list) else value


def _reopened(location: str, opening: dict[str, Any]) -> References:
    return References(_pilum.ReferenceSet.open(location, opening), location, opening)


def _unpickled(document: bytes, location: str | None, opening: dict[str, Any]) -> References:
    return References(_pilum.ReferenceSet.from_document(document, location, opening), location, opening)


@checked(
    source=document,
    storage_options=members,
    mode=word("union", "simple", "full"),
    allow=strings,
    template_overrides=members,
    target=string,
    target_options=members,
    max_references=positive,
    cache_size=positive,
)
@translates
def open(  # noqa: A001 - the name in the API
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    storage_options: Mapping[str, str] | None = None,
    mode: Mode = "union",
    allow: Iterable[str] = (),
    template_overrides: Mapping[str, str] | None = None,
    target: str | None = None,
    target_options: Mapping[str, str] | None = None,
    max_references: int | None = None,
    cache_size: int | None = None,
) -> References:
    """Open a reference set: JSON of version 0 or 1, gzip or zstd compressed or not, a folder of Parquet files, or a mapping.

    Args:
        source: A path, a URL, or the document as a mapping.
        storage_options: Options of the store of the set, and of its targets unless `target_options` are given.
        mode: `"union"` opens what one of the other modes opens and expands `gen`; `"simple"` and `"full"` are fsspec's
            `simple_templates=True` and `False`.
        allow: Where the set may lead beside its own scheme and host: `"s3://bucket"`, `"https://example.org"`, `"gs"`,
            `"/data"`, `"*"`. Sets of this machine may lead to files of this machine unless a rule is given.
        template_overrides: Templates that replace or complete those of the document.
        target: What a null URL stands for.
        target_options: Options of the stores of the targets.
        max_references: Most references that `gen` may make; 2^24.
        cache_size: Parquet files that stay in memory; 128.

    Raises:
        InvalidInputError: A member means nothing; `key` and `member` name it.
        LimitError: A member asks for too much work.
        CorruptError: The document is not JSON; also a `ValueError`.
    """
    options = open_options(
        mode=mode,
        template_overrides=template_overrides,
        max_references=max_references,
        cache_size=cache_size,
        storage_options=storage_options,
        target_options=target_options if target_options is not None else storage_options,
        target=target,
        allow=allow,
    )
    if isinstance(source, Mapping):
        return References(_pilum.ReferenceSet.from_document(document_bytes(source), None, options), None, options)
    location = os.fspath(source)
    if "://" not in location:
        is_folder = location.endswith("/")
        location = str(Path(location).expanduser().absolute()) + ("/" if is_folder else "")
    return References(_pilum.ReferenceSet.open(location, options), location, options)


open_set = open


@checked(location=string, allow=strings)
@translates
def from_arrow(table: Any, *, location: str | None = None, allow: Iterable[str] = ()) -> References:
    """Return the set whose rows a table has: `key`, `path`, `offset`, `size`, `raw`, as `References.to_arrow` gives them.

    Args:
        table: Anything that exports Arrow data. Of equal keys the last row counts.
        location: The address from which relative URLs start.
        allow: As in `open`.
    """
    options = open_options(allow=allow)
    return References(_pilum.ReferenceSet.from_table(table, location, options), location, options)
