"""Stores as Kartothek's users name them: URLs, functions that return a store, and store objects by what they can do.

The engine opens URLs itself. The store objects of simplekv and minimalkv that keep their files in a folder (an attribute
`root`) are opened as that folder. Any other object with `get`, `put`, `delete` and `keys` is mirrored: the keys of the dataset
are copied to a temporary folder, the call works there, and what it changed is put back, the document last. A mirrored store
has no compare-and-swap: the document is read again before it is put, and if it changed the call fails with `ConflictError`;
between these two requests another writer can still be lost, as with Kartothek itself.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pilum import _pilum
from pilum.exceptions import InvalidInputError
from pilum.location import Location

DOCUMENTS = (".by-dataset-metadata.json", ".by-dataset-metadata.msgpack.zstd")


def resolved(store: Any) -> Any:
    """Return what a function returns, and other stores as they are."""
    return store() if callable(store) and not hasattr(store, "get") else store


def location_of(store: Any) -> Location | None:
    """Return the address of a store that the engine can open; None for others."""
    if isinstance(store, Location):
        return store
    if isinstance(store, (str, os.PathLike)):
        return of_url(os.fspath(store))
    root = getattr(store, "root", None)
    if isinstance(root, (str, os.PathLike)) and hasattr(store, "get"):
        return Location.of(os.fspath(root), None)
    return None


def of_url(url: str) -> Location:
    """Return the address that a store URL of storefact or minimalkv means; other addresses as they are."""
    scheme, _, rest = url.partition("://")
    if not rest or scheme not in ("hfs", "fs", "hs3", "hazure", "hmemory", "memory"):
        return Location.of(url, None)
    if scheme in ("hfs", "fs"):
        return Location.of(unquote(rest.split("?", 1)[0]), None)
    if scheme in ("hmemory", "memory"):
        return Location.of(f"memory://{rest.split('?', 1)[0] or 'kartothek'}", None)
    parts = urlsplit(f"{scheme}://{rest}")
    query = dict(parse_qsl(parts.query))
    if scheme == "hs3":
        options = {"access_key_id": unquote(parts.username or ""), "secret_access_key": unquote(parts.password or "")}
        host = parts.hostname or ""
        if host and host != "s3.amazonaws.com":
            port = f":{parts.port}" if parts.port else ""
            secure = query.get("is_secure", "true").lower() != "false"
            options["endpoint"] = f"{'https' if secure else 'http'}://{host}{port}"
            options["allow_http"] = str(not secure).lower()
        bucket = parts.path.strip("/")
        if not bucket:
            raise InvalidInputError("store: an hs3:// URL names a bucket: hs3://KEY:SECRET@HOST/BUCKET")
        return Location.of(f"s3://{quote(bucket)}", {name: value for name, value in options.items() if value})
    options = {"account_name": unquote(parts.username or ""), "account_key": unquote(parts.password or "")}
    return Location.of(f"az://{parts.hostname}", options)


@contextlib.contextmanager
def opened(store: Any, uuid: str, *, writing: bool = False) -> Iterator[Location]:
    """Yield an address of a store that the engine can open."""
    store = resolved(store)
    where = location_of(store)
    if where is not None:
        yield where
        return
    missing = [name for name in ("get", "put", "delete", "keys") if not hasattr(store, name)]
    if missing:
        raise InvalidInputError(
            f"store: {type(store).__name__} is no store: pass a URL, a function that returns a store, or an object with get, "
            f"put, delete and keys (it lacks {', '.join(missing)})"
        )
    with tempfile.TemporaryDirectory(prefix="pilum-store-") as folder:
        root = Path(folder)
        before = _copied(store, uuid, root)
        yield Location.of(folder, None)
        if writing:
            _put_back(store, uuid, root, before)


def _keys(store: Any, uuid: str) -> list[str]:
    wanted = tuple(f"{uuid}{end}" for end in (*DOCUMENTS, "/"))
    return [key for key in store.keys(uuid) if key.startswith(wanted)]


def _copied(store: Any, uuid: str, root: Path) -> Mapping[str, bytes]:
    before = {}
    for key in _keys(store, uuid):
        content = bytes(store.get(key))
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        before[key] = content
    return before


def _put_back(store: Any, uuid: str, root: Path, before: Mapping[str, bytes]) -> None:
    after = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    changed = [key for key, path in after.items() if before.get(key) != path.read_bytes()]
    for end in DOCUMENTS:
        key = f"{uuid}{end}"
        now = bytes(store.get(key)) if key in _keys(store, uuid) else None
        if now != before.get(key):
            raise _pilum.ConflictError(
                f"store: another writer changed {key} while the dataset was changed in a mirror of the store; try again"
            )
    for key in sorted(changed, key=lambda key: key.endswith(DOCUMENTS)):
        store.put(key, after[key].read_bytes())
    for key in sorted(set(before) - set(after), key=lambda key: not key.endswith(DOCUMENTS)):
        store.delete(key)
