"""Skiff and YSON beside the compiled YTsaurus client: what it writes we read, what we write it reads."""

from __future__ import annotations

import dataclasses
import io
import math
import random
import struct
import typing
import warnings

import pyarrow as pa
import pytest

import pilum
from pilum import skiff

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import yt_yson_bindings as bindings
    from yt.wrapper import schema as typed
    from yt.wrapper.format import SkiffFormat, StructuredSkiffFormat
    from yt.yson import YsonBoolean, YsonUint64

WORDS = [b"", b"a", b"\0", b"\xff\xfe", "ключ".encode(), b"x" * 300, b'"\\;{}']
FLOATS = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308]
YSON = [b"#", b"[1;2u;%true]", b"{a=<b=1>c}", b"\x02\x0a", b"-7", b"1e5", b'"\\xff"', b"%nan", b"\x01\x04\xff\xfe"]


def value_of(rng: random.Random, wire: str):
    match wire:
        case "int64":
            return rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randrange(-(2**63), 2**63)])
        case "uint64":
            # The flat entry point of the client refuses 2^64-1.
            return rng.choice([0, 2**63, 2**64 - 2, rng.randrange(2**64 - 1)])
        case "boolean":
            return rng.random() < 0.5
        case "double":
            return rng.choice([*FLOATS, rng.gauss(0, 1e9)])
        case "string32":
            return rng.choice(WORDS) + rng.randbytes(rng.randrange(5))
    return rng.choice(YSON)


SIMPLE = ["int64", "uint64", "boolean", "double", "string32"]


def random_table(rng: random.Random) -> dict:
    children: list[dict] = []
    for number in range(rng.randrange(6)):
        node = {"wire_type": rng.choice(SIMPLE)}
        if rng.random() < 0.5:
            node = {"wire_type": "variant8", "children": [{"wire_type": "nothing"}, node]}
        children.append({**node, "name": f"d{number}"})
    if rng.random() < 0.5:
        sparse = [{"wire_type": rng.choice(SIMPLE), "name": f"s{number}"} for number in range(rng.randrange(1, 5))]
        children.append({"wire_type": "repeated_variant16", "name": "$sparse_columns", "children": sparse})
    if rng.random() < 0.5:
        children.append({"wire_type": "yson32", "name": "$other_columns"})
    return {"wire_type": "tuple", "children": children}


def random_row(rng: random.Random, table: dict) -> dict:
    row = {}
    for child in table["children"]:
        if child["name"] == "$sparse_columns":
            for column in child["children"]:
                if rng.random() < 0.5:
                    row[column["name"]] = value_of(rng, column["wire_type"])
        elif child["name"] == "$other_columns":
            for number in range(rng.randrange(3)):
                row[f"o{number}"] = rng.choice([1, -5, True, "text", 1.5])
        elif child["wire_type"] == "variant8":
            row[child["name"]] = None if rng.random() < 0.3 else value_of(rng, child["children"][1]["wire_type"])
        else:
            row[child["name"]] = value_of(rng, child["wire_type"])
    return row


def uints(table: dict) -> set[str]:
    found = set()
    for child in table["children"]:
        for node in child["children"] if child["name"] == "$sparse_columns" else [child]:
            if node["wire_type"] == "uint64" or (
                node["wire_type"] == "variant8" and node["children"][1]["wire_type"] == "uint64"
            ):
                found.add(node["name"])
    return found


def same(one, other) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    one, other = (bool(value) if isinstance(value, YsonBoolean) else value for value in (one, other))
    if isinstance(one, str):
        one = one.encode()
    if isinstance(other, str):
        other = other.encode()
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def our_rows(stream: bytes, fmt: skiff.Format) -> list[dict]:
    rows = []
    for _, batch in skiff.decode(stream, fmt):
        for row in batch.to_pylist():
            other = row.pop("$other_columns", None)
            found = {key: value for key, value in row.items() if value is not None}
            if other is not None:
                found |= dict(bindings.loads(other).items())
            rows.append(found)
    return rows


