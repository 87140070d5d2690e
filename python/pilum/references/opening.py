"""How `FileSystem` opens what it is given as `fo`."""

from __future__ import annotations

import ipaddress
import os
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fsspec

from pilum import _pilum
from pilum.exceptions import InvalidInputError, NotFoundError, UnsupportedError
from pilum.references.errors import translating
from pilum.references.opened import References
from pilum.references.options import Mode, document_bytes, open_options

_METADATA_HOSTS = {"metadata", "metadata.google.internal", "instance-data", "metadata.azure.internal"}
_ALIBABA = ipaddress.ip_address("100.100.100.200")
_EC2 = ipaddress.ip_address("fd00:ec2::254")


def engine_of(
    fo: Any,
    protocol: str | None,
    options: dict[str, Any],
    mode: Mode,
    overrides: Mapping[str, str] | None,
    cache_size: int,
) -> _pilum.ReferenceSet:
    """Return the set that `fo` is or names."""
    how = open_options(mode=mode, template_overrides=overrides, cache_size=cache_size)
    if isinstance(fo, References):
        return fo.engine
    with translating():
        if isinstance(fo, (str, os.PathLike)):
            return _at(os.fspath(fo), protocol, options, how)
        if hasattr(fo, "read"):
            text = fo.read()
            return _pilum.ReferenceSet.from_document(text.encode() if isinstance(text, str) else text, None, how)
        if hasattr(fo, "record_size") and hasattr(fo, "flush") and hasattr(fo, "root"):
            fo.flush()
            return _folder(fo.fs, fo.root, how)
        if isinstance(fo, Mapping):
            return _pilum.ReferenceSet.from_document(document_bytes(fo), None, how)
    raise InvalidInputError(f"fo: a path, URL, mapping or open file is expected, not {type(fo).__name__}")


def file_system(protocol: str | None, options: Mapping[str, Any], argument: str) -> Any:
    """Return a file system of fsspec.

    Raises:
        InvalidInputError: fsspec does not know the protocol, or its file system does not take the options.
        UnsupportedError: The package of the file system is not installed.
    """
    try:
        return fsspec.filesystem(protocol, **options)
    except ImportError as error:
        raise UnsupportedError(f"{argument}: the protocol {protocol!r} needs another package: {error}") from error
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"{argument}: fsspec opens no file system {protocol!r}: {error}") from error


def _at(fo: str, protocol: str | None, options: dict[str, Any], how: dict[str, Any]) -> _pilum.ReferenceSet:
    compression = options.pop("compression", None)
    if protocol is not None:
        file_system(protocol, options, "target_protocol")
    try:
        return _found(fo, {**options, **({"protocol": protocol} if protocol else {})}, compression, how)
    except FileNotFoundError as error:
        raise NotFoundError(f"{fo}: there is no such reference set: {error}") from error


def _found(fo: str, options: dict[str, Any], compression: str | None, how: dict[str, Any]) -> _pilum.ReferenceSet:
    fs, path = fsspec.core.url_to_fs(fo, **options)
    looks_parquet = ".json" not in fo and (fo.endswith(("parq", "parquet", "/")) or fs.isdir(path))
    if looks_parquet:
        return _folder(fs, path, how)
    with fsspec.open(fo, "rb", compression=compression, **options) as file:
        return _pilum.ReferenceSet.from_document(file.read(), None, how)


def _folder(fs: Any, path: str, how: dict[str, Any]) -> _pilum.ReferenceSet:
    """Open a folder of Parquet files: in place on this machine, and from a copy elsewhere."""
    if "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
        return _pilum.ReferenceSet.open(f"{path.rstrip('/')}/", how)
    with tempfile.TemporaryDirectory(prefix="pilum-references-") as copy:
        root = path.rstrip("/")
        for name in fs.find(root):
            to = Path(copy) / name[len(root) :].lstrip("/")
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(fs.cat_file(name))
        # The copy goes away, so the set is taken into memory.
        return _pilum.ReferenceSet.open(f"{copy}/", how).changed([])


def is_remote(fo: Any) -> bool:
    """Return whether `fo` is a document of another machine."""
    return isinstance(fo, str) and "://" in fo and not fo.startswith(("file://", "local://", "memory://"))


def is_forbidden(url: str) -> bool:
    """Return whether a URL leads to a link-local address or a metadata service, in any spelling."""
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    if host in _METADATA_HOSTS:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            # Numbers such as 2852039166 and 0xA9FEA9FE are addresses too.
            address = ipaddress.ip_address(socket.inet_aton(host))
        except (OSError, ValueError):
            return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return mapped.is_link_local or mapped.is_unspecified or mapped in (_ALIBABA, _EC2)
