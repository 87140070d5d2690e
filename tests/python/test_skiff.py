"""Skiff through Python: formats, streams, jobs, YSON kernels, errors."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import threading
import time
import warnings

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from pilum import skiff
from pilum.skiff.pipe import pipe_batches


def table_format(*columns: dict) -> dict:
    return {"table_skiff_schemas": [{"wire_type": "tuple", "children": list(columns)}]}


def col(name: str, wire_type: str) -> dict:
    return {"name": name, "wire_type": wire_type}


def opt(name: str, wire_type: str) -> dict:
    return {"name": name, "wire_type": "variant8", "children": [{"wire_type": "nothing"}, {"wire_type": wire_type}]}


ID_NAME = table_format(col("id", "int64"), opt("name", "string32"))
STREAM = b"\0\0" + struct.pack("<q", 42) + b"\1\3\0\0\0foo" + b"\0\0" + struct.pack("<q", -1) + b"\0"


def rows(batches) -> list[dict]:
    return [row for _, batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "file", "raw", "descriptor", "slow"])
def test_a_stream_is_decoded_from_whatever_it_comes_from(kind, tmp_path):
    fmt = skiff.Format.from_json(ID_NAME, strings="text")
    path = tmp_path / "s.skiff"
    path.write_bytes(STREAM)

    class Slow:
        def __init__(self):
            self.rest = STREAM

        def read(self, _size):
            data, self.rest = self.rest[:1], self.rest[1:]
            return data

    with path.open("rb") as file, path.open("rb", buffering=0) as raw:
        source = {
            "bytes": STREAM,
            "bytearray": bytearray(STREAM),
            "file": file,
            "raw": raw,
            "descriptor": raw.fileno(),
            "slow": Slow(),
        }[kind]
        assert rows(skiff.decode(source, fmt)) == [{"id": 42, "name": "foo"}, {"id": -1, "name": None}]
        assert not raw.closed


def test_rows_before_a_fault_are_given_and_the_error_says_where():
    fmt = skiff.Format.from_json(ID_NAME)
    batches = skiff.decode(STREAM + b"\0\0" + struct.pack("<q", 7) + b"\2", fmt)
    assert next(batches)[1].num_rows == 2
    with pytest.raises(pilum.CorruptError, match="optional") as caught:
        next(batches)
    error = caught.value
    place = (error.error_class, error.offset, error.table, error.row, error.column)
    assert place == ("BadVariantTag", len(STREAM) + 10, 0, 2, "name")
    with pytest.raises(StopIteration):
        next(batches)


def test_a_truncated_stream_can_end_with_a_warning():
    fmt = skiff.Format.from_json(ID_NAME)
    with pytest.warns(RuntimeWarning, match="TruncatedStream"):
        assert len(rows(skiff.decode(STREAM[:-1], fmt, errors="warn"))) == 1


def test_what_a_reader_raises_is_raised():
    class Broken:
        def read(self, _size):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(skiff.decode(Broken(), skiff.Format.from_json(ID_NAME)))


def test_what_was_decoded_is_the_same_bytes_when_it_is_encoded():
    fmt = skiff.Format.from_json({"table_skiff_schemas": [*ID_NAME["table_skiff_schemas"] * 2]})
    stream = STREAM + b"\1\0" + STREAM[2:18] + STREAM
    out = io.BytesIO()
    written = skiff.encode(skiff.decode(stream, fmt), out, fmt)
    assert out.getvalue() == stream
    assert written == 5


def test_tables_readers_and_batches_are_encoded(tmp_path):
    table = pa.table({"id": pa.array([42, -1]), "name": pa.array(["foo", None])})
    fmt = skiff.Format.from_json(ID_NAME)
    for batches in (table, table.to_reader(), table.to_batches(), iter(table.slice(0).to_batches())):
        out = io.BytesIO()
        assert skiff.encode(batches, out, fmt) == 2
        assert out.getvalue() == STREAM
    with (tmp_path / "out").open("wb") as file:
        skiff.encode(table, file.fileno(), fmt)
    assert (tmp_path / "out").read_bytes() == STREAM


def test_a_null_in_a_required_column_is_refused_with_its_row():
    fmt = skiff.Format.from_json(table_format(col("id", "int64")))
    out = io.BytesIO()
    with pytest.raises(pilum.InvalidInputError, match="NullInRequired") as caught:
        skiff.encode(pa.table({"id": [1, 2, None]}), out, fmt)
    assert (caught.value.error_class, caught.value.row, caught.value.column) == ("NullInRequired", 2, "id")
    assert len(out.getvalue()) == 2 * 10


@pytest.mark.parametrize(
    ("table", "error_class"),
    [
        (pa.table({"id": [1], "more": [2]}), "UnexpectedColumn"),
        (pa.table({"other": [1]}), "MissingColumn"),
        (pa.table({"id": pa.array([2**63], pa.uint64())}), "OutOfRange"),
    ],
)
def test_columns_and_numbers_without_a_place_are_refused(table, error_class):
    fmt = skiff.Format.from_json(table_format(col("id", "int64")))
    with pytest.raises(pilum.InvalidInputError) as caught:
        skiff.encode(table, io.BytesIO(), fmt)
    assert caught.value.error_class == error_class


def test_columns_without_a_slot_go_into_other_columns():
    fmt = skiff.Format.from_json(table_format(col("id", "int64"), col("$other_columns", "yson32")))
    out = io.BytesIO()
    table = pa.table({"id": [1, 2], "a": ["x", None], "b": pa.array([[1], []], pa.list_(pa.uint8()))})
    skiff.encode(table, out, fmt)
    (batch,) = (batch for _, batch in skiff.decode(out.getvalue(), fmt))
    assert skiff.yson_to_json(batch["$other_columns"]).to_pylist() == ['{"a":"x","b":[1]}', '{"b":[]}']


@pytest.mark.parametrize(
    ("fmt", "message"),
    [
        ({}, "table_skiff_schemas"),
        ({"table_skiff_schemas": ["$t"]}, "not in"),
        ({"table_skiff_schemas": ["$t"], "skiff_schema_registry": {"t": "$t"}}, "refers to itself"),
        (table_format(col("a", "float")), "unsupported wire type `float`"),
        (table_format(col("a", "Int64")), "unknown wire type"),
    ],
)
def test_schemas_that_break_a_rule_are_refused(fmt, message):
    with pytest.raises(pilum.InvalidInputError, match=message) as caught:
        skiff.Format.from_json(fmt)
    assert caught.value.error_class == "SchemaError"


def test_formats_are_values(tmp_path):
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.list_(pa.string()))])
    fmt = skiff.Format.from_arrow(schema)
    assert fmt.schemas == [schema]
    assert pickle.loads(pickle.dumps(fmt)) == fmt
    assert skiff.Format.from_yson(fmt.to_yson()).to_json() == fmt.to_json()
    assert skiff.Format.from_yson(fmt.to_yson(binary=True)).to_json() == fmt.to_json()
    assert json.loads(fmt.to_json())["$value"] == "skiff"
    assert "a: int64 (8 bytes) -> int32 not null" in fmt.explain()
    assert "1 table>" in repr(fmt)


def test_arrow_types_go_through_skiff_and_back():
    import datetime as dt
    import decimal

    table = pa.table(
        {
            "i8": pa.array([1, None, -128], pa.int8()),
            "u64": pa.array([0, 2**64 - 1, None], pa.uint64()),
            "f32": pa.array([0.5, None, float("inf")], pa.float32()),
            "s": pa.array(["é", "", None]),
            "large": pa.array(["é", "", None], pa.large_string()),
            "b": pa.array([b"\xff\0", None, b""], pa.binary()),
            "day": pa.array([dt.date(1960, 1, 1), None, dt.date(2026, 1, 1)]),
            "ts": pa.array([0, None, -5], pa.timestamp("us", "UTC")),
            "dur": pa.array([0, None, -5], pa.duration("us")),
            "dec": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-999.99")], pa.decimal128(30, 2)),
            "small": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-9.99")], pa.decimal128(5, 2)),
            "wide": pa.array([decimal.Decimal(10) ** 60, None, decimal.Decimal(-1)], pa.decimal256(70, 0)),
            "list": pa.array([[1, None], None, []], pa.list_(pa.int16())),
            "struct": pa.array(
                [{"x": 1, "y": None}, None, {"x": None, "y": ["z"]}],
                pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]),
            ),
            "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
            "bool": pa.array([True, None, False]),
            "null": pa.nulls(3),
        }
    )
    fmt = skiff.Format.from_arrow(table.schema)
    out = io.BytesIO()
    skiff.encode(table, out, fmt)
    (batch,) = (batch for _, batch in skiff.decode(out.getvalue(), fmt))
    assert pa.Table.from_batches([batch]).equals(table)


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.duration("ms"), pa.time64("us"), pa.float16()])
def test_arrow_types_without_a_counterpart_are_refused_by_column(type_):
    with pytest.raises(pilum.UnsupportedError, match="column `it`"):
        skiff.Format.from_arrow(pa.schema([("it", type_)]))


def test_table_schemas_of_ytsaurus_map_to_arrow():
    columns = [
        {"name": "key", "type": "string", "required": True},
        {"name": "any", "type": "any"},
        {"name": "day", "type_v3": "date"},
        {
            "name": "price",
            "type_v3": {"type_name": "optional", "item": {"type_name": "decimal", "precision": 5, "scale": 2}},
        },
        {
            "name": "tags",
            "type_v3": {"type_name": "dict", "key": "utf8", "value": {"type_name": "optional", "item": "float"}},
        },
        {"name": "id", "type_v3": "uuid"},
        {"name": "when", "type_v3": "tz_datetime"},
        {"name": "twice", "type_v3": {"type_name": "optional", "item": {"type_name": "optional", "item": "bool"}}},
    ]
    fmt = skiff.Format.from_table_schema(columns)
    (schema,) = fmt.schemas
    assert [str(field.type) for field in schema] == [
        "binary",
        "binary",
        "date32[day]",
        "decimal128(5, 2)",
        "map<string, float>",
        str(schema.field("id").type),
        "struct<value: timestamp[s, tz=UTC] not null, tz_id: uint16 not null>",
        "struct<value: bool>",
    ]
    weak = '<"strict"=%false>[{name=a;type=int64}]'
    assert skiff.Format.from_table_schema(weak).schemas[0].names == ["a", "$other_columns"]


def test_yson_kernels():
    nodes = pa.array([b'{a=[1;2u;"\\xff"];b=<u=%true>%nan;"$c"=#}', None, b"\x02\x0a"])
    view = skiff.yson_to_json(nodes).to_pylist()
    assert json.loads(view[0]) == {
        "a": [1, 2, {"$type": "base64", "$value": "/w=="}],
        "b": {"$attributes": {"u": True}, "$value": {"$type": "double", "$value": "nan"}},
        "$$c": None,
    }
    assert view[1:] == [None, "5"]
    exact = skiff.json_to_yson(skiff.yson_to_json(nodes, exact=True))
    assert skiff.canonical_yson(exact).equals(skiff.canonical_yson(nodes))
    assert skiff.canonical_yson(pa.array([b"{b=1;a=2;b=3}"]), style="text").to_pylist() == [b'{"a"=2;"b"=3}']
    get = skiff.yson_get(nodes, "/a/-2")
    assert skiff.yson_to_json(get).to_pylist() == ["2", None, None]
    assert skiff.yson_to_json(skiff.yson_get(nodes, "/b/@u")).to_pylist() == ["true", None, None]
    with pytest.raises(pilum.InvalidInputError, match="row 1") as caught:
        skiff.yson_to_json(pa.array([b"1", b"[1"]))
    assert (caught.value.error_class, caught.value.row) == ("BadYson", 1)
    with pytest.raises(pilum.LimitError, match="more than 2 lists"):
        skiff.yson_to_json(pa.array([b"[[[1]]]"]), max_depth=2)


JOB = """
import pyarrow as pa, pyarrow.compute as pc

