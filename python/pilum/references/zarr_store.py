"""A reference set as a store of zarr 3, without fsspec between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest

from pilum.arguments import checked, flag
from pilum.exceptions import UnsupportedError
from pilum.references.errors import MissingKeyError
from pilum.references.opened import References, open_set
from pilum.references.options import document_or_set, string, strings

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

Wanted = tuple[str, int | None, int | None]


class ZarrStore(Store):
    """A read-only store for `zarr.open` and `xarray.open_zarr`.

        zarr.open_group(references.ZarrStore("set.json"), mode="r")

    What zarr asks for at the same time is read as one call of `References.read_many`: neighbouring ranges are read together.
    A missing key is a missing chunk, which zarr replaces by its fill value; a target that cannot be read is an error.

    Args:
        source: An opened set, or what `pilum.references.open` takes.
        read_only: True. A reference set is not changed through zarr.
        options: Those of `pilum.references.open`.

    Raises:
        UnsupportedError: `read_only=False`.
        InvalidInputError: There is no such argument, or an argument cannot have this value.
    """

    supports_writes = False
    supports_deletes = False
    supports_partial_writes = False
    supports_listing = True

    @checked(open_set, source=document_or_set, read_only=flag, target=string, allow=strings)
    def __init__(self, source: Any, *, read_only: bool = True, **options: Any) -> None:
        if not read_only:
            raise UnsupportedError(
                "read_only=False: a reference set is not changed through zarr; see References.changed"
            )
        super().__init__(read_only=True)
        self.references = source if isinstance(source, References) else open_set(source, **options)
        self._asked: dict[asyncio.AbstractEventLoop, _Asked] = {}

    def with_read_only(self, read_only: bool = True) -> ZarrStore:
        """Return a store of the same set."""
        return ZarrStore(self.references, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrStore) and self.references is other.references

    def __hash__(self) -> int:
        return id(self.references)

    def __repr__(self) -> str:
        return f"<pilum.references.ZarrStore of {len(self.references)} keys>"

    def __reduce__(self) -> tuple[Any, ...]:
        return ZarrStore, (self.references,)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the bytes of a key, or a range of them; None for a missing key. Raises as `References.read`."""
        value = await self._read((key, *_slice(byte_range)))
        return None if value is None else prototype.buffer.from_bytes(value)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return ranges of keys, in the order in which they are asked for. Raises as `References.read`."""
        values = await asyncio.gather(*(self.get(key, prototype, asked) for key, asked in key_ranges))
        return list(values)

    async def exists(self, key: str) -> bool:
        """Return whether there is such a key. Its target is not asked."""
        return await asyncio.to_thread(self.references.__contains__, key)

    async def getsize(self, key: str) -> int:
        """Return the number of bytes of a key.

        Raises:
            FileNotFoundError: There is no such key.
        """
        info = await asyncio.to_thread(self.references.info, key)
        if info["type"] != "file":
            raise MissingKeyError(f"{key!r}: the set has no such key")
        return int(info["size"])

    async def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys that begin with `prefix`."""
        for key in await asyncio.to_thread(self.references.keys, prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of keys and of folders in the folder `prefix`, without the folder's name."""
        for name in await asyncio.to_thread(self.references.names, prefix.rstrip("/")):
            yield name

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse: the store is read-only."""
        del value
        raise UnsupportedError(f"{key!r}: a reference set is not changed through zarr; see References.changed")

    async def delete(self, key: str) -> None:
        """Refuse: the store is read-only."""
        raise UnsupportedError(f"{key!r}: a reference set is not changed through zarr; see References.changed")

    async def _read(self, wanted: Wanted) -> bytes | None:
        loop = asyncio.get_running_loop()
        asked = self._asked.get(loop)
        if asked is None:
            asked = self._asked[loop] = _Asked()
            # Runs after everything that is ready to run now, so that it finds what zarr asks for at once.
            loop.call_soon(self._begin, loop)
        asked.wanted.append(wanted)
        answer: asyncio.Future[bytes | None] = loop.create_future()
        asked.answers.append(answer)
        return await answer

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        asked = self._asked.pop(loop)
        asked.task = loop.create_task(self._answer(asked))

    async def _answer(self, asked: _Asked) -> None:
        try:
            values = await asyncio.to_thread(self.references.read_many, asked.wanted)
        except BaseException as error:  # noqa: BLE001 - each waiting call raises it
            values = [error] * len(asked.wanted)
        for answer, value in zip(asked.answers, values, strict=True):
            if answer.cancelled():
                continue
            if isinstance(value, MissingKeyError):
                answer.set_result(None)
            elif isinstance(value, BaseException):
                answer.set_exception(value)
            else:
                answer.set_result(value)


class _Asked:
    """What was asked for in one turn of an event loop, and those who wait for it."""

    def __init__(self) -> None:
        self.wanted: list[Wanted] = []
        self.answers: list[asyncio.Future[bytes | None]] = []
        self.task: asyncio.Task[None] | None = None
        """The task that answers; kept, because a loop holds its tasks weakly."""


def _slice(asked: ByteRequest | None) -> tuple[int | None, int | None]:
    if asked is None:
        return None, None
    if isinstance(asked, RangeByteRequest):
        return asked.start, asked.end
    if isinstance(asked, OffsetByteRequest):
        return asked.offset, None
    if isinstance(asked, SuffixByteRequest):
        # [-0:] would be the whole value.
        return (-asked.suffix, None) if asked.suffix else (0, 0)
    raise UnsupportedError(f"a byte request of type {type(asked).__name__} is unknown")
