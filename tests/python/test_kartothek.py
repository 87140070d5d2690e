"""Kartothek datasets that Kartothek 5.3.0 wrote: rows, predicates, dispatch, and damage."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pilum.kartothek
from pilum.exceptions import (
    CorruptError,
    InvalidInputError,
    NotFoundError,
    PilumError,
    UnsupportedError,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "kartothek"
CASES = sorted(path.parent.name for path in FIXTURES.glob("*/dataset.json"))
SCALE = float(os.environ.get("PILUM_TEST_SCALE", "1"))


def described(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / case / "dataset.json").read_text())
    return found


def opened(case: str, **options: Any) -> pilum.kartothek.Dataset:
    return pilum.kartothek.dataset(FIXTURES / case / "store", described(case)["uuid"], **options)


def literal(value: dict[str, Any]) -> Any:
    kind, given = value["t"], value.get("v")
    if kind == "float":
        return float(given)
    if kind == "bytes":
        return bytes.fromhex(given)
    if kind == "date":
        return dt.date.fromisoformat(given)
    if kind == "timestamp":
        return dt.datetime.fromisoformat(given)
    if kind == "list":
        return [literal(item) for item in given]
    return None if kind == "null" else given


def predicates_of(query: dict[str, Any]) -> list[list[tuple[str, str, Any]]]:
    return [[(column, op, literal(value)) for column, op, value in terms] for terms in query["predicates"]]


def queries(case: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((FIXTURES / case / "queries.json").read_text())["tables"]
    return found


def expected(case: str, table: str) -> pa.Table:
    folder = FIXTURES / case
    names = [f"expected.{table}.arrow", "expected.arrow"]
    if case.startswith("quirk_"):
        names.insert(0, "original.arrow")
    path = next(folder / name for name in names if (folder / name).exists())
    return pa.ipc.open_file(path).read_all()


def test_every_fixture_is_here() -> None:
    assert len(CASES) == 20


@pytest.mark.parametrize("case", CASES)
def test_all_rows_are_those_of_kartothek(case: str) -> None:
    told = described(case)
    k = opened(case, slashes="join")
    assert k.tables == sorted(told["tables"])
    assert k.partition_keys == told["partition_keys"]
    assert sorted(k.labels) == sorted(told["partitions"])
    assert k.metadata["creation_time"] == told["user_metadata"]["creation_time"]
    for table in told["tables"]:
        rows = k.to_table(table).sort_by("rid")
        want = expected(case, table)
        types = {name: str(rows.schema.field(name).type) for name in rows.column_names}
        assert types == told["schema"][table]
        assert rows.column_names == list(told["schema"][table])
        assert rows.num_rows == k.count_rows(table) == want.num_rows
        for name in rows.column_names:
            got, wanted = rows[name].to_pylist(), want[name].to_pylist()
            if name in want.column_names:
                assert [repr(value) for value in got] == [repr(value) for value in wanted], f"{case} {table}.{name}"


@pytest.mark.parametrize("case", CASES)
def test_every_query_finds_the_rows_and_no_more_partitions(case: str) -> None:
    k = opened(case, slashes="join")
    for table, asked in queries(case).items():
        for query in asked:
            predicates = predicates_of(query)
            want = query.get("logical_row_ids", query.get("row_ids"))
            rows = k.to_table(table, predicates, columns=["rid"])
            told = f"{case} {table} {predicates}"
            if want is None:
                continue
            assert sorted(rows["rid"].to_pylist()) == want, told
            assert k.count_rows(table, predicates) == len(want), told
            labels = k.dispatch(predicates, table=table)
            if not query.get("quirk") and case != "quirk_slash":
                assert set(labels) <= set(query["dispatched_labels"]), told
            by_labels = k.to_table(table, predicates, columns=["rid"], labels=labels)
            assert sorted(by_labels["rid"].to_pylist()) == want, told
            assert set(labels) <= set(k.dispatch(predicates, table=table, statistics=False)), told


@pytest.mark.parametrize("case", CASES)
def test_indices_have_the_values_and_labels_of_the_fixture(case: str) -> None:
    k = opened(case)
    told = described(case)["secondary_indices"]
    assert sorted(k.indices) == sorted(told)
    for column, index in k.indices.items():
        rows = index.to_arrow()
        entries = told[column]["entries"] if isinstance(told[column], dict) else told[column]
        assert rows.num_rows == len(entries)
        want = sorted(
            sorted(labels) for _, labels in (e if isinstance(e, list) else (e["value"], e["labels"]) for e in entries)
        )
        assert sorted(sorted(labels) for labels in rows["partition"].to_pylist()) == want


def test_partitions_tell_keys_and_files() -> None:
    k = opened("partition_types")
    partition = next(iter(k.partitions.values()))
    assert set(partition.keys) == {"day", "n", "at"}
    assert isinstance(partition.keys["day"], dt.date)
    assert list(partition.files) == ["table"]
    assert len(k.partitions) == len(k.labels)
    with pytest.raises(KeyError):
        k.partitions["none"]


def test_conditions_of_sql_and_expressions_keep_the_meaning_of_sql() -> None:
    k = opened("index_null_or_quirk")
    rows = lambda predicates: sorted(k.to_table(predicates=predicates)["rid"].to_pylist())  # noqa: E731
    assert rows([[("s", "!=", "x")]]) == [1, 2, 3, 4, 5]
    assert rows("s <> 'x'") == rows(pilum.col("s") != "x") == [2, 4, 5]
    assert rows("NOT (s = 'x') OR s IS NULL") == [1, 2, 3, 4, 5]
    assert rows("a = 2 OR f = 2.0") == rows([[("a", "==", 2)], [("f", "==", 2.0)]]) == [3, 4]
    assert rows(pa.compute.field("a") == 2) == rows([("a", "==", 2)])


def test_a_slash_in_a_value_is_read_and_told_once(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "quirk_slash" / "store", tmp_path / "store")
    k = pilum.kartothek.dataset(tmp_path / "store", "quirk_slash")
    with pytest.warns(UserWarning, match="slash"):
        assert set(k.to_table()["s"].to_pylist()) == {"a", "a/b", "x", "x/y=z"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k.to_table()
        as_kartothek = opened("quirk_slash", slashes="ignore").to_table()
    assert set(as_kartothek["s"].to_pylist()) == {"a", "x"}


def test_a_dataset_is_pickled_with_its_state(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "update_delete" / "store", tmp_path / "store")
    k = pilum.kartothek.dataset(tmp_path / "store", "upd")
    state = pickle.dumps(k)
    (tmp_path / "store" / "upd.by-dataset-metadata.json").unlink()
    again = pickle.loads(state)
    assert again.to_table().sort_by("rid") == k.to_table().sort_by("rid")


def test_a_limit_ends_the_read_in_the_middle_of_the_partitions() -> None:
    k = opened("row_groups")
    whole = k.to_table()
    for offset, limit in [(0, 1), (5, 20), (whole.num_rows - 1, 10), (10**6, 3)]:
        assert k.to_table(limit=limit, offset=offset) == whole.slice(offset, limit)
    assert k.to_table(columns=[]).num_rows == whole.num_rows
    assert k.to_table(columns={"twice": "rid * 2"}, limit=1)["twice"].to_pylist() == [whole["rid"][0].as_py() * 2]


def test_frames_of_other_libraries_and_readers() -> None:
    k = opened("types_json")
    whole = k.to_table()
    assert k.to_reader().read_all() == whole
    assert k.to_polars()["rid"].to_list() == whole["rid"].to_pylist()
    assert pa.table(k) == whole
    assert len(k.to_pandas()) == whole.num_rows


def test_a_scanner_explains_its_plan_counts_rows_and_has_metrics_of_its_reads() -> None:
    k = opened("row_groups")
    whole = k.to_table()
    rid = whole["rid"][3].as_py()
    scan = k.scanner(predicates=[[("rid", "==", rid)]], columns=["rid"])
    assert scan.metrics is None
    text = scan.explain()
    assert repr(k.uuid).strip("'") in text
    assert f"{len(k.labels)} partitions" in text
    assert "rid" in text.partition("filter")[2]
    found = scan.to_table()
    assert found["rid"].to_pylist() == [rid] * found.num_rows
    assert scan.count_rows() == found.num_rows == len(scan.to_pandas()) == scan.to_polars().height
    metrics = scan.metrics
    assert metrics is not None
    assert metrics.rows_returned == found.num_rows
    assert metrics.files_total == len(k.labels)
    assert metrics.requests > 0
    limited = k.scanner(limit=7, offset=2)
    assert limited.count_rows() == 7
    assert limited.to_table().num_rows == 7
    assert limited.metrics is not None
    assert limited.metrics.rows_returned == 7
    assert k.scanner().count_rows() == whole.num_rows


def test_partitions_that_keys_exclude_count_as_pruned_files() -> None:
    k = opened("partition_strings")
    key = k.partition_keys[0]
    label, partition = next((it, p) for it, p in k.partitions.items() if p.keys[key] is not None)
    scan = k.scanner(predicates=[[(key, "==", partition.keys[key])]])
    scan.to_table()
    kept = k.dispatch([[(key, "==", partition.keys[key])]])
    assert label in kept
    assert scan.metrics is not None
    assert scan.metrics.files_total == len(k.labels)
    assert scan.metrics.files_pruned >= len(k.labels) - len(kept) > 0


def test_to_pilum_copies_every_row(tmp_path: Path) -> None:
    for case in ["types_json", "partition_strings", "lists_tz", "empty_after_delete"]:
        k = opened(case)
        written = pilum.kartothek.to_pilum(k, tmp_path / f"{case}.pilum")
        assert written.rows == k.count_rows()
        assert pilum.dataset(tmp_path / f"{case}.pilum").to_table().to_pylist() == k.to_table().to_pylist()


def test_the_command_line_takes_the_address_of_a_document(tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "pilum", *words, "--json"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    k = opened("update_delete")
    store = FIXTURES / "update_delete" / "store"
    for address in [f"{store}/upd.by-dataset-metadata.json", f"{store}/upd"]:
        told = run("inspect", address)["kartothek"]
        assert (told["uuid"], told["tables"], sorted(told["partitions"])) == ("upd", ["table"], sorted(k.labels))
        assert [column["name"] for column in run("schema", address)["columns"]] == k.schema().names
        assert run("count", address, "--filter", "year = 2019")["num_rows"] == k.count_rows(None, "year = 2019")
        assert [row["rid"] for row in run("head", address, "-n", "2")["rows"]] == k.to_table(limit=2)["rid"].to_pylist()
    for target in ["out.pilum", "out.parquet"]:
        assert run("convert", f"{store}/upd", str(tmp_path / target))["rows"] == k.count_rows()
    assert pilum.dataset(tmp_path / "out.pilum").to_table() == pa.table(k) == pq.read_table(tmp_path / "out.parquet")


# -- Random predicates -----------------------------------------------------------------------------------------------------


def holds(value: Any, op: str, other: Any) -> bool:
    """Evaluate one condition as the table of the specification says."""
    is_null = lambda it: it is None or it != it  # noqa: E731
    if op == "in":
        return any(is_null(value) if is_null(it) else not is_null(value) and value == it for it in other)
    if is_null(other):
        return is_null(value) if op == "==" else not is_null(value)
    if is_null(value):
        return op == "!="
    answers = {"==": value == other, "!=": value != other}
    return (
        answers[op]
        if op in answers
        else {"<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other}[op]
    )


def test_random_predicates_find_what_a_plain_scan_finds() -> None:
    count = int(1000 * SCALE)
    rng = random.Random(16)
    cases = [
        "index_types",
        "index_null_or_quirk",
        "partition_types",
        "update_delete",
        "schema_variants",
        "multi_table",
        "quirk_bool_key",
    ]
    tables = []
    for case in cases:
        k = opened(case, slashes="join")
        for table in k.tables:
            rows = k.to_table(table)
            columns = [f.name for f in rows.schema if not pa.types.is_nested(f.type)]
            tables.append((case, k, table, rows.to_pylist(), columns, rows.schema))
    for number in range(count):
        case, k, table, rows, columns, schema = tables[number % len(tables)]
        predicates = []
        for _ in range(rng.randint(1, 3)):
            terms = []
            for _ in range(rng.randint(1, 3)):
                column = rng.choice(columns)
                pool = [row[column] for row in rows] + [None]
                ordered = not pa.types.is_boolean(schema.field(column).type)
                op = rng.choice(["==", "!=", "in", *(["<", "<=", ">", ">="] if ordered else [])])
                value = rng.sample(pool, min(len(pool), rng.randint(0, 3))) if op == "in" else rng.choice(pool)
                if value is None and op in {"<", "<=", ">", ">="}:
                    op = "!="
                terms.append((column, op, value))
            predicates.append(terms)
        want = [
            row["rid"] for row in rows if any(all(holds(row[c], op, v) for c, op, v in terms) for terms in predicates)
        ]
        told = f"{number}: {case} {table} {predicates}"
        got = k.to_table(table, predicates, columns=["rid"])["rid"].to_pylist()
        assert got == want, told
        labels = k.dispatch(predicates, table=table)
        assert k.count_rows(table, predicates, labels=labels) == len(want), told


# -- Bad input -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    shutil.copytree(FIXTURES / "update_delete" / "store", tmp_path / "store")
    return tmp_path / "store"


def rewritten(store: Path, change: Any) -> None:
    path = store / "upd.by-dataset-metadata.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_wrong_documents_are_refused(broken: Path) -> None:
    def read() -> pa.Table:
        return pilum.kartothek.dataset(broken, "upd").to_table()

    whole = read().num_rows
    rewritten(broken, lambda it: it.update(dataset_metadata_version=5))
    with pytest.raises(UnsupportedError, match="version 5"):
        read()
    rewritten(broken, lambda it: it.update(dataset_metadata_version=4, unknown=[1]))
    assert read().num_rows == whole
    rewritten(broken, lambda it: it.update(dataset_uuid="other"))
    with pytest.raises(CorruptError, match="other"):
        read()
    (broken / "upd.by-dataset-metadata.json").write_text('{"dataset_metadata_version": 4,')
    with pytest.raises(CorruptError):
        read()
    (broken / "upd.by-dataset-metadata.json").unlink()
    with pytest.raises(NotFoundError, match="no such dataset"):
        read()
    for uuid in ["a.b", "a/b", "", "ä"]:
        with pytest.raises(InvalidInputError, match="uuid"):
            pilum.kartothek.dataset(broken, uuid)


def test_missing_files_are_named_and_stray_files_ignored(broken: Path) -> None:
    k = pilum.kartothek.dataset(broken, "upd")
    whole = k.to_table().num_rows
    (broken / "upd" / "table" / "stray.parquet").write_bytes(b"no parquet")
    assert pilum.kartothek.dataset(broken, "upd").to_table().num_rows == whole
    index = k.indices["ix"].key
    assert index is not None
    (broken / index).rename(broken / "index.parquet")
    with pytest.raises(NotFoundError, match="index of column `ix`"):
        pilum.kartothek.dataset(broken, "upd").dispatch([[("ix", "==", 1)]])
    (broken / "index.parquet").rename(broken / index)
    label, partition = next(iter(k.partitions.items()))
    (broken / partition.files["table"]).unlink()
    with pytest.raises(NotFoundError, match="partition") as caught:
        k.to_table()
    assert label.split("/")[-1] in str(caught.value)
    (broken / "upd" / "table" / "_common_metadata").unlink()
    with pytest.raises(NotFoundError, match="_common_metadata"):
        pilum.kartothek.dataset(broken, "upd")


def test_an_index_that_does_not_fit_is_refused(broken: Path) -> None:
    k = pilum.kartothek.dataset(broken, "upd")
    path = broken / str(k.indices["ix"].key)
    right = pq.read_table(path)
    labels = right["partition"].to_pylist()

    def dispatched(index: pa.Table) -> list[str]:
        pq.write_table(index, path)
        return pilum.kartothek.dataset(broken, "upd").dispatch([[("ix", "==", 1)]])

    dispatched(right)
    with pytest.raises(CorruptError, match=r"unknown/label.*build the index again"):
        dispatched(right.set_column(1, "partition", pa.array([[*labels[0], "unknown/label"], *labels[1:]])))
    with pytest.raises(CorruptError, match=r"string.*int64"):
        dispatched(right.set_column(0, "ix", right["ix"].cast("string")))
    with pytest.raises(CorruptError, match="partition"):
        dispatched(right.drop_columns(["partition"]))
    with pytest.raises(CorruptError, match="list of strings"):
        dispatched(right.set_column(1, "partition", pa.array(["x"] * right.num_rows)))
    path.write_bytes(b"PAR1 no index")
    with pytest.raises(CorruptError):
        pilum.kartothek.dataset(broken, "upd").dispatch([[("ix", "==", 1)]])


def test_a_file_of_other_types_names_table_column_types_and_files(broken: Path) -> None:
    k = pilum.kartothek.dataset(broken, "upd")
    path = broken / next(iter(k.partitions.values())).files["table"]
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(rows.column_names.index("val"), "val", pa.array(["x"] * rows.num_rows)), path)
    with pytest.raises(InvalidInputError, match="Schema violation in table `table`") as caught:
        k.to_table()
    told = str(caught.value)
    assert all(word in told for word in ["`val`", "double", "string", "_common_metadata", path.name]), told


def test_predicates_that_do_not_fit_are_refused() -> None:
    k = opened("types_json")
    wrong: list[Any] = [
        [],
        [[]],
        [[("none", "==", 1)]],
        [[("i64", "<", None)]],
        [[["i64", "==", 1]]],
        [[("i64", "in", 1)]],
        "none = 1",
        [[("i64", "==", "x")]],
    ]
    for predicates in wrong:
        with pytest.raises(PilumError):
            k.to_table(predicates=predicates)
        with pytest.raises(PilumError):
            k.dispatch(predicates)
    with pytest.raises(UnsupportedError, match="not in"):
        k.to_table(predicates=[[("i64", "not in", [1])]])
    with pytest.raises(InvalidInputError, match="nope"):
        k.to_table("nope")
    with pytest.raises(InvalidInputError, match="core"):
        opened("multi_table").to_table()
    with pytest.raises(InvalidInputError, match="no such partition"):
        k.to_table(labels=["x"])


def test_stale_and_missing_forms_of_the_document(tmp_path: Path) -> None:
    k = opened("stale_msgpack")
    assert k.engine.form == "json"
    shutil.copytree(FIXTURES / "stale_msgpack" / "store", tmp_path / "store")
    (tmp_path / "store" / "stale.by-dataset-metadata.json").unlink()
    old = pilum.kartothek.dataset(tmp_path / "store", "stale")
    assert old.engine.form == "msgpack"
    assert old.count_rows() < k.count_rows()


def test_values_with_several_slashes_are_read_copied_and_kept_by_garbage_collection(tmp_path: Path) -> None:
    # Kartothek does not encode the slashes of a value in a key. A file system treats several slashes in a row as one.
    values = ["a//b", "a/b", "https://h/x/", "/lead", "plain"]
    partitions = {}
    for number, value in enumerate(values):
        label = f"p={value}/{number}"
        partitions[label] = {"files": {"table": f"u/table/{label}.parquet"}}
        path = tmp_path / partitions[label]["files"]["table"]
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [number]}), path)
    pq.write_table(
        pa.schema([("p", pa.string()), ("x", pa.int64())]).empty_table(), tmp_path / "u" / "table" / "_common_metadata"
    )
    document = {"dataset_metadata_version": 4, "dataset_uuid": "u", "partitions": partitions, "partition_keys": ["p"]}
    (tmp_path / "u.by-dataset-metadata.json").write_text(json.dumps(document))

    def found(k: pilum.kartothek.Dataset) -> dict[str, int]:
        return {row["p"]: row["x"] for row in k.to_table().to_pylist()}

    expected = {value: number for number, value in enumerate(values)}
    k = pilum.kartothek.dataset(tmp_path, "u", slashes="join")
    assert found(k) == expected
    assert k.to_table(predicates=[[("p", "==", "a//b")]])["x"].to_pylist() == [0]
    k = k.build_indices("x")
    assert not [key for key in k.garbage_collect().keys if key.endswith(".parquet")]
    assert found(k.update(delete_scope=[{"p": "a/b"}])) == {it: n for it, n in expected.items() if it != "a/b"}
    assert found(k.restore(k.version)) == expected
    assert found(k.copy_to(dataset_uuid="copy")) == expected