def double(batches):
    print("not a row")
    for batch in batches:
        yield pa.record_batch({"id": pc.multiply(batch["id"], 2), "name": batch["name"]})

def count(group):
    import os
    os.write(1, b"not a row either")
    return pa.table({"id": [group["id"][0].as_py()], "name": [str(group.num_rows)]})

def split(batches):
    for batch in batches:
        yield 0, batch.filter(pc.greater(batch["id"], 0))
        yield 1, batch.filter(pc.less(batch["id"], 0))
"""


@pytest.fixture
def job(tmp_path):
    (tmp_path / "jobs.py").write_text(JOB)
    (tmp_path / "format.json").write_text(json.dumps(ID_NAME))

    def run(*arguments, stdin=STREAM, **kwargs):
        command = [sys.executable, "-m", "pilum.skiff", *arguments]
        return subprocess.run(
            command, input=stdin, cwd=tmp_path, capture_output=True, timeout=120, check=False, **kwargs
        )

    run.folder = tmp_path
    return run


def test_a_job_maps_rows_and_keeps_prints_out_of_them(job):
    ran = job("map", "jobs:double", "-i", "format.json")
    assert (ran.returncode, ran.stderr) == (0, b"not a row\n")
    fmt = skiff.Format.from_json(ID_NAME)
    assert rows(skiff.decode(ran.stdout, fmt)) == [{"id": 84, "name": b"foo"}, {"id": -2, "name": None}]
    again = job("map", "jobs.py:double", "-i", json.dumps(ID_NAME), "-o", fmt.to_yson().decode())
    assert again.stdout == ran.stdout


@pytest.mark.parametrize("stdout", ["sys.stdout.buffer", "[sys.stdout.buffer]", "1", "None"])
def test_programs_that_a_function_starts_do_not_write_among_the_rows(stdout):
    code = f"""
