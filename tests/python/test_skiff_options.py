"""Options of Skiff streams, what is refused, and what a job keeps out of its rows."""

from __future__ import annotations

import decimal
import io
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest

import pilum
from pilum import skiff


def table_format(*columns: dict) -> dict:
    return {"table_skiff_schemas": [{"wire_type": "tuple", "children": list(columns)}]}


def col(name: str, wire_type: str, **more) -> dict:
    return {"name": name, "wire_type": wire_type, **more}


def encoded(batches, fmt: skiff.Format) -> bytes:
    out = io.BytesIO()
    skiff.encode(batches, out, fmt)
    return out.getvalue()


ID = table_format(col("id", "int64"))
ROW = b"\0\0" + struct.pack("<q", 42)


def test_a_stream_with_sparse_columns_in_any_order_is_the_same_bytes_again():
    sparse = col("$sparse_columns", "repeated_variant16", children=[col("a", "int8"), col("b", "string32")])
    fmt = skiff.Format.from_json(table_format(sparse))
    ab, ba = b"\0\0\5\1\0\1\0\0\0x", b"\1\0\0\0\0\0\0\0\6"
    stream = b"".join(b"\0\0" + row + b"\xff\xff" for row in (ab, ba, b"", ba, b"\0\0\1"))
    batches = list(skiff.decode(stream, fmt, keep_sparse_order=True))
    assert batches[0][1]["$sparse_columns"].to_pylist() == [[0, 1], [1, 0], [], [1, 0], [0]]
    assert encoded(batches, fmt) == stream
    # Without the column, in the order of the schema: the same rows in as many bytes.
    plain = list(skiff.decode(stream, fmt))
    assert plain[0][1].schema.names == ["a", "b"]
    assert len(encoded(plain, fmt)) == len(stream)


def test_decimals_that_are_no_numbers_become_null_on_request_and_are_counted():
    optional = {"wire_type": "variant8", "children": [{"wire_type": "nothing"}, {"wire_type": "int64"}]}
    fmt = skiff.Format.from_json(table_format({"name": "d", **optional}))
    fmt = fmt.with_schema(pa.schema([("d", pa.decimal128(15, 2))]))
    values = [125, 2**63 - 1, 2**63 - 2, -(2**63) + 2, -5]
    stream = b"".join(b"\0\0\1" + struct.pack("<q", value) for value in values)
    with pytest.raises(pilum.CorruptError, match=r"row 1.*NaN"):
        list(skiff.decode(stream, fmt))
    with pytest.warns(RuntimeWarning, match="3 decimals"):
        ((_, batch),) = skiff.decode(stream, fmt, special_decimals="null")
    assert batch["d"].to_pylist() == [decimal.Decimal("1.25"), None, None, None, decimal.Decimal("-0.05")]


OTHER = table_format(col("id", "int64"), col("$other_columns", "yson32"))


def test_keys_of_other_columns_become_columns_and_go_back():
    fmt = skiff.Format.from_json(OTHER)
    maps = [b"{n=5;s=text;rest=[1;2]}", b"{}", b'{n="five"}']
    stream = b"".join(b"\0\0" + struct.pack("<qI", row, len(map_)) + map_ for row, map_ in enumerate(maps))
    ((_, batch),) = skiff.decode(stream, fmt)
    with pytest.raises(pilum.InvalidInputError, match="the value is a string, which int64 does not hold") as caught:
        skiff.promote_other_columns(batch, {"n": pa.int64()})
    assert (caught.value.error_class, caught.value.row, caught.value.column) == ("TypeConflict", 2, "n")
    made = skiff.promote_other_columns(batch, {"n": pa.int64(), "s": pa.string()}, conflicts="keep")
    assert made.schema.names == ["id", "n", "s", "$other_columns"]
    assert made["n"].to_pylist() == [5, None, None]
    assert made["$other_columns"].to_pylist() == [b"{rest=[1;2];}", b"{}", b'{n="five"}']
    again = encoded(made, fmt)
    ((_, batch),) = skiff.decode(again, fmt)
    assert [json.loads(text) for text in skiff.yson_to_json(batch["$other_columns"]).to_pylist()] == [
        {"rest": [1, 2], "n": 5, "s": "text"},
        {},
        {"n": "five"},
    ]
    for columns, message in (({"id": pa.int64()}, "already"), ({"x": pa.list_(pa.int8())}, "list<int8>")):
        with pytest.raises(pilum.UnsupportedError, match=message):
            skiff.promote_other_columns(batch, columns)
    with pytest.raises(pilum.UnsupportedError, match=r"\$other_columns"):
        skiff.promote_other_columns(batch.select(["id"]), {"n": pa.int64()})


