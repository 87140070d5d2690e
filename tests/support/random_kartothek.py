"""Random Kartothek datasets, written by pilum: key types, indices, nulls, awkward characters, updates, deletes."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import hashlib
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

import pilum
import pilum.kartothek

TEXTS = [
    "",
    "a",
    "a/b",
    "São Paulo",
    "100%",
    "x=y",
    "a+b",
    "%2F",
    "..",
    "a//b",
    "\\",
    "https://host/?q=1&r=2",
    "日本",
    "'\"",
    "T:1",
]
KEY_TYPES = ["int64", "int8", "uint64", "float64", "string", "date32", "timestamp"]
TYPES = [
    *KEY_TYPES,
    "int32",
    "uint8",
    "float32",
    "bool",
    "binary",
    "large_string",
    "dictionary",
    "list",
    "time",
    "decimal",
]
INDEXABLE = [
    "int64",
    "int8",
    "uint64",
    "float64",
    "string",
    "date32",
    "timestamp",
    "int32",
    "uint8",
    "bool",
    "binary",
    "dictionary",
]
ARROW = {
    "timestamp": pa.timestamp("us"),
    "bool": pa.bool_(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "list": pa.list_(pa.int16()),
    "time": pa.time64("us"),
    "decimal": pa.decimal128(12, 3),
}


def arrow_type(kind: str) -> pa.DataType:
    """Return the type of the rows that are written."""
    return ARROW.get(kind) or getattr(pa, kind)()


def value(rng: random.Random, kind: str, *, few: bool) -> Any:
    """Return a value; with `few` one of a handful, as keys and indices have."""
    n = rng.randrange(4 if few else 1000)
    if kind in ("string", "large_string", "dictionary"):
        return rng.choice(TEXTS[:6] if few and rng.random() < 0.7 else TEXTS)
    # Kartothek takes the precision of a decimal column from the values of each file. All values here have twelve
    # digits, so that all files have the same precision.
    made: dict[str, Any] = {
        "bool": n % 2 == 0,
        "uint8": n % 200,
        "uint64": n + (2**63 if n == 3 else 0),
        "float32": [0.5, -1.25, 2.0, 3.0][n % 4],
        "float64": [0.5, -1.25, 1e22, 3.0][n % 4],
        "binary": bytes([1 + n % 200, 255]),
        "date32": dt.date(2020, 2, 27) + dt.timedelta(days=n),
        "timestamp": dt.datetime(2020, 1, 2, 3, 4, 5, rng.choice([0, 123456])) + dt.timedelta(hours=n),
        "list": list(range(n % 4)),
        "time": dt.time(n % 24, n % 60, 59, rng.choice([0, 999_999])),
        "decimal": decimal.Decimal(100_000_000_000 + n * 1001).scaleb(-3),
    }
    return made.get(kind, n % 100 - 2)


@dataclass
class Made:
    """A dataset, and the rows that it should have."""

    store: Path
    uuid: str
    expected: pa.Table

    def save_expected(self, path: Path) -> Path:
        """Write the rows as an Arrow file."""
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, self.expected.schema) as writer:
            writer.write_table(self.expected)
        return path


def _normal(kind: str) -> pa.DataType:
    if kind.startswith("int"):
        return pa.int64()
    if kind.startswith("uint"):
        return pa.uint64()
    if kind.startswith("float"):
        return pa.float64()
    if kind in ("large_string", "dictionary"):
        return pa.string()
    return pa.list_(pa.int64()) if kind == "list" else arrow_type(kind)


def make(seed: int, folder: Path, *, named: bool = False) -> Made:
    """Write a dataset, and update it. With `named`, the labels are fixed: two runs differ only in times and commit ids."""
    rng = random.Random(seed)
    num_keys = rng.choice([0, 1, 1, 2])
    keys = {f"k{n}" if rng.random() < 0.8 else f"k {n}%": rng.choice(KEY_TYPES) for n in range(num_keys)}
    columns = {f"c{n}": rng.choice(TYPES) for n in range(rng.randrange(1, 5))}
    indexed = {f"i{n}": rng.choice(INDEXABLE) for n in range(rng.randrange(3))}
    # Kartothek reads integers with nulls as floats, and has no null booleans in an index: such columns get no nulls.
    nulls = {
        name
        for name, kind in {**columns, **indexed}.items()
        if rng.random() < 0.4 and "int" not in kind and (name in columns or kind != "bool")
    }
    kinds = {**keys, **columns, **indexed}
    order = list(kinds)
    rng.shuffle(order)

    def rows(count: int) -> dict[str, list[Any]]:
        made = {}
        for name in order:
            few = name in keys or name in indexed
            made[name] = [
                None if name in nulls and rng.random() < 0.3 else value(rng, kinds[name], few=few) for _ in range(count)
            ]
        for name in [*columns, *indexed]:
            # The first row of a frame has a value, so that its type is never unknown.
            made[name][:1] = [value(rng, kinds[name], few=name in indexed)] if count else []
        return made

    def table(data: dict[str, list[Any]]) -> pa.Table:
        return pa.table({name: pa.array(data[name], arrow_type(kinds[name])) for name in order})

    uuid = rng.choice(["sales", "my_cube++seed", "a", "A-1+b"])
    frames = [rows(rng.randrange(1, 12)) for _ in range(rng.randrange(1, 4))]
    layout: dict[str, Any] = {"compression": rng.choice(["snappy", "zstd"] if named else ["snappy", "zstd", "gzip"])}
    if rng.random() < 0.3:
        layout["sort_by"] = (
            [rng.choice([c for c in columns if columns[c] != "list"] or list(indexed) or None)]
            if any(kind != "list" for kind in columns.values())
            else None
        )
    if rng.random() < 0.2:
        layout.update(num_buckets=3, bucket_by=[next(iter(indexed or keys or {}), None)] if indexed or keys else None)
    k = pilum.kartothek.write(
        [
            pilum.kartothek.Frame({"table": table(frame)}, f"first-{n}" if named else None)
            for n, frame in enumerate(frames)
        ],
        folder,
        uuid,
        partition_on=list(keys),
        secondary_indices=list(indexed),
        metadata={"owner": "pilum", "nested": {"a": [1, 2.5, None]}},
        metadata_format=rng.choice(["json", "json", "msgpack"]),
        **layout,
    )
    kept = [row for frame in frames for row in zip(*frame.values(), strict=True)]
    for number in range(rng.randrange(4)):
        scope = None
        if keys and rng.random() < 0.5 and kept:
            column = rng.choice(list(keys))
            place = order.index(column)
            gone = rng.choice(kept)[place]
            kept = [row for row in kept if row[place] != gone]
            scope = [{column: gone}, {column: gone}]
        new = rows(rng.randrange(1, 8))
        added = pilum.kartothek.Frame({"table": table(new)}, f"update-{number}" if named else None)
        k = k.update(added, delete_scope=scope)
        kept += zip(*new.values(), strict=True)
    expected = pa.table(
        {name: pa.array([row[at] for row in kept], _normal(kinds[name])) for at, name in enumerate(order)}
    )
    # A copy of the folder shows that no absolute path is in it.
    moved = folder.with_name(folder.name + "-moved")
    shutil.move(folder, moved)
    return Made(moved, uuid, expected)


TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d(:|%3A)\d\d(:|%3A)\d\d\.\d{6}")
RANDOM = re.compile(rb"[0-9a-f]{24,}")
RELEASE = re.compile(rb"pilum version [0-9.]+|\"version\": ?\"[0-9.]+\"")


ARROW_SCHEMA = re.compile(rb"/////[A-Za-z0-9+/]+={0,2}")
"""An Arrow schema in a Parquet file, in base64: a message of Arrow begins with four bytes 0xff."""

RECORDED_BY = b'"version":"0.2.0"'
"""The release that made the datasets which Kartothek judged, as the schema of a table names it."""


def as_recorded(schema: re.Match[bytes]) -> bytes:
    """Return an Arrow schema with the name of the release that made the judged datasets."""
    return base64.b64encode(RELEASE.sub(RECORDED_BY, base64.b64decode(schema[0])))


def digest(store: Path) -> str:
    """Return a digest of all files of a store. Times, commit ids and the release are left out: they differ from run to run."""
    whole = hashlib.sha256()
    for path in sorted(path for path in store.rglob("*") if path.is_file() and ".pilum" not in path.parts):
        content = path.read_bytes()
        if path.name.endswith(".msgpack.zstd"):
            content = pa.CompressedInputStream(pa.BufferReader(content), "zstd").read()
        content = ARROW_SCHEMA.sub(as_recorded, content)
        for pattern in (TIME, RANDOM, RELEASE):
            content = pattern.sub(b"?", content)
        name = TIME.sub(b"?", str(path.relative_to(store)).encode())
        for part in (name, content):
            whole.update(len(part).to_bytes(8, "little") + part)
    return whole.hexdigest()
