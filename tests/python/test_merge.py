"""Merges by key: against a plain model, and against what the real pylance makes of the same rows."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pilum

Row = dict[str, Any]
SCHEMA = pa.schema([("k", pa.string()), ("j", pa.int64()), ("x", pa.float64()), ("s", pa.string())])


def table(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


def ordered(rows: list[Row]) -> list[list[str]]:
    """Return the rows in an order of their own, as texts: NaN is NaN, and -0.0 is not 0.0."""
    return sorted([repr(row[name]) for name in SCHEMA.names] for row in rows)


def key_of(row: Row, on: list[str]) -> tuple[Any, ...] | None:
    """Return what is compared: NaN equals NaN, zero has no sign, null equals nothing."""
    values = [row[column] for column in on]
    key = tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in values)
    return None if None in key else key


def model(rows: list[Row], source: list[Row], on: list[str], matched: str, missed: str, other: str) -> list[Row] | None:
    """Return what a merge leaves; None where it must be refused."""
    result, seen = [], set()
    for row in rows:
        key = key_of(row, on)
        partners = [s for s in source if key is not None and key_of(s, on) == key]
        if not partners:
            is_gone = other == "delete" or (other.startswith("delete if") and row["j"] is not None and row["j"] > 1)
            result += [] if is_gone else [row]
            continue
        seen.add(key)
        if matched == "fail":
            return None
        if matched.startswith("update if"):
            partners = [s for s in partners if (s.get("s") is not None and row["s"] is not None and s["s"] > row["s"])]
        if matched != "keep" and len(partners) > 1:
            return None
        if matched == "keep" or not partners:
            result.append(row)
        elif matched != "delete":
            result.append({**row, **partners[0]})
    if missed == "insert":
        empty = dict.fromkeys(SCHEMA.names)
        result += [{**empty, **s} for s in source if key_of(s, on) not in seen]
    return result


keys = st.sampled_from(["a", "b", "c", "d", "", None])
numbers = st.sampled_from([0, 1, 2, None])
floats = st.sampled_from([0.5, 0.0, -0.0, math.nan, -math.nan, math.inf, None])
row_lists = st.lists(
    st.fixed_dictionaries({"k": keys, "j": numbers, "x": floats, "s": st.sampled_from(["m", "n", "", None])}),
    max_size=8,
)
columns = st.sampled_from([["k"], ["j"], ["x"], ["k", "j"], ["x", "k"], ["s", "j", "k"]])
choices = {
    "matched": st.sampled_from(["update", "update if source.s > target.s", "keep", "fail", "delete"]),
    "missed": st.sampled_from(["insert", "ignore"]),
    "other": st.sampled_from(["keep", "delete", "delete if j > 1"]),
}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=row_lists,
    source=row_lists,
    on=columns,
    without_x=st.booleans(),
    stable=st.booleans(),
    deleted=st.booleans(),
    **choices,
)
def test_a_merge_is_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[Row],
    source: list[Row],
    on: list[str],
    without_x: bool,
    stable: bool,
    deleted: bool,
    matched: str,
    missed: str,
    other: str,
) -> None:
    uri = tmp_path_factory.mktemp("merge") / "t"
    more = [{"k": "gone", "j": 1, "x": 9.0, "s": "gone"}] if deleted else []
    ds: pilum.Dataset = pilum.write_dataset(
        table(rows + more), uri, stable_row_ids=stable, max_rows_per_file=3, durability="none"
    )
    if deleted:
        ds = ds.delete("k = 'gone'", durability="none")
    schema = SCHEMA
    if without_x and "x" not in on:
        schema = pa.schema([field for field in SCHEMA if field.name != "x"])
        source = [{name: value for name, value in row.items() if name != "x"} for row in source]

    def merge() -> pilum.Merged:
        return ds.merge_insert(
            on,
            table(source, schema),
            when_matched=matched,
            when_not_matched=missed,
            when_not_matched_by_source=other,
            durability="none",
        )

    want = model(rows, source, on, matched, missed, other)
    if want is None or (matched, missed, other) == ("keep", "ignore", "keep"):
        with pytest.raises(pilum.InvalidInputError):
            merge()
        assert ds.latest_version() == ds.version
        assert ordered(pilum.dataset(uri).to_table().to_pylist()) == ordered(rows)
        assert ds.verify().orphans == []
        return
    merged = merge()
    assert ordered(merged.to_table().to_pylist()) == ordered(want)
    assert merged.inserted - merged.deleted == len(want) - len(rows)
    report = merged.verify()
    assert report.ok, report.problems
    assert report.orphans == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=row_lists, source=row_lists, on=st.sampled_from([["k"], ["j"], ["k", "j"]]), stable=st.booleans(), **choices
)
def test_pylance_merges_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[Row],
    source: list[Row],
    on: list[str],
    stable: bool,
    matched: str,
    missed: str,
    other: str,
) -> None:
    # What version 1 of the format cannot hold, pylance changes: nulls of numbers, empty texts.
    filler = {"k": "z", "j": 7, "x": 0.0, "s": "z"}
    plain = lambda row: {n: filler[n] if v is None and n in "jx" else (v or None) for n, v in row.items()}  # noqa: E731
    rows, source = [plain(row) | {"x": 0.5} for row in rows], [plain(row) | {"x": 1.5} for row in source]
    for row in rows + source:
        row["j"] = row["j"] or 0
    if not rows or (matched, missed, other) == ("keep", "ignore", "keep"):
        return
    folder = tmp_path_factory.mktemp("both")
    ours = pilum.write_dataset(table(rows), folder / "ours", compat="lance", stable_row_ids=stable, max_rows_per_file=3)
    theirs = lance.write_dataset(table(rows), folder / "theirs", data_storage_version="legacy")
    builder = theirs.merge_insert(on)
    condition = matched.partition(" if ")[2] or None
    if matched.startswith("update"):
        builder = builder.when_matched_update_all(condition)
    elif matched == "fail":
        builder = builder.when_matched_fail()
    elif matched == "delete":
        builder = builder.when_matched_delete()
    if missed == "insert":
        builder = builder.when_not_matched_insert_all()
    if other != "keep":
        builder = builder.when_not_matched_by_source_delete(other.partition(" if ")[2] or None)
    failure = ""
    try:
        builder.execute(table(source))
    except OSError as error:
        failure = str(error)
    # Deleting all that matches and all that does not is more than it can plan.
    is_defect = (matched, missed) == ("delete", "ignore") and other != "keep" and "Internal error" in failure
    try:
        merged = ours.merge_insert(
            on, table(source), when_matched=matched, when_not_matched=missed, when_not_matched_by_source=other
        )
    except pilum.InvalidInputError:
        assert failure
        return
    assert is_defect or not failure, failure
    left = model(rows, source, on, matched, missed, other) if is_defect else None
    want = ordered(lance.dataset(folder / "theirs").to_table().to_pylist() if left is None else left)
    assert ordered(merged.to_table().to_pylist()) == want
    # And pylance reads what pilum made, and goes on from there.
    peer = lance.dataset(folder / "ours")
    peer.validate()
    assert ordered(peer.to_table().to_pylist()) == want
    peer.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(
        table([{"k": "new", "j": 1, "x": 2.5, "s": "new"}])
    )
    assert pilum.dataset(folder / "ours").count_rows() == len(want) + 1


def test_floats_match_as_they_compare(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.float64()), ("s", pa.string())])
    rows = pa.table({"k": [0.0, math.nan, 1.0], "s": ["a", "b", "c"]}, schema=schema)
    ds = pilum.write_dataset(rows, tmp_path / "t")
    merged = ds.merge_insert("k", pa.table({"k": [-0.0, math.nan], "s": ["zero", "nan"]}, schema=schema))
    assert (merged.inserted, merged.updated) == (0, 2)
    assert merged.count_rows() == 3


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.bool_(), [True, False]),
        (pa.uint64(), [0, 2**64 - 1]),
        (pa.decimal128(30, 2), [1, 10**20]),
        (pa.date32(), [0, 1]),
        (pa.timestamp("ns", "UTC"), [-1, 1]),
        (pa.binary(), [b"", b"\0\xff"]),
        (pa.large_string(), ["", "\U0001f600"]),
        (pa.binary(3), [b"abc", b"abd"]),
        (pa.float16(), [1.5, -2.0]),
        (pa.dictionary(pa.int8(), pa.string()), ["x", "y"]),
    ],
    ids=str,
)
def test_keys_of_every_kind(tmp_path: Path, type_: pa.DataType, values: list[Any]) -> None:
    def keyed(rows: list[Any], text: str) -> pa.Table:
        flat = type_.value_type if pa.types.is_dictionary(type_) else type_
        keys_ = pa.array(rows, flat).cast(type_) if flat != type_ else pa.array(rows, type_)
        return pa.table({"k": keys_, "s": pa.array([text] * len(rows), pa.string())})

    ds = pilum.write_dataset(keyed([*values, None], "old"), tmp_path / "t", stable_row_ids=True)
    merged = ds.merge_insert("k", keyed([values[1], None], "new"))
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 1, 0)
    got = merged.to_table(columns=["k", "s"]).to_pylist()
    first = keyed(values[:1], "old").to_pylist()[0]
    second = keyed(values[1:], "new").to_pylist()[0]
    assert got == [first, {"k": None, "s": "old"}, second, {"k": None, "s": "new"}]
    assert merged.verify().ok


def test_nested_columns_come_along(tmp_path: Path) -> None:
    schema = pa.schema(
        [("k", pa.int64()), ("l", pa.list_(pa.string())), ("p", pa.struct([("x", pa.int32()), ("y", pa.string())]))]
    )
    rows = [
        {"k": i, "l": [None, "a"][: i % 3] if i % 4 else None, "p": {"x": i, "y": None} if i % 2 else None}
        for i in range(20)
    ]
    ds = pilum.write_dataset(table(rows, schema), tmp_path / "t", max_rows_per_file=7)
    new = [{"k": i, "l": ["new"], "p": None} for i in range(15, 25)]
    merged = ds.merge_insert("k", pa.Table.from_pylist(new, schema=schema).slice(2, 7))
    want = {row["k"]: row for row in rows} | {row["k"]: row for row in new[2:9]}
    assert {row["k"]: row for row in merged.to_table().to_pylist()} == want
    lists = pa.Table.from_pylist([{"k": 3, "l": ["only"]}, {"k": 99, "l": None}], schema=pa.schema(list(schema)[:2]))
    merged = merged.merge_insert("k", lists)
    want[3] = {**want[3], "l": ["only"]}
    want[99] = {"k": 99, "l": None, "p": None}
    assert {row["k"]: row for row in merged.to_table().to_pylist()} == want


def test_a_stream_larger_than_its_memory(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    ds = pilum.write_dataset(pa.table({"k": range(50_000), "s": ["old"] * 50_000}, schema=schema), tmp_path / "t")

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(25_000, 225_000, 5000):
            ids = pa.array(range(first, first + 5000), pa.int64())
            yield pa.record_batch([ids, pa.array(["x" * 100] * 5000)], schema=schema)

    source = pa.RecordBatchReader.from_batches(schema, batches())
    merged = ds.merge_insert("k", source, memory_limit=64 << 20)
    assert (merged.inserted, merged.updated) == (175_000, 25_000)
    got = merged.to_table().sort_by("k")
    assert got["k"].to_pylist() == list(range(225_000))
    assert got["s"].value_counts().to_pylist() == [
        {"values": "old", "counts": 25_000},
        {"values": "x" * 100, "counts": 200_000},
    ]


def big_source(number: int) -> pa.RecordBatchReader:
    """Return more rows than 64 MiB of memory hold, the last batch of which is `number` rows of one key."""
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, 200_000, 5000):
            yield pa.record_batch([pa.array(range(first, first + 5000), pa.int64()), ["x" * 100] * 5000], schema=schema)
        yield pa.record_batch([pa.array([1] * number, pa.int64()), ["y"] * number], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def test_temporary_files_go_with_the_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    ds = pilum.write_dataset(pa.table({"k": range(1000), "s": ["old"] * 1000}, schema=schema), tmp_path / "t")
    files = sorted((tmp_path / "t").rglob("*"))
    # Without a place for them nothing is changed, and the place is named.
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with pytest.raises(pilum.StoreError, match="missing"):
        ds.merge_insert("k", big_source(0), memory_limit=64 << 20)
    aside = tmp_path / "aside"
    aside.mkdir()
    monkeypatch.setenv("TMPDIR", str(aside))
    with pytest.raises(pilum.InvalidInputError, match="k = 1"):
        ds.merge_insert("k", big_source(1), memory_limit=64 << 20)
    assert list(aside.iterdir()) == []
    assert sorted((tmp_path / "t").rglob("*")) == files
    merged = ds.merge_insert("k", big_source(0), memory_limit=64 << 20)
    assert (merged.inserted, merged.updated) == (199_000, 1000)
    assert list(aside.iterdir()) == []
    assert merged.verify().orphans == []


KILLED = """
import sys
import pyarrow as pa
import pilum
schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
def batches():
    for first in range(0, 200_000, 5000):
        yield pa.record_batch([pa.array(range(first, first + 5000), pa.int64()), ["x" * 100] * 5000], schema=schema)
    print("put aside", flush=True)
    sys.stdin.read()