def test_a_key_that_is_a_column_too_is_an_error_or_stays_in_its_map():
    fmt = skiff.Format.from_json(OTHER)
    stream = ROW + struct.pack("<I", 6) + b"{id=1}"
    with pytest.raises(pilum.CorruptError) as caught:
        list(skiff.decode(stream, fmt))
    assert caught.value.error_class == "DuplicateColumn"
    ((_, batch),) = skiff.decode(stream, fmt, errors="warn")
    assert batch.to_pylist() == [{"id": 42, "$other_columns": b"{id=1}"}]


def test_decimals_and_times_of_another_unit_are_refused():
    fmt = skiff.Format.from_arrow(pa.schema([("t", pa.timestamp("us")), ("d", pa.decimal128(9, 2))]))
    row = {"t": pa.array([1], pa.timestamp("us")), "d": pa.array([decimal.Decimal("1.5")], pa.decimal128(9, 2))}
    assert encoded(pa.table(row), fmt)
    for wrong in ({"t": row["t"].cast(pa.timestamp("ms"), safe=False)}, {"d": row["d"].cast(pa.decimal128(9, 3))}):
        with pytest.raises(pilum.UnsupportedError, match="cast the column"):
            encoded(pa.table({**row, **wrong}), fmt)


def test_layouts_that_streams_are_not_decoded_to_become_plain_ones():
    table = pa.table(
        {
            "dictionary": pa.array(["x", None, "x"]).dictionary_encode(),
            "view": pa.array(["q", None, "r" * 20], pa.string_view()),
            "pairs": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)),
            "nested": pa.array([[{"v": b"1"}], [], None], pa.list_(pa.struct([("v", pa.binary_view())]))),
        }
    )
    fmt = skiff.Format.from_arrow(table.schema)
    assert [str(field.type) for field in fmt.schemas[0]] == [
        "string",
        "string",
        "list<item: int32>",
        "list<item: struct<v: binary>>",
    ]
    ((_, batch),) = skiff.decode(bytearray(encoded(table, fmt)), fmt)
    assert batch.to_pylist() == table.to_pylist()


def test_pipes_that_do_not_block_lose_nothing():
    fmt = skiff.Format.from_json(ID)
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    rows = pa.table({"id": list(range(300_000))})
    writer = threading.Thread(target=lambda: (skiff.encode(rows, write, fmt), os.close(write)))
    writer.start()
    found = [number for _, batch in skiff.decode(read, fmt) for number in batch["id"].to_pylist()]
    writer.join()
    os.close(read)
    assert found == list(range(300_000))


