"""Kartothek datasets that pilum writes: what is read back, concurrent writers, earlier versions, garbage, copies, bad input."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import subprocess
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pilum
from pilum import kartothek
from support.random_kartothek import make
from support.stores import moto_server

SCALE = int(os.environ.get("PILUM_TEST_SCALE", "1"))
CHECK = Path(__file__).parents[1] / "interop" / "check_written_kartothek.py"


def rows_of(table: pa.Table) -> Counter[str]:
    """Return the rows as a bag, whatever their order."""
    names = sorted(table.column_names)
    return Counter(repr([row[name] for name in names]) for row in table.to_pylist())


def assert_exact(k: kartothek.Dataset) -> None:
    """Compare each index with the rows of each partition, and the files in the document with those in the store."""
    for column, index in k.indices.items():
        expected: dict[Any, set[str]] = {}
        for label in k.labels:
            for value in k.to_table(columns=[column], labels=[label])[column].to_pylist():
                if value is not None:
                    expected.setdefault(value, set()).add(label)
        stored = index.to_arrow().to_pylist()
        found = {row[column]: set(row["partition"]) for row in stored}
        assert len(found) == len(stored), f"a value of {column} is there twice"
        assert found == expected, column
    for partition in k.partitions.values():
        for key in partition.files.values():
            if "://" not in k.uri:
                assert (Path(k.uri) / key).is_file()


@pytest.mark.parametrize("seed", range(25 * SCALE))
def test_random_datasets_read_back_with_exact_indices(seed: int, tmp_path: Path) -> None:
    made = make(seed, tmp_path / "store")
    k = kartothek.dataset(made.store, made.uuid, timestamp_unit="us")
    assert rows_of(k.to_table().select(made.expected.column_names)) == rows_of(made.expected)
    assert_exact(k)
    schema = pq.read_schema(made.store / made.uuid / "table" / "_common_metadata")
    assert b"pandas" in schema.metadata
    assert schema.names == [*k.partition_keys, *sorted(set(schema.names) - set(k.partition_keys))]
    for partition in k.partitions.values():
        stored = pq.read_schema(made.store / partition.files["table"])
        assert not set(stored.names) & set(k.partition_keys)
        assert not any(pa.types.is_large_string(it.type) or pa.types.is_dictionary(it.type) for it in stored)


@pytest.mark.kartothek_peer
@pytest.mark.parametrize("seed", range(1000, 1000 + 6 * SCALE))
def test_kartothek_accepts_appends_deletes_and_collects(seed: int, tmp_path: Path) -> None:
    made = make(seed, tmp_path / "store")
    expected = made.save_expected(tmp_path / "expected.arrow")
    # If the variable is not set, the test fails: it must not be skipped without notice.
    command = [os.environ["PILUM_KARTOTHEK_PYTHON"], str(CHECK), str(made.store), made.uuid, str(expected)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


ROWS = pa.table(
    {
        "city": ["São Paulo", "São Paulo", "100%"],
        "item": pa.array([7, 8, 7], pa.int32()),
        "price": [1.5, None, 2.0],
    }
)


def make_sales(store: Any) -> kartothek.Dataset:
    return kartothek.write(
        ROWS, store, "sales", partition_on="city", secondary_indices=["item"], metadata={"owner": "pricing"}
    )


def test_a_dataset_is_written_updated_and_queried(tmp_path: Path) -> None:
    k = make_sales(tmp_path)
    document = json.loads((tmp_path / "sales.by-dataset-metadata.json").read_text())
    assert document["partition_keys"] == ["city"]
    assert k.metadata["owner"] == "pricing"
    assert set(k.metadata) == {"owner", "creation_time"}
    more = pa.table({"city": ["100%"], "item": [9], "price": [3.0]})
    k = k.update(more, delete_scope=[{"city": "São Paulo", "item": 8}], metadata={"owner": "sales"})
    assert sorted(k.to_table()["item"].to_pylist()) == [7, 9]
    assert k.metadata["owner"] == "sales"
    assert k.dispatch([[("item", "==", 9)]]) == [
        label for label in k.labels if k.to_table(labels=[label])["item"][0].as_py() == 9
    ]
    assert_exact(k)


def test_earlier_versions_are_opened_and_restored(tmp_path: Path) -> None:
    first = make_sales(tmp_path)
    before = dt.datetime.now(dt.UTC)
    second = first.update(ROWS, delete_scope=[{"city": "100%"}])
    assert [it.operation for it in second.versions()] == ["create", "update"]
    assert (first.version, second.version) == (1, 2)
    assert kartothek.dataset(tmp_path, "sales", asof=before).to_table().num_rows == 3
    assert kartothek.dataset(tmp_path, "sales", version=1).labels == first.labels
    with pytest.raises(pilum.NotFoundError, match="2020"):
        second.asof(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    third = second.restore(1)
    assert third.labels == first.labels
    assert third.version == 3
    assert_exact(third)
    # Without earlier versions their files are garbage.
    found = third.garbage_collect(dry_run=True)
    assert found.versions == (1, 2)
    assert sum(".parquet" in key for key in found.keys) > 0
    assert third.garbage_collect(keep_versions=3, dry_run=True).keys == ()
    assert third.garbage_collect(older_than=dt.timedelta(hours=1), dry_run=True).keys == ()
    assert third.garbage_collect().keys == found.keys
    assert third.garbage_collect().keys == ()
    assert rows_of(third.newest().to_table()) == rows_of(first.to_table())
    with pytest.raises(pilum.NotFoundError):
        third.checkout(2)


def test_a_new_schema_does_not_spoil_earlier_versions(tmp_path: Path) -> None:
    kartothek.write(pa.table({"a": [1], "b": ["x"]}), tmp_path, "d")
    k = kartothek.write(pa.table({"a": ["text"]}), tmp_path, "d", overwrite=True)
    assert k.schema() == pa.schema({"a": pa.string()})
    old = k.checkout(1)
    assert old.to_table().to_pydict() == {"a": [1], "b": ["x"]}
    # The commit happened, and the schema file of the old state is there: a crash came between.
    schema = tmp_path / "d/table/_common_metadata"
    pq.write_metadata(pa.schema({"a": pa.int64(), "b": pa.string()}), schema)
    again = kartothek.dataset(tmp_path, "d")
    assert again.to_table().to_pydict() == {"a": ["text"]}
    again.update(pa.table({"a": ["more"]}))
    assert pq.read_schema(schema).names == ["a"]


def test_a_column_without_values_gets_its_type_later(tmp_path: Path) -> None:
    k = kartothek.write(pa.table({"a": [1], "b": pa.nulls(1)}), tmp_path, "d")
    k = k.update(pa.table({"a": [2], "b": ["x"]}))
    assert k.schema().field("b").type == pa.string()
    assert sorted(k.to_table()["b"].to_pylist(), key=str) == [None, "x"]
    with pytest.raises(pilum.InvalidInputError, match=r"column `b` is string .* and int64"):
        k.update(pa.table({"a": [3], "b": [3]}))


def test_garbage_collection_spares_writes_in_progress(tmp_path: Path) -> None:
    k = make_sales(tmp_path)
    writer = kartothek.writing.writer_of(kartothek.writing.place_of(tmp_path, None), "sales")
    staged = kartothek.writing.stage(
        writer, kartothek.Frame({"table": ROWS}), ["city"], ["item"], {}, writer.new_marker()
    )
    found = k.garbage_collect()
    assert len(found.kept) == 2
    assert not any("table" in key for key in found.keys)
    writer.update(staged, removed=[], metadata=[], existing="require")
    assert k.newest().to_table().num_rows == 6
    k.garbage_collect()
    stray = tmp_path / "sales/table/stray.parquet"
    stray.write_bytes(b"")
    assert k.garbage_collect().keys == ("sales/table/stray.parquet",)
    assert not stray.exists()


def test_conflicting_deletes_are_a_conflict_and_appends_are_none(tmp_path: Path) -> None:
    k = make_sales(tmp_path)
    writer = kartothek.writing.writer_of(kartothek.writing.place_of(tmp_path, None), "sales")
    removed = writer.in_scope(kartothek.writing.scope_of([{"city": "100%"}]))
    k.update(ROWS)
    k.update(delete_scope=[{"item": 8}])
    writer.update([], removed=removed, metadata=[], existing="require")
    assert set(k.newest().to_table()["city"].to_pylist()) == {"100%"}
    with pytest.raises(pilum.ConflictError, match="100%25") as raised:
        writer.update([], removed=removed, metadata=[], existing="require")
    assert raised.value.retryable is False


WRITER = """
import sys
import pyarrow as pa
from pilum import kartothek
store, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
k = kartothek.dataset(store, "shared")
for n in range(count):
    k.update(pa.table({"p": [number % 3], "w": [number], "n": [n]}))
