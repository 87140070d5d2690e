"""Parquet files to and from pyarrow and Polars to the bit; filters and takes on files as they are; damage; imports."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pilum
from support import predicates as made
from support.comparing import assert_same, assert_same_column, picked
from support.random_schemas import random_rows, random_schema

SCALE = int(os.environ.get("PILUM_TEST_SCALE", "1"))
TABLES = 200 * SCALE
PER_TEST = 50
GROUPS = [range(start, start + PER_TEST) for start in range(0, TABLES, PER_TEST)]
PREDICATES = 5000 * SCALE


def random_table(seed: int, place: Path) -> pa.Table:
    """Return a random table with those of its columns that pyarrow writes and reads back as they are."""
    r = random.Random(f"rows {seed}")
    rows = random_rows(seed, random_schema(seed), r.choice([0, 1, 7, 60, 300]), 8)
    kept = [name for name in rows.schema.names if keeps(rows.select([name]), place)]
    return rows.select(kept)


def keeps(column: pa.Table, place: Path) -> bool:
    file = place / "one.parquet"
    try:
        pq.write_table(column, file)
        back = pq.read_table(file)
        assert_same(back, column, nullability=False)
    except (AssertionError, pa.ArrowException, OSError):
        return False
    return True


def write_options(r: random.Random) -> dict[str, Any]:
    return {
        "row_group_size": r.choice([1, 8, 50, 1000]),
        "data_page_size": r.choice([1, 64, 1 << 20]),
        "compression": r.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
        "use_dictionary": r.choice([True, False]),
        "data_page_version": r.choice(["1.0", "2.0"]),
        "write_page_index": r.choice([True, False]),
        "write_page_checksum": r.choice([True, False]),
        "write_statistics": r.choice([True, True, False]),
        "write_batch_size": r.choice([1, 7, 1024]),
    }


@pytest.mark.parametrize("seeds", GROUPS, ids=lambda group: f"seeds-{group.start}-{group.stop - 1}")
def test_any_file_of_pyarrow_is_read_to_the_bit(seeds: range, tmp_path: Path) -> None:
    columns = 0
    for seed in seeds:
        r = random.Random(f"read {seed}")
        want = random_table(seed, tmp_path)
        columns += want.num_columns
        if not want.num_columns:
            continue
        options = write_options(r)
        file = tmp_path / f"{seed}.parquet"
        pq.write_table(want, file, **options)
        ds = pilum.parquet.dataset(file)
        what = f"seed {seed}, {options}"
        assert_same(ds.to_table(batch_rows=r.choice([1, 10, 1000])), want, what)
        assert ds.count_rows() == want.num_rows
        names = r.sample(want.schema.names, r.randint(1, want.num_columns))
        assert_same(ds.to_table(names), want.select(names), what)
        if want.num_rows:
            rows = [r.randrange(want.num_rows) for _ in range(r.choice([1, 5, 40]))]
            assert_same(ds.take(rows, names), picked(want.select(names), rows), f"take {rows}: {what}")
        offset, limit = r.randrange(want.num_rows + 2), r.randrange(want.num_rows + 2)
        assert_same(ds.to_table(offset=offset, limit=limit), want.slice(offset, limit), f"{offset} {limit}: {what}")
    assert columns > PER_TEST, "hardly any column was compared"


@pytest.mark.parametrize("seeds", GROUPS, ids=lambda group: f"seeds-{group.start}-{group.stop - 1}")
def test_any_table_is_written_to_the_bit_for_pyarrow_and_polars(seeds: range, tmp_path: Path) -> None:
    polars_columns = 0
    for seed in seeds:
        r = random.Random(f"write {seed}")
        want = random_table(seed, tmp_path)
        if not want.num_columns:
            continue
        file = tmp_path / f"{seed}.parquet"
        options = {
            "row_group_rows": r.choice([1, 8, 50, 1000]),
            "page_rows": r.choice([1, 8, 1000]),
            "page_bytes": r.choice([1, 100, 1 << 16]),
            "compression": r.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
            "dictionary": r.choice([True, False]),
            "page_index": r.choice([True, False]),
            "page_checksums": r.choice([True, False]),
            "data_page_v2": r.choice([True, False]),
        }
        done = pilum.parquet.export(want, file, durability="none", **options)
        what = f"seed {seed}, {options}"
        assert done.rows == want.num_rows, what
        assert_same(pq.read_table(file, page_checksum_verification=True), want, what, nullability=False)
        assert_same(pilum.parquet.dataset(file).to_table(), want, what)
        polars_columns += compared_by_polars(file, want, options, what)
    assert polars_columns > PER_TEST, "hardly any column was compared"


def compared_by_polars(file: Path, want: pa.Table, options: dict[str, Any], what: str) -> int:
    """Compare each column that Polars knows with what Polars makes of the same column of pyarrow."""
    compared = 0
    for name in want.schema.names:
        theirs = file.with_suffix(".theirs")
        pq.write_table(want.select([name]), theirs)
        try:
            expected = pl.read_parquet(theirs).to_arrow()
        except (Exception, pl.exceptions.PanicException):
            # Polars does not know the type.
            continue
        # Polars looks at all columns of a file, so each column has a file.
        ours = file.with_suffix(".ours.parquet")
        ours.unlink(missing_ok=True)
        pilum.parquet.export(want.select([name]), ours, durability="none", **options)
        got = pl.read_parquet(ours).to_arrow()
        assert_same_column(got[name], expected[name], f"Polars, column {name!r}: {what}")
        compared += 1
    return compared


def test_bits_of_floats_survive_both_ways(tmp_path: Path) -> None:
    bits = [0x7FF8000000000001, 0xFFF0000000000001, 0x7FF0000000000000, 0x8000000000000000, 0, 1, 0xFFFFFFFFFFFFFFFF]
    floats = pa.Array.from_buffers(pa.float64(), len(bits), [None, pa.py_buffer(struct.pack(f"<{len(bits)}Q", *bits))])
    extremes = pa.array([2**63 - 1, -(2**63), None, 0, 1, -1, 7])
    want = pa.table({"f": floats, "i": extremes, "n": pa.nulls(7), "s": ["", None, "a", "", "b", "é", "c"]})
    pilum.parquet.export(want, tmp_path / "ours.parquet")
    pq.write_table(want, tmp_path / "theirs.parquet")
    for file in ("ours.parquet", "theirs.parquet"):
        got = pilum.parquet.dataset(tmp_path / file).to_table()
        assert_same(got, want)
        assert got["f"].combine_chunks().buffers()[1].to_pybytes()[: 8 * len(bits)] == floats.buffers()[1].to_pybytes()
    read = pq.read_table(tmp_path / "ours.parquet")["f"].combine_chunks()
    assert read.buffers()[1].to_pybytes()[: 8 * len(bits)] == floats.buffers()[1].to_pybytes()
    assert pl.read_parquet(tmp_path / "ours.parquet")["i"].to_list() == extremes.to_pylist()


@pytest.mark.parametrize("writer", ["pyarrow", "pilum", "polars"])
def test_filters_keep_the_rows_that_a_plain_scan_keeps(writer: str, tmp_path: Path) -> None:
    r = random.Random(writer)
    done = pages = pruned = groups = groups_pruned = 0
    while done < PREDICATES / 3:
        rows = made.table(r)
        place = tmp_path / f"{done}"
        write(writer, rows, place, r)
        ds = pilum.parquet.dataset(place)
        make = made.Predicates(r)
        conditions = [make.condition() for _ in range(100)]
        for condition, want in zip(conditions, looked_at(ds, conditions), strict=True):
            done += 1
            if want is None:
                continue
            scanner = ds.scanner(["row"], condition)
            assert scanner.to_table()["row"].to_pylist() == want, condition
            pages, pruned = pages + scanner.metrics.pages_total, pruned + scanner.metrics.pages_pruned
            groups += scanner.metrics.row_groups_total
            groups_pruned += scanner.metrics.row_groups_pruned
            if done % 5 == 0:
                assert ds.count_rows(condition) == len(want), condition
                limit, offset = r.randint(0, 20), r.choice([0, 1, 30])
                some = ds.to_table(["row"], condition, limit=limit, offset=offset)["row"].to_pylist()
                assert some == want[offset : offset + limit], condition
    assert groups_pruned > 0.1 * groups
    # Polars writes pages of many rows.
    assert pruned > (0.05 if writer == "polars" else 0.1) * pages


def looked_at(ds: pilum.parquet.Dataset, conditions: list[str]) -> list[list[int] | None]:
    """Return the rows for which each condition is true, from its value for every row; statistics have no part in it."""
    names = [f"p{place}" for place in range(len(conditions))]
    try:
        values = ds.to_table({"row": "row", **dict(zip(names, conditions, strict=True))})
    except pilum.InvalidInputError:
        # A value leaves the range of its type.
        if len(conditions) == 1:
            return [None]
        return [rows for condition in conditions for rows in looked_at(ds, [condition])]
    return [values.filter(values[name])["row"].to_pylist() for name in names]


def write(writer: str, rows: pa.Table, place: Path, r: random.Random) -> None:
    """Write the rows as one file, or as several files of a folder, with small row groups and pages."""
    cuts = sorted(r.randrange(rows.num_rows + 1) for _ in range(r.choice([0, 0, 2])))
    pieces = [rows.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, rows.num_rows], strict=True)]
    place.mkdir()
    for number, piece in enumerate(pieces):
        file = place / f"{number}.parquet"
        if writer == "pyarrow":
            options = write_options(r) | {"row_group_size": r.choice([8, 50, 1000]), "write_page_index": True}
            pq.write_table(piece, file, **options)
        elif writer == "pilum":
            pilum.parquet.export(
                piece, file, row_group_rows=r.choice([8, 50, 1000]), page_rows=r.choice([1, 8, 20]), durability="none"
            )
        else:
            pl.from_arrow(piece).write_parquet(file, row_group_size=r.choice([8, 50, 1000]), data_page_size=64)


def test_truncated_bounds_of_texts_leave_out_no_row(tmp_path: Path) -> None:
    long = ["é" * 200 + str(n) for n in range(50)] + ["\U0010ffff" * 100, "a" * 300, None]
    rows = pa.table({"s": long, "row": range(len(long))})
    for name, options in {"ours": {}, "small": {"page_rows": 3, "row_group_rows": 20}}.items():
        file = tmp_path / f"{name}.parquet"
        pilum.parquet.export(rows, file, dictionary=False, **options)
        ds = pilum.parquet.dataset(file)
        for text in [value for value in long if value is not None]:
            got = ds.to_table(["row"], pilum.col("s") == text)["row"].to_pylist()
            assert got == [row for row, value in enumerate(long) if value == text]


def test_takes_read_only_the_pages_of_their_rows(tmp_path: Path) -> None:
    rows = pa.table({"a": range(100_000), "b": [f"text {n % 777}" for n in range(100_000)]})
    for index in (True, False):
        file = tmp_path / f"{index}.parquet"
        pq.write_table(
            rows, file, data_page_size=4096, use_dictionary=False, write_page_index=index, row_group_size=40_000
        )
        ds = pilum.parquet.dataset(file)
        wanted = [99_999, 0, 41_000, 41_000, 5]
        assert_same(ds.take(wanted), picked(rows, wanted))
    with pytest.raises(pilum.InvalidInputError, match="row position 100000: the dataset has 100000 rows"):
        ds.take([100_000])
    with pytest.raises(pilum.InvalidInputError, match="did you mean `a`"):
        ds.take([0], ["A"])
    assert ds.take([], ["b"]).num_rows == 0


def test_hive_keys_are_typed_columns_and_leave_out_files(tmp_path: Path) -> None:
    root = tmp_path / "set"
    rows = pa.table(
        {"x": range(6), "day": ["2026-01-01", "2026-01-02"] * 3, "n": [1, 1, 2, 2, 3, 3], "w": ["a/b", "é", None] * 2}
    )
    rows = rows.set_column(1, "day", rows["day"].cast(pa.date32()))
    done = pilum.parquet.export(rows, root, partition_by=["day", "n", "w"])
    assert len(done.files) == 6
    assert all((root / file.path).is_file() for file in done.files)
    ds = pilum.parquet.dataset(root)
    assert ds.schema.field("day").type == pa.date32()
    assert ds.schema.field("n").type == pa.int64()
    got = ds.to_table().sort_by("x").select(rows.schema.names)
    assert got.to_pylist() == rows.to_pylist()
    scanner = ds.scanner(["x"], "n = 2 AND day = DATE '2026-01-01'")
    assert scanner.to_table()["x"].to_pylist() == [2]
    assert scanner.metrics.files_pruned == 5
    assert ds.to_table(["x"], "w IS NULL").sort_by("x")["x"].to_pylist() == [2, 5]
    typed = pilum.parquet.dataset(root, key_types={"n": pa.int16(), "day": pa.string()})
    assert (typed.schema.field("n").type, typed.schema.field("day").type) == (pa.int16(), pa.string())
    assert pilum.parquet.dataset(root, hive=False).schema.names == ["x"]
    assert sorted(ds.take([0, 5], ["x", "n"])["x"].to_pylist()) == sorted(
        ds.to_table(["x"])["x"].to_pylist()[place] for place in (0, 5)
    )
    with pytest.raises(pilum.AlreadyExistsError):
        pilum.parquet.export(rows, root, partition_by=["n"])
    with pytest.raises(pilum.InvalidInputError, match="partition column `z`"):
        pilum.parquet.export(rows, tmp_path / "other", partition_by=["z"])


def test_files_of_different_schemas_are_one_table(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"b": ["y"], "a": pa.array([3], pa.int32()), "c": [1.5]}), tmp_path / "1.parquet")
    ds = pilum.parquet.dataset(tmp_path)
    want = [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": None}, {"a": 3, "b": "y", "c": 1.5}]
    assert ds.to_table().to_pylist() == want
    assert ds.to_table(["c", "a"], "a >= 2").to_pylist() == [{"c": None, "a": 2}, {"c": 1.5, "a": 3}]
    assert ds.take([2, 0]).to_pylist() == [want[2], want[0]]
    assert ds.count_rows("c > 1") == 1
    pq.write_table(pa.table({"a": ["no number"]}), tmp_path / "2.parquet")
    with pytest.raises(pilum.InvalidInputError, match=r"2.parquet"):
        pilum.parquet.dataset(tmp_path).to_table()


def test_import_is_one_commit_with_its_counts(tmp_path: Path) -> None:
    rows = pa.table({"x": range(5000), "s": [f"{n}" for n in range(5000)], "p": [n % 3 for n in range(5000)]})
    pilum.parquet.export(rows, tmp_path / "set", partition_by=["p"], row_group_rows=300)
    seen: list[tuple[int, int | None]] = []
    ds = pilum.parquet.import_(
        tmp_path / "set", tmp_path / "t", commit_id="once", progress=lambda done, total: seen.append((done, total))
    )
    assert (ds.version, ds.rows, ds.was_committed_before) == (1, 5000, False)
    assert seen[-1] == (5000, 5000)
    assert ds.to_table().sort_by("x").to_pylist() == rows.to_pylist()
    again = pilum.parquet.import_(tmp_path / "set", tmp_path / "t", commit_id="once", mode="append")
    assert (again.version, again.was_committed_before) == (1, True)
    more = pilum.parquet.import_([tmp_path / "set"], tmp_path / "t", mode="append", filter="x < 10")
    assert (more.version, more.rows, more.count_rows()) == (2, 10, 5010)
    with pytest.raises(pilum.AlreadyExistsError):
        pilum.parquet.import_(tmp_path / "set", tmp_path / "t")
    back = pilum.parquet.export(more, tmp_path / "back.parquet")
    assert back.rows == 5010
    assert pq.read_table(tmp_path / "back.parquet").equals(more.to_table())


def test_a_damaged_file_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    rows = pa.table({"x": range(100_000)})
    good, bad = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pilum.parquet.export(rows, good)
    content = bytearray(good.read_bytes())
    content[len(content) // 2] ^= 1
    bad.write_bytes(content)
    ds = pilum.parquet.import_(good, tmp_path / "t")
    with pytest.raises(pilum.CorruptError, match=r"b.parquet is damaged: .*CRC"):
        pilum.parquet.import_([good, bad], tmp_path / "t", mode="append")
    assert pilum.dataset(tmp_path / "t").version == ds.version
    assert pilum.dataset(tmp_path / "t").verify().orphans == []


def test_every_flipped_byte_of_a_page_is_found(tmp_path: Path) -> None:
    rows = pa.table({"x": range(300), "s": [f"text {n % 9}" for n in range(300)]})
    file = tmp_path / "f.parquet"
    pilum.parquet.export(rows, file, page_rows=100)
    content = file.read_bytes()
    report = pilum.parquet.inspect(file)
    flipped = 0
    for group in report["row_groups"]:
        for chunk in group["columns"]:
            for page in chunk["pages"]:
                assert page["checksum"] == "right"
                start = page["offset"] + page["header_bytes"]
                for place in range(start, start + page["compressed_bytes"], 7):
                    damaged = bytearray(content)
                    damaged[place] ^= 0x10
                    file.write_bytes(damaged)
                    with pytest.raises(pilum.CorruptError, match=r"f.parquet is damaged"):
                        pilum.parquet.dataset(file).to_table()
                    flipped += 1
    assert flipped > 50


def test_what_is_no_plain_parquet_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text/readme.txt").write_text("hello, this is no Parquet file")
    with pytest.raises(pilum.CorruptError, match=r"readme.txt is damaged: it is no Parquet file"):
        pilum.parquet.dataset(tmp_path / "text")
    (tmp_path / "short.parquet").write_bytes(b"PAR1")
    with pytest.raises(pilum.CorruptError, match="it has 4 bytes"):
        pilum.parquet.dataset(tmp_path / "short.parquet")
    with pytest.raises(pilum.NotFoundError):
        pilum.parquet.dataset(tmp_path / "missing.parquet")
    (tmp_path / "sealed.parquet").write_bytes(b"PAR1" + bytes(20) + struct.pack("<I", 8) + b"PARE")
    with pytest.raises(pilum.UnsupportedError, match="an encrypted file is not supported"):
        pilum.parquet.dataset(tmp_path / "sealed.parquet")
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/_SUCCESS").write_text("")
    with pytest.raises(pilum.InvalidInputError, match="no data file"):
        pilum.parquet.dataset(tmp_path / "hidden")
    with pytest.raises(pilum.InvalidInputError, match="there is none"):
        pilum.parquet.dataset([])


def test_inspect_shows_what_the_format_has(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "year": pa.array([1949, 1950, None], pa.int32()),
            "station": ["a", "b", "b"],
            "tags": [["x", None], [], None],
            "at": [{"lat": 1.5}, None, {"lat": None}],
        }
    )
    file = tmp_path / "weather.parquet"
    pilum.parquet.export(rows, file, bloom_filters=["station"], metadata={"source": "test"})
    found = pilum.parquet.inspect(file)
    assert found["num_rows"] == 3
    assert found["created_by"].startswith("pilum version")
    assert {"key": "source", "value": "test"} in found["key_value_metadata"]
    leaves = {leaf["path"]: (leaf["max_definition_level"], leaf["max_repetition_level"]) for leaf in found["columns"]}
    assert leaves == {"year": (1, 0), "station": (1, 0), "tags.list.item": (3, 1), "at.lat": (2, 0)}
    (group,) = found["row_groups"]
    year, station, tags, lat = group["columns"]
    assert (year["statistics"]["min"], year["statistics"]["max"], year["statistics"]["null_count"]) == (
        "1949",
        "1950",
        1,
    )
    assert station["bloom_filter"]["bytes"] > 0
    assert year["bloom_filter"] is None
    assert station["compression"].startswith("ZSTD")
    assert "RLE_DICTIONARY" in station["encodings"]
    assert tags["definition_levels"] == [1, 1, 1, 1]
    assert tags["repetition_levels"] == [3, 1]
    assert [page["kind"] for page in lat["pages"]] == ["dictionary", "data"]
    assert year["column_index"]["bytes"] > 0
    assert year["offset_index"]["bytes"] > 0
    assert {page["checksum"] for chunk in group["columns"] for page in chunk["pages"]} == {"right"}
    tree = {node["name"]: node for node in found["schema"]["fields"]}
    assert tree["tags"]["logical_type"].startswith("List")
    assert (tree["tags"]["definition_level"], tree["tags"]["fields"][0]["repetition"]) == (1, "repeated")
    assert "pages" not in pilum.parquet.inspect(file, pages=False)["row_groups"][0]["columns"][0]


def test_other_libraries_read_a_dataset_as_it_is(tmp_path: Path) -> None:
    import duckdb

    rows = pa.table({"x": range(1000), "s": [str(n % 7) for n in range(1000)]})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=100)
    ds = pilum.parquet.dataset(tmp_path / "f.parquet")
    assert pa.table(ds).equals(rows)
    assert pl.DataFrame(ds).height == 1000
    assert duckdb.sql("SELECT sum(x) FROM ds").fetchone() == (499_500,)
    assert len(ds.to_pandas(limit=3)) == 3
    assert len(ds) == 1000
    assert ds.head(2).to_pylist() == rows.slice(0, 2).to_pylist()
    assert sum(batch.num_rows for batch in ds.to_batches(batch_rows=64)) == 1000
    assert ds.to_reader(["s"]).read_all().equals(rows.select(["s"]))
    assert ds.to_table({"double": "x * 2"}, "s = '3'")["double"].to_pylist()[:2] == [6, 20]
    assert "filter" in ds.scanner(filter="x > 3").explain()


def test_a_scan_keeps_within_its_memory_limit(tmp_path: Path) -> None:
    rows = pa.table({"s": [f"{n:0100}" for n in range(200_000)]})
    pq.write_table(rows, tmp_path / "f.parquet", use_dictionary=False, data_page_size=1 << 16)
    limit = 4 << 20
    scanner = pilum.parquet.dataset(tmp_path / "f.parquet").scanner(memory_limit=limit)
    assert sum(batch.num_rows for batch in scanner) == 200_000
    assert 0 < scanner.metrics.peak_bytes <= limit
    free = pilum.parquet.dataset(tmp_path / "f.parquet").scanner()
    assert sum(batch.num_rows for batch in free) == 200_000
    assert free.metrics.peak_bytes > limit


def test_files_in_memory_are_read_and_written(tmp_path: Path) -> None:
    rows = pa.table({"x": range(10)})
    uri = f"memory://{tmp_path.name}/set"
    pilum.parquet.export(rows, uri, max_rows_per_file=4)
    ds = pilum.parquet.dataset(uri)
    assert [file.num_rows for file in ds.files] == [4, 4, 2]
    assert ds.to_table().equals(rows)
    pilum.parquet.export(ds, f"memory://{tmp_path.name}/one.parquet")
    assert pilum.parquet.dataset(f"memory://{tmp_path.name}/one.parquet").to_table().equals(rows)
    assert pilum.parquet.inspect(f"memory://{tmp_path.name}/one.parquet")["num_rows"] == 10


def test_commands_take_files_and_folders(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from pilum.cli.commands import pilum as command

    def ran(*words: object) -> str:
        done = CliRunner().invoke(command, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done.output

    rows = pa.table({"x": range(100), "s": [f"v{n}" for n in range(100)]})
    pq.write_table(rows, tmp_path / "f.parquet")
    pilum.parquet.export(rows, tmp_path / "set", max_rows_per_file=40)
    for uri in (tmp_path / "f.parquet", tmp_path / "set"):
        assert ran("count", uri) == "100\n"
        assert json.loads(ran("count", uri, "--filter", "x < 7", "--json")) == {"num_rows": 7}
        names = [column["name"] for column in json.loads(ran("schema", uri, "--json"))["columns"]]
        assert names == ["x", "s"]
        assert json.loads(ran("head", uri, "-n", "2", "--json"))["rows"] == rows.slice(0, 2).to_pylist()
        found = json.loads(ran("inspect", uri, "--json"))
        assert (found["kind"], sum(file["num_rows"] for file in found["files"])) == ("parquet", 100)
        assert "RLE_DICTIONARY" in ran("inspect", uri)
        table = tmp_path / f"{uri.name}-table"
        assert ran("convert", uri, table) == "100 rows\n"
        assert pilum.dataset(table).count_rows() == 100
        assert json.loads(ran("convert", table, f"{table}.parquet", "--json")) == {"rows": 100}
        assert pq.read_table(f"{table}.parquet").equals(rows)