def test_sockets_are_sources_and_targets():
    fmt = skiff.Format.from_json(ID)
    one, other = socket.socketpair()
    with one, other:
        writer = threading.Thread(target=lambda: (skiff.encode(pa.table({"id": [1, 2]}), one, fmt), one.close()))
        writer.start()
        ((_, batch),) = skiff.decode(other, fmt)
        writer.join()
    assert batch["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda fmt: skiff.decode(ROW, ID), "a pilum.skiff.Format is expected, not dict"),
        (lambda fmt: skiff.decode("a.skiff", fmt), "cannot read from a str"),
        (lambda fmt: skiff.decode(io.StringIO("x"), fmt), "binary mode"),
        (lambda fmt: skiff.decode(True, fmt), "cannot read from a bool"),
        (lambda fmt: skiff.decode(10**6, fmt), "file descriptor 1000000"),
        (lambda fmt: skiff.decode(ROW, fmt, batch_rows=0), "batch_rows=0"),
        (lambda fmt: skiff.decode(ROW, fmt, batch_rows=-1), "batch_rows=-1"),
        (lambda fmt: skiff.decode(ROW, fmt, batch_rows=2**70), f"batch_rows={2**70}"),
        (lambda fmt: skiff.decode(ROW, fmt, batch_bytes=1.5), "batch_bytes=1.5"),
        (lambda fmt: skiff.decode(ROW, fmt, max_row_bytes=True), "max_row_bytes=True"),
        (lambda fmt: skiff.decode(ROW, fmt, keep_sparse_order="yes"), "keep_sparse_order='yes': True or False"),
        (lambda fmt: skiff.decode(2**70, fmt), "file descriptor 1180591620717411303424"),
        (lambda fmt: skiff.encode(pa.table({"id": [1]}), io.BytesIO(), fmt, end_of_stream=1), "end_of_stream=1"),
        (lambda fmt: fmt.annotate(ROW, 2**70), f"max_rows={2**70}"),
        (lambda fmt: fmt.annotate(ROW, -1), "max_rows=-1"),
        (lambda fmt: fmt.annotate_start(ROW, 2**70), f"num_more={2**70}"),
        (lambda fmt: fmt.to_json(arrow_types=1), "arrow_types=1"),
        (lambda fmt: skiff.run(iter, b"", io.BytesIO(), fmt, fmt, batch_rows=2**70), f"batch_rows={2**70}"),
        (lambda fmt: skiff.run(iter, b"", io.BytesIO(), fmt, fmt, with_table=1), "with_table=1"),
        (lambda fmt: skiff.yson_to_json([b"1"], max_bytes=2**70), f"max_bytes={2**70}"),
        (lambda fmt: skiff.json_to_yson(["1"], max_depth="x"), "max_depth='x'"),
        (lambda fmt: skiff.decode(ROW, fmt, order="row"), "order='row'"),
        (lambda fmt: skiff.decode(ROW, fmt, special_decimals="nan"), "special_decimals"),
        (lambda fmt: skiff.encode(pa.table({"id": [1]}), io.StringIO(), fmt), "binary mode"),
        (lambda fmt: skiff.encode([{"id": 1}], io.BytesIO(), fmt), "not dict"),
        (lambda fmt: skiff.encode(5, io.BytesIO(), fmt), "not int"),
        (lambda fmt: skiff.encode(pa.table({"id": [1]}), io.BytesIO(), fmt, 1), "table 1: the format has 1 table"),
        (lambda fmt: skiff.encode([(7, pa.table({"id": [1]}))], io.BytesIO(), fmt), "table 7"),
        (
            lambda fmt: skiff.encode([(0, pa.table({"id": [1]})), pa.table({"id": [1]})], io.BytesIO(), fmt),
            "give all of them one",
        ),
        (lambda fmt: fmt.with_schema({"id": pa.int8()}), "not dict"),
        (lambda fmt: fmt.with_schema(pa.schema([("id", pa.int8())]), 3), "table 3"),
        (lambda fmt: skiff.Format.from_arrow({"id": pa.int8()}), "not dict"),
        (lambda fmt: skiff.Format.from_json(5), "not int"),
        (lambda fmt: skiff.Format.from_json({"table_skiff_schemas": [{1, 2}]}), "no JSON form"),
        (lambda fmt: skiff.Format(ID), "from_json"),
        (lambda fmt: skiff.run(None, b"", io.BytesIO(), fmt, fmt), "a function is expected"),
        (lambda fmt: skiff.run(lambda it: None, b"", io.BytesIO(), fmt, fmt), "returned None"),
        (lambda fmt: skiff.run(lambda it: [1], b"", io.BytesIO(), fmt, fmt), "gave int"),
        (lambda fmt: skiff.run(lambda it: it, b"", [io.BytesIO()] * 2, fmt, fmt), "2 outputs"),
        (lambda fmt: skiff.run(lambda it: it, b"", io.BytesIO(), fmt, None), "format_out"),
        (lambda fmt: skiff.yson_to_json([b"1"], max_depth=-1), "max_depth=-1"),
        (lambda fmt: skiff.canonical_yson([b"1"], style="pretty"), "style='pretty'"),
    ],
)
def test_wrong_arguments_are_refused_in_words(work, message):
    fmt = skiff.Format.from_json(ID)
    with pytest.raises(pilum.InvalidInputError, match=message):
        work(fmt)


