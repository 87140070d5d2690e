"""Errors of Skiff calls, jobs and streams are errors of pilum with a clear message, and no rows are lost without an error."""

import io
import json
import os
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum import skiff
from pilum.skiff.pipe import pipe_batches


def table_format(*columns: dict) -> dict:
    return {"table_skiff_schemas": [{"wire_type": "tuple", "children": list(columns)}]}


ID = table_format({"name": "id", "wire_type": "int64"})
FORMAT = skiff.Format.from_json(ID)
ROW = b"\0\0" + struct.pack("<q", 42)
BATCH = pa.record_batch({"id": [42]})


def pipe(command, env=None):
    return list(pipe_batches(iter([BATCH]), command, FORMAT, FORMAT, env))


def ran(**more):
    return skiff.run(lambda batches: batches, ROW, io.BytesIO(), FORMAT, FORMAT, **more)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: pipe([]), r"command=\[\]: a line for /bin/sh"),
        (lambda: pipe(""), "command=''"),
        (lambda: pipe(5), "command=5"),
        (lambda: pipe(["cat", 5]), "all of them str"),
        (lambda: pipe(["a\0b"]), "without NUL"),
        (lambda: pipe(["cat"], env=5), "env: a mapping"),
        (lambda: pipe(["cat"], env={"A": 5}), "env: 'A'"),
        (lambda: pipe(["cat"], env={"A=B": "x"}), "env: 'A=B'"),
        (lambda: ran(foo=1), r"run\(\) has no argument 'foo': it takes func, stdin, .* batch_rows, "),
        (lambda: ran(end_of_streams=True), r"run\(\) has no argument 'end_of_streams': did you mean 'end_of_stream'\?"),
        (lambda: ran(readable=1), "no argument 'readable'"),
        (lambda: ran(mode=[]), r"mode=\[\]"),
        (lambda: skiff.run(lambda batches: 5, b"", io.BytesIO(), FORMAT, FORMAT), "returned int: yield record batches"),
        (lambda: skiff.promote_other_columns(BATCH, 5), r"pyarrow.Schema, or a mapping .*: 'int' object"),
        (lambda: skiff.promote_other_columns(BATCH, [1]), "columns: a pyarrow.Schema"),
        (lambda: skiff.promote_other_columns(BATCH, {"a": 7}), "columns: a pyarrow.Schema"),
        (lambda: skiff.promote_other_columns(BATCH, {}, conflicts=[]), r"conflicts=\[\]"),
        (lambda: skiff.yson_get([b"1"], path=5), "path=5: a str is expected"),
        (lambda: skiff.yson_to_json(pa.table({"a": [b"1"]})), "not a Table; pass one of its columns"),
        (lambda: skiff.yson_to_json(BATCH), "not a RecordBatch; pass one of its columns"),
        (lambda: skiff.yson_to_json(5), "an array of YSON nodes or JSON texts is expected"),
        (lambda: skiff.yson_to_json(b"1"), "not a bytes"),
        (lambda: skiff.yson_to_json([b"1", 5]), "an array of YSON nodes or JSON texts is expected"),
        (lambda: skiff.canonical_yson([b"1"], style=[]), r"style=\[\]"),
        (lambda: skiff.decode(ROW, FORMAT, order=[]), r"order=\[\]"),
        (lambda: skiff.decode(ROW, FORMAT, batch_rows=np.array([5, 6])), "batch_rows=array"),
        (lambda: skiff.Format.load(5), "load takes a path or a text, not int"),
        (lambda: skiff.Format.load(b"{}"), "not bytes"),
        (lambda: skiff.Format.from_yson(5), "from_yson takes a text or bytes, not int"),
        (lambda: skiff.Format.from_json(ID, strings=5), "strings=5"),
        (lambda: skiff.convert(5, "out.skiff", FORMAT), "source=5: a str is expected"),
    ],
)
def test_wrong_arguments_are_refused_with_a_message_that_names_them(work, message):
    with pytest.raises(pilum.InvalidInputError, match=message):
        work()


def test_integers_of_numpy_are_accepted_as_integers():
    assert len(list(skiff.decode(ROW * 5, FORMAT, batch_rows=np.int64(2), batch_bytes=np.uint32(1 << 20)))) == 3
    stream = io.BytesIO()
    assert skiff.encode([(np.int64(0), BATCH)], stream, FORMAT) == 1
    assert skiff.encode(BATCH, io.BytesIO(), FORMAT, np.int8(0)) == 1
    assert stream.getvalue() == ROW
    assert skiff.yson_to_json([b"1"], max_bytes=np.int64(5)).to_pylist() == ["1"]
    out = io.BytesIO()
    skiff.run(
        lambda batches: ((np.int64(0), batch) for batch in batches), ROW, out, FORMAT, FORMAT, batch_rows=np.int64(5)
    )
    assert out.getvalue() == ROW