@pytest.mark.parametrize("part", range(5))
def test_rows_of_random_schemas_are_those_of_the_flat_client(part):
    total = 0
    for seed in range(part * 50, part * 50 + 50):
        rng = random.Random(seed)
        table = random_table(rng)
        client = SkiffFormat([table])
        (schema,) = client.get_schemas()
        rows = [random_row(rng, table) for _ in range(rng.randrange(30))]
        unsigned = uints(table)
        records = []
        for row in rows:
            record = schema.create_record()
            for key, value in row.items():
                record[key] = YsonUint64(value) if key in unsigned and value is not None else value
            records.append(record)
        theirs = io.BytesIO()
        bindings.dump_skiff(records, [theirs], client.get_schemas())
        stream = theirs.getvalue()
        fmt = skiff.Format.from_json(client.attributes)
        found = our_rows(stream, fmt)
        expected = [{key: value for key, value in row.items() if value is not None} for row in rows]
        assert len(found) == len(expected), seed
        for ours, row in zip(found, expected, strict=True):
            assert ours.keys() == row.keys(), seed
            assert all(same(ours[key], row[key]) for key in row), (seed, ours, row)
        # The client writes sparse columns in the order of its record; kept on request, the bytes are the same.
        again = io.BytesIO()
        skiff.encode(skiff.decode(stream, fmt, keep_sparse_order=True), again, fmt)
        assert again.getvalue() == stream, seed
        # Without the order the bytes may differ, and the client reads the same rows.
        again = io.BytesIO()
        skiff.encode((batch for _, batch in skiff.decode(stream, fmt)), again, fmt)
        assert len(again.getvalue()) == len(stream)
        read = bindings.load_skiff(
            io.BytesIO(again.getvalue()), client.get_schemas(), "@range_index", "@row_index", encoding=None
        )
        for record, row in zip(read, expected, strict=True):
            theirs_row = {
                (key.decode() if isinstance(key, bytes) else key): value
                for key, value in record.items()
                if value is not None
            }
            assert all(same(theirs_row[key], row[key]) for key in row), (seed, theirs_row, row)
        if "$sparse_columns" not in {child["name"] for child in table["children"]}:
            assert again.getvalue() == stream, seed
        total += len(rows)
    assert total > 300


LEAVES = [
    (typed.Int8, lambda r: r.randrange(-128, 128)),
    (typed.Uint64, lambda r: r.choice([2**64 - 1, 2**63, 0, r.randrange(2**64)])),
    (float, lambda r: r.choice(FLOATS)),
    (bool, lambda r: r.random() < 0.5),
    (bytes, lambda r: r.choice(WORDS)),
    (int, lambda r: r.randrange(-(2**63), 2**63)),
]


def python_type(rng: random.Random, depth: int):
    """A type of the typed client and a function that makes values of it."""
    kind = rng.randrange(10 if depth < 3 else 6)
    if kind < 6:
        return LEAVES[kind]
    inner, make = python_type(rng, depth + 1)
    if kind == 6:
        return list[inner], lambda r: [make(r) for _ in range(r.choice([0, 1, 3, 1000 if depth == 0 else 2]))]
    if kind == 7:
        other, make_other = python_type(rng, depth + 1)
        return tuple[inner, other], lambda r: (make(r), make_other(r))
    if kind == 8:
        return dict[str, inner], lambda r: {f"k{number}": make(r) for number in range(r.randrange(3))}
    if typing.get_origin(inner) is typing.Union:
        return inner, make
    return typing.Optional[inner], lambda r: None if r.random() < 0.3 else make(r)  # noqa: UP045


def as_typed(type_):
    """The generic types of `typing`, which the client knows."""
    origin = typing.get_origin(type_)
    if origin is typing.Annotated:
        return type_
    arguments = tuple(map(as_typed, typing.get_args(type_)))
    generic = {list: typing.List, tuple: typing.Tuple, dict: typing.Dict, typing.Union: typing.Union}.get(origin)  # noqa: UP006
    return generic[arguments] if generic is not None else type_