source = pa.RecordBatchReader.from_batches(schema, batches())
pilum.dataset(sys.argv[1]).merge_insert("k", source, memory_limit=16 << 20)
"""


def test_a_merge_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    ds = pilum.write_dataset(pa.table({"k": range(1000), "s": ["old"] * 1000}, schema=schema), tmp_path / "t")
    aside = tmp_path / "aside"
    aside.mkdir()
    environment = {**os.environ, "TMPDIR": str(aside)}
    merging = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "t")],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert merging.stdout is not None
    assert merging.stdout.readline() == b"put aside\n"
    # Rows are in a file of its own by now, one without a name.
    opened = [str(link.readlink()) for link in Path(f"/proc/{merging.pid}/fd").iterdir()]
    assert any(path.startswith(str(aside)) for path in opened), opened
    merging.kill()
    merging.communicate()
    assert list(aside.iterdir()) == []
    assert ds.latest_version() == 1
    assert ds.verify().orphans == []


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    rows = [{"k": "a", "j": 1, "x": 1.0, "s": "a"}]
    ds = pilum.write_dataset(table(rows), tmp_path / "t")
    one = table(rows)
    for words, merge in (
        ("`nope`", lambda: ds.merge_insert("nope", one)),
        ("names no column", lambda: ds.merge_insert([], one)),
        ("when_matched", lambda: ds.merge_insert("k", one, when_matched="upsert")),
        ("when_not_matched", lambda: ds.merge_insert("k", one, when_not_matched="insert if x > 1")),
        ("when_not_matched_by_source", lambda: ds.merge_insert("k", one, when_not_matched_by_source="fail")),
        ("nope", lambda: ds.merge_insert("k", one, when_matched="update if source.nope = 1")),
        ("k = a", lambda: ds.merge_insert("k", table(rows * 2))),
        ("k = a", lambda: ds.merge_insert("k", one, when_matched="fail")),
        ("column `j`", lambda: ds.merge_insert("k", one.set_column(1, "j", pa.array(["1"])))),
        ("`more`", lambda: ds.merge_insert("k", one.append_column("more", pa.array([1])))),
    ):
        with pytest.raises(pilum.InvalidInputError) as caught:
            merge()
        assert words in str(caught.value)
    assert ds.latest_version() == 1
    assert ds.verify().orphans == []


def test_a_source_that_raises_changes_nothing(tmp_path: Path) -> None:
    ds = pilum.write_dataset(table([{"k": "a", "j": 1, "x": 1.0, "s": "a"}]), tmp_path / "t")

    def batches() -> Iterator[pa.RecordBatch]:
        yield table([{"k": "b", "j": 1, "x": 1.0, "s": "b"}]).to_batches()[0]
        raise ZeroDivisionError("half way")

    with pytest.raises(ZeroDivisionError, match="half way"):
        ds.merge_insert("k", pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert ds.latest_version() == 1
    assert ds.verify().orphans == []


def test_expressions_beside_their_word(tmp_path: Path) -> None:
    ds = pilum.write_dataset(table([{"k": c, "j": i, "x": 1.0, "s": "m"} for i, c in enumerate("abc")]), tmp_path / "t")
    merged = ds.merge_insert(
        "k",
        table([{"k": "a", "j": 5, "x": 2.0, "s": "n"}]),
        when_matched=("update", "source.j > target.j"),
        when_not_matched_by_source=("delete", pilum.col("j") == 1),
    )
    assert (merged.inserted, merged.updated, merged.deleted, merged.rows) == (0, 1, 1, 2)


def test_threads_merge_the_same_keys(tmp_path: Path) -> None:
    pilum.write_dataset(table([]), tmp_path / "t", stable_row_ids=True, durability="none")
    threads, rounds = 4, 5

    def work(thread: int) -> None:
        ds = pilum.dataset(tmp_path / "t")
        for number in range(rounds):
            rows = [
                {"k": f"all {number}", "j": thread, "x": None, "s": "shared"},
                {"k": f"own {thread} {number}", "j": thread, "x": None, "s": "own"},
            ]
            ds.merge_insert("k", table(rows), durability="none", retries=200)

    running = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    ds = pilum.dataset(tmp_path / "t")
    keys_ = ds.to_table()["k"].to_pylist()
    want = [f"all {n}" for n in range(rounds)] + [f"own {t} {n}" for t in range(threads) for n in range(rounds)]
    assert sorted(keys_) == sorted(want)
    assert ds.verify().ok


def test_what_was_expected_holds_or_is_a_conflict(tmp_path: Path) -> None:
    row, uri = {"k": "a", "j": 1, "x": 1.0, "s": "a"}, str(tmp_path / "t")
    ds = pilum.write_dataset(table([row]), uri)
    ds = ds.append(table([{**row, "k": "b"}]), expect=ds.version)
    for statement in (
        lambda: ds.append(table([row]), expect=1),
        lambda: ds.compact(expect=1),
        lambda: ds.checkout(1).restore(expect=1),
        lambda: pilum.commit(uri, pilum.Append(pilum.fragments.write(table([row]), uri)), expect=1),
        lambda: ds.checkout(1).restore(expect="k = 'b'"),
        lambda: ds.delete("k = 'x'", expect=1),
        lambda: ds.update({"j": "2"}, expect=1),
        lambda: ds.merge_insert("k", table([row]), expect=1),
        lambda: ds.append(table([row]), expect="k = 'b'"),
        lambda: ds.delete("k = 'a'", expect=pilum.col("k") == "b"),
    ):
        with pytest.raises(pilum.ConflictError) as caught:
            statement()
        assert not caught.value.retryable
        assert caught.value.version == 2
    assert caught.value.rows == [1 << 32]
    assert ds.latest_version() == 2
    pieces = pilum.fragments.write(table([row]), uri)
    assert pilum.commit(uri, pilum.Append(pieces), expect="k = 'c'").version == 3
    assert ds.merge_insert("k", table([{**row, "k": "c"}]), expect=3).inserted == 1
    assert ds.compact(expect=4).version == 6
    assert ds.checkout(2).restore(expect=6).version == 7