import os, sys
from pilum import skiff
def function(batches):
    os.system("echo from a program")
    print("from Python")
    yield from batches
print("before the rows")
fmt = skiff.Format.from_json(sys.argv[1])
skiff.run(function, sys.stdin.buffer, {stdout}, fmt, fmt)
print("after the rows")
"""
    command = [sys.executable, "-c", code, json.dumps(ID_NAME)]
    ran = subprocess.run(command, input=STREAM, capture_output=True, timeout=120, check=True)
    assert ran.stdout == b"before the rows\n" + STREAM + b"after the rows\n"
    assert sorted(ran.stderr.splitlines()) == [b"from Python", b"from a program"]


def test_a_job_reduces_one_table_per_key(job):
    keyed = table_format(col("$key_switch", "boolean"), col("id", "int64"))
    stream = b"".join(
        b"\0\0" + (b"\1" if switch else b"\0") + struct.pack("<q", key)
        for key, switch in [(1, False), (1, False), (2, True), (3, True), (3, False), (3, False)]
    )
    out = json.dumps(ID_NAME)
    ran = job("reduce", "jobs:count", "-i", json.dumps(keyed), "-o", out, "--batch-rows", "2", stdin=stream)
    assert ran.returncode == 0, ran.stderr
    found = rows(skiff.decode(ran.stdout, skiff.Format.from_json(ID_NAME, strings="text")))
    assert found == [{"id": 1, "name": "2"}, {"id": 2, "name": "1"}, {"id": 3, "name": "3"}]
    assert b"not a row either" in ran.stderr


def test_a_job_writes_every_output_table_to_its_descriptor(job):
    two = json.dumps({"table_skiff_schemas": ID_NAME["table_skiff_schemas"] * 2})
    read, write = os.pipe()

    # The descriptors 1 and 4 of a job, moved by the environment so that the test needs no particular number.
    def place():
        os.dup2(write, 10)
        os.dup2(1, 7)

    ran = job(
        "map",
        "jobs:split",
        "-i",
        "format.json",
        "-o",
        two,
        env={**os.environ, "YT_FIRST_OUTPUT_TABLE_FD": "7"},
        preexec_fn=place,
        pass_fds=(7, 10, write),
    )
    os.close(write)
    assert ran.returncode == 0, ran.stderr
    fmt = skiff.Format.from_json(ID_NAME, strings="text")
    assert rows(skiff.decode(ran.stdout, fmt)) == [{"id": 42, "name": "foo"}]
    with os.fdopen(read, "rb") as second:
        assert rows(skiff.decode(second, fmt)) == [{"id": -1, "name": None}]


def test_a_job_with_a_truncated_input_or_a_closed_output_fails(job):
    ran = job("map", "jobs:double", "-i", "format.json", stdin=STREAM[:-1])
    assert ran.returncode == 1
    assert b"TruncatedStream" in ran.stderr
    assert b"Traceback" not in ran.stderr
    job_line = f"{sys.executable} -m pilum.skiff map jobs:double -i format.json"
    command = f"{job_line} < many.skiff | head -c 10 > few; exit ${{PIPESTATUS[0]}}"
    (job.folder / "many.skiff").write_bytes(STREAM * 100_000)
    ran = subprocess.run(["bash", "-c", command], cwd=job.folder, capture_output=True, timeout=120, check=False)
    assert ran.returncode == 1
    assert b"closed it before all rows" in ran.stderr
    assert b"Traceback" not in ran.stderr


def test_run_gives_the_rows_of_the_function(tmp_path):
    fmt = skiff.Format.from_json(ID_NAME, strings="text")
    out = io.BytesIO()

    def shout(batches):
        print("hidden")
        for batch in batches:
            yield batch.set_column(1, "name", pc.utf8_upper(batch["name"]))

    ran = skiff.run(shout, io.BytesIO(STREAM), out, fmt, fmt)
    assert ran == (2, [2])
    assert rows(skiff.decode(out.getvalue(), fmt)) == [{"id": 42, "name": "FOO"}, {"id": -1, "name": None}]


BATCHES = [
    pa.record_batch({"id": list(range(i, i + 1000)), "name": ["n" * 50] * 1000}) for i in range(0, 200_000, 1000)
]


def test_rows_go_through_a_program_without_a_deadlock():
    fmt = skiff.Format.from_json(ID_NAME, strings="text")
    loud = (
        "import sys, shutil; sys.stderr.write('x' * 1_000_000); shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
    )
    found = pipe_batches(iter(BATCHES), [sys.executable, "-c", loud], fmt, fmt)
    assert sum(batch.num_rows for batch in found) == 200_000


def test_a_program_that_fails_says_how():
    fmt = skiff.Format.from_json(ID_NAME, strings="text")
    with pytest.raises(pilum.StoreError, match=r"(?s)exit code 3.*broken on purpose"):
        list(pipe_batches(iter(BATCHES), "head -c 100; echo broken on purpose >&2; exit 3", fmt, fmt))
    with pytest.raises(pilum.StoreError, match="SIGTERM"):
        list(pipe_batches(iter(BATCHES), "kill -TERM $$", fmt, fmt))
    with pytest.raises(pilum.CorruptError, match="TruncatedStream"):
        list(pipe_batches(iter(BATCHES), "head -c 100", fmt, fmt))


def test_processes_that_a_program_leaves_behind_hold_nothing_up():
    fmt = skiff.Format.from_json(ID_NAME, strings="text")
    start = time.monotonic()
    # They keep stderr and stdin open long after the program ended.
    for command in ("cat; sleep 60 >/dev/null <&0 & exit 0", "cat; (sleep 60 >/dev/null) & exit 0"):
        assert sum(batch.num_rows for batch in pipe_batches(iter(BATCHES[:3]), command, fmt, fmt)) == 3000
    # Rows that nothing reads do not fill the pipe for ever.
    with pytest.raises(pilum.StoreError, match=r"(?s)exit code 5.*sorry"):
        list(pipe_batches(iter(BATCHES), "sleep 60 >/dev/null <&0 & echo sorry >&2; exit 5", fmt, fmt))
    assert list(pipe_batches(iter(BATCHES), "sleep 60 >/dev/null <&0 & exit 0", fmt, fmt)) == []
    assert time.monotonic() - start < 20


def test_what_the_rows_raise_comes_out_of_a_pipe():
    fmt = skiff.Format.from_json(ID_NAME, strings="text")

    def broken():
        yield BATCHES[0]
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(pipe_batches(broken(), "cat", fmt, fmt))


def test_a_program_is_ended_when_its_rows_are_not_wanted():
    fmt = skiff.Format.from_json(ID_NAME, strings="text")
    found = pipe_batches(iter(BATCHES), "cat; sleep 1000", fmt, fmt)
    next(found)
    start = time.monotonic()
    found.close()
    assert time.monotonic() - start < 10


SLOW_READER = """
import sys, time
from pilum import skiff
def peak():
    # Not ru_maxrss: it begins with the peak of the parent process.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