def test_a_text_reader_that_is_no_file_is_refused_in_words():
    class Text:
        def read(self, _size):
            return "text"

    with pytest.raises(pilum.InvalidInputError, match=r"`read` returned .*str.*binary mode"):
        list(skiff.decode(Text(), skiff.Format.from_json(ID)))


def test_formats_are_loaded_from_files_and_texts(tmp_path):
    fmt = skiff.Format.from_json(ID)
    yson_map = b"{table_skiff_schemas=[{wire_type=tuple;children=[{wire_type=int64;name=id}]}]}"
    for number, content in enumerate((json.dumps(ID).encode(), fmt.to_yson(), fmt.to_yson(binary=True), yson_map)):
        path = tmp_path / str(number)
        path.write_bytes(content)
        assert skiff.Format.load(path) == fmt
    assert skiff.Format.load(json.dumps(ID)) == fmt
    with pytest.raises(pilum.NotFoundError, match="no such local file"):
        skiff.Format.load(tmp_path / "none")
    with pytest.raises(pilum.InvalidInputError, match="wire_type"):
        skiff.Format.load('{"table_skiff_schemas": [{"name": "x"}]}')


def test_nodes_have_a_size_limit():
    with pytest.raises(pilum.LimitError, match=r"row 1.*max_bytes"):
        skiff.yson_to_json([b"1", b"[1;2;3]"], max_bytes=4)
    assert skiff.yson_to_json([None]).to_pylist() == [None]


JOB = """
print("printed when the module is loaded")
import atexit, os, subprocess, sys
atexit.register(lambda: print("printed at the end"))
atexit.register(lambda: os.write(1, b"written at the end"))

def greedy(batches):
    # What a job starts must not take rows from its input.
    taken = subprocess.run(["cat"], capture_output=True, check=True).stdout
    assert taken == b"", taken
    subprocess.run(["echo", "printed by a program"], check=True)
    yield from batches
"""


def test_nothing_but_rows_comes_out_of_a_job_and_nothing_takes_rows_from_it(tmp_path):
    (tmp_path / "greedy.py").write_text(JOB)
    command = [sys.executable, "-m", "pilum.skiff", "map", "greedy:greedy", "-i", json.dumps(ID)]
    stream = ROW * 200_000
    ran = subprocess.run(command, input=stream, capture_output=True, cwd=tmp_path, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == stream
    for text in (b"module is loaded", b"printed at the end", b"written at the end", b"by a program"):
        assert text in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["map", "nowhere:f", "-i", json.dumps(ID)], b"no module nowhere"),
        (["map", "json:nothing", "-i", json.dumps(ID)], b"json has no function nothing"),
        (["map", "none.py:f", "-i", json.dumps(ID)], b"no such file"),
        (["map", "json", "-i", json.dumps(ID)], b"module:function"),
        (["map", "json:dumps", "-i", "none.json"], b"none.json: there is no such local file"),
        (["map", "json:dumps", "-i", "{}"], b"table_skiff_schemas"),
        (["map", "json:dumps", "-i", json.dumps(ID), "--batch-rows", "0"], b"batch_rows=0"),
        (["reduce", "json:dumps", "-i", json.dumps(ID)], b"$key_switch"),
        (["map", "builtins:iter", "-i", json.dumps(ID), "-o", json.dumps({"table_skiff_schemas":
            ID["table_skiff_schemas"] * 2})], b"file descriptor 4, which is not open"),
    ],
)  # fmt: skip
def test_a_job_that_cannot_run_says_why(arguments, message, tmp_path):
    command = [sys.executable, "-m", "pilum.skiff", *arguments]
    ran = subprocess.run(command, input=b"", capture_output=True, cwd=tmp_path, timeout=120, check=False)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert b"Traceback" not in ran.stderr
    assert ran.stdout == b""


