"""`FileSystem`: fsspec's `ReferenceFileSystem` by its arguments and behaviour, over the engine's sets.

A program moves by changing one import. The differences are those that fsspec leaves to chance: `gen` is expanded in every mode
but `mode="simple"`, and a missing chunk of Parquet references is missing, whichever program wrote them.
"""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import operator
import os
from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import fsspec
from fsspec.asyn import AsyncFileSystem, sync
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.core import split_protocol
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.reference import ReferenceNotReachable as FsspecNotReachable
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import merge_offset_ranges

from pilum.arguments import checked, flag, members, pairs, positive, shown, text, word
from pilum.exceptions import InvalidInputError
from pilum.references.errors import ReferenceNotReachable, translating
from pilum.references.mapping import ReferenceMapping
from pilum.references.opening import engine_of, file_system, is_forbidden, is_remote
from pilum.references.options import file_systems, gap, readable_set, seconds

if TYPE_CHECKING:
    from pilum.references.options import Mode


Part = tuple[str, str, int | None, int | None]
"""A key, the URL of its target, its first byte, and the byte after its last one."""


_INLINE = object()


def _protocol_of(url: Any) -> Any:
    """Return the protocol of a URL, None for a plain path, `_INLINE` for bytes."""
    return _INLINE if isinstance(url, bytes) else split_protocol(url)[0]


class NotReachable(ReferenceNotReachable, FsspecNotReachable):  # type: ignore[misc]
    """The key exists, but its target could not be read: the class of pilum and that of fsspec."""

    def __init__(self, reference: str, target: str, message: str | None = None) -> None:
        ReferenceNotReachable.__init__(self, reference, target, message)


NotReachable.__name__ = "ReferenceNotReachable"


def _event_loop(name: str, value: Any) -> None:
    """Accept an event loop of asyncio."""
    if not isinstance(value, asyncio.AbstractEventLoop):
        raise InvalidInputError(f"{name}: pass an event loop of asyncio, not {shown(value)}")


class FsspecArguments(TypedDict, total=False):
    """Options that every file system of fsspec has, and `lazy`, which its reference file system takes and does not use."""

    asynchronous: bool
    loop: asyncio.AbstractEventLoop | None
    batch_size: int | None
    skip_instance_cache: bool
    use_listings_cache: bool
    listings_expiry_time: float | None
    max_paths: int | None
    lazy: bool