fmt = skiff.Format.from_json(sys.argv[1])
list(skiff.decode(b"", fmt))
start = peak()
rows, kept = 0, []
for number, (_, batch) in enumerate(skiff.decode(sys.stdin.buffer, fmt, batch_bytes=1 << 20)):
    rows += batch.num_rows
    if number < 20:
        time.sleep(0.05)
    if sys.argv[2] == "keep":
        kept.append(batch)
    del batch
print(rows, peak() - start)
"""


@pytest.mark.parametrize("what", ["drop", "keep"])
def test_a_slow_reader_does_not_make_the_decoder_hold_more(what):
    """The reader stays within 64 MiB above its start. A reader that keeps the rows does not: so the test would see it."""
    reader = subprocess.Popen(
        [sys.executable, "-c", SLOW_READER, json.dumps(ID_NAME), what], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    chunk = STREAM * 40_000
    for _ in range(100):
        reader.stdin.write(chunk)
    out, _ = reader.communicate(timeout=120)
    found, kilobytes = map(int, out.split())
    assert found == 2 * 40_000 * 100
    assert (kilobytes < 64 << 10) == (what == "drop"), kilobytes


def test_a_socket_is_read_as_rows_come():
    import socket

    one, other = socket.socketpair()
    fmt = skiff.Format.from_json(ID_NAME, strings="text")
    with one, other, other.makefile("rb") as file:
        batches = skiff.decode(file, fmt, batch_rows=1)
        one.sendall(STREAM[:-11])
        assert next(batches)[1].to_pylist() == [{"id": 42, "name": "foo"}]
        threading.Timer(0.1, lambda: (one.sendall(STREAM[-11:]), one.close())).start()
        assert next(batches)[1].to_pylist() == [{"id": -1, "name": None}]
        with warnings.catch_warnings():
            assert list(batches) == []


@pytest.fixture
def command(tmp_path):
    (tmp_path / "format.json").write_text(json.dumps(ID_NAME))
    (tmp_path / "in.skiff").write_bytes(STREAM)

    def run(*arguments):
        line = [sys.executable, "-m", "pilum", *arguments]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    run.folder = tmp_path
    return run


def test_a_stream_is_inspected_field_by_field(command):
    ran = command("inspect", "in.skiff", "--format", "format.json")
    assert ran.returncode == 0, ran.stderr
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert "id: int64 (8 bytes) -> int64 not null; dense" in lines
    assert '11 03000000666f6f [1] string32 "foo" (3 bytes)' in lines
    ran = command("inspect", "in.skiff")
    assert ran.returncode == 2
    assert "pass --format FILE" in ran.stderr
    (command.folder / "in.skiff").write_bytes(STREAM[:-3])
    ran = command("inspect", "in.skiff", "--format", "format.json", "--json")
    found = json.loads(ran.stdout)
    assert "FAULT" in found["dump"].splitlines()[-1]
    assert (ran.returncode, found["rows"]) == (1, 1)
    assert "TruncatedStream" in found["fault"]
    # A fault behind the rows of the dump is found too; the tag that ends a stream is no fault.
    (command.folder / "in.skiff").write_bytes(STREAM * 50 + STREAM[:-3])
    ran = command("inspect", "in.skiff", "--format", "format.json")
    assert ran.returncode == 1
    assert "101 rows" in ran.stdout
    assert "TruncatedStream" in ran.stderr
    (command.folder / "in.skiff").write_bytes(STREAM + b"\xff\xff")
    ran = command("inspect", "in.skiff", "--format", "format.json")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("middle", ["middle.parquet", "middle.arrow", "middle.pilum"])
def test_a_stream_is_converted_and_back(command, middle):
    assert command("convert", "in.skiff", middle, "--format", "format.json", "--text").stdout == "2 rows\n"
    ran = command("convert", middle, "out.skiff", "--format", "format.json", "--json")
    assert (ran.returncode, ran.stdout) == (0, '{"rows": 2}\n'), ran.stderr
    assert (command.folder / "out.skiff").read_bytes() == STREAM
    ran = command("convert", middle, "out.skiff")
    assert ran.returncode == 1
    assert "exists" in ran.stderr
