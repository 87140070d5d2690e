"""Delete, update, compact, cleanup, verify: against a plain model, with the real pylance as a second reader."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pilum

ROWS = [{"id": i, "x": None if i % 5 == 0 else i * 1.5, "s": ["", None, "a", "é"][i % 4]} for i in range(200)]
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("s", pa.string())])


def table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def sorted_rows(ds: pilum.Dataset) -> list[dict[str, object]]:
    return sorted(ds.to_table().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("stable", [False, True])
def test_a_history_of_statements_equals_a_model(tmp_path: Path, stable: bool) -> None:
    ds = pilum.write_dataset(table(ROWS), tmp_path / "t", stable_row_ids=stable, max_rows_per_file=64)
    deleted = ds.delete("x is null")
    model = [row for row in ROWS if row["x"] is not None]
    assert deleted.rows == len(ROWS) - len(model)
    assert sorted_rows(deleted) == model
    updated = deleted.update({"x": pilum.col("x") * 2, "s": "'neu'"}, where=pilum.col("id") < 50)
    changed = [{**row, "x": row["x"] * 2, "s": "neu"} if row["id"] < 50 else row for row in model]
    assert sorted_rows(updated) == changed
    compacted = updated.compact()
    assert compacted.fragments_removed > compacted.fragments_added
    newest = pilum.dataset(tmp_path / "t")
    assert newest.version == compacted.version
    assert sorted_rows(newest) == changed
    assert newest.verify().ok, newest.verify().problems
    # Every older version still is what it was.
    assert sorted_rows(pilum.dataset(tmp_path / "t", version=1)) == ROWS
    assert sorted_rows(pilum.dataset(tmp_path / "t", version=deleted.version)) == model
    gone = newest.cleanup(older_than=dt.timedelta(0), unverified_older_than=dt.timedelta(0))
    assert 1 in gone.versions
    assert sorted_rows(pilum.dataset(tmp_path / "t")) == changed
    report = pilum.dataset(tmp_path / "t").verify()
    assert report.ok
    assert report.orphans == []
    assert report.rows == len(changed)


def test_pylance_reads_what_statements_leave(tmp_path: Path) -> None:
    rows = [{"id": i, "x": float(i), "s": f"v{i}"} for i in range(100)]
    ds = pilum.write_dataset(table(rows), tmp_path / "t", compat="lance", max_rows_per_file=30)
    ds.delete("id % 3 = 0")
    ds.update({"s": "'neu'"}, where="id = 50")
    want = [{**row, "s": "neu"} if row["id"] == 50 else row for row in rows if row["id"] % 3 != 0]
    peer = lance.dataset(tmp_path / "t")
    peer.validate()
    assert sorted(peer.to_table().to_pylist(), key=lambda row: row["id"]) == want
    pilum.dataset(tmp_path / "t").compact()
    peer = lance.dataset(tmp_path / "t")
    peer.validate()
    assert sorted(peer.to_table().to_pylist(), key=lambda row: row["id"]) == want
    # And the other way round: pylance deletes, pilum reads.
    peer.delete("id < 10")
    assert sorted_rows(pilum.dataset(tmp_path / "t")) == [row for row in want if row["id"] >= 10]


def test_nothing_to_do_makes_no_version(tmp_path: Path) -> None:
    ds = pilum.write_dataset(table(ROWS), tmp_path / "t")
    assert ds.delete("id > 1000").version == 1
    assert ds.update({"x": "0.0"}, where="false").version == 1
    assert ds.compact().version == 1
    assert ds.latest_version() == 1


def test_statements_refuse_what_does_not_fit(tmp_path: Path) -> None:
    ds = pilum.write_dataset(table(ROWS), tmp_path / "t")
    for statement in (
        lambda: ds.delete("nope = 1"),
        lambda: ds.delete("s"),
        lambda: ds.delete(None),
        lambda: ds.delete("id >"),
        lambda: ds.update({"nope": "1"}),
        lambda: ds.update({"x": "s"}),
        lambda: ds.cleanup(older_than=dt.timedelta(seconds=-1)),
        lambda: ds.compact(max_deleted_fraction=2),
    ):
        with pytest.raises(pilum.InvalidInputError):
            statement()
    assert ds.latest_version() == 1
    assert sorted_rows(pilum.dataset(tmp_path / "t")) == ROWS


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 40)),
            st.tuples(st.just("delete"), st.integers(1, 7)),
            st.tuples(st.just("update"), st.integers(1, 7)),
            st.tuples(st.just("compact"), st.just(0)),
        ),
        min_size=1,
        max_size=12,
    ),
    stable=st.booleans(),
)
def test_any_history_equals_a_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], stable: bool
) -> None:
    uri = tmp_path_factory.mktemp("history") / "t"
    ds: pilum.Dataset = pilum.write_dataset(table(ROWS[:20]), uri, stable_row_ids=stable, max_rows_per_file=16)
    model = [dict(row) for row in ROWS[:20]]
    history = {ds.version: list(model)}
    next_id = 1000
    for step, number in steps:
        if step == "append":
            more = [{"id": next_id + i, "x": None if i % 2 else 0.5, "s": "" if i % 3 else None} for i in range(number)]
            next_id += number
            ds = ds.append(table(more), max_rows_per_file=16)
            model = model + more
        elif step == "delete":
            ds = ds.delete(f"id % {number} = 0")
            model = [row for row in model if row["id"] % number != 0]
        elif step == "update":
            ds = ds.update({"x": "id + 0.25"}, where=f"id % {number} = 1")
            model = [{**row, "x": row["id"] + 0.25} if row["id"] % number == 1 else row for row in model]
        else:
            ds.compact(target_rows=50)
            ds = pilum.dataset(uri)
        history[ds.version] = list(model)
    for version, rows in history.items():
        got = sorted_rows(pilum.dataset(uri, version=version))
        assert got == sorted(rows, key=lambda row: row["id"]), f"version {version} after {steps}"
    assert pilum.dataset(uri).verify().ok


def test_verify_finds_a_flipped_bit(tmp_path: Path) -> None:
    ds = pilum.write_dataset(table(ROWS), tmp_path / "t")
    assert ds.verify()
    (path,) = (tmp_path / "t" / "data").glob("*.lance")
    sound = path.read_bytes()
    path.unlink()
    path.write_bytes(bytes([sound[0] ^ 1]) + sound[1:])
    report = pilum.dataset(tmp_path / "t").verify()
    assert not report.ok
    ((where, reason),) = report.problems
    assert path.name in where
    assert "id" in reason
    assert "checksum" in reason


def test_verify_tells_what_no_checksum_covers(tmp_path: Path) -> None:
    lance.write_dataset(table([{"id": 1, "x": 1.0, "s": "a"}]), tmp_path / "t", data_storage_version="legacy")
    report = pilum.dataset(tmp_path / "t").verify()
    assert report.ok
    assert any(path.endswith(".lance") for path in report.uncovered)


NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.struct([("x", pa.int64()), ("q", pa.struct([("t", pa.string()), ("u", pa.float64())]))])),
    ]
)
inner = st.none() | st.fixed_dictionaries({"t": st.sampled_from(["a", "", None]), "u": st.sampled_from([0.5, None])})
outer = st.none() | st.fixed_dictionaries({"x": st.sampled_from([1, 2, None]), "q": inner})


def put(value: dict | None, path: list[str], new: object) -> dict | None:
    """Return a struct with one field set; a null struct stays null."""
    if value is None:
        return None
    value = dict(value)
    value[path[0]] = new if len(path) == 1 else put(value[path[0]], path[1:], new)
    return value


def got(row: dict, path: list[str]):
    value = row
    for name in path:
        value = value[name] if isinstance(value, dict) else None
    return value


NESTED_ASSIGNMENTS = [
    ({"p.x": "p.x + 1"}, lambda row: {"p.x": None if got(row, ["p", "x"]) is None else got(row, ["p", "x"]) + 1}),
    ({"p.x": "id", "p.q.t": "'new'"}, lambda row: {"p.x": row["id"], "p.q.t": "new"}),
    ({"p.q.t": "NULL"}, lambda _: {"p.q.t": None}),
    (
        {"p.q.u": "p.q.u", "p.q.t": "CASE WHEN p.x = 1 THEN 'one' END"},
        lambda row: {"p.q.u": got(row, ["p", "q", "u"]), "p.q.t": "one" if got(row, ["p", "x"]) == 1 else None},
    ),
    ({"p.q": "p.q", "p.x": "7"}, lambda row: {"p.q": got(row, ["p", "q"]), "p.x": 7}),
    ({"id": "id + 100", "p.q.u": "id * 0.5"}, lambda row: {"id": row["id"] + 100, "p.q.u": row["id"] * 0.5}),
]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    structs=st.lists(outer, min_size=1, max_size=12),
    assignments=st.lists(st.sampled_from(NESTED_ASSIGNMENTS), min_size=1, max_size=3),
    where=st.sampled_from([None, "id % 2 = 0", "p IS NULL", "p.x = 1", "p.q IS NOT NULL"]),
    stable=st.booleans(),
)
def test_fields_of_structs_are_updated_alone(
    tmp_path_factory: pytest.TempPathFactory, structs: list, assignments: list, where: str | None, stable: bool
) -> None:
    uri = tmp_path_factory.mktemp("nested") / "t"
    rows = [{"id": i, "p": p} for i, p in enumerate(structs)]
    table_ = pa.Table.from_pylist(rows, schema=NESTED)
    ds = pilum.write_dataset(table_, uri, stable_row_ids=stable, max_rows_per_file=5, durability="none")
    for values, assigned in assignments:
        chosen = {row["id"] for row in ds.to_table(filter=where).to_pylist()}
        after = []
        for row in rows:
            new_row = row
            for path, new in assigned(row).items() if row["id"] in chosen else ():
                new_row = put(new_row, path.split("."), new)
            after.append(new_row)
        ds = ds.update(values, where, durability="none").dataset
        rows = after
        assert sorted(ds.to_table().to_pylist(), key=lambda row: row["id"]) == sorted(rows, key=lambda row: row["id"])
    report = ds.verify()
    assert report.ok, report.problems
    assert report.orphans == []