@pytest.mark.parametrize("part", range(5))
def test_rows_of_random_schemas_are_those_of_the_typed_client(part):
    for seed in range(1000 + part * 50, 1000 + part * 50 + 50):
        rng = random.Random(seed)
        made = [python_type(rng, 0) for _ in range(rng.randrange(1, 5))]
        fields = [(f"f{number}", as_typed(type_)) for number, (type_, _) in enumerate(made)]
        row_type = typed.yt_dataclass(dataclasses.make_dataclass("Row", fields))
        writer = StructuredSkiffFormat([typed._create_row_py_schema(row_type)], for_reading=False)
        rows = [row_type(*(make(rng) for _, make in made)) for _ in range(rng.randrange(1, 12))]
        theirs = io.BytesIO()
        writer.dump_rows(rows, theirs)
        stream = theirs.getvalue()
        fmt = skiff.Format.from_json(writer.attributes)
        out = io.BytesIO()
        batches = [batch for _, batch in skiff.decode(stream, fmt, batch_rows=1 + seed % 7)]
        assert sum(batch.num_rows for batch in batches) == len(rows)
        skiff.encode(batches, out, fmt)
        assert out.getvalue() == stream, seed
        for column in range(len(fields)):
            values = [value for batch in batches for value in batch.column(column).to_pylist()]
            for value, row in zip(values, rows, strict=True):
                assert plain(value) == plain(getattr(row, f"f{column}")), seed
        reader = StructuredSkiffFormat([typed._create_row_py_schema(row_type)], for_reading=True)
        assert [repr(row) for row in reader.load_rows(io.BytesIO(out.getvalue()))] == [repr(row) for row in rows]