def test_a_conversion_that_fails_leaves_nothing_behind(tmp_path):
    fmt = skiff.Format.from_json(ID)
    (tmp_path / "in.skiff").write_bytes(ROW * 3 + b"\0")
    for target in ("out.parquet", "out.arrow", "out.skiff", "out.pilum"):
        with pytest.raises(pilum.CorruptError, match="TruncatedStream"):
            skiff.convert(str(tmp_path / "in.skiff"), str(tmp_path / target), fmt)
        left = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
        assert left == ["in.skiff"]
    (tmp_path / "in.skiff").write_bytes(ROW)
    with pytest.raises(pilum.NotFoundError):
        skiff.convert(str(tmp_path / "in.skiff"), str(tmp_path / "no" / "out.arrow"), fmt)
    variant = col("v", "variant8", children=[{"wire_type": "int64"}, {"wire_type": "string32"}])
    (tmp_path / "in.skiff").write_bytes(b"\0\0\1\1\0\0\0x")
    with pytest.raises(pilum.UnsupportedError, match="parquet file does not hold"):
        skiff.convert(
            str(tmp_path / "in.skiff"), str(tmp_path / "out.parquet"), skiff.Format.from_json(table_format(variant))
        )
    with pytest.raises(pilum.InvalidInputError, match="table 4"):
        skiff.convert(str(tmp_path / "in.skiff"), str(tmp_path / "out.arrow"), fmt, table=4)


