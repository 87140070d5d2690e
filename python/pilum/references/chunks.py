"""Chunks of arrays of zarr version 2, decoded through numcodecs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilum.exceptions import CorruptError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pilum.references.opened import References

METADATA = ".zarray"


@dataclass(frozen=True, slots=True)
class ChunkDecoder:
    """How the chunks of one array are decoded. It is pickled into tasks."""

    array: str
    """The path of the array."""
    shape: tuple[int, ...]
    """Of one chunk."""
    dtype: Any
    """As numpy takes it."""
    order: str
    """`"C"` or `"F"`: which dimension varies fastest in the stored chunk."""
    codecs: tuple[dict[str, Any], ...]
    """The settings of the codecs, in the order in which they decode."""

    def decode(self, key: str, stored: bytes) -> bytes:
        """Return the values of a chunk in C order.

        Raises:
            CorruptError: A codec refuses the bytes, or they are not as many as the chunk has.
        """
        import numpy as np
        from numcodecs import get_codec

        value: Any = stored
        for settings in self.codecs:
            try:
                value = get_codec(dict(settings)).decode(value)
            except Exception as error:
                message = f"{key!r}: codec {settings.get('id')!r} cannot decode {len(stored)} stored bytes: {error}"
                raise CorruptError(message) from error
        flat = np.frombuffer(np.ascontiguousarray(value).view("u1").tobytes(), "u1")
        dtype = np.dtype(self.dtype)
        wanted = int(np.prod(self.shape, dtype=object)) * dtype.itemsize
        if len(flat) != wanted:
            raise CorruptError(f"{key!r}: a chunk of {self.array!r} has {wanted} bytes, and {len(flat)} were decoded")
        if self.order == "C":
            return flat.tobytes()
        values: bytes = flat.view(dtype).reshape(self.shape, order="F").tobytes(order="C")
        return values


def chunk_decoders(refs: References) -> dict[str, ChunkDecoder]:
    """Return the decoders of all arrays of zarr version 2 in a set, by the paths of the arrays.

    Raises:
        UnsupportedError: numcodecs is not installed, it lacks a codec, or an array has objects as values.
        InvalidInputError: The metadata of an array means nothing.
    """
    try:
        from numcodecs import get_codec
    except ImportError as error:
        raise UnsupportedError("decode=True needs numcodecs: pip install numcodecs") from error
    found = {}
    for key in refs.keys():  # noqa: SIM118 - the keys of a set are a list, in order
        folder, _, name = key.rpartition("/")
        if name != METADATA:
            continue
        decoder = _decoder(folder, refs[key])
        for settings in decoder.codecs:
            try:
                get_codec(dict(settings))
            except ValueError as error:
                raise UnsupportedError(f"{key!r}: numcodecs has no codec {settings.get('id')!r}") from error
        found[folder] = decoder
    return found


def decoded(key: str, stored: Any, arrays: dict[str, ChunkDecoder]) -> Any:
    """Return the values of a chunk, or the bytes of a key that is no chunk as they are."""
    folder = key
    while "/" in folder:
        folder, _, _ = folder.rpartition("/")
        if folder in arrays:
            chunk = key[len(folder) + 1 :].replace("/", ".")
            return arrays[folder].decode(key, stored) if chunk.replace(".", "").isdigit() else stored
    return arrays[""].decode(key, stored) if "" in arrays and key.replace(".", "").isdigit() else stored


def _decoder(array: str, metadata: bytes) -> ChunkDecoder:
    import numpy as np

    try:
        read = json.loads(metadata)
        dtype = read["dtype"]
        dtype = [tuple(member) for member in dtype] if isinstance(dtype, list) else dtype
        shape = tuple(int(length) for length in read["chunks"])
        codecs = [read.get("compressor"), *reversed(read.get("filters") or [])]
        is_object = np.dtype(dtype).hasobject
        order = read.get("order", "C")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"{array}/{METADATA}: it is no metadata of a zarr array: {error}") from error
    if is_object:
        message = (
            f"array {array!r}: values of type {dtype} are objects, which have no bytes; leave them out with prefix="
        )
        raise UnsupportedError(message)
    return ChunkDecoder(array, shape, dtype, order, tuple(codec for codec in codecs if codec is not None))