class FileSystem(AsyncFileSystem):  # type: ignore[misc]
    """The keys of a reference set as files.

    Args:
        fo: A path or URL, an open file, a mapping, a `References`, or fsspec's `LazyReferenceMapper`.
        target: What a null URL stands for.
        ref_storage_args: The older name of `target_options`.
        target_protocol: The protocol of `fo`.
        target_options: Options of the file system of `fo`.
        remote_protocol: The protocol of all URLs; otherwise that of the first one.
        remote_options: Options of its file system.
        fs: A file system, or a mapping of protocols to file systems or their options.
        template_overrides: Templates that replace or complete those of the document.
        simple_templates: True for `mode="union"`, False for `mode="full"`, unless `mode` is given.
        max_gap: Largest gap between two ranges that `cat` reads as one, in bytes; -1 reads each range alone.
        max_block: Most bytes of ranges that are read as one.
        cache_size: Parquet files that stay in memory.
        mode: As in `pilum.references.open`.
        asynchronous: Whether the methods are called from an event loop; see fsspec.
        loop: The event loop.
        batch_size: Keys that are read at the same time.
        skip_instance_cache: As in fsspec; a reference file system is never shared.
        use_listings_cache: As in fsspec; listings of keys need no cache.
        listings_expiry_time: As in fsspec.
        max_paths: As in fsspec.
        lazy: Taken, as by fsspec, and not used: a set of Parquet files is always read as it is needed.

    Raises:
        InvalidInputError: There is no such argument, or an argument cannot have this value.
        NotFoundError: There is no such document.
    """

    protocol = ("pilum-reference", "reference")
    cachable = False

    @checked(
        FsspecArguments,
        fo=readable_set,
        target=text,
        ref_storage_args=members,
        target_protocol=text,
        target_options=members,
        remote_protocol=text,
        remote_options=members,
        fs=file_systems,
        template_overrides=pairs,
        simple_templates=flag,
        max_gap=gap,
        max_block=positive,
        cache_size=positive,
        mode=word("union", "simple", "full"),
        asynchronous=flag,
        loop=_event_loop,
        batch_size=positive,
        skip_instance_cache=flag,
        use_listings_cache=flag,
        listings_expiry_time=seconds,
        max_paths=positive,
        lazy=flag,
    )
    def __init__(
        self,
        fo: Any,
        target: str | None = None,
        ref_storage_args: Mapping[str, Any] | None = None,
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        remote_protocol: str | None = None,
        remote_options: Mapping[str, Any] | None = None,
        fs: Any = None,
        template_overrides: Mapping[str, str] | None = None,
        simple_templates: bool = True,
        max_gap: int = 64_000,
        max_block: int = 256_000_000,
        cache_size: int = 128,
        mode: Mode | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("max_paths") is not None:
            kwargs["max_paths"] = operator.index(kwargs["max_paths"])  # `lru_cache` takes no integer of numpy
        super().__init__(**kwargs)
        self.target = target
        self.max_gap = max_gap
        self.max_block = max_block
        options = dict(ref_storage_args or target_options or {})
        how: Mode = mode or ("union" if simple_templates else "full")
        self.references = ReferenceMapping(engine_of(fo, target_protocol, options, how, template_overrides, cache_size))
        self.fss: dict[str | None, Any] = {}
        self._set_up(fo, fs, remote_protocol, dict(remote_options or {}))

    def _set_up(self, fo: Any, fs: Any, remote_protocol: str | None, options: dict[str, Any]) -> None:
        """Make the file systems of the targets, by the rules of fsspec."""
        if isinstance(fs, Mapping):
            for protocol, given in fs.items():
                made = file_system(protocol, given, "fs") if isinstance(given, Mapping) else given
                self.fss[protocol] = made
            if None not in self.fss:
                self.fss[None] = fsspec.filesystem("file")
        else:
            if fs is not None:
                names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
                self.fss.update(dict.fromkeys(names, fs))
                remote_protocol = None
            elif remote_protocol is None:
                remote_protocol = self._first_protocol(fo)
            if remote_protocol is not None:
                self.fss[remote_protocol] = file_system(remote_protocol, options, "remote_protocol")
            made = list(self.fss.values())
            self.fss[None] = made[-1] if made else file_system("file", options, "remote_options")
        for protocol, made in self.fss.items():
            if not made.async_impl:
                self.fss[protocol] = AsyncFileSystemWrapper(made, asynchronous=self.asynchronous)
            elif self.asynchronous != made.asynchronous:
                raise InvalidInputError(
                    "the file system of the targets needs the same value of `asynchronous` as this one"
                )

    def _first_protocol(self, fo: Any) -> str | None:
        engine = self.references.engine
        # The URLs of a folder of Parquet files are not read for this: the first array's first file would be a guess too.
        url = engine.first_url()
        if url is None:
            return None
        protocol: str | None = split_protocol(url)[0]
        if protocol in {None, "file", "local"} and is_remote(fo):
            raise InvalidInputError(
                f"{url}: a set from elsewhere does not lead to files of this machine; pass remote_protocol= or fs="
            )
        return protocol

    # -- Values ---------------------------------------------------------------------------------------------------------

    def _located(self, path: str, start: int | None, end: int | None, value: Any) -> tuple[Any, int | None, int | None]:
        """Return bytes, or a URL with the first byte and the byte after the last one."""
        if value is None:
            raise FileNotFoundError(path) from KeyError(path)
        if isinstance(value, bool | int):
            value = int(value).to_bytes()
        if isinstance(value, bytes):
            if value.startswith(b"base64:"):
                value = base64.b64decode(value[7:])
            return value[start:end], None, None
        if len(value) == 1:
            url, first, last = value[0], start, end
        else:
            url, offset, size = value
            first, last = offset, offset + size
            if start is not None:
                first = min(offset + start, last) if start >= 0 else max(offset + size + start, offset)
            if end is not None:
                last = min(offset + end, last) if end >= 0 else max(offset + size + end, offset)
            if (start is not None or end is not None) and last < first:
                last = first
        if url is None:
            url = self.target
        return url, first, last

    def _target_of(self, path: str, url: str) -> Any:
        protocol = split_protocol(url)[0]
        if protocol in {"http", "https"} and is_forbidden(url):
            raise NotReachable(path, url, f"{url}: link-local addresses and metadata services are never asked")
        return self.fss[protocol]

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        path = self._strip_protocol(path)
        url, first, last = self._located(path, start, end, self.references.many([path])[0])
        if isinstance(url, bytes):
            return url
        # A value without a URL fails as in fsspec.
        split_protocol(url)
        try:
            data: bytes = await self._target_of(path, url)._cat_file(url, start=first, end=last)
        except NotReachable:
            raise
        except Exception as error:
            raise NotReachable(path, url) from error
        return data

    async def _cat_ranges(
        self,
        paths: Any,
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        count = len(paths)
        starts = list(starts) if isinstance(starts, list | tuple) else [starts] * count
        ends = list(ends) if isinstance(ends, list | tuple) else [ends] * count
        if len(starts) != count or len(ends) != count:
            raise ValueError("paths, starts and ends have different lengths")
        reads = [self._cat_file(path, start, end) for path, start, end in zip(paths, starts, ends, strict=True)]
        limit = asyncio.Semaphore(batch_size or self.batch_size or 128)

        async def bounded(read: Any) -> Any:
            async with limit:
                return await read

        results = await asyncio.gather(*(bounded(read) for read in reads), return_exceptions=True)
        if on_error == "raise":
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        return list(results)

    async def _cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        if recursive or (isinstance(path, list) and any("*" in part for part in path)):
            raise NotImplementedError("recursive reads, and patterns in lists")
        if isinstance(path, str) and "*" in path:
            paths = await self._glob(path)
        else:
            paths = [path] if isinstance(path, str) else list(path)
        paths = [self._strip_protocol(part) for part in paths]
        out = await self._merged(paths, on_error)
        if isinstance(path, str) and "*" not in path and len(out) == 1:
            return next(iter(out.values()))
        return out

    async def _merged(self, paths: list[str], on_error: str) -> dict[str, Any]:
        """Read many keys: ranges that lie near each other with one request, and each key's bytes are cut out of it."""
        out: dict[str, Any] = {}
        wanted: dict[Any, list[Part]] = {}
        for path, value in zip(paths, self.references.many(paths), strict=True):
            try:
                url, first, last = self._located(path, None, None, value)
                protocol = _protocol_of(url)
            except Exception as error:
                if on_error == "raise":
                    raise
                if on_error != "omit":
                    out[path] = error
                continue
            out[path] = url
            if protocol is not _INLINE:
                wanted.setdefault(protocol, []).append((path, url, first, last))
        for protocol, parts in wanted.items():
            results = await self._of_protocol(protocol, parts)
            failed = [result for result in results if isinstance(result, BaseException)]
            if failed and on_error == "raise":
                raise failed[0]
            out |= {part[0]: result for part, result in zip(parts, results, strict=True)}
        if on_error == "omit":
            return {path: result for path, result in out.items() if isinstance(result, bytes)}
        return out

    async def _of_protocol(self, protocol: str | None, parts: list[Part]) -> list[Any]:
        """Read the parts of the targets of one file system; failures become exceptions in the list."""
        if protocol not in self.fss:
            results: list[Any] = [KeyError(protocol)] * len(parts)
        else:
            for path, url, _, _ in parts:
                self._target_of(path, url)
            results = await self._read_merged(self.fss[protocol], parts)
        for at, ((path, url, _, _), result) in enumerate(zip(parts, results, strict=True)):
            if isinstance(result, BaseException):
                results[at] = NotReachable(path, url)
                results[at].__cause__ = result
        return results

    async def _read_merged(self, fs: Any, parts: list[Part]) -> list[Any]:
        whole = {url for _, url, first, _ in parts if first is None}
        asked = [(url, first, last) for _, url, first, last in parts if url not in whole]
        urls, starts, ends = list(whole), [0] * len(whole), [None] * len(whole)
        if asked:
            more = merge_offset_ranges(
                *map(list, zip(*asked, strict=True)), sort=True, max_gap=self.max_gap, max_block=self.max_block
            )
            urls, starts, ends = sorted(whole) + list(more[0]), starts + list(more[1]), ends + list(more[2])
        read = await fs._cat_ranges(urls, starts, ends, on_error="return")
        blocks: dict[str, list[tuple[int, int | None, Any]]] = {}
        for url, start, end, data in zip(urls, starts, ends, read, strict=True):
            blocks.setdefault(url, []).append((start, end, data))
        return [_cut(blocks[url], first, last) for _, url, first, last in parts]

    # -- Listing --------------------------------------------------------------------------------------------------------

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(part) for part in path]
        text = os.fspath(path)
        for protocol in cls.protocol:
            text = text.removeprefix(f"{protocol}://")
        return text.rstrip("/")

    def _entries(self, folder: str) -> list[dict[str, Any]]:
        with translating():
            children = self.references.engine.children(folder)
        return [
            {"name": name, "type": "file" if is_key else "directory", "size": size if is_key else 0}
            for name, is_key, size in children
        ]

    def _size(self, value: Any) -> int | None:
        if isinstance(value, bytes):
            return len(value)
        return value[2] if isinstance(value, list) and len(value) == 3 else None

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        entries = self._entries(path)
        if not entries:
            value = self.references.many([path])[0]
            if value is None and (path or len(self.references)):
                raise FileNotFoundError(path)
            if value is not None:
                entries = [{"name": path, "type": "file", "size": self._size(value)}]
        return entries if detail else [entry["name"] for entry in entries]

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        given, path = path, self._strip_protocol(path)
        value = self.references.many([path])[0]
        if value is None:
            if not path or self._entries(path):
                return {"name": given if given.endswith("/") else path, "type": "directory", "size": 0}
            raise FileNotFoundError(path)
        info: dict[str, Any] = {"name": path, "type": "file", "size": self._size(value)}
        if info["size"] is None and isinstance(value, list) and len(value) == 1:
            url: Any = value[0] or self.target
            try:
                found = await self._target_of(path, url)._info(url)
            except Exception as error:
                raise NotReachable(path, url) from error
            info["size"] = found["size"]
        return info

    async def _isfile(self, path: str) -> bool:
        return path in self.references

    async def _isdir(self, path: str) -> bool:
        return not path or (not path.endswith("/") and bool(self._entries(path)))

    async def _exists(self, path: str, **kwargs: Any) -> bool:
        return await self._isdir(path) or await self._isfile(path)

    async def _find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        if withdirs:
            return await super()._find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        path = self._strip_protocol(path)
        with translating():
            keys = self.references.engine.keys(path)
        if not detail:
            return keys
        values = self.references.many(keys)
        return {
            key: {"name": key, "type": "file", "size": self._size(value)}
            for key, value in zip(keys, values, strict=True)
        }

    # -- Files ----------------------------------------------------------------------------------------------------------

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **kwargs: Any) -> Any:
        if mode != "rb":
            raise NotImplementedError("only mode 'rb'; write keys with pipe_file")
        value = self.references.many([path])[0]
        if value is None:
            raise FileNotFoundError(path) from KeyError(path)
        if isinstance(value, bytes):
            return io.BytesIO(self.cat_file(path))
        info = self.info(path)
        return ReferenceFile(self, path, mode="rb", size=info["size"], block_size=block_size or "default", **kwargs)

    async def _get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, **kwargs: Any) -> None:
        if await self._isdir(rpath):
            os.makedirs(lpath, exist_ok=True)  # noqa: PTH103 - fsspec hands paths as texts
            return
        data = await self._cat_file(rpath)
        callback.set_size(len(data))
        if hasattr(lpath, "write"):
            lpath.write(data)
        else:
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)  # noqa: PTH100, PTH103, PTH120
            with open(lpath, "wb") as file:  # noqa: PTH123
                file.write(data)
        callback.absolute_update(len(data))

    # -- Changes --------------------------------------------------------------------------------------------------------

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if mode == "create" and path in self.references:
            raise FileExistsError(path)
        self.references[path] = bytes(value)

    async def _put_file(self, lpath: Any, rpath: str, mode: str = "overwrite", **kwargs: Any) -> None:
        with open(lpath, "rb") as file:  # noqa: PTH123
            await self._pipe_file(rpath, file.read(), mode=mode)

    async def _rm_file(self, path: str, **kwargs: Any) -> None:
        try:
            del self.references[self._strip_protocol(path)]
        except KeyError as error:
            raise FileNotFoundError(path) from error

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove keys, and with `recursive` all keys below a folder."""
        for found in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            if found in self.references:
                del self.references[found]

    def save_json(self, url: str, **storage_options: Any) -> None:
        """Write the set as a JSON document of version 1 to a URL."""
        with translating():
            document = self.references.engine.to_json(1, False)
        with fsspec.open(url, "wb", **storage_options) as file:
            file.write(document)

    def ukey(self, path: str) -> int:
        """Return a number that changes when the value of a key does."""
        return hash((path, repr(self.references.many([path])[0])))

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        """Return the bytes of a key, or of many as a mapping; see `_cat`."""
        return sync(self.loop, self._cat, path, recursive=recursive, on_error=on_error, **kwargs)


def _cut(blocks: list[tuple[int, int | None, Any]], first: int | None, last: int | None) -> Any:
    """Return the bytes of a range out of those that were read. Blocks are sorted by their first bytes."""
    start, end, data = blocks[0]
    if end is not None and first is not None:
        for at in itertools.count(bisect_right(blocks, first, key=lambda block: block[0]) - 1, -1):
            start, end, data = blocks[at]
            if at <= 0 or (last is not None and end is not None and last <= end):
                break
    if isinstance(data, BaseException):
        return data
    return data if first is None or last is None else data[first - start : last - start]


class ReferenceFile(AbstractBufferedFile):  # type: ignore[misc]
    """A key as a seekable file."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.cat_file(self.path, start, end)
        return data