"""


def new_shared(store: Any, **options: Any) -> kartothek.Dataset:
    rows = pa.table({"p": [0], "w": [-1], "n": [-1]})
    return kartothek.write(rows, store, "shared", partition_on="p", secondary_indices=["w", "n"], **options)


def assert_nothing_lost(k: kartothek.Dataset, writers: int, updates: int) -> None:
    rows = k.to_table(columns=["w", "n"]).to_pylist()
    found = Counter((row["w"], row["n"]) for row in rows)
    expected = Counter({(w, n): 1 for w in range(writers) for n in range(updates)} | {(-1, -1): 1})
    assert found == expected
    assert_exact(k)


def test_writers_in_processes_lose_nothing(tmp_path: Path) -> None:
    writers, updates = (4, 5) if SCALE == 1 else (8, 20)
    new_shared(tmp_path)
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    running = [subprocess.Popen([*command, str(n), str(updates)]) for n in range(writers)]
    assert [it.wait(300) for it in running] == [0] * writers
    k = kartothek.dataset(tmp_path, "shared")
    assert_nothing_lost(k, writers, updates)
    assert k.version == 1 + writers * updates
    assert [it.version for it in k.versions()] == list(range(1, 2 + writers * updates))


def in_threads(k: kartothek.Dataset, writers: int, updates: int) -> None:
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for n in range(updates):
                k.update(pa.table({"p": [number % 3], "w": [number], "n": [n]}))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed, failed


def test_writers_in_threads_lose_nothing_in_memory() -> None:
    writers, updates = (4, 5) if SCALE == 1 else (8, 20)
    k = new_shared("memory://kartothek-threads/store")
    in_threads(k, writers, updates)
    assert_nothing_lost(k.newest(), writers, updates)


def test_writers_in_threads_lose_nothing_in_s3() -> None:
    writers, updates = (3, 3) if SCALE == 1 else (8, 20)
    with moto_server() as moto:
        options = moto.options()
        k = new_shared(f"s3://{moto.new_bucket()}/some store", storage_options=options)
        in_threads(k, writers, updates)
        assert_nothing_lost(k.newest(), writers, updates)
        assert k.newest().garbage_collect().kept == ()


def test_copy_and_delete(tmp_path: Path) -> None:
    # The name occurs in its keys more than once.
    k = kartothek.write(ROWS, tmp_path / "one", "a", partition_on="city", secondary_indices="item")
    copy = k.copy_to(tmp_path / "two", "b", metadata={"copied": True})
    assert rows_of(copy.to_table()) == rows_of(k.to_table())
    assert copy.metadata["copied"] is True
    assert_exact(copy)
    same = k.copy_to(dataset_uuid="a2")
    assert_exact(same)
    with pytest.raises(pilum.AlreadyExistsError):
        k.copy_to(tmp_path / "two", "b")
    with pytest.raises(pilum.InvalidInputError, match="itself"):
        k.copy_to()
    (tmp_path / "one/a.by-dataset-metadata.msgpack.zstd").write_bytes(b"stale")
    assert len(k.delete()) > 3
    left = [path for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert all("a2" in path.parts or path.name.startswith("a2.") for path in left)
    with pytest.raises(pilum.NotFoundError):
        kartothek.dataset(tmp_path / "one", "a")


def test_indices_are_built_later_and_metadata_stays(tmp_path: Path) -> None:
    k = kartothek.write(
        {"core": ROWS, "more": pa.table({"city": ["100%"], "x": [1]})},
        tmp_path,
        "d",
        partition_on=["city"],
        metadata={"owner": "pricing"},
    )
    assert all(set(it.files) == {"core", "more"} for it in k.partitions.values())
    k = k.build_indices(["item", "x"])
    assert k.metadata["owner"] == "pricing"
    assert k.indices["x"].to_arrow()["x"].to_pylist() == [1]
    assert sorted(k.indices["item"].to_arrow()["item"].to_pylist()) == [7, 8]
    for column, words in [("city", "partition key"), ("nope", "no such column")]:
        with pytest.raises(pilum.InvalidInputError, match=words):
            k.build_indices(column)


def test_buckets_and_sorting(tmp_path: Path) -> None:
    rows = pa.table({"k": [n % 2 for n in range(100)], "v": [97 * n % 50 for n in range(100)]})
    k = kartothek.write(rows, tmp_path, "d", partition_on="k", num_buckets=3, bucket_by="v", sort_by="v")
    assert 2 < len(k.labels) <= 6
    seen: dict[tuple[int, int], str] = {}
    for label in k.labels:
        part = k.to_table(labels=[label])
        values = part["v"].to_pylist()
        assert values == sorted(values)
        for key, value in zip(part["k"].to_pylist(), values, strict=True):
            assert seen.setdefault((key, value), label) == label
    assert rows_of(k.to_table()) == rows_of(rows)


def test_bad_input_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    k = make_sales(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (pa.table({"city": ["x"], "item": ["text"], "price": [1.0]}), {}, "column `item`"),
        (pa.table({"city": ["x"], "item": [1]}), {}, "column `price`"),
        (pa.table({"city": [None], "item": [1], "price": [1.0]}), {}, "null"),
        (pa.table({"city": ["a\0b"], "item": [1], "price": [1.0]}), {}, "NUL"),
        (pa.table({"city": ["x"], "item": pa.array([1], pa.duration("s")), "price": [1.0]}), {}, "duration"),
        (None, {"delete_scope": [{}]}, "every partition"),
        (None, {"delete_scope": [{"price": 1.5}]}, "no partition key"),
        (None, {"delete_scope": [{"item": 1.7}]}, "double|float64"),
        (None, {"delete_scope": [{"item": None}]}, "null"),
        (None, {"metadata": {"pilum": 1}}, "taken by pilum"),
        (None, {"metadata": {"x": float("nan")}}, "JSON"),
    ]
    for data, options, words in cases:
        with pytest.raises((pilum.InvalidInputError, pilum.UnsupportedError), match=words):
            k.update(data, **options)
    for uuid in ["a.b", "a/b", "", "ä"]:
        with pytest.raises(pilum.InvalidInputError, match="uuid"):
            kartothek.write(ROWS, tmp_path, uuid)
    with pytest.raises(pilum.AlreadyExistsError, match="overwrite"):
        make_sales(tmp_path)
    with pytest.raises(pilum.InvalidInputError, match=r"finer|nanosecond|microsecond"):
        kartothek.write(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), tmp_path, "fine")
    with pytest.raises(pilum.InvalidInputError, match="at least one column"):
        kartothek.write(pa.table({"t": [1]}), tmp_path, "keys", partition_on="t")
    with pytest.raises(pilum.InvalidInputError, match="partition key"):
        kartothek.write(ROWS, tmp_path, "index", partition_on="city", secondary_indices="city")
    after = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert [path for path in after if path not in before and ".pilum" not in path.parts] == []


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([dt.time(1, 2)], pa.time64("us")), "time64"),
        (pa.array([decimal.Decimal("1.5")]), "decimal128"),
        (pa.array([[1]]), "list"),
        (pa.array([{"a": 1}]), "struct"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_keys_and_indices_of_types_that_kartothek_cannot_read_are_refused(
    values: pa.Array, kind: str, tmp_path: Path
) -> None:
    rows = pa.table({"a": [1], "v": values})
    for layout in ({"partition_on": "v"}, {"secondary_indices": "v"}):
        with pytest.raises(pilum.UnsupportedError, match=f"`v`: the type {kind}"):
            kartothek.write(rows, tmp_path, "keys", **layout)
    assert kartothek.write(rows, tmp_path, "keys").to_table()["v"].to_pylist() == values.to_pylist()


def test_keys_that_kartothek_reads_as_other_values_are_written_with_a_warning(tmp_path: Path) -> None:
    for kind, value, words in [("bool", False, "always reads as True"), ("binary", b"\xff", "as text")]:
        with pytest.warns(UserWarning, match=words):
            k = kartothek.write(pa.table({"p": [value], "x": [1]}), tmp_path, kind, partition_on="p")
        assert k.to_table()["p"].to_pylist() == [value]
    zoned = pa.table({"p": pa.array([0], pa.timestamp("us", "UTC")), "x": [1]})
    with pytest.raises(pilum.UnsupportedError, match="partition key `p`"):
        kartothek.write(zoned, tmp_path, "zoned", partition_on="p")
    with pytest.raises(pilum.InvalidInputError, match="no value"):
        kartothek.write(pa.table({"p": pa.nulls(1), "x": [1]}), tmp_path, "null", secondary_indices="p")


def test_a_state_that_kartothek_wrote_is_kept_as_a_version(tmp_path: Path) -> None:
    k = make_sales(tmp_path)
    path = tmp_path / "sales.by-dataset-metadata.json"
    document = json.loads(path.read_text())
    gone = document["partitions"].popitem()[0]
    path.write_text(json.dumps(document))
    foreign = k.newest()
    assert gone not in foreign.labels
    k = k.update(ROWS)
    assert [it.operation for it in k.versions()] == ["create", "foreign", "update"]
    assert k.checkout(2).labels == foreign.labels
    assert k.checkout(1).to_table().num_rows == 3


def test_flipped_bits_are_errors_or_change_nothing(tmp_path: Path) -> None:
    k = make_sales(tmp_path)
    expected = rows_of(k.to_table())
    files = [path for path in tmp_path.rglob("*") if path.is_file() and ".pilum" not in path.parts]
    for path in files:
        content = path.read_bytes()
        for place in range(0, len(content), max(1, len(content) // 25)):
            damaged = bytearray(content)
            damaged[place] ^= 0x10
            path.write_bytes(damaged)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = kartothek.dataset(tmp_path, "sales")
                    found.to_table(predicates=[[("item", "==", 7)]])
                    rows = rows_of(found.to_table())
                except (pilum.PilumError, KeyError):
                    continue
                # Names, user metadata and statistics have no checksum in this format; rows of pages have one.
                assert rows == expected or path.suffix != ".parquet" or "indices" in path.parts, (path, place)
        path.write_bytes(content)
    assert rows_of(k.newest().to_table()) == expected


def test_what_does_not_fit_is_told_once_and_in_words(tmp_path: Path) -> None:
    rows = pa.table({"p": [f"value {n}" for n in range(50)], "x": range(50)})
    k = kartothek.write(rows, tmp_path, "many", partition_on="p")
    assert repr(k.partitions).startswith("<50 partitions: 'p=value%200/")
    with pytest.raises(pilum.InvalidInputError) as raised:
        k.update(rows.append_column("y", rows["x"]))
    assert str(raised.value).count("column `y`") == 1
    with pytest.raises(pilum.InvalidInputError, match=r"'a' has single values; pass pyarrow.table\(..\)"):
        kartothek.write({"a": [1, 2]}, tmp_path, "columns")
    assert kartothek.write({"table": [{"a": 1}, {"a": 2}]}, tmp_path, "dicts").count_rows() == 2
    assert kartothek.write({"table": [rows, rows]}, tmp_path, "tables").count_rows() == 100


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_an_update_sees_what_others_committed_since_the_dataset_was_opened(form: Any, tmp_path: Path) -> None:
    first = kartothek.write(
        ROWS, tmp_path, "sales", partition_on="city", secondary_indices=["item"], metadata_format=form
    )
    second = kartothek.dataset(tmp_path, "sales")
    second = second.update(ROWS, delete_scope=[{"city": "100%"}])
    third = first.update(ROWS)
    assert (first.count_rows(), second.count_rows(), third.count_rows()) == (3, 5, 8)
    assert [it.operation for it in third.versions()] == ["create", "update", "update"]
    assert_exact(third)
    # A document that another library changed has other bytes, so what was parsed before does not stand for it.
    if form == "json":
        path = tmp_path / "sales.by-dataset-metadata.json"
        document = json.loads(path.read_text())
        document["metadata"]["owner"] = "somebody"
        path.write_text(json.dumps(document))
        assert third.newest().metadata["owner"] == "somebody"
        assert [it.operation for it in third.newest().update(ROWS).versions()][-2:] == ["foreign", "update"]