LEAVING = """
import sys

def at_once(batches):
    sys.exit(0)

def in_the_middle(batches):
    for batch in batches:
        yield batch
        sys.exit()

def with_words(batches):
    sys.exit("I am done")

def at_the_end(batches):
    yield from batches
    raise SystemExit(0)
"""


@pytest.mark.parametrize(
    ("function", "shown"),
    [("at_once", "0"), ("in_the_middle", ""), ("with_words", "'I am done'"), ("at_the_end", "0")],
)
def test_a_function_that_ends_the_process_fails_the_job(function, shown, tmp_path):
    (tmp_path / "leaving.py").write_text(LEAVING)
    command = [
        sys.executable,
        "-m",
        "pilum.skiff",
        "map",
        f"leaving:{function}",
        "-i",
        json.dumps(ID),
        "--batch-rows",
        "1",
    ]
    done = subprocess.run(
        command, input=ROW * 9, capture_output=True, text=False, cwd=tmp_path, timeout=120, check=False
    )
    assert done.returncode == 1
    assert f"sys.exit({shown})" in done.stderr.decode()
    assert "rows are not complete" in done.stderr.decode()


def test_a_module_that_ends_the_process_fails_the_job(tmp_path):
    (tmp_path / "script.py").write_text("import sys\ndef f(batches):\n    return batches\nsys.exit(0)\n")
    command = [sys.executable, "-m", "pilum.skiff", "map", "script.py:f", "-i", json.dumps(ID)]
    done = subprocess.run(command, input=ROW, capture_output=True, cwd=tmp_path, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"rows are not complete" in done.stderr


def test_a_closed_input_is_refused_with_a_clear_message(tmp_path):
    (tmp_path / "format.json").write_text(json.dumps(ID))
    line = f"{sys.executable} -m pilum.skiff map builtins:iter -i format.json <&-"
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, cwd=tmp_path, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"file descriptor 0 (stdin), which is closed" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(("function", "code"), [("builtins:iter", 0), ("leaving:at_once", 1)])
def test_a_job_without_stderr_writes_only_rows_to_its_output(function, code, tmp_path):
    (tmp_path / "leaving.py").write_text("print('printed')\n" + LEAVING)
    (tmp_path / "format.json").write_text(json.dumps(ID))
    line = f"{sys.executable} -m pilum.skiff map {function} -i format.json 2>&-"
    done = subprocess.run(
        ["/bin/sh", "-c", line], input=ROW, capture_output=True, cwd=tmp_path, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (code, b"" if code else ROW)


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_complete_row_is_returned_although_the_pipe_stays_open(piece):
    strings = {"name": "l", "wire_type": "repeated_variant8", "children": [{"wire_type": "string32"}]}
    row = b"\0\0" + b"\0\3\0\0\0abc" * 500 + b"\xff"
    read, write = os.pipe()
    try:
        with os.fdopen(read, "rb", buffering=0) as file:
            pieces = [row[start : start + piece] for start in range(0, len(row), piece)]

            class Slow:
                def read(self, _size):
                    # The pipe stays open after the last bytes of the row, so one more read would wait for ever.
                    os.write(write, pieces.pop(0))
                    return file.read(1 << 20)

            batches = skiff.decode(Slow(), skiff.Format.from_json(table_format(strings)), batch_rows=1)
            assert next(batches)[1]["l"].to_pylist() == [[b"abc"] * 500]
            assert not pieces
    finally:
        os.close(write)


@pytest.mark.parametrize("target", ["out.csv", "out.JSON", "out.txt", "folder.x/out.csv.gz"])
def test_convert_refuses_file_endings_of_formats_that_it_does_not_have(target, tmp_path):
    (tmp_path / "in.skiff").write_bytes(ROW)
    with pytest.raises(pilum.InvalidInputError, match=r"neither read nor written; \.skiff, \.parquet and \.arrow"):
        skiff.convert(str(tmp_path / "in.skiff"), str(tmp_path / target), FORMAT)
    assert [it.name for it in tmp_path.iterdir()] == ["in.skiff"]
    with pytest.raises(pilum.InvalidInputError, match="neither read nor written"):
        skiff.convert(str(tmp_path / target), str(tmp_path / "out.skiff"), FORMAT)


def test_convert_knows_file_endings_in_upper_and_lower_case(tmp_path):
    (tmp_path / "IN.SKIFF").write_bytes(ROW)
    assert skiff.convert(str(tmp_path / "IN.SKIFF"), str(tmp_path / "OUT.PARQUET"), FORMAT) == 1
    assert (tmp_path / "OUT.PARQUET").is_file()
    assert skiff.convert(str(tmp_path / "IN.SKIFF"), str(tmp_path / "v1.table"), FORMAT) == 1
    assert pilum.dataset(str(tmp_path / "v1.table")).count_rows() == 1


def test_a_required_column_accepts_any_field_and_an_optional_one_only_a_nullable_field():
    optional = {"name": "o", "wire_type": "variant8", "children": [{"wire_type": "nothing"}, {"wire_type": "int64"}]}
    fmt = skiff.Format.from_json(table_format({"name": "id", "wire_type": "int64"}, optional))
    for is_nullable in (True, False):
        wanted = fmt.with_schema(pa.schema([pa.field("id", pa.int32(), is_nullable)]))
        ((_, batch),) = skiff.decode(ROW + b"\0", wanted)
        assert batch.to_pylist() == [{"id": 42, "o": None}]
    with pytest.raises(pilum.UnsupportedError, match="optional on the wire, so its field must be nullable"):
        fmt.with_schema(pa.schema([pa.field("o", pa.int64(), False)]))


def test_timestamps_without_a_time_zone_are_written_as_utc():
    columns = [{"name": "t", "type_v3": "timestamp"}]
    fmt = skiff.Format.from_table_schema(columns)
    naive = pa.table(
        {"t": pa.array([5], pa.timestamp("us"))}, schema=pa.schema([pa.field("t", pa.timestamp("us"), False)])
    )
    stream = io.BytesIO()
    skiff.encode(naive, stream, fmt)
    ((_, batch),) = skiff.decode(stream.getvalue(), fmt)
    assert batch["t"].type == pa.timestamp("us", "UTC")
    assert batch["t"].cast(pa.int64()).to_pylist() == [5]


def test_columns_of_types_that_yson_does_not_have_are_refused_and_the_error_names_a_cast():
    weak = skiff.Format.from_json(table_format({"name": "$other_columns", "wire_type": "yson32"}))
    for column, message in (
        (pa.array(["x"]).dictionary_encode(), "cast it to string"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "make a struct of it"),
        (pa.array([1], pa.date32()), "cast it to int32 or string"),
        (pa.array([1], pa.timestamp("us")), "cast it to int64 or string"),
    ):
        with pytest.raises(pilum.UnsupportedError, match=f"column `x`.*whose values are YSON.*{message}"):
            skiff.encode(pa.table({"x": column}), io.BytesIO(), weak)
    fixed = pa.table({"x": pa.array([[1, 2]], pa.list_(pa.int64(), 2)), "y": pa.array([b"ab"], pa.binary(2))})
    stream = io.BytesIO()
    skiff.encode(fixed, stream, weak)
    ((_, batch),) = skiff.decode(stream.getvalue(), weak)
    assert json.loads(skiff.yson_to_json(batch["$other_columns"])[0].as_py()) == {"x": [1, 2], "y": "ab"}


REMAINING = table_format(
    {"name": "id", "wire_type": "int64"},
    {"name": "$remaining_row_bytes", "wire_type": "int32"},
    {"name": "s", "wire_type": "string32"},
    {"name": "$sparse_columns", "wire_type": "repeated_variant16", "children": [{"name": "a", "wire_type": "int8"}]},
    {"name": "$other_columns", "wire_type": "yson32"},
)


def test_the_announced_size_of_a_row_is_checked_and_written():
    fmt = skiff.Format.from_json(REMAINING)
    rest = b"\2\0\0\0ab" + b"\0\0\7\xff\xff" + b"\2\0\0\0{}"
    row = ROW + struct.pack("<i", len(rest)) + rest
    ((_, batch),) = skiff.decode(row * 2, fmt)
    assert batch["s"].to_pylist() == [b"ab", b"ab"]
    stream = io.BytesIO()
    skiff.encode(batch.drop_columns(["$remaining_row_bytes"]), stream, fmt)
    assert stream.getvalue() == row * 2
    for announced in (0, len(rest) - 1, len(rest) + 1, -1, -(2**31)):
        bad = ROW + struct.pack("<i", announced) + rest
        batches = skiff.decode(row + bad, fmt)
        assert next(batches)[1].num_rows == 1
        with pytest.raises(pilum.CorruptError, match=f"announces {announced} more bytes and has {len(rest)}") as caught:
            next(batches)
        error = caught.value
        place = (error.error_class, error.offset, error.table, error.row, error.column)
        assert place == ("BadRemainingRowBytes", len(row) + 10, 0, 1, "$remaining_row_bytes")


@pytest.mark.parametrize(
    ("registry", "message"),
    [
        ({"t": {"wire_type": "tuple", "children": ["$u"]}}, "not in"),
        ({"t": {"wire_type": "tuple", "children": ["$u"]}, "u": "$t"}, "refers to itself"),
        (
            {"t": {"wire_type": "tuple", "children": [{"wire_type": "variant8", "children": ["$t"]}]}},
            "refers to itself",
        ),
        ({"t": "=$t"}, "t"),
    ],
)
def test_missing_and_circular_references_are_schema_errors_at_any_depth(registry, message):
    with pytest.raises(pilum.InvalidInputError, match=message) as caught:
        skiff.Format.from_json({"table_skiff_schemas": ["$t"], "skiff_schema_registry": registry})
    assert caught.value.error_class == "SchemaError"


def test_types_that_the_format_does_not_know_come_back_as_those_of_the_documentation():
    union = pa.sparse_union([pa.field("a", pa.int64()), pa.field("b", pa.string())])
    schema = pa.schema(
        [
            pa.field("fixed", pa.list_(pa.int64(), 2)),
            pa.field("words", pa.dictionary(pa.int32(), pa.string())),
            pa.field("view", pa.string_view()),
            pa.field("union", union),
        ]
    )
    shown = [str(field.type) for field in skiff.Format.from_arrow(schema).schemas[0]]
    assert shown[:3] == ["list<item: int64>", "string", "string"]
    assert shown[3].startswith("dense_union<")


@pytest.mark.parametrize(
    "work",
    [
        lambda: skiff.yson_to_json([b"1"], max_depth=2000),
        lambda: skiff.json_to_yson(["1"], max_depth=1001),
        lambda: skiff.yson_get([b"1"], "", max_depth=1001),
        lambda: skiff.canonical_yson([b"1"], max_depth=1001),
    ],
)
def test_a_depth_above_the_maximum_is_refused(work):
    with pytest.raises(pilum.InvalidInputError, match=r"max_depth=\d+: it is 1,000 at most"):
        work()


def pilum_command(*arguments):
    command = [sys.executable, "-m", "pilum.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_commands_name_the_option_and_the_file_that_is_no_format(tmp_path):
    stream = tmp_path / "rows.skiff"
    stream.write_bytes(ROW + b"\xff")
    done = pilum_command("convert", stream, tmp_path / "x.parquet", "--format", stream)
    assert done.returncode == 2
    assert f"--format: {stream}: " in done.stderr
    for name in ("inspect", "verify", "head", "count"):
        done = pilum_command(name, stream, "--format", tmp_path / "nofile.json")
        assert done.returncode == 2, done
        assert f"--format: {tmp_path}/nofile.json: there is no such local file" in done.stderr


def test_verify_of_a_truncated_stream_counts_the_rows_before_the_fault(tmp_path):
    stream = tmp_path / "rows.skiff"
    stream.write_bytes(ROW * 3 + b"\0\0\1")
    done = pilum_command("verify", stream, "--format", json.dumps(ID), "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], report["num_files"], report["num_rows"]) == (1, False, 1, 3)
    (problem,) = report["problems"]
    assert (problem["path"], problem["check"]) == (str(stream), "stream")
    assert "TruncatedStream" in problem["reason"]
    stream.write_bytes(ROW + b"\0")
    done = pilum_command("verify", stream, "--format", json.dumps(ID))
    assert "1 problem (1 file, 1 row)" in " ".join(done.stdout.split())


def test_one_thing_is_singular(tmp_path):
    stream = tmp_path / "rows.skiff"
    stream.write_bytes(ROW)
    assert pilum_command("convert", stream, tmp_path / "x.arrow", "--format", json.dumps(ID)).stdout == "1 row\n"
    with pytest.raises(pilum.InvalidInputError, match="the format has 1 table;"):
        skiff.encode(BATCH, io.BytesIO(), FORMAT, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["map", "jobs:notfunc", "-i", json.dumps(ID)], "jobs:notfunc: notfunc of jobs is not a function"),
        (["map", "jobs.py:notfunc", "-i", json.dumps(ID)], "notfunc of jobs.py is not a function"),
        (["map", "jobs:none", "-i", json.dumps(ID)], "jobs has no function none"),
        (["map", "jobs:f", "--input-fromat", "x"], "there is no option --input-fromat; did you mean --input-format?"),
        (["--input-fromat=x", "map", "jobs:f"], "there is no option --input-fromat; did you mean --input-format?"),
    ],
)
def test_wrong_use_of_a_job_is_named(arguments, message, tmp_path):
    (tmp_path / "jobs.py").write_text("notfunc = 3\n")
    command = [sys.executable, "-m", "pilum.skiff", *arguments]
    done = subprocess.run(command, input=ROW, capture_output=True, cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == 2
    assert message in done.stderr.decode()