def plain(value):
    """Structs, tuples and dicts as nested lists, so that both sides compare."""
    if isinstance(value, dict) and set(value) == {"0", "1"}:
        return [plain(value["0"]), plain(value["1"])]
    if isinstance(value, dict):
        return [[plain(key), plain(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return struct.pack("<d", value)
    return value.encode() if isinstance(value, str) else value


def test_three_hundred_tables_are_read_as_the_client_reads_them():
    table = {"wire_type": "tuple", "children": [{"wire_type": "int64", "name": "x"}]}
    rng = random.Random(3)
    rows = [(rng.randrange(300), rng.randrange(-5, 5)) for _ in range(2000)]
    stream = b"".join(struct.pack("<Hq", *row) for row in rows)
    schemas = SkiffFormat([table] * 300).get_schemas()
    table_of = {id(schema): number for number, schema in enumerate(schemas)}
    records = bindings.load_skiff(io.BytesIO(stream), schemas, "@range_index", "@row_index", encoding=None)
    of_client = [(table_of[id(record.get_schema())], record["x"]) for record in records]
    assert of_client == rows
    fmt = skiff.Format.from_json({"table_skiff_schemas": ["$t"] * 300, "skiff_schema_registry": {"t": table}})
    found = [(number, x) for number, batch in skiff.decode(stream, fmt) for x in batch["x"].to_pylist()]
    assert found == of_client
    split = [(number, x) for number, batch in skiff.decode(stream, fmt, order="table") for x in batch["x"].to_pylist()]
    assert split == sorted(rows, key=lambda row: row[0])
    assert len(fmt.to_json()) < 20_000


def test_a_string_that_declares_four_gibibytes_is_refused_as_by_the_client():
    table = {"wire_type": "tuple", "children": [{"wire_type": "string32", "name": "s"}]}
    client = SkiffFormat([table])
    stream = b"\0\0\1\0\0\0x" + b"\0\0\xff\xff\xff\xffabc"
    with pytest.raises(Exception, match="Premature end of stream"):
        list(bindings.load_skiff(io.BytesIO(stream), client.get_schemas(), "@range_index", "@row_index", encoding=None))
    batches = skiff.decode(stream, skiff.Format.from_json(client.attributes))
    assert next(batches)[1].to_pylist() == [{"s": b"x"}]
    with pytest.raises(pilum.CorruptError, match="TruncatedStream") as caught:
        next(batches)
    assert (caught.value.offset, caught.value.row) == (9, 1)


def random_yson(rng: random.Random, depth: int = 0) -> bytes:
    space = rng.choice([b"", b"", b"", b" ", b"\n\t", b"\x0b"])
    scalars = [
        b"#", b"%true", b"%false", b"%nan", b"%inf", b"%+inf", b"%-inf", b"\x04", b"\x05", b"a.b%c-d", b"_x", b"%truex",
        str(rng.randrange(-(2**65), 2**65)).encode(), str(rng.randrange(2**65)).encode() + b"u", b"+5", b"007", b"-0.", b"1e5",
        b"1e400", b"-.5", b"1.e-3", b".5", b"5a", b"-1u", b"+5u", b'"\\x4q\\377\\400\\u00e9\\ud83d\\ude00\\ud83d\\q\\n"', b'""',
        b"\x02" + rng.randbytes(3) + b"\x05", b"\x06" + rng.randbytes(2) + b"\x00", b"\x03" + rng.randbytes(8),
        b"\x01\x06abc", b"\x01\x05a", b'"' + rng.randbytes(4).replace(b'"', b"") + b'"',
    ]  # fmt: skip
    kind = rng.randrange(10)
    if depth > 3 or kind < 5:
        return space + rng.choice(scalars) + space
    end = rng.choice([b"", b"", b";", b" "])
    if kind < 7:
        return space + b"[" + b";".join(random_yson(rng, depth + 1) for _ in range(rng.randrange(4))) + end + b"]"
    keys = [b"a", b"b", b'"q\\n"', b"\x01\x04\xff\xfe", b"a.b", b"1"]
    pairs = [
        rng.choice(keys[: rng.choice([3, 6])]) + b"=" + random_yson(rng, depth + 1) for _ in range(rng.randrange(3))
    ]
    if kind < 9:
        return b"{" + b";".join(pairs) + end + b"}" + space
    return space + b"<" + b";".join(pairs) + b">" + random_yson(rng, depth + 1)


@pytest.mark.parametrize("part", range(6))
def test_sixty_thousand_nodes_are_read_as_the_client_reads_them(part):
    rng = random.Random(part)
    sound = refused = 0
    inputs = []
    for _ in range(10_000):
        node = bytearray(random_yson(rng))
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            place = rng.randrange(len(node) + 1)
            if rng.random() < 0.5:
                node[place : place + 1] = rng.randbytes(rng.randrange(2))
            else:
                node[place:place] = rng.choice(
                    [b";", b"[", b"]", b"{", b"}", b"=", b"<", b">", b'"', b"\\", b" ", b"#", b"%"]
                )
        inputs.append(bytes(node))
    for node in inputs:
        try:
            theirs = bindings.dumps(
                bindings.loads(node, encoding=None, always_create_attributes=True), yson_format="binary", encoding=None
            )
        except Exception:
            theirs = None
        try:
            ours = skiff.canonical_yson(pa.array([node], pa.binary()))
        except pilum.InvalidInputError:
            ours = None
        if b"\0" in node and ours is None:
            continue
        assert (ours is None) == (theirs is None), node
        if ours is None:
            refused += 1
        else:
            assert ours.equals(skiff.canonical_yson(pa.array([theirs], pa.binary()))), node
            sound += 1
    assert sound > 2_000
    assert refused > 1_000


def test_depth_ends_where_it_does_for_the_client():
    for depth, is_read in ((255, True), (256, False)):
        node = b"[" * depth + b"]" * depth
        if is_read:
            skiff.canonical_yson(pa.array([node]))
        else:
            with pytest.raises(pilum.LimitError, match="255"):
                skiff.canonical_yson(pa.array([node]))
            with pytest.raises(Exception, match="Depth limit"):
                bindings.loads(node)