def test_arrow_streams_and_wrong_files_are_told_apart(tmp_path):
    table = pa.table({"id": [1, 2]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    with pa.ipc.new_stream(str(tmp_path / "rows.arrow"), table.schema) as writer:
        writer.write_table(table)
    assert skiff.convert(str(tmp_path / "rows.arrow"), str(tmp_path / "rows.skiff")) == 2
    assert len((tmp_path / "rows.skiff").read_bytes()) == 20
    for name in ("wrong.arrow", "wrong.parquet"):
        (tmp_path / name).write_bytes(b"no such thing")
        with pytest.raises(pilum.InvalidInputError, match=name):
            skiff.convert(str(tmp_path / name), str(tmp_path / "x.skiff"))


def test_the_dump_of_a_stream_that_is_longer_than_its_shown_part_ends_without_a_fault():
    fmt = skiff.Format.from_json(ID)
    assert "5 more bytes" in fmt.annotate_start(ROW, 5, 1)
    assert "FAULT" not in fmt.annotate_start(ROW + ROW[:4], 6)
    assert "FAULT" in fmt.annotate(ROW + ROW[:4])


PEAK = """
def peak():
    # Not ru_maxrss: it begins with the peak of the parent process.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
"""

WRITER = (
    PEAK
    + """
import sys
import pyarrow as pa
from pilum import skiff
fmt = skiff.Format.from_json(sys.argv[1])
batch = pa.record_batch({"id": pa.array(range(50_000), pa.int64())})
list(skiff.decode(b"", fmt))
start = peak()
skiff.encode((batch for _ in range(400)), 1, fmt)
print(peak() - start, file=sys.stderr)
"""
)

READER = (
    PEAK
    + """
import sys, time
from pilum import skiff
fmt = skiff.Format.from_json(sys.argv[1])
list(skiff.decode(b"", fmt))
start = peak()
rows, kept = 0, []
for number, (_, batch) in enumerate(skiff.decode(0, fmt)):
    rows += batch.num_rows
    if number < 20:
        time.sleep(0.05)
    if sys.argv[2] == "keep":
        kept.append(batch)
print(rows, peak() - start)
"""
)


@pytest.mark.parametrize("what", ["drop", "keep"])
def test_two_processes_and_a_slow_reader_stay_within_64_mib(what):
    """200 MB go through a pipe; both processes together hold less than 64 MiB, unless the reader keeps the rows."""
    argument = json.dumps(ID)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, argument], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    command = [sys.executable, "-c", READER, argument, what]
    reader = subprocess.run(command, stdin=writer.stdout, capture_output=True, timeout=120, check=True)
    writer.stdout.close()
    held = int(writer.stderr.read())
    assert writer.wait() == 0
    rows, read = map(int, reader.stdout.split())
    assert rows == 400 * 50_000
    assert (held + read < 64 << 10) == (what == "drop"), (held, read)


def test_a_buffered_pipe_that_does_not_block_loses_nothing():
    fmt = skiff.Format.from_json(ID)
    stream = io.BytesIO()
    skiff.encode(pa.table({"id": [1, 2, 3]}), stream, fmt)
    read, write = os.pipe()
    os.set_blocking(read, False)

    def send() -> None:
        os.write(write, stream.getvalue())
        time.sleep(0.3)
        os.write(write, stream.getvalue())
        os.close(write)

    writer = threading.Thread(target=send)
    writer.start()
    with os.fdopen(read, "rb") as file:
        found = [number for _, batch in skiff.decode(file, fmt) for number in batch["id"].to_pylist()]
    writer.join()
    assert found == [1, 2, 3, 1, 2, 3]


def test_kernels_take_no_rows():
    empty = pa.array([], pa.binary())
    assert skiff.yson_to_json(empty).to_pylist() == []
    assert skiff.yson_to_json(pa.chunked_array([], pa.binary())).to_pylist() == []
    assert skiff.yson_get(empty, "/a").type == pa.binary()
    assert skiff.canonical_yson([]).to_pylist() == []
    assert skiff.json_to_yson(pa.array([], pa.string())).to_pylist() == []


def test_reduce_refuses_rows_out_of_the_order_of_the_stream():
    keyed = skiff.Format.from_json(
        {
            "table_skiff_schemas": [
                {
                    "wire_type": "tuple",
                    "children": [
                        {"name": "id", "wire_type": "int64"},
                        {"name": "$key_switch", "wire_type": "boolean"},
                    ],
                }
            ]
        }
    )
    with pytest.raises(pilum.InvalidInputError, match="order of the stream"):
        skiff.run(
            lambda table: None, b"", [io.BytesIO()], keyed, skiff.Format.from_json(ID), mode="reduce", order="table"
        )


FAILING = """
def raises(batches):
    for batch in batches:
        raise KeyError("mine")

def nothing(batches):
    return None

def wide(batches):
    import pyarrow as pa
    yield pa.record_batch({"id": pa.array([2**63], pa.uint64())})
"""


@pytest.mark.parametrize(
    ("function", "stream", "message"),
    [
        ("raises", ROW, b"KeyError: 'mine'"),
        ("nothing", ROW, b"returned None"),
        ("wide", ROW, b"OutOfRange"),
        ("builtins:iter", ROW[:-1], b"TruncatedStream"),
    ],
)
def test_a_job_that_fails_ends_with_code_1(function, stream, message, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    spec = function if ":" in function else f"failing:{function}"
    command = [sys.executable, "-m", "pilum.skiff", "map", spec, "-i", json.dumps(ID)]
    ran = subprocess.run(command, input=stream, capture_output=True, cwd=tmp_path, timeout=120, check=False)
    assert ran.returncode == 1
    assert message in ran.stderr


def test_rows_before_a_broken_reader_are_given_first():
    fmt = skiff.Format.from_json(ID)

    class Broken:
        def __init__(self, error: BaseException):
            self.error = error
            self.left = [ROW * 3, ROW + ROW[:5]]

        def read(self, _size):
            if self.left:
                return self.left.pop(0)
            raise self.error

    batches = skiff.decode(Broken(OSError(5, "the network is gone")), fmt)
    assert next(batches)[1].num_rows == 4
    with pytest.raises(OSError, match="the network is gone"):
        next(batches)
    # Ctrl-C does not wait for rows.
    with pytest.raises(KeyboardInterrupt):
        next(skiff.decode(Broken(KeyboardInterrupt()), fmt))


def test_arrow_types_survive_pickling_and_json():
    import pickle

    plain = pa.schema(
        [
            pa.field("small", pa.int8(), nullable=False),
            pa.field("price", pa.decimal128(9, 2)),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("tags", pa.map_(pa.string(), pa.float32())),
        ]
    )
    table = [{"name": "id", "type_v3": "uuid"}, {"name": "doc", "type_v3": "json"}, {"name": "any", "type": "any"}]
    for fmt in (
        skiff.Format.from_arrow(plain),
        skiff.Format.from_arrow([plain, plain.remove(0), plain]),
        skiff.Format.from_table_schema(table),
        skiff.Format.from_json(OTHER, strings="text"),
    ):
        text = fmt.to_json(arrow_types=True)
        for again in (skiff.Format.from_json(text), skiff.Format.load(text), pickle.loads(pickle.dumps(fmt))):
            assert again == fmt
            assert again.schemas == fmt.schemas
        # The specification of an operation has the wire types alone.
        assert "arrow" not in fmt.to_json()
    with pytest.raises(pilum.InvalidInputError, match="arrow_schemas"):
        skiff.Format.from_json({**ID, "arrow_schemas": {"schemas": ["x"], "tables": [0]}})


def test_a_format_of_the_most_tables_is_pickled_in_no_time():
    import pickle

    fmt = skiff.Format.from_json(
        {"table_skiff_schemas": ["$t"] * 65_535, "skiff_schema_registry": {"t": ID["table_skiff_schemas"][0]}}
    )
    began = time.process_time()
    assert pickle.loads(pickle.dumps(fmt)) == fmt
    assert len(fmt.schemas) == 65_535
    assert time.process_time() - began < 5


def test_doubles_and_depth_are_the_same_in_json_and_yson():
    values = [0.1, 1e23, 9007199254740993.0, 5e-324, 1.7976931348623157e308, 64.74000000000001]
    texts = [json.dumps(value) for value in values]
    assert [float(text) for text in skiff.yson_to_json(skiff.json_to_yson(texts)).to_pylist()] == values
    deep = "[" * 255 + "]" * 255
    assert skiff.yson_to_json(skiff.json_to_yson([deep])).to_pylist() == [deep]
    with pytest.raises(pilum.LimitError, match=r"row 0.*255"):
        skiff.json_to_yson([f"[{deep}]"])
    assert skiff.json_to_yson([f"[{deep}]"], max_depth=256, style="text").to_pylist() == [f"[{deep}]".encode()]
    deepest = "[" * 1_000 + "]" * 1_000
    assert skiff.yson_to_json(skiff.json_to_yson([deepest], max_depth=1_000), max_depth=1_000).to_pylist() == [deepest]


def test_promoting_other_columns_of_an_empty_batch_adds_the_columns():
    batch = pa.record_batch({"a": pa.array([], pa.int8()), "$other_columns": pa.array([], pa.binary())})
    taken = skiff.promote_other_columns(batch, {"x": pa.int64(), "y": pa.string()})
    assert taken.num_rows == 0
    assert taken.schema.names == ["a", "x", "y", "$other_columns"]
    assert taken.schema.field("x").type == pa.int64()
