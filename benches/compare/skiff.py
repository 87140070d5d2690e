"""Skiff streams to and from Arrow: pilum beside the compiled YTsaurus client, on the same bytes, in one process and one thread.

    make bench-skiff                (or: python benches/compare/skiff.py --out docs/benchmarks/skiff.md)

What stands in the tables is CPU time, the least of several repetitions: the machine is shared. The client's way to Arrow is its
reader of records (`load_skiff`), a Python list per column, and `pyarrow.array`; its way back is `to_pylist`, a record per row,
and `dump_skiff`. `memcpy` copies the stream once.
"""

from __future__ import annotations

import io
import json
import random
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pages
import pyarrow as pa

from pilum import skiff

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import yt_yson_bindings as client
    from yt.wrapper.format import SkiffFormat

ROWS = 1_000_000
MARK = 15


def five_columns(rows: int) -> pa.Table:
    """Return int64, double, a string of about 11 bytes, int64 with 30 % nulls, bool."""
    choose = random.Random(1)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "x": pa.array([choose.random() for _ in range(rows)]),
            "s": pa.array([b"string%d" % (number % 100_000) for number in range(rows)], pa.binary()),
            "o": pa.array([None if choose.random() < 0.3 else number for number in range(rows)], pa.int64()),
            "b": pa.array([number % 3 == 0 for number in range(rows)]),
        },
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("x", pa.float64(), nullable=False),
                pa.field("s", pa.binary(), nullable=False),
                pa.field("o", pa.int64()),
                pa.field("b", pa.bool_(), nullable=False),
            ]
        ),
    )


def twenty_columns(rows: int) -> pa.Table:
    """Return four times the five columns."""
    table = five_columns(rows)
    names = [f"{name}{copy}" for copy in range(4) for name in table.column_names]
    fields = [field.with_name(name) for field, name in zip(list(table.schema) * 4, names, strict=True)]
    return pa.Table.from_arrays(table.columns * 4, schema=pa.schema(fields))


def strings(rows: int) -> pa.Table:
    """Return four strings of 0 to 200 bytes, two of them with nulls."""
    choose = random.Random(2)
    text = choose.randbytes(1 << 16)

    def column(has_nulls: bool) -> pa.Array:
        values = []
        for _ in range(rows):
            start = choose.randrange(1 << 15)
            is_null = has_nulls and choose.random() < 0.2
            values.append(None if is_null else text[start : start + choose.randrange(200)])
        return pa.array(values, pa.binary())

    columns = {name: column(name in "cd") for name in "abcd"}
    return pa.table(columns, schema=pa.schema([pa.field(name, pa.binary(), nullable=name in "cd") for name in "abcd"]))


TABLES: dict[str, tuple[Callable[[int], pa.Table], int]] = {
    "five columns": (five_columns, ROWS),
    "twenty columns": (twenty_columns, ROWS // 4),
    "strings": (strings, ROWS // 4),
}


def seconds(work: Callable[[], object], times: int) -> float:
    """Return the least CPU time of several runs."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def client_decode(stream: bytes, schemas: list[object], schema: pa.Schema) -> pa.Table:
    """Return the rows of the client as a table."""
    columns: dict[str, list[object]] = {name: [] for name in schema.names}
    appends = [(name, column.append) for name, column in columns.items()]
    for record in client.load_skiff(io.BytesIO(stream), schemas, "@range_index", "@row_index", encoding=None):
        for name, append in appends:
            append(record[name])
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in schema}, schema=schema)


def client_encode(table: pa.Table, schemas: list[object]) -> bytes:
    """Return the stream that the client makes of a table."""
    create = schemas[0].create_record  # type: ignore[attr-defined]

    def records() -> object:
        names = table.column_names
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            record = create()
            for name, value in zip(names, row, strict=True):
                record[name] = value
            yield record

    out = io.BytesIO()
    client.dump_skiff(records(), [out], schemas)
    return out.getvalue()


def our_encode(table: pa.Table, fmt: skiff.Format) -> bytes:
    """Return the stream that pilum makes of a table."""
    out = io.BytesIO()
    skiff.encode(table, out, fmt)
    return out.getvalue()


def measured(name: str, times: int) -> list[list[str]]:
    """Return the lines of one table."""
    make, rows = TABLES[name]
    table = make(rows)
    fmt = skiff.Format.from_arrow(table.schema)
    schemas = SkiffFormat(attributes=json.loads(fmt.to_json())["$attributes"]).get_schemas()
    stream = our_encode(table, fmt)
    batches = [batch for _, batch in skiff.decode(stream, fmt)]
    if not pa.Table.from_batches(batches).equals(table):
        raise SystemExit("the rows differ from what was written")
    if client_encode(table.slice(0, 1000), schemas) != our_encode(table.slice(0, 1000), fmt):
        raise SystemExit("the bytes differ from those of the client")
    copy = seconds(lambda: bytearray(stream), times)
    ours = seconds(lambda: [None for _ in skiff.decode(stream, fmt)], times)
    theirs = seconds(lambda: client_decode(stream, schemas, table.schema), 2)
    lines = [line(name, "decode", rows, len(stream), (ours, theirs, copy))]
    ours = seconds(lambda: our_encode(table, fmt), times)
    theirs = seconds(lambda: client_encode(table, schemas), 2)
    return [*lines, line(name, "encode", rows, len(stream), (ours, theirs, copy))]


def line(name: str, way: str, rows: int, num_bytes: int, times: tuple[float, float, float]) -> list[str]:
    """Return one line of the page."""
    ours, theirs, copy = times
    return [
        name,
        way,
        f"{num_bytes / 1e6:.1f}",
        f"{rows / ours / 1e6:.1f}",
        f"{num_bytes / ours / 1e6:,.0f}",
        f"{rows / theirs / 1e6:.2f}",
        f"{theirs / ours:.0f} x",
        f"{copy / ours:.0%}",
    ]


HEAD = ["table", "", "MB", "pilum, M rows/s", "pilum, MB/s", "client, M rows/s", "pilum : client", "of memcpy"]


def main() -> None:
    """Measure, print a page, and write it where it is wanted."""
    options = pages.parser(__doc__)
    options.add_argument("--times", type=int, default=5, help="repetitions of pilum's works")
    given = options.parse_args()
    installed = "ytsaurus-client 0.13.55, ytsaurus-yson 0.4.10"
    lines = [row for name in TABLES for row in measured(name, given.times)]
    table = [HEAD, ["---"] * 2 + ["---:"] * (len(HEAD) - 2), *lines]
    text = [f"| {' | '.join(row)} |" for row in table]
    intro = (
        "Skiff streams to and from Arrow beside the compiled client of YTsaurus: one thread, CPU time, the least of "
        f"{given.times} runs (2 of the client). Decoding ends with pyarrow record batches, encoding begins with a pyarrow "
        "table; the bytes of both are equal. The last column is the time to copy the stream once over the time of pilum. The "
        f"mark of the project is {MARK} times the client on the five columns. Made by `make bench-skiff`."
    )
    where = pages.when_and_where()
    pages.finish(["# Skiff", "", f"{where.rstrip('.')}, {installed}.", "", intro, "", *text, ""], given.out)


if __name__ == "__main__":
    main()
